"""The journal of one partition: what is applied, up to which byte, in which file. SQLite, synced.

The journal decides, not the server's ack floor: a batch is applied when it is committed here.

This module has the tables of the journal, and converts between rows and values.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from consumer.archive import stored_times
from consumer.archive.directory import PinnedPath, changed
from consumer.model import Account, Altered, ArchivedSource, Budget, Changes, Extent, OpenFile, Position, SourceKey
from shipper.codec import OTHER_RULES, decode_labels, encode_labels
from shipper.errors import ConfigError, Fatal
from shipper.layout import DAY_NS, FileKey, day_of, sealing_path
from shipper.manifest import Gap, SourceSpan

VERSION = 5
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
    raw INTEGER NOT NULL DEFAULT 0, lines INTEGER NOT NULL DEFAULT 0, crc INTEGER DEFAULT NULL,
    marks BLOB NOT NULL DEFAULT x'', marked_at INTEGER NOT NULL DEFAULT 0, marked_second INTEGER NOT NULL DEFAULT 0,
    zone TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spans (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS spans_by_file ON spans (path, source);
CREATE TABLE IF NOT EXISTS gaps (
    path TEXT NOT NULL, source TEXT NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS gaps_by_path ON gaps (path);
CREATE TABLE IF NOT EXISTS times (path TEXT NOT NULL, marks BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS times_by_path ON times (path);
CREATE TABLE IF NOT EXISTS marks (sequence INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS departures (host TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
"""
ADDED_SCHEMA = """
-- sources of which several partitions have parts
CREATE TABLE IF NOT EXISTS shared (host TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (host, id));
-- sources that two producers continued, with the ids of the forks
CREATE TABLE IF NOT EXISTS forks (
    host TEXT NOT NULL, id TEXT NOT NULL, fork TEXT NOT NULL, PRIMARY KEY (host, id, fork)
) WITHOUT ROWID;
-- what each host spent of its budgets, by UTC day
CREATE TABLE IF NOT EXISTS spent (
    date TEXT NOT NULL, host TEXT NOT NULL, budget TEXT NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (date, host, budget)
) WITHOUT ROWID;
-- how often each rule of the hosts' redaction fired in what a file holds
CREATE TABLE IF NOT EXISTS redacted (
    path TEXT NOT NULL, rule TEXT NOT NULL, places INTEGER NOT NULL, PRIMARY KEY (path, rule)
) WITHOUT ROWID;
"""
ALTERED_SCHEMA = """
CREATE TABLE altered (host TEXT NOT NULL, id TEXT NOT NULL, why INTEGER NOT NULL, PRIMARY KEY (host, id)) WITHOUT ROWID
"""
"""Sources whose text is not, or may not be, that of the host's file, and why (`Altered`)."""
_ALTER = "INSERT INTO altered VALUES (?, ?, ?) ON CONFLICT (host, id) DO UPDATE SET why = max(why, excluded.why)"
"""Tables that older versions ignore, so they need no new version."""
MIGRATIONS = {
    1: (
        "ALTER TABLE files ADD COLUMN filtered INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN labels TEXT NOT NULL DEFAULT ''",
    ),
    2: (
        "ALTER TABLE files ADD COLUMN opened TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE files ADD COLUMN raw INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN lines INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN crc INTEGER DEFAULT NULL",
        "UPDATE files SET raw = length",
        "DROP INDEX IF EXISTS spans_by_path",
        "CREATE INDEX IF NOT EXISTS spans_by_file ON spans (path, source)",
    ),
    3: ("CREATE TABLE IF NOT EXISTS departures (host TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID",),
    4: (
        "ALTER TABLE files ADD COLUMN marks BLOB NOT NULL DEFAULT x''",
        "ALTER TABLE files ADD COLUMN marked_at INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN marked_second INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE files ADD COLUMN zone TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE IF NOT EXISTS times (path TEXT NOT NULL, marks BLOB NOT NULL)",
        "CREATE INDEX IF NOT EXISTS times_by_path ON times (path)",
    ),
}
"""What makes a journal of a version one of the next."""
SOURCE_COLUMNS = "host, id, file, origin, watermark, crc, ended, seen_ns"
FILE_VALUES = (
    *("length", "first_seq", "last_seq", "first_ns", "last_ns", "duplicates", "joins", "last_source", "ends_open"),
    *("sealing", "filtered", "edited", "opened", "raw", "lines", "crc", "marks", "marked_at", "marked_second", "zone"),
)
"""Columns of `files` that are fields of `OpenFile`."""
FILE_COLUMNS = f"path, date, partition, host, file, labels, {', '.join(FILE_VALUES)}"
_file_values = attrgetter(*FILE_VALUES)


def source_row(known: ArchivedSource) -> tuple[object, ...]:
    """A row of `sources`. The CRC of a copy that differs from the host's file is stored inverted, so it is negative."""
    crc = known.crc if known.crc is None or known.proven else ~known.crc
    return (
        known.host,
        known.id,
        _bytes(known.file),
        known.origin,
        known.watermark,
        crc,
        known.ended,
        known.seen_ns,
    )


def to_known(row: tuple[Any, ...]) -> ArchivedSource:
    """The source of a row."""
    host, id_, file, origin, watermark, crc, ended, seen_ns = row
    proven = crc is not None and crc >= 0
    return ArchivedSource(
        id=id_,
        host=host,
        file=_text(file),
        origin=origin,
        watermark=watermark,
        crc=crc if crc is None or proven else ~crc,
        proven=proven,
        ended=bool(ended),
        seen_ns=seen_ns,
    )


def file_row(file: OpenFile) -> tuple[object, ...]:
    """A row of `files`."""
    date, partition, host, name = file.key
    return file.path, date, partition, host, _bytes(name), encode_labels(file.labels), *_file_values(file)


def to_file(row: tuple[Any, ...]) -> OpenFile:
    """The file of a row."""
    path, date, partition, host, name, labels, *values = row
    named = dict(zip(FILE_VALUES, values, strict=True))
    named["ends_open"] = bool(named["ends_open"])
    return OpenFile(path=path, key=FileKey(date, partition, host, _text(name)), labels=decode_labels(labels), **named)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


MAX_FILE_RULES = 128
"""Rules of one file that are counted by their name."""
_ADD_REDACTED = (
    "INSERT INTO redacted VALUES (?, ?, ?) ON CONFLICT (path, rule) DO UPDATE SET places = places + excluded.places"
)
MAX_CACHED = 32_768  # sources, and files
MAX_CACHED_RUNS = 1000  # sources of one file
SPENT_NS = DAY_NS
DROPPED_NS = 31 * DAY_NS
MARKS_BYTES = 48 * stored_times.PLANES
"""Marks that a row of `files` has; a row is written with every batch. More of them go to a row of `times`, once."""
REASON_CHANGED = "archive_changed"
_POSITION = ("applied", "applied_ns", "resume", "plain_after_ns", "created")


class Journal:
    """The journal of one partition. Owned by its worker: one call at a time, from any thread.

    `files`, `position`, `forks`, `forked` and `left` may be read at any time: they are replaced, never changed.
    """

    files: Mapping[str, OpenFile]
    position: Position
    forks: Mapping[SourceKey, tuple[str, ...]]  #: by source that two producers continued: the ids of its forks
    forked: Mapping[str, int]  #: by host: when the newest block of one of its forks was stored, ns
    left: Mapping[str, int]  #: by host that left the partition: the version of the map in its newest marker

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sources: dict[SourceKey, ArchivedSource] = {}
        self._altered: set[SourceKey] = set()  # edited sources that are recorded, as many as are cached
        # row and end of the newest run of a source's bytes in an open file, by path and source
        self._newest_runs: dict[str, dict[str, tuple[int, int]]] = {}
        try:
            self._open()
        except sqlite3.Error as error:
            raise Fatal(
                f"the journal {path} cannot be used: {error}",
                hint="restore it from a copy; only the journal records what the archive holds",
            ) from None

    def reload(self) -> None:
        """Read the state from the disk: after a failed commit the memory may differ. Raises OSError, sqlite3.Error.

        A journal that is missing or empty now is an error: with a new one everything would be written again.
        """
        if not self.path.stat().st_size:
            raise changed(str(self.path))
        self._database.close()
        self._sources.clear()
        self._altered.clear()
        self._newest_runs.clear()
        self._open()

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """What the archive has of a source. None means that it has nothing."""
        known = self._sources.get(key)
        if known is None:
            row = self._database.execute(
                f"SELECT {SOURCE_COLUMNS} FROM sources WHERE host = ? AND id = ?",  # noqa: S608 - fixed names
                key,
            ).fetchone()
            known = to_known(row) if row else None
            if known is not None:
                self._remember([known])
        return known

    def is_cached(self, key: SourceKey) -> bool:
        """Whether `source` returns it without a read. It may be called from any thread at any time."""
        return key in self._sources

    def shared(self) -> list[SourceKey]:
        """The sources that were first met here when another partition had archived some of them."""
        return [SourceKey(host, id_) for host, id_ in self._database.execute("SELECT host, id FROM shared")]

    def sources_of(self, host: str, *, newest: int) -> list[ArchivedSource]:
        """The `newest` sources of `host` that the archive has something of, newest first."""
        rows = self._database.execute(
            f"SELECT {SOURCE_COLUMNS} FROM sources WHERE host = ? ORDER BY seen_ns DESC LIMIT ?",  # noqa: S608
            (host, newest),
        )
        return [to_known(row) for row in rows]

    def register(self, files: Iterable[OpenFile]) -> None:
        """Record `files` with their length before their first write. Durable when it returns."""
        new = {file.path: file for file in files}
        if not new:
            return
        with self._transaction():
            self._save_files(new.values())
        self.files = {**self.files, **new}

    def shorten(self, left: OpenFile) -> None:
        """Record that only `left` remains of a file that another program changed. The rest is a gap. Durable."""
        gap = (left.path, "", left.raw, self.files[left.path].raw, REASON_CHANGED)
        marks, last = stored_times.cut(self.marks(left.path), left.raw)
        left = replace(left, marks=marks, marked_at=last.offset, marked_second=last.second)
        with self._transaction():
            self._database.execute("DELETE FROM times WHERE path = ?", (left.path,))
            self._save_files([left])
            self._database.execute("INSERT INTO gaps VALUES (?,?,?,?,?)", gap)
        self.files = {**self.files, left.path: left}

    def commit(self, changes: Changes) -> None:
        """Commit a batch durably. The files must be synced before."""
        sources = [self._without_redacted_sum(known) for known in changes.sources.values()]
        full = {path: file for path, file in changes.files.items() if len(file.marks) >= MARKS_BYTES}
        files = {**changes.files, **{path: replace(file, marks=b"") for path, file in full.items()}}
        with self._transaction():
            self._save_position(changes.position)
            self._database.executemany(
                "INSERT OR REPLACE INTO sources VALUES (?,?,?,?,?,?,?,?)", map(source_row, sources)
            )
            self._save_altered(changes.edited - self._altered, Altered.EDITED)
            self._save_files(files.values())
            self._database.executemany(
                "INSERT INTO times VALUES (?, ?)",
                ((path, stored_times.pack(file.marks)) for path, file in full.items()),
            )
            self._save_extents(changes.extents)
            self._save_redacted(changes.redacted)
            self._database.executemany(
                "INSERT INTO gaps VALUES (?,?,?,?,?)",
                [(loss.path, loss.source.id, *loss.span, loss.reason) for loss in changes.losses],
            )
            self._database.executemany("INSERT OR REPLACE INTO departures VALUES (?, ?)", changes.left.items())
            self._database.executemany("INSERT OR REPLACE INTO shared VALUES (?, ?)", changes.shared)
            new = [(*key, fork) for key, forks in changes.forks.items() for fork in forks]
            self._database.executemany("INSERT OR IGNORE INTO forks VALUES (?, ?, ?)", new)
            self._database.executemany(
                "INSERT INTO spent VALUES (?, ?, ?, ?)"
                " ON CONFLICT (date, host, budget) DO UPDATE SET amount = amount + excluded.amount",
                [(*account, amount) for account, amount in changes.spent.items()],
            )
        self.position = changes.position
        self.files = {**self.files, **files}
        self.left = {**self.left, **changes.left} if changes.left else self.left
        for key, forks in changes.forks.items():
            self.forks = {**self.forks, key: (*self.forks.get(key, ()), *forks)}
        if self.forks:
            ids = {SourceKey(key.host, fork) for key, forks in self.forks.items() for fork in forks}
            newest = {key.host: known.seen_ns for key, known in changes.sources.items() if key in ids}
            self.forked = {**self.forked, **newest}
        self._remember_altered(changes.edited)
        self._remember(sources)

    def forget_sums(self, redacted: Iterable[SourceKey]) -> None:
        """Keep no sum of these sources, now and later: redacted text that is short can be guessed from its sum.

        Durable, also where the sums were on disk.
        """
        keys = set(redacted) - self.redacted
        if not keys:
            return
        self._database.execute("PRAGMA secure_delete = ON")
        with self._transaction():
            self._save_altered(keys, Altered.REDACTED)
            self._database.executemany("UPDATE sources SET crc = NULL WHERE host = ? AND id = ?", keys)
        self._database.execute("PRAGMA secure_delete = OFF")
        self.redacted |= keys
        for key in keys:
            self._sources.pop(key, None)
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def begin_sealing(self, file: OpenFile, segment: str) -> OpenFile:
        """Record that `file` is not appended any more, and under which name it waits to become `segment`. Durable."""
        sealing = replace(file, path=sealing_path(segment), sealing=segment, opened=file.path)
        with self._transaction():
            self._save_files([sealing])
            self._database.execute("DELETE FROM files WHERE path = ?", (file.path,))
            for table in ("spans", "gaps", "times", "redacted"):
                statement = f"UPDATE {table} SET path = ? WHERE path = ?"  # noqa: S608 - fixed names
                self._database.execute(statement, (sealing.path, file.path))
        self._newest_runs.pop(file.path, None)
        self.files = {**self._without(file), sealing.path: sealing}
        return sealing

    def forget(self, file: OpenFile) -> None:
        """Remove `file` from the journal: it is not appended any more and needs no sealing. Durable when it returns."""
        with self._transaction():
            for table in ("files", "spans", "gaps", "times", "redacted"):
                self._database.execute(f"DELETE FROM {table} WHERE path = ?", (file.path,))  # noqa: S608 - fixed names
        self._newest_runs.pop(file.path, None)
        self.files = self._without(file)

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

    def redacted_in(self, path: str) -> dict[str, int]:
        """How often each rule of the host's redaction fired in what a file holds."""
        return dict(self._database.execute("SELECT rule, places FROM redacted WHERE path = ? ORDER BY rule", (path,)))

    def marks(self, path: str) -> bytes:
        """When the text of a file was stored: the bytes of all its marks."""
        rows = self._database.execute("SELECT marks FROM times WHERE path = ? ORDER BY rowid", (path,))
        file = self.files.get(path)
        return b"".join(stored_times.unpack(marks) for (marks,) in rows) + (file.marks if file else b"")

    def forget_sources(self, before_ns: int) -> int:
        """Delete the sources that ended with blocks before `before_ns` only, and return their number."""
        with self._transaction():
            rows = self._database.execute("DELETE FROM sources WHERE ended AND seen_ns < ?", (before_ns,))
            self._database.execute("DELETE FROM forks WHERE (host, fork) NOT IN (SELECT host, id FROM sources)")
            self._database.execute("DELETE FROM altered WHERE (host, id) NOT IN (SELECT host, id FROM sources)")
        if rows.rowcount:
            self._sources.clear()
            self.forks = self._read_forks()
        return rows.rowcount

    def spent(self, account: Account) -> int:
        """What a host spent of a budget on a day. 0 means that it is not recorded."""
        row = self._database.execute(
            "SELECT amount FROM spent WHERE date = ? AND host = ? AND budget = ?", account
        ).fetchone()
        return int(row[0]) if row else 0

    def dropped_letters(self) -> list[tuple[str, str, int]]:
        """Dead letters that were not kept, of the last 31 days: UTC day, host and number."""
        rows = self._database.execute(
            "SELECT date, host, amount FROM spent WHERE budget = ? ORDER BY date, host", (Budget.DROPPED,)
        )
        return rows.fetchall()

    def mark(self) -> None:
        """Record which sequence was applied at which time, for the replay window, and delete old records of budgets."""
        if self.position.applied:
            now = self.position.applied_ns
            with self._transaction():
                self._database.execute(
                    "DELETE FROM spent WHERE date < ? AND (budget <> ? OR date < ?)",
                    (day_of(now - SPENT_NS), Budget.DROPPED, day_of(now - DROPPED_NS)),
                )
                self._database.execute(
                    "INSERT OR REPLACE INTO marks VALUES (?, ?)", (self.position.applied, self.position.applied_ns)
                )

    def applied_before(self, time_ns: int) -> int:
        """The newest marked sequence that was stored before `time_ns`, or 0. Older marks are forgotten."""
        row = self._database.execute("SELECT max(sequence) FROM marks WHERE time_ns < ?", (time_ns,)).fetchone()
        newest = int(row[0] or 0)
        with self._transaction():
            self._database.execute("DELETE FROM marks WHERE sequence < ?", (newest,))
        return newest

    def move_to(self, position: Position) -> None:
        """Continue at another position: the history of the stream changed, or a hole is given up. Durable."""
        with self._transaction():
            self._save_position(position)
            if position.applied < self.position.applied:
                self._database.execute("DELETE FROM marks")
        self.position = position

    def close(self) -> None:
        """Close the file. Everything committed is durable already."""
        self._database.close()

    # -- rows ---------------------------------------------------------------------------------------------------

    def _without(self, file: OpenFile) -> dict[str, OpenFile]:
        """The files but `file`. A copy is ten times as fast as a filter. After midnight this runs for every file."""
        others = dict(self.files)
        others.pop(file.path, None)
        return others

    def _open(self) -> None:
        self._moored: PinnedPath | None = None
        self._database = sqlite3.connect(self.path, check_same_thread=False)
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._check_version()
            self._database.executescript(ADDED_SCHEMA)
            with self._database:  # of files that an older version sealed
                self._database.execute("DELETE FROM redacted WHERE path NOT IN (SELECT path FROM files)")
            self._add_altered()
            redacted = self._database.execute("SELECT host, id FROM altered WHERE why = ?", (Altered.REDACTED,))
            self.redacted = {SourceKey(host, id_) for host, id_ in redacted}
            files = map(to_file, self._database.execute(f"SELECT {FILE_COLUMNS} FROM files"))  # noqa: S608 - fixed names
            self.files = {file.path: file for file in files}
            row = self._database.execute(f"SELECT {', '.join(_POSITION)} FROM stream").fetchone()  # noqa: S608
            self.position = Position(**dict(zip(_POSITION, row, strict=True))) if row else Position()
            self.forks = self._read_forks()
            query = "SELECT s.host, max(s.seen_ns) FROM forks f JOIN sources s ON s.host = f.host AND s.id = f.fork"
            self.forked = dict(self._database.execute(f"{query} GROUP BY s.host").fetchall())
            self.left = dict(self._database.execute("SELECT host, version FROM departures").fetchall())
            self._moored = PinnedPath(self.path)
        except BaseException:
            self._database.close()
            raise

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._moored is not None:
            self._moored.check()
        with self._database:  # commits, or rolls back when the block raises
            self._database.execute("BEGIN IMMEDIATE") if not self._database.in_transaction else None
            yield

    def _check_version(self) -> None:
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version not in {0, VERSION, *MIGRATIONS}:
            raise ConfigError(
                f"journal {self.path} has version {version}, this fshipper writes {VERSION}",
                hint="run the newer fshipper",
            )
        if version == 0:
            self._database.executescript(SCHEMA)
            self._database.execute(f"PRAGMA user_version = {VERSION}")
        for older in range(version or VERSION, VERSION):
            with self._transaction():  # atomic, with the version number: a kill leaves the older version
                for statement in (*MIGRATIONS[older], f"PRAGMA user_version = {older + 1}"):
                    self._database.execute(statement)

    def _add_altered(self) -> None:
        """Of the sources of an older version it is not known whether a producer edited a part of them."""
        if self._database.execute("SELECT 1 FROM sqlite_schema WHERE name = 'altered'").fetchone():
            return
        with self._transaction():
            self._database.execute(ALTERED_SCHEMA)
            self._database.execute("INSERT INTO altered SELECT host, id, ? FROM sources", (Altered.UNKNOWN,))

    def _save_redacted(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Add to the counts of files. A file has a bounded number of rules, whatever hosts send."""
        for path in {path for path, _ in counts}:
            known = set(self.redacted_in(path))
            for (where, rule), places in counts.items():
                if where == path:
                    named = rule if rule in known or len(known) < MAX_FILE_RULES else OTHER_RULES
                    known.add(named)
                    self._database.execute(_ADD_REDACTED, (path, named, places))

    def _save_altered(self, keys: Iterable[SourceKey], why: Altered) -> None:
        self._database.executemany(_ALTER, [(*key, why) for key in keys])

    def _without_redacted_sum(self, known: ArchivedSource) -> ArchivedSource:
        return replace(known, crc=None, proven=False) if self.redacted and known.key in self.redacted else known

    def _remember_altered(self, edited: Iterable[SourceKey]) -> None:
        if len(self._altered) > MAX_CACHED:
            self._altered.clear()
        self._altered.update(edited)

    def _read_forks(self) -> dict[SourceKey, tuple[str, ...]]:
        found: dict[SourceKey, tuple[str, ...]] = {}
        for host, id_, fork in self._database.execute("SELECT host, id, fork FROM forks"):
            key = SourceKey(host, id_)
            found[key] = (*found.get(key, ()), fork)
        return found

    def _save_position(self, at: Position) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO stream VALUES (1, ?, ?, ?, ?, ?)", [getattr(at, name) for name in _POSITION]
        )

    def _save_files(self, files: Iterable[OpenFile]) -> None:
        self._database.executemany(
            f"INSERT OR REPLACE INTO files ({FILE_COLUMNS}) VALUES ({','.join('?' * (6 + len(FILE_VALUES)))})",  # noqa: S608
            map(file_row, files),
        )

    def _save_extents(self, extents: Iterable[Extent]) -> None:
        """Store runs of bytes: a run is one row, which grows. The newest run of each source and file is cached."""
        query = "SELECT rowid, end FROM spans WHERE path = ? AND source = ? ORDER BY rowid DESC LIMIT 1"
        grown: list[tuple[int, int]] = []
        for path, source, (start, end) in extents:
            if len(self._newest_runs) > MAX_CACHED:
                self._newest_runs.clear()
            newest = self._newest_runs.setdefault(path, {})
            if len(newest) > MAX_CACHED_RUNS:
                newest.clear()
            row, row_end = newest.get(source) or self._database.execute(query, (path, source)).fetchone() or (0, -1)
            if row_end == start:
                grown.append((end, row))
            else:
                row = self._database.execute("INSERT INTO spans VALUES (?,?,?,?)", (path, source, start, end)).lastrowid
            newest[source] = (row, end)
        self._database.executemany("UPDATE spans SET end = ? WHERE rowid = ?", grown)

    def _remember(self, sources: Iterable[ArchivedSource]) -> None:
        if len(self._sources) > MAX_CACHED:
            self._sources.clear()
        self._sources.update((known.key, known) for known in sources)
