"""Private copies of the journals, taken while a collector may be writing. The journals are not changed.

Opening a journal in place would write to it (SQLite's -shm, and -wal if missing). It may be on a read-only file system,
and its process may be stopped while it holds locks. The copy is consistent: first the -wal, then the main file, which
only checkpoints change; if a checkpoint came between, the copy is repeated.
"""

import contextlib
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from consumer.archive.directory import JOURNALS, found_journals
from consumer.archive.finding import Finding, Kind
from consumer.archive.journal import SOURCE_COLUMNS, Journal, to_known
from consumer.archive.parts import Part, of_open_file
from consumer.model import Altered, ArchivedSource, SourceKey
from shipper.errors import ConfigError, Fatal

_WAL_HEADER_BYTES = 32
_TRIES = 200
_TICK_SECONDS = 0.02  # a file that was not changed for so long shows the next change in its time
_RESTORE = "restore the journal from a copy; until then the committed length of open files is unknown"


def journal_directory(archive: Path, identity: str, state: Path | None) -> Path:
    """The journals of an archive: in it, or below `SHIPPER_STATE` if they are there or nowhere."""
    own = archive / JOURNALS
    elsewhere = state / "collector" / identity if state else own
    return own if own.is_dir() and not elsewhere.is_dir() else elsewhere


class JournalLocation(NamedTuple):
    """Which journal it is."""

    prefix: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """The journal of one partition."""

    epoch: int
    resume: int  #: the next sequence of the stream that it waits for
    entries: tuple[Part, ...]
    dropped: tuple[tuple[str, str, int], ...]  #: dead letters that were not kept: UTC day, host and number
    forks: Mapping[SourceKey, tuple[str, ...]]
    copy: Path  #: of the journal


class JournalSnapshots:
    """Copies of the newest journal of each partition, below a directory of their own."""

    def __init__(self, directory: Path) -> None:
        # Named before it is made: an interrupt at any moment finds what to remove.
        self._copies = Path(tempfile.gettempdir(), f"fshipper-audit-{secrets.token_hex(8)}")
        self.places: dict[JournalLocation, PartitionFiles] = {}
        self.findings: list[Finding] = []
        try:
            self._copies.mkdir(mode=0o700)
            for where, newest in _newest(directory).items():
                try:
                    self._read(where, *newest)
                except FileNotFoundError:  # another collector took the partition over just now: there is a newer one
                    self._read(where, *_newest(directory).get(where, newest))
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "JournalSnapshots":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the copies."""
        shutil.rmtree(self._copies, ignore_errors=True)

    @property
    def epochs(self) -> dict[int, int]:
        """The partitions of which there is a journal that can be read, and its epoch."""
        return {where.partition: place.epoch for where, place in self.places.items()}

    def entries(self) -> Iterator[Part]:
        """Every open file, and every one that is being sealed."""
        for place in self.places.values():
            yield from place.entries

    def dropped_letters(self) -> Counter[tuple[str, str]]:
        """How many dead letters were not kept, by UTC day and host."""
        found: Counter[tuple[str, str]] = Counter()
        for place in self.places.values():
            found.update({(date, host): number for date, host, number in place.dropped})
        return found

    def sources(self) -> Iterator[ArchivedSource]:
        """What is archived of every source that the journals remember."""
        for place in self.places.values():
            with contextlib.closing(sqlite3.connect(place.copy)) as database:
                yield from map(to_known, database.execute(f"SELECT {SOURCE_COLUMNS} FROM sources"))  # noqa: S608

    def altered(self) -> dict[SourceKey, Altered]:
        """The sources whose text is not, or may not be, that of the host's file, and the strongest reason."""
        found: dict[SourceKey, Altered] = {}
        for place in self.places.values():
            with contextlib.closing(sqlite3.connect(place.copy)) as database:
                for host, id_, why in database.execute("SELECT host, id, why FROM altered"):
                    key = SourceKey(host, id_)
                    found[key] = max(found.get(key, Altered.UNKNOWN), Altered(why))
        return found

    def watermarks(self) -> Iterator[tuple[JournalLocation, SourceKey, int]]:
        """How far each source is archived, and in which journal that is."""
        for where, place in self.places.items():
            with contextlib.closing(sqlite3.connect(place.copy)) as database:
                for host, id_, watermark in database.execute("SELECT host, id, watermark FROM sources"):
                    yield where, SourceKey(host, id_), watermark

    def forks(self) -> Iterator[tuple[SourceKey, tuple[str, ...]]]:
        """The sources that two producers continued, with the ids of the forks."""
        for place in self.places.values():
            yield from place.forks.items()

    def _read(self, where: JournalLocation, epoch: int, path: Path) -> None:
        copy = self._copies / path.name
        _copy(path, copy)
        try:
            with contextlib.closing(Journal(copy)) as journal:
                files = journal.files.values()
                entries = [
                    of_open_file(file, journal.spans(file.path), journal.gaps(file.path), journal.marks(file.path))
                    for file in files
                ]
                at, forks, dropped = journal.position, journal.forks, tuple(journal.dropped_letters())
        except ConfigError:
            raise
        except (Fatal, sqlite3.Error) as error:
            text = f"the journal cannot be read: {error}".replace(str(copy), path.name)
            self.findings.append(Finding(kind=Kind.BAD_JOURNAL, path=str(path), text=text, hint=_RESTORE))
            return
        self.places[where] = PartitionFiles(epoch, at.resume, tuple(entries), dropped, forks, copy)


def _newest(directory: Path) -> dict[JournalLocation, tuple[int, Path]]:
    """The journal of the highest epoch of each partition, with that epoch; none where this user has no rights."""
    found: dict[JournalLocation, tuple[int, Path]] = {}
    with contextlib.suppress(PermissionError):
        for prefix, partition, epoch, path in found_journals(directory) if directory.is_dir() else ():
            where = JournalLocation(prefix, partition)
            found[where] = max(found.get(where, (epoch, path)), (epoch, path))
    return found


def _copy(path: Path, copy: Path) -> None:
    """Copy a journal as it is at one moment. Raises OSError, or Fatal: it changed at every try."""
    wal, wal_copy = path.with_name(f"{path.name}-wal"), copy.with_name(f"{copy.name}-wal")
    for _ in range(_TRIES):
        before = _stamp(path)
        if 0 <= time.time_ns() - before[2] < _TICK_SECONDS * 1e9:
            time.sleep(_TICK_SECONDS)
            continue
        wal_copy.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(wal, wal_copy)
        shutil.copyfile(path, copy)
        if _stamp(path) == before and _header(wal) == _header(wal_copy):
            return
    raise Fatal(f"the journal {path} changes too fast to be copied", hint="try again, or stop its collector meanwhile")


def _stamp(path: Path) -> Sequence[int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _header(wal: Path) -> bytes:
    try:
        with wal.open("rb") as file:
            return file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return b""
