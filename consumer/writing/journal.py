"""The collector's memory of one partition: what is applied, up to which byte, in which file. SQLite, synced.

The journal is the truth, not the server's ack floor: a commit here is what makes a batch count.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from consumer.writing.records import Account, Budget, Changes, Extent, OpenFile, Position
from consumer.writing.tables import (
    FILE_COLUMNS,
    FORKS_SCHEMA,
    MIGRATIONS,
    SCHEMA,
    SHARED_SCHEMA,
    SOURCE_COLUMNS,
    SPENT_SCHEMA,
    VERSION,
    file_row,
    source_row,
    to_file,
    to_known,
)
from consumer.writing.tampering import Moored, changed
from consumer.writing.watermark import Known, SourceKey
from shipper.errors import ConfigError, Fatal
from shipper.layout import DAY_NS, day_of, sealing_path
from shipper.manifest import Gap, SourceSpan

MAX_CACHED = 32_768  # sources, and files
MAX_CACHED_RUNS = 1000  # sources of one file
SPENT_NS = DAY_NS
DROPPED_NS = 31 * DAY_NS
REASON_CHANGED = "archive_changed"
_POSITION = ("applied", "applied_ns", "resume", "plain_after_ns", "created")


class _Run(NamedTuple):
    """The row of an uninterrupted run of a source's bytes in a file, and where the run ends."""

    id: int
    end: int


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
        self._sources: dict[SourceKey, Known] = {}
        self._newest_runs: dict[str, dict[str, _Run]] = {}  # by the path of an open file, and source
        try:
            self._open()
        except sqlite3.Error as error:
            raise Fatal(
                f"the journal {path} cannot be used: {error}",
                hint="restore it from a copy; without it nobody knows what the archive holds",
            ) from None

    def reload(self) -> None:
        """Know what the disk knows: behind a commit that failed, nothing else is sure. Raises OSError, sqlite3.Error.

        A journal that is gone or empty now is no new one: with it everything would be written again.
        """
        if not self.path.stat().st_size:
            raise changed(str(self.path))
        self._database.close()
        self._sources.clear()
        self._newest_runs.clear()
        self._open()

    def source(self, key: SourceKey) -> Known | None:
        """What the archive has of a source; None: nothing."""
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
        """Whether `source` knows it without a read; may be called from any thread at any time."""
        return key in self._sources

    def shared(self) -> list[SourceKey]:
        """The sources that were first met here when another partition had archived some of them."""
        return [SourceKey(host, id_) for host, id_ in self._database.execute("SELECT host, id FROM shared")]

    def sources_of(self, host: str, *, newest: int) -> list[Known]:
        """The `newest` sources of `host` that the archive has something of, newest first."""
        rows = self._database.execute(
            f"SELECT {SOURCE_COLUMNS} FROM sources WHERE host = ? ORDER BY seen_ns DESC LIMIT ?",  # noqa: S608
            (host, newest),
        )
        return [to_known(row) for row in rows]

    def register(self, files: Iterable[OpenFile]) -> None:
        """Make `files` known, as long as they are, before their first write. Durable when it returns."""
        new = {file.path: file for file in files}
        if not new:
            return
        with self._transaction():
            self._save_files(new.values())
        self.files = {**self.files, **new}

    def shorten(self, left: OpenFile) -> None:
        """Only `left` is left of a file: somebody else changed the archive. The rest is a gap of no source. Durable."""
        gap = (left.path, "", left.raw, self.files[left.path].raw, REASON_CHANGED)
        with self._transaction():
            self._save_files([left])
            self._database.execute("INSERT INTO gaps VALUES (?,?,?,?,?)", gap)
        self.files = {**self.files, left.path: left}

    def commit(self, changes: Changes) -> None:
        """Make a batch count. Durable when it returns; the files must be synced before."""
        with self._transaction():
            self._save_position(changes.position)
            self._database.executemany(
                "INSERT OR REPLACE INTO sources VALUES (?,?,?,?,?,?,?,?)", map(source_row, changes.sources.values())
            )
            self._save_files(changes.files.values())
            self._save_extents(changes.extents)
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
        self.files = {**self.files, **changes.files}
        self.left = {**self.left, **changes.left} if changes.left else self.left
        for key, forks in changes.forks.items():
            self.forks = {**self.forks, key: (*self.forks.get(key, ()), *forks)}
        if self.forks:
            ids = {SourceKey(key.host, fork) for key, forks in self.forks.items() for fork in forks}
            newest = {key.host: known.seen_ns for key, known in changes.sources.items() if key in ids}
            self.forked = {**self.forked, **newest}
        self._remember(changes.sources.values())

    def begin_sealing(self, file: OpenFile, segment: str) -> OpenFile:
        """From now on `file` is never appended: under another name it waits to become `segment`. Durable."""
        sealing = replace(file, path=sealing_path(segment), sealing=segment, opened=file.path)
        with self._transaction():
            self._save_files([sealing])
            self._database.execute("DELETE FROM files WHERE path = ?", (file.path,))
            self._database.execute("UPDATE spans SET path = ? WHERE path = ?", (sealing.path, file.path))
            self._database.execute("UPDATE gaps SET path = ? WHERE path = ?", (sealing.path, file.path))
        self._newest_runs.pop(file.path, None)
        self.files = {**self._without(file), sealing.path: sealing}
        return sealing

    def forget(self, file: OpenFile) -> None:
        """Nothing is appended to `file` any more, and nothing is to be done about it. Durable when it returns."""
        with self._transaction():
            for table in ("files", "spans", "gaps"):
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

    def forget_sources(self, before_ns: int) -> int:
        """Forget the sources that ended and had their newest block stored before `before_ns`; returns how many."""
        with self._transaction():
            rows = self._database.execute("DELETE FROM sources WHERE ended AND seen_ns < ?", (before_ns,))
            self._database.execute("DELETE FROM forks WHERE (host, fork) NOT IN (SELECT host, id FROM sources)")
        if rows.rowcount:
            self._sources.clear()
            self.forks = self._read_forks()
        return rows.rowcount

    def spent(self, account: Account) -> int:
        """What a host spent of a budget on a day, as far as that is remembered."""
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
        """Remember which sequence was applied at which time, for the replay window; forget what is spent long ago."""
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

    def _without(self, file: OpenFile) -> dict[str, OpenFile]:
        others = dict(self.files)  # a copy is ten times as fast as choosing: behind midnight it is done for every file
        others.pop(file.path, None)
        return others

    def _open(self) -> None:
        self._moored: Moored | None = None
        self._database = sqlite3.connect(self.path, check_same_thread=False)
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._check_version()
            with self._database:
                self._database.execute(SHARED_SCHEMA)
                self._database.execute(FORKS_SCHEMA)
                self._database.execute(SPENT_SCHEMA)
            self.files = {file.path: file for file in self._read_files()}
            self.position = self._read_position()
            self.forks, self.forked = self._read_forks(), self._read_forked()
            self.left = dict(self._database.execute("SELECT host, version FROM departures").fetchall())
            self._moored = Moored(self.path)
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
            with self._transaction():  # all of it or nothing, the number too: a kill in between leaves the older one
                for statement in (*MIGRATIONS[older], f"PRAGMA user_version = {older + 1}"):
                    self._database.execute(statement)

    def _read_position(self) -> Position:
        row = self._database.execute(
            "SELECT applied, applied_ns, resume, plain_after_ns, created FROM stream"
        ).fetchone()
        return Position(**dict(zip(_POSITION, row, strict=True))) if row else Position()

    def _read_forks(self) -> dict[SourceKey, tuple[str, ...]]:
        found: dict[SourceKey, tuple[str, ...]] = {}
        for host, id_, fork in self._database.execute("SELECT host, id, fork FROM forks"):
            key = SourceKey(host, id_)
            found[key] = (*found.get(key, ()), fork)
        return found

    def _read_forked(self) -> dict[str, int]:
        query = "SELECT s.host, max(s.seen_ns) FROM forks f JOIN sources s ON s.host = f.host AND s.id = f.fork"
        return dict(self._database.execute(f"{query} GROUP BY s.host"))

    def _read_files(self) -> list[OpenFile]:
        rows = self._database.execute(f"SELECT {FILE_COLUMNS} FROM files")  # noqa: S608 - fixed names
        return [to_file(row) for row in rows]

    def _save_position(self, at: Position) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO stream VALUES (1, ?, ?, ?, ?, ?)", [getattr(at, name) for name in _POSITION]
        )

    def _save_files(self, files: Iterable[OpenFile]) -> None:
        self._database.executemany(
            f"INSERT OR REPLACE INTO files ({FILE_COLUMNS}) VALUES ({','.join('?' * 22)})",  # noqa: S608
            map(file_row, files),
        )

    def _save_extents(self, extents: Iterable[Extent]) -> None:
        """A run of a source's bytes is one row, which grows; the newest of each source in each file is remembered."""
        grown: list[tuple[int, int]] = []
        for path, source, (start, end) in extents:
            newest = self._runs_of(path)
            row = newest.get(source) or self._newest_run(path, source)
            if row is not None and row.end == start:
                grown.append((end, row.id))
                newest[source] = _Run(row.id, end)
            else:
                added = self._database.execute("INSERT INTO spans VALUES (?,?,?,?)", (path, source, start, end))
                newest[source] = _Run(added.lastrowid or 0, end)
        self._database.executemany("UPDATE spans SET end = ? WHERE rowid = ?", grown)

    def _runs_of(self, path: str) -> "dict[str, _Run]":
        if len(self._newest_runs) > MAX_CACHED:
            self._newest_runs.clear()
        newest = self._newest_runs.setdefault(path, {})
        if len(newest) > MAX_CACHED_RUNS:
            newest.clear()
        return newest

    def _newest_run(self, path: str, source: str) -> "_Run | None":
        row = self._database.execute(
            "SELECT rowid, end FROM spans WHERE path = ? AND source = ? ORDER BY rowid DESC LIMIT 1", (path, source)
        ).fetchone()
        return _Run(*row) if row else None

    def _remember(self, sources: Iterable[Known]) -> None:
        if len(self._sources) > MAX_CACHED:
            self._sources.clear()
        self._sources.update((known.key, known) for known in sources)
