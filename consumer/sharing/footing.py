"""How a collector begins to write a partition: in the epoch of the one before, or in an epoch of its own.

On one kernel a free lock proves that the one before is dead or done: its journal and files are continued at once.
Where the lock cannot tell (the process is paused, or was on another machine) the lease has run out, but the process may
wake between any two statements. So a new epoch begins: a copy of the journal, other names for the open files. What
the old one still writes goes into files and a journal that nobody reads any more.
"""

import contextlib
import enum
from dataclasses import dataclass

from consumer.sharing.entries import Claim
from consumer.sharing.place import Place, holder_of, lock_identity, try_lock


class Step(enum.Enum):
    """What to do about a partition that this collector should have."""

    CONTINUE = "continue"  #: in the epoch of the one before
    BEGIN = "begin"  #: a new epoch
    WAIT = "wait"  #: somebody has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known of who writes a partition."""

    claim: Claim | None  #: what the bucket says; None: nothing
    expired: bool  #: the claim was not renewed for the time of a lease
    archive: str  #: identity of the own archive
    newest: int | None  #: epoch of the newest journal here; None: there is none
    locked: bool  #: whether the lock of that epoch is ours now
    lock: str  #: which lock that is
    holder: int  #: the process that holds it, where it is not ours
    has_epochs: bool = True  #: a template's files have one name only


def step(sight: Sight) -> Step:
    """What may be done now. Pure."""
    claim = sight.claim
    if claim is None or claim.released:
        return _by_lock(sight)
    if claim.archive != sight.archive:
        return _by_lock(sight) if sight.expired else Step.WAIT
    if sight.locked and claim.lock == sight.lock:
        return _by_lock(sight)  # the kernel says that its process is gone
    if not sight.expired:
        return Step.WAIT
    if not sight.has_epochs:
        return Step.CONTINUE if sight.locked else Step.WAIT
    stuck = sight.locked or claim.lock != sight.lock or claim.pid == sight.holder
    return Step.BEGIN if stuck else Step.WAIT  # else a process without a lease has the lock: it would not be fenced


def _by_lock(sight: Sight) -> Step:
    if not sight.locked:
        return Step.WAIT
    claim = sight.claim
    unfinished = claim is not None and claim.archive == sight.archive and claim.epoch > (sight.newest or 0)
    return Step.BEGIN if unfinished and sight.has_epochs else Step.CONTINUE


@dataclass(slots=True, kw_only=True)
class Footing:
    """What a collector stands on when it claims a partition; the locks are held until `locks` is closed."""

    epoch: int
    copied: int | None  #: epoch of the journal that this one's begins as a copy of; None: it is continued, or new
    lock: str
    locks: contextlib.ExitStack


def find_footing(place: Place, partition: int, claim: Claim | None, *, expired: bool) -> Footing | None:
    """The locks and the epoch with which `partition` may be claimed now; None: somebody has it."""
    newest = place.newest_epoch(partition)
    path = place.lock(partition, newest or 0)
    locks = try_lock(path, place.what(partition))
    found = step(
        Sight(
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
    if found is Step.CONTINUE and locks is not None:
        return Footing(epoch=newest or 0, copied=None, lock=lock_identity(path), locks=locks)
    if locks is not None:
        locks.close()
    return _new_epoch(place, partition, claim, newest) if found is Step.BEGIN else None


def _new_epoch(place: Place, partition: int, claim: Claim | None, newest: int | None) -> Footing | None:
    """A number that no claim before had; who claimed it and fell asleep can only make a journal below it."""
    claimed = claim.epoch if claim is not None and claim.archive == place.archive else 0
    epoch = max(claimed, newest or 0) + 1
    path = place.lock(partition, epoch)
    locks = try_lock(path, place.what(partition))
    return None if locks is None else Footing(epoch=epoch, copied=newest, lock=lock_identity(path), locks=locks)
