"""The collector's memory of one partition: what is applied, up to which byte, in which file. SQLite, synced.

The journal is the truth, not the server's ack floor: a commit here is what makes a batch count.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from consumer.watermark import Known
from shipper.errors import ConfigError
from shipper.layout import FileKey, sealing_path
from shipper.manifest import Gap, SourceSpan
from shipper.model import Span

VERSION = 1
MAX_CACHED = 20_000
_POSITION = ("applied", "applied_ns", "resume", "plain_after_ns", "created")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS stream (
    one INTEGER PRIMARY KEY CHECK (one = 1), applied INTEGER NOT NULL, applied_ns INTEGER NOT NULL,
    resume INTEGER NOT NULL, plain_after_ns INTEGER NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS sources (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, file BLOB NOT NULL, origin INTEGER NOT NULL, watermark INTEGER NOT NULL,
    crc INTEGER, ended INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sources_by_host ON sources (host);
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, date TEXT NOT NULL, partition INTEGER NOT NULL, host TEXT NOT NULL, file BLOB NOT NULL,
    length INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL, duplicates INTEGER NOT NULL, joins INTEGER NOT NULL, last_source TEXT NOT NULL,
    ends_open INTEGER NOT NULL, sealing TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spans (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS spans_by_path ON spans (path, source, end);
CREATE TABLE IF NOT EXISTS gaps (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS gaps_by_path ON gaps (path);
CREATE TABLE IF NOT EXISTS marks (sequence INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far the stream is applied."""

    applied: int = 0  #: every message up to this sequence was judged
    applied_ns: int = 0  #: stored time of that message
    resume: int = 1  #: where to read on after a restart: before the first open hole, else behind `applied`
    plain_after_ns: int = 0  #: plain messages stored up to then are applied, in a stream whose history changed
    created: str = ""  #: which stream it is: another time of creation means another stream


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file of the archive that is being appended, as far as it is committed."""

    path: str  #: relative to the archive
    key: FileKey
    length: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ns: int = 0
    last_ns: int = 0
    duplicates: int = 0
    joins: int = 0  #: newlines put between two sources
    last_source: str = ""
    ends_open: bool = False  #: the last byte is no newline
    sealing: str = ""  #: path of the segment that it becomes; nothing is appended any more


class Extent(NamedTuple):
    """Bytes of a source that were appended to a file."""

    path: str
    source: str
    span: Span


class Loss(NamedTuple):
    """Bytes of a source that are known to be missing in a file."""

    path: str
    source: str
    span: Span
    reason: str


@dataclass(slots=True, kw_only=True)
class Changes:
    """What one batch does to the journal, all of it or nothing."""

    position: Position
    sources: dict[str, Known] = field(default_factory=dict)
    files: dict[str, OpenFile] = field(default_factory=dict)
    extents: list[Extent] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


class Journal:
    """The journal of one partition. Owned by its worker: one call at a time, from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = sqlite3.connect(path, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._check_version()
        self._database.executescript(_SCHEMA)
        self._sources: dict[str, Known] = {}
        self.files: dict[str, OpenFile] = {file.path: file for file in self._read_files()}
        self.position = self._read_position()

    def source(self, id_: str) -> Known | None:
        """What the archive has of a source; None: nothing."""
        known = self._sources.get(id_)
        if known is None:
            row = self._database.execute(
                "SELECT id, host, file, origin, watermark, crc, ended FROM sources WHERE id = ?", (id_,)
            ).fetchone()
            known = _to_known(row) if row else None
            if known is not None:
                self._remember([known])
        return known

    def sources_of(self, host: str) -> list[Known]:
        """Every source of `host` that the archive has something of."""
        rows = self._database.execute(
            "SELECT id, host, file, origin, watermark, crc, ended FROM sources WHERE host = ?", (host,)
        )
        return [_to_known(row) for row in rows]

    def register(self, files: Iterable[OpenFile]) -> None:
        """Make `files` known, as long as they are, before their first write. Durable when it returns."""
        new = list(files)
        if not new:
            return
        with self._transaction():
            self._save_files(new)
        self.files.update((file.path, file) for file in new)

    def commit(self, changes: Changes) -> None:
        """Make a batch count. Durable when it returns; the files must be synced before."""
        with self._transaction():
            self._save_position(changes.position)
            self._save_sources(changes.sources.values())
            self._save_files(changes.files.values())
            self._save_extents(changes.extents)
            self._database.executemany(
                "INSERT INTO gaps VALUES (?,?,?,?,?)",
                [(loss.path, loss.source, *loss.span, loss.reason) for loss in changes.losses],
            )
        self.position = changes.position
        self.files.update(changes.files)
        self._remember(changes.sources.values())

    def begin_sealing(self, file: OpenFile, segment: str) -> OpenFile:
        """From now on `file` is never appended: under another name it waits to become `segment`. Durable."""
        sealing = replace(file, path=sealing_path(segment), sealing=segment)
        with self._transaction():
            self._save_files([sealing])
            self._database.execute("DELETE FROM files WHERE path = ?", (file.path,))
            self._database.execute("UPDATE spans SET path = ? WHERE path = ?", (sealing.path, file.path))
            self._database.execute("UPDATE gaps SET path = ? WHERE path = ?", (sealing.path, file.path))
        self.files.pop(file.path)
        self.files[sealing.path] = sealing
        return sealing

    def end_sealing(self, file: OpenFile) -> None:
        """The segment of `file` is in the manifest and the open file is gone: forget it. Durable when it returns."""
        with self._transaction():
            for table in ("files", "spans", "gaps"):
                self._database.execute(f"DELETE FROM {table} WHERE path = ?", (file.path,))  # noqa: S608 - fixed names
        self.files.pop(file.path, None)

    def spans(self, path: str) -> tuple[SourceSpan, ...]:
        """The bytes of each source in a file."""
        rows = self._database.execute("SELECT source, start, end FROM spans WHERE path = ? ORDER BY rowid", (path,))
        return tuple(SourceSpan(source=source, start=start, end=end) for source, start, end in rows)

    def gaps(self, path: str) -> tuple[Gap, ...]:
        """The bytes that are missing in a file."""
        rows = self._database.execute(
            "SELECT source, start, end, reason FROM gaps WHERE path = ? ORDER BY rowid", (path,)
        )
        return tuple(Gap(source=source, start=start, end=end, reason=reason) for source, start, end, reason in rows)

    def mark(self) -> None:
        """Remember which sequence was applied at which time, for the replay window."""
        if self.position.applied:
            with self._transaction():
                self._database.execute(
                    "INSERT OR REPLACE INTO marks VALUES (?, ?)", (self.position.applied, self.position.applied_ns)
                )

    def applied_before(self, time_ns: int) -> int:
        """The newest marked sequence that was stored before `time_ns`; 0: none. Older marks are forgotten."""
        row = self._database.execute("SELECT max(sequence) FROM marks WHERE time_ns < ?", (time_ns,)).fetchone()
        newest = int(row[0] or 0)
        with self._transaction():
            self._database.execute("DELETE FROM marks WHERE sequence < ?", (newest,))
        return newest

    def move_to(self, position: Position) -> None:
        """Go on elsewhere in the stream: its history is another one, or a hole is given up. Durable."""
        with self._transaction():
            self._save_position(position)
            if position.applied < self.position.applied:
                self._database.execute("DELETE FROM marks")
        self.position = position

    def close(self) -> None:
        """Close the file; everything committed is durable already."""
        self._database.close()

    # -- rows ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._database:  # commits, or rolls back when the block raises
            self._database.execute("BEGIN IMMEDIATE") if not self._database.in_transaction else None
            yield

    def _check_version(self) -> None:
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, VERSION}:
            raise ConfigError(
                f"journal {self.path} has version {version}, this fshipper writes {VERSION}",
                hint="run the newer fshipper",
            )
        self._database.execute(f"PRAGMA user_version = {VERSION}")

    def _read_position(self) -> Position:
        row = self._database.execute(
            "SELECT applied, applied_ns, resume, plain_after_ns, created FROM stream"
        ).fetchone()
        return Position(**dict(zip(_POSITION, row, strict=True))) if row else Position()

    def _read_files(self) -> list[OpenFile]:
        rows = self._database.execute(
            "SELECT path, date, partition, host, file, length, first_seq, last_seq, first_ns, last_ns, duplicates,"
            " joins, last_source, ends_open, sealing FROM files"
        )
        return [_to_file(row) for row in rows]

    def _save_position(self, at: Position) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO stream VALUES (1, ?, ?, ?, ?, ?)", [getattr(at, name) for name in _POSITION]
        )

    def _save_sources(self, sources: Iterable[Known]) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO sources VALUES (?,?,?,?,?,?,?)",
            [
                (known.id, known.host, _bytes(known.file), known.origin, known.watermark, known.crc, known.ended)
                for known in sources
            ],
        )

    def _save_files(self, files: Iterable[OpenFile]) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", [_file_row(file) for file in files]
        )

    def _save_extents(self, extents: Iterable[Extent]) -> None:
        for path, source, (start, end) in extents:
            grown = self._database.execute(
                "UPDATE spans SET end = ? WHERE path = ? AND source = ? AND end = ?", (end, path, source, start)
            )
            if grown.rowcount == 0:
                self._database.execute("INSERT INTO spans VALUES (?,?,?,?)", (path, source, start, end))

    def _remember(self, sources: Iterable[Known]) -> None:
        if len(self._sources) > MAX_CACHED:
            self._sources.clear()
        self._sources.update((known.id, known) for known in sources)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _to_known(row: tuple[str, str, bytes, int, int, int | None, int]) -> Known:
    id_, host, file, origin, watermark, crc, ended = row
    return Known(id=id_, host=host, file=_text(file), origin=origin, watermark=watermark, crc=crc, ended=bool(ended))


def _file_row(file: OpenFile) -> tuple[object, ...]:
    key = file.key
    return (
        file.path, key.date, key.partition, key.host, _bytes(key.file), file.length, file.first_seq, file.last_seq,
        file.first_ns, file.last_ns, file.duplicates, file.joins, file.last_source, file.ends_open, file.sealing,
    )  # fmt: skip


def _to_file(row: tuple[str, str, int, str, bytes, int, int, int, int, int, int, int, str, int, str]) -> OpenFile:
    path, date, partition, host, file, length, first_seq, last_seq, first_ns, last_ns, dups, joins, last, ends, to = row
    return OpenFile(
        path=path, key=FileKey(date, partition, host, _text(file)), length=length, first_seq=first_seq,
        last_seq=last_seq, first_ns=first_ns, last_ns=last_ns, duplicates=dups, joins=joins, last_source=last,
        ends_open=bool(ends), sealing=to,
    )  # fmt: skip
