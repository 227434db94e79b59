"""Journals of epochs: a copy of one that a sleeping process may still write, and what is left when it is gone."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from consumer.sharing.place import Place, try_lock
from shipper import layout
from shipper.errors import ArchiveTrouble, Fenced
from shipper.files import sync_directory

ATTEMPTS = 50


def begin_epoch(place: Place, partition: int, *, copied: int, epoch: int) -> None:
    """Make the journal of `epoch`, as a copy of the one of epoch `copied`. All of it or nothing; durable.

    Raises:
        Fenced: somebody else has made one with this number. ArchiveTrouble: it changes all the time. OSError.
    """
    source, target = place.journal(partition, copied), place.journal(partition, epoch)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _copy(source, temporary)
        _settle(temporary)
        os.link(temporary, target)  # never over another's
    except FileExistsError:
        raise Fenced(f"epoch {epoch} of partition {partition} was begun by another collector") from None
    finally:
        for path in (temporary, _wal(temporary)):
            path.unlink(missing_ok=True)
    sync_directory(target.parent)


def _copy(source: Path, target: Path) -> None:
    """The database with everything that is committed. SQLite is not asked: a paused process may hold its locks.

    Commits go to the log (-wal) and move from there to the database. While the log stays the same, the only changes to
    the database are pages that the log has too. So: log, database, and the log is still the same.
    """
    for _ in range(ATTEMPTS):
        log = _bytes(_wal(source))
        shutil.copyfile(source, target)
        if _bytes(_wal(source)) == log:
            if log is not None:
                _wal(target).write_bytes(log)
            return
    raise ArchiveTrouble(f"{source} changes all the time, though its owner lost the partition")


def _settle(journal: Path) -> None:
    """Let SQLite find the committed end of the log and move it into the database, which then is one durable file."""
    with contextlib.closing(sqlite3.connect(journal)) as database:
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA journal_mode = DELETE")
        (state,) = database.execute("PRAGMA quick_check").fetchone()
    if state != "ok":
        raise ArchiveTrouble(f"the copy of the journal is damaged: {state}")
    with journal.open("rb") as file:
        os.fsync(file.fileno())


def _wal(journal: Path) -> Path:
    return journal.with_name(f"{journal.name}-wal")


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def sweep(
    place: Place, partition: int, *, epoch: int, known: frozenset[str], put_aside: frozenset[str] = frozenset()
) -> bool:
    """Remove what epochs before `epoch` left, as soon as nobody can write it any more: their locks are free.

    `known`: the paths of files that the journal of `epoch` has; `put_aside`: those that its files had before,
    where what is committed may still lie. Returns whether nothing is left. Raises OSError.
    """
    older = [number for number in _epochs(place, partition) if number < epoch]
    done = True
    for number in older:
        lock = try_lock(place.lock(partition, number), place.what(partition))
        if lock is None:
            done = False
            continue
        with lock:
            if _remove_strays(place, partition, number, known, put_aside):
                _remove_journal(place.journal(partition, number))
            else:
                done = False
    if done:
        for path in place.journals.glob(f".{place.journal(partition, 0).stem}.*.tmp*"):  # killed while it copied
            path.unlink(missing_ok=True)
    return done


def _epochs(place: Place, partition: int) -> list[int]:
    newest = place.newest_epoch(partition) or 0
    return [number for number in range(newest) if place.journal(partition, number).exists()]


def _remove_journal(journal: Path) -> None:
    for path in (Path(f"{journal}-wal"), Path(f"{journal}-shm"), journal, journal.with_suffix(".lock")):
        path.unlink(missing_ok=True)
    sync_directory(journal.parent)


def _remove_strays(place: Place, partition: int, number: int, known: frozenset[str], put_aside: frozenset[str]) -> bool:
    """Files that the old owner began behind the copy: no journal counts their bytes, the stream brought them again.

    Returns whether all are gone: what lies under a name that is to be put aside is looked at again.
    """
    are_gone = True
    for path in place.directory.glob(f"date=*/partition={partition}/host=*/{layout.OPEN_PREFIX}*"):
        name = path.relative_to(place.directory).as_posix()
        if layout.epoch_of(name) != number or name in known:
            continue
        if name in put_aside:
            are_gone = False
        else:
            path.unlink(missing_ok=True)
    return are_gone
