"""The journal's tables, and how its values lie in them."""

from consumer.writing.records import OpenFile
from consumer.writing.watermark import Known
from shipper.codec import decode_labels, encode_labels
from shipper.layout import FileKey

VERSION = 4
SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
    one INTEGER PRIMARY KEY CHECK (one = 1), applied INTEGER NOT NULL, applied_ns INTEGER NOT NULL,
    resume INTEGER NOT NULL, plain_after_ns INTEGER NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sources (
    host TEXT NOT NULL, id TEXT NOT NULL, file BLOB NOT NULL, origin INTEGER NOT NULL, watermark INTEGER NOT NULL,
    crc INTEGER, ended INTEGER NOT NULL, seen_ns INTEGER NOT NULL, PRIMARY KEY (host, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sources_by_age ON sources (host, seen_ns);
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, date TEXT NOT NULL, partition INTEGER NOT NULL, host TEXT NOT NULL, file BLOB NOT NULL,
    length INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL, duplicates INTEGER NOT NULL, joins INTEGER NOT NULL, last_source TEXT NOT NULL,
    ends_open INTEGER NOT NULL, sealing TEXT NOT NULL, filtered INTEGER NOT NULL DEFAULT 0,
    edited INTEGER NOT NULL DEFAULT 0, labels TEXT NOT NULL DEFAULT '', opened TEXT NOT NULL DEFAULT '',
    raw INTEGER NOT NULL DEFAULT 0, lines INTEGER NOT NULL DEFAULT 0, crc INTEGER DEFAULT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spans (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS spans_by_file ON spans (path, source);
CREATE TABLE IF NOT EXISTS gaps (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS gaps_by_path ON gaps (path);
CREATE TABLE IF NOT EXISTS marks (sequence INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS departures (host TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
"""
SHARED_SCHEMA = "CREATE TABLE IF NOT EXISTS shared (host TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (host, id))"
"""Sources that more than one partition holds a part of. Older versions ignore the table, so it needs no version."""
FORKS_SCHEMA = """
CREATE TABLE IF NOT EXISTS forks (
    host TEXT NOT NULL, id TEXT NOT NULL, fork TEXT NOT NULL, PRIMARY KEY (host, id, fork)
) WITHOUT ROWID
"""
"""Sources that two producers continued, and the ids of the forks. Older versions ignore it, too."""
SPENT_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spent (date TEXT NOT NULL, host TEXT NOT NULL, budget TEXT NOT NULL,"
    " amount INTEGER NOT NULL, PRIMARY KEY (date, host, budget)) WITHOUT ROWID"
)
"""What each host spent of its budgets, by UTC day. Older versions ignore the table, too."""
FROM_VERSION_1 = (
    "ALTER TABLE files ADD COLUMN filtered INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE files ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE files ADD COLUMN labels TEXT NOT NULL DEFAULT ''",
)
"""What makes a journal of version 1 one of version 2."""
FROM_VERSION_2 = (
    "ALTER TABLE files ADD COLUMN opened TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE files ADD COLUMN raw INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE files ADD COLUMN lines INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE files ADD COLUMN crc INTEGER DEFAULT NULL",
    "UPDATE files SET raw = length",
    "DROP INDEX IF EXISTS spans_by_path",
    "CREATE INDEX IF NOT EXISTS spans_by_file ON spans (path, source)",
)
"""What makes a journal of version 2 one of version 3."""
FROM_VERSION_3 = (
    "CREATE TABLE IF NOT EXISTS departures (host TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",
)
"""What makes a journal of version 3 one of version 4."""
MIGRATIONS = {1: FROM_VERSION_1, 2: FROM_VERSION_2, 3: FROM_VERSION_3}
"""What makes a journal of a version one of the next."""
SOURCE_COLUMNS = "host, id, file, origin, watermark, crc, ended, seen_ns"
FILE_COLUMNS = (
    "path, date, partition, host, file, length, first_seq, last_seq, first_ns, last_ns, duplicates, joins,"
    " last_source, ends_open, sealing, filtered, edited, labels, opened, raw, lines, crc"
)


def source_row(known: Known) -> tuple[object, ...]:
    """A row of `sources`; the sum of a copy that is not the host's file byte for byte is kept inverted, so negative."""
    crc = known.crc if known.crc is None or known.proven else ~known.crc
    return (
        known.host, known.id, _bytes(known.file), known.origin, known.watermark, crc, known.ended, known.seen_ns,
    )  # fmt: skip


def to_known(row: tuple[str, str, bytes, int, int, int | None, int, int]) -> Known:
    """The source of a row."""
    host, id_, file, origin, watermark, crc, ended, seen_ns = row
    proven = crc is not None and crc >= 0
    return Known(
        id=id_, host=host, file=_text(file), origin=origin, watermark=watermark,
        crc=crc if crc is None or proven else ~crc, proven=proven, ended=bool(ended), seen_ns=seen_ns,
    )  # fmt: skip


def file_row(file: OpenFile) -> tuple[object, ...]:
    """A row of `files`."""
    key = file.key
    return (
        file.path, key.date, key.partition, key.host, _bytes(key.file), file.length, file.first_seq, file.last_seq,
        file.first_ns, file.last_ns, file.duplicates, file.joins, file.last_source, file.ends_open, file.sealing,
        file.filtered, file.edited, encode_labels(file.labels), file.opened, file.raw, file.lines, file.crc,
    )  # fmt: skip


def to_file(
    row: tuple[
        str,
        str,
        int,
        str,
        bytes,
        int,
        int,
        int,
        int,
        int,
        int,
        int,
        str,
        int,
        str,
        int,
        int,
        str,
        str,
        int,
        int,
        int | None,
    ],
) -> OpenFile:
    """The file of a row."""
    (
        path, date, partition, host, file, length, first_seq, last_seq, first_ns, last_ns, dups, joins, last, ends, to,
        filtered, edited, labels, opened, raw, lines, crc,
    ) = row  # fmt: skip
    return OpenFile(
        path=path, key=FileKey(date, partition, host, _text(file)), length=length, first_seq=first_seq,
        last_seq=last_seq, first_ns=first_ns, last_ns=last_ns, duplicates=dups, joins=joins, last_source=last,
        ends_open=bool(ends), sealing=to, filtered=filtered, edited=edited, labels=decode_labels(labels),
        opened=opened, raw=raw, lines=lines, crc=crc,
    )  # fmt: skip


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
