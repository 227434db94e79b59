"""Epochs of a partition: copies the journal for a new epoch, and removes files of earlier epochs.

It decides whether a collector continues the epoch of the previous owner, or starts a new one.

On one kernel a free lock proves that the previous owner is dead or done: its journal and files are continued
immediately. Where the lock proves nothing (the process is paused, or was on another machine), the lease has expired,
but the process may resume between any two statements. Therefore a new epoch starts, with a copy of the journal and new
names of the open files. Later writes of the old owner go to files and a journal that are not read any more.
"""

import contextlib
import enum
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from consumer.archive.directory import ArchiveLocation, try_lock
from consumer.cluster.locks import holder_of, lock_identity
from consumer.cluster.membership import Claim
from shipper import layout
from shipper.durable_files import name_if_free, sync_directory
from shipper.errors import ArchiveTrouble, Fenced

ATTEMPTS = 50


def begin_epoch(place: ArchiveLocation, partition: int, *, copied: int, epoch: int) -> None:
    """Create the journal of `epoch` as a copy of that of epoch `copied`. Atomic and durable.

    Raises Fenced: another collector created this epoch. ArchiveTrouble: the journal changes during every copy. OSError.
    """
    source, target = place.journal(partition, copied), place.journal(partition, epoch)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _copy(source, temporary)
        _settle(temporary)
        if not name_if_free(temporary, target):
            raise Fenced(f"epoch {epoch} of partition {partition} was begun by another collector")
    finally:
        for path in (temporary, _wal(temporary)):
            path.unlink(missing_ok=True)
    sync_directory(target.parent)


def _copy(source: Path, target: Path) -> None:
    """The committed content of a database, read without SQLite: a paused process may hold its locks.

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
    place: ArchiveLocation,
    partition: int,
    *,
    epoch: int,
    known: frozenset[str],
    moved_aside: frozenset[str] = frozenset(),
) -> bool:
    """Remove the files of epochs before `epoch`, as soon as their locks are free, so that no process writes them.

    `known`: the paths of files in the journal of `epoch`; `moved_aside`: the earlier paths of these files, which may
    still contain committed bytes. Returns whether nothing is left. Raises OSError.
    """
    done = True
    for number in range(min(epoch, place.newest_epoch(partition) or 0)):
        journal = place.journal(partition, number)
        if not journal.exists():
            continue
        lock = try_lock(place.lock(partition, number), place.what(partition))
        if lock is None:
            done = False
            continue
        with lock:
            if not _remove_strays(place, partition, number, known, moved_aside):
                done = False
                continue
            for path in (_wal(journal), Path(f"{journal}-shm"), journal, journal.with_suffix(".lock")):
                path.unlink(missing_ok=True)
            sync_directory(journal.parent)
    if done:
        for path in place.journals.glob(f".{place.journal(partition, 0).stem}.*.tmp*"):  # left by a kill during a copy
            path.unlink(missing_ok=True)
    return done


def _remove_strays(
    place: ArchiveLocation, partition: int, number: int, known: frozenset[str], moved_aside: frozenset[str]
) -> bool:
    """Remove files that the old owner created after the copy: their bytes are not committed and were read again.

    Returns whether all are removed: a file whose rename for sealing is pending is checked again later.
    """
    are_gone = True
    for path in place.directory.glob(f"date=*/partition={partition}/host=*/{layout.OPEN_PREFIX}*"):
        name = path.relative_to(place.directory).as_posix()
        if layout.epoch_of(name) != number or name in known:
            continue
        if name in moved_aside:
            are_gone = False
        else:
            path.unlink(missing_ok=True)
    return are_gone


class ClaimAction(enum.Enum):
    """What to do about a partition that this collector should have."""

    CONTINUE = "continue"  #: in the epoch of the previous owner
    BEGIN = "begin"  #: a new epoch
    WAIT = "wait"  #: another collector has it


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerState:
    """What is known about the owner of a partition."""

    claim: Claim | None  #: the entry in the bucket; None: there is none
    expired: bool  #: the claim was not renewed for the time of a lease
    archive: str  #: identity of the own archive
    newest: int | None  #: epoch of the newest journal here; None: there is none
    locked: bool  #: whether this process has the lock of that epoch
    lock: str  #: identity of that lock
    holder: int  #: the process that holds it, if it is another one
    has_epochs: bool = True  #: a template's files have one name only


def step(sight: OwnerState) -> ClaimAction:
    """What to do about a partition. Pure."""
    claim = sight.claim
    if claim is None or claim.released:
        return _by_lock(sight)
    if claim.archive != sight.archive:
        return _by_lock(sight) if sight.expired else ClaimAction.WAIT
    if sight.locked and claim.lock == sight.lock:
        return _by_lock(sight)  # the kernel guarantees that its process is gone
    if not sight.expired:
        return ClaimAction.WAIT
    if not sight.has_epochs:
        return ClaimAction.CONTINUE if sight.locked else ClaimAction.WAIT
    stuck = sight.locked or claim.lock != sight.lock or claim.pid == sight.holder
    return ClaimAction.BEGIN if stuck else ClaimAction.WAIT  # a process without a lease has the lock: not fenced


def _by_lock(sight: OwnerState) -> ClaimAction:
    if not sight.locked:
        return ClaimAction.WAIT
    claim = sight.claim
    unfinished = claim is not None and claim.archive == sight.archive and claim.epoch > (sight.newest or 0)
    return ClaimAction.BEGIN if unfinished and sight.has_epochs else ClaimAction.CONTINUE


@dataclass(slots=True, kw_only=True)
class Takeover:
    """The locks and the epoch of a partition to claim. The locks are held until `locks` is closed."""

    epoch: int
    copied: int | None  #: epoch of the journal to copy; None: the journal is continued, or new
    lock: str
    locks: contextlib.ExitStack


def find_takeover(place: ArchiveLocation, partition: int, claim: Claim | None, *, expired: bool) -> Takeover | None:
    """The locks and the epoch with which `partition` may be claimed now. None means that another collector has it."""
    newest = place.newest_epoch(partition)
    path = place.lock(partition, newest or 0)
    locks = try_lock(path, place.what(partition))
    found = step(
        OwnerState(
            claim=claim,
            expired=expired,
            archive=place.archive,
            newest=newest,
            locked=locks is not None,
            lock=lock_identity(path),
            holder=holder_of(path),
            has_epochs=place.layout.seals,
        )
    )
    if found is ClaimAction.CONTINUE and locks is not None:
        return Takeover(epoch=newest or 0, copied=None, lock=lock_identity(path), locks=locks)
    if locks is not None:
        locks.close()
    return _new_epoch(place, partition, claim, newest) if found is ClaimAction.BEGIN else None


def _new_epoch(place: ArchiveLocation, partition: int, claim: Claim | None, newest: int | None) -> Takeover | None:
    """An epoch higher than that of any claim: a paused collector can only create a journal of a lower one."""
    claimed = claim.epoch if claim is not None and claim.archive == place.archive else 0
    epoch = max(claimed, newest or 0) + 1
    path = place.lock(partition, epoch)
    locks = try_lock(path, place.what(partition))
    return None if locks is None else Takeover(epoch=epoch, copied=newest, lock=lock_identity(path), locks=locks)
