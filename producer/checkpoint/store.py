"""The checkpoint on disk: the acknowledged offset of every source. SQLite, versioned, mode 0600.

A damaged checkpoint is renamed, and a new one begins; `recovery.py` finds the offsets by receipts.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from producer.fingerprint import Mark
from producer.model import Archived, KnownCopy, Place, Point, Source
from shipper import events
from shipper.errors import ConfigError, Fatal, Transient
from shipper.model import Handoff

VERSION = 4  # added by 2: targets of links; by 3: archived offsets; by 4: the partition of the host
_KNOWN_VERSIONS = {0, 1, 2, 3, VERSION}  # 0: no session has used it yet
CHECKPOINT_ERRORS = (sqlite3.Error, OSError)
TOMBSTONE_SECONDS = 30 * 86400.0  # an ended file that shows up again within this time is not shipped again
_SYNC = "FULL"  # a checkpoint that returned from `save` survives power failure
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sources (
    id TEXT PRIMARY KEY, file TEXT NOT NULL, device TEXT NOT NULL, inode TEXT NOT NULL, origin INTEGER NOT NULL,
    offset INTEGER NOT NULL, crc INTEGER NOT NULL, mark TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ring TEXT NOT NULL, ended_at REAL NOT NULL, place INTEGER NOT NULL,
    real TEXT NOT NULL DEFAULT '', archives TEXT NOT NULL DEFAULT '[]', handoff TEXT NOT NULL DEFAULT 'null',
    left_out INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
"""
_PLACE_SCHEMA = """
CREATE TABLE IF NOT EXISTS standing (
    one INTEGER PRIMARY KEY CHECK (one = 1), partition INTEGER NOT NULL, version INTEGER NOT NULL,
    leaving INTEGER NOT NULL
)
"""
_SUBJECT_SCHEMA = "CREATE TABLE IF NOT EXISTS subject (one INTEGER PRIMARY KEY CHECK (one = 1), prefix TEXT NOT NULL)"
"""Older versions ignore this table and the next one, so they need no version of their own."""
_COPIES_SCHEMA = """
CREATE TABLE IF NOT EXISTS copies (
    device TEXT NOT NULL, inode TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    source TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (device, inode)
) WITHOUT ROWID
"""
_LATER_COLUMNS = {
    "real": "TEXT NOT NULL DEFAULT ''",
    "archives": "TEXT NOT NULL DEFAULT '[]'",
    "handoff": "TEXT NOT NULL DEFAULT 'null'",
    "left_out": "INTEGER NOT NULL DEFAULT 0",
}
"""Columns that older versions did not have."""
_COLUMNS = (
    "id, file, device, inode, origin, offset, crc, mark, size, mtime_ns, "
    "ring, ended_at, real, archives, handoff, left_out"
)
_CHANGING = (name for name in _COLUMNS.split(", ") if name not in {"id", "file", "origin"})
_SAVE = f"""
INSERT INTO sources ({_COLUMNS}, place) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name}=excluded.{name}" for name in _CHANGING)}
"""  # noqa: S608 - fixed names


@contextlib.contextmanager
def checkpoint_needed() -> Iterator[None]:
    """Translate errors of the checkpoint to `Transient`: the work is tried again later, as after a lost session."""
    try:
        yield
    except CHECKPOINT_ERRORS as error:
        raise Transient(f"the checkpoint cannot be used: {error}", hint="see the state directory's disk") from None


class Checkpoints:
    """The checkpoint of one host. Owned by the pipeline. One call at a time, from any thread.

    `fresh`: no session has used it yet, so it is new, or the old one was lost.
    `damaged`: the old one was found damaged, and was renamed.
    """

    fresh: bool
    damaged = False

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._open()
        except sqlite3.OperationalError as error:  # no space, no permission, locked: the content may be intact
            raise Fatal(
                f"cannot open the checkpoint {path}: {error}",
                hint="free disk space, or correct the permissions of the state directory",
            ) from None
        except sqlite3.DatabaseError as error:
            self.damaged = True
            kept = self._rename_damaged()
            events.checkpoint_damaged(path=str(path), kept=str(kept), error=str(error))
            self._open()

    @property
    def directory(self) -> Path:
        """The directory of the file."""
        return self._path.parent

    def load(self) -> list[Source]:
        """Every source, in the order in which they were first seen."""
        rows = self._database.execute(f"SELECT {_COLUMNS} FROM sources ORDER BY place")  # noqa: S608 - fixed names
        return [_from_row(row) for row in rows]

    def save(self, sources: Iterable[Source]) -> None:
        """Save `sources`. They are durable when this returns."""
        with self._database:
            self._write(sources)

    @property
    def place(self) -> Place | None:
        """The partition of the host. None: no session has determined it yet."""
        row = self._database.execute("SELECT partition, version, leaving FROM standing").fetchone()
        return Place(partition=row[0], version=row[1], leaving=row[2]) if row else None

    def stand_at(self, place: Place, sources: Iterable[Source] = ()) -> None:
        """Save the place of the host and `sources` in one transaction."""
        with self._database:
            self._write(sources)
            self._database.execute(
                "INSERT OR REPLACE INTO standing VALUES (1, ?, ?, ?)", (place.partition, place.version, place.leaving)
            )

    def check_prefix(self, prefix: str) -> None:
        """Raises ConfigError: the blocks of this checkpoint were published with another first token of the subject."""
        row = self._database.execute("SELECT prefix FROM subject").fetchone()
        if row and row[0] != prefix:
            raise ConfigError(
                f"the checkpoint {self._path} belongs to subject {row[0]!r}, and SHIPPER_SUBJECT is {prefix!r}",
                hint=f"set SHIPPER_SUBJECT (--subject) to {row[0]}; to ship the files under {prefix}, too, give that"
                " producer a state directory of its own (--state)",
            )

    def note_prefix(self, prefix: str) -> None:
        """Save the first token of the subjects: a handshake under it succeeded."""
        with self._database:
            self._database.execute("INSERT OR IGNORE INTO subject VALUES (1, ?)", (prefix,))

    def begin_use(self) -> None:
        """The first handshake is done: from now on this checkpoint counts, and not the receipts of others."""
        self._database.execute(f"PRAGMA user_version = {VERSION}")
        self._database.commit()
        self.fresh = False

    def start_over(self, sources: Iterable[Source]) -> None:
        """Replace all sources by `sources`."""
        with self._database:
            self._database.execute("DELETE FROM sources")
            self._write(sources)

    def forget(self, sources: Iterable[Source]) -> None:
        """Delete sources."""
        with self._database:
            self._database.executemany("DELETE FROM sources WHERE id = ?", [(source.id,) for source in sources])

    def load_copies(self) -> list[KnownCopy]:
        """The files that are copies of sources."""
        rows = self._database.execute("SELECT device, inode, size, mtime_ns, source, mark FROM copies")
        return [
            KnownCopy(int(device), int(inode), size, mtime_ns, source, Mark(*json.loads(mark)))
            for device, inode, size, mtime_ns, source, mark in rows
        ]

    def save_copies(self, copies: Iterable[KnownCopy], gone: Iterable[tuple[int, int]]) -> None:
        """Save `copies`, and forget those at the devices and inodes `gone`."""
        with self._database:
            self._database.executemany(
                "DELETE FROM copies WHERE device = ? AND inode = ?", [(str(key[0]), str(key[1])) for key in gone]
            )
            self._database.executemany(
                "INSERT OR REPLACE INTO copies VALUES (?,?,?,?,?,?)",
                [(str(each.device), str(each.inode), *each[2:5], json.dumps(each.mark)) for each in copies],
            )

    def close(self) -> None:
        """Close the file. Everything saved is durable already."""
        self._database.close()

    def _write(self, sources: Iterable[Source]) -> None:
        place = self._database.execute("SELECT coalesce(max(place), 0) FROM sources").fetchone()[0]
        self._database.executemany(
            _SAVE, [(*_to_row(source), place + number) for number, source in enumerate(sources, start=1)]
        )

    def _open(self) -> None:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._database = sqlite3.connect(self._path, check_same_thread=False)
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(f"PRAGMA synchronous = {_SYNC}")
            self._check_version()
            self._database.execute(_SCHEMA)
            self._database.execute(_PLACE_SCHEMA)
            self._database.execute(_SUBJECT_SCHEMA)
            self._database.execute(_COPIES_SCHEMA)
            self._migrate()
            self._database.commit()
            self.load()
        except BaseException:
            self._database.close()
            raise

    def _check_version(self) -> None:
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if version not in _KNOWN_VERSIONS:
            raise ConfigError(
                f"checkpoint {self._path} has version {version}, this fshipper writes {VERSION}",
                hint="run the newer fshipper, or point SHIPPER_STATE elsewhere",
            )
        self.fresh = version == 0

    def _migrate(self) -> None:
        """Convert the tables of an older version to this version, in one transaction."""
        there = {column[1] for column in self._database.execute("PRAGMA table_info(sources)")}
        missing = [name for name in _LATER_COLUMNS if name not in there]
        if not missing:
            return
        with self._database:
            self._database.execute("BEGIN")
            for name in missing:
                self._database.execute(f"ALTER TABLE sources ADD COLUMN {name} {_LATER_COLUMNS[name]}")
            if not self.fresh:
                self._database.execute(f"PRAGMA user_version = {VERSION}")

    def _rename_damaged(self) -> Path:
        kept = self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}")
        self._path.rename(kept)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").rename(f"{kept}{suffix}")
        return kept


def acknowledged_sources(path: Path) -> list[Source]:
    """The sources of another host's checkpoint of which something is acknowledged. [] if it cannot be read."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM sources WHERE offset > origin").fetchall()  # noqa: S608
            return [_from_row(row) for row in rows]
    except sqlite3.Error:
        return []


def _to_row(source: Source) -> tuple[object, ...]:
    return (
        source.id,
        os.fsencode(source.file),
        str(source.device),  # device and inode numbers may need all 64 bits, SQLite keeps 63
        str(source.inode),
        source.origin,
        source.offset,
        source.crc,
        json.dumps(source.mark),
        source.size,
        source.mtime_ns,
        json.dumps(source.ring),
        source.ended_at,
        os.fsencode(source.real),
        json.dumps(source.archives),
        json.dumps(source.handoff),
        int(source.excluded),
    )


def _from_row(row: tuple[Any, ...]) -> Source:
    try:
        id_, file, device, inode, origin, offset, crc, mark, size, mtime_ns, ring, ended_at, real, archives = row[:14]
        handed = json.loads(str(row[14]))
        return Source(
            id=str(id_),
            file=os.fsdecode(file),
            device=int(device),
            inode=int(inode),
            origin=origin,
            offset=offset,
            crc=crc,
            mark=Mark(*json.loads(str(mark))),
            size=size,
            mtime_ns=mtime_ns,
            ring=tuple(Point(*point) for point in json.loads(str(ring))),
            ended_at=ended_at,
            real=os.fsdecode(real),
            archives=tuple(Archived(*each) for each in json.loads(str(archives))),
            handoff=Handoff(*handed) if handed else None,
            excluded=bool(row[15] and ended_at),  # an older version may have continued it
        )
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"row of source {row[0]!r} is damaged: {error}") from None
