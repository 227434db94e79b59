"""One partition that this collector writes: its lease, locks, journal, files and worker, from the claim to the release.

`OwnedPartitions` has all partitions of a collector: it claims them, renews their leases, and releases them. A renewal
of a lease replaces only the previous renewal.
"""

import asyncio
import contextlib
import math
import os
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from consumer.archive import check_journal, note_journal
from consumer.cluster.epochs import Takeover, begin_epoch, find_takeover, sweep
from consumer.cluster.lease import Lease
from consumer.cluster.locks import ArchiveLocation
from consumer.cluster.membership import Claim, Member, Membership, clock, forked_text
from consumer.commit.journal import Journal
from consumer.commit.other_partitions import ArchiveSources, OtherPartitions
from consumer.commit.staged_batch import RunTotals
from consumer.commit.store import PartitionStore, open_store
from consumer.model import Position
from consumer.pipeline import Worker
from shipper import events
from shipper.durable_files import Lock, LockHolder
from shipper.errors import ArchiveTrouble, Fenced, ShipperError, Transient, Unavailable
from shipper.lifecycle import Pulse, Stop

SWEEP_SECONDS = 30.0
AGAIN_SECONDS = 1.0

HoldUntil = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """The settings that the workers of a collector share."""

    place: ArchiveLocation
    open_files: Callable[[], int]  #: maximum number of open files of one partition
    sources: ArchiveSources
    make_worker: Callable[[PartitionStore, int, float, Stop, Pulse], Worker]
    """Builds the worker of a store and a partition, with the maximum of `hole_patience` in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A partition whose lease and locks this collector has."""

    partition: int
    footing: Takeover
    lease: Lease
    before: Claim | None  #: the claim that was in the bucket before this one


def open_worker(
    claimed: Claimed, parts: WorkerParts, stop: Stop, pulse: Pulse, opening: contextlib.ExitStack
) -> Worker:
    """The worker of a partition; `opening` closes what this opens. Called in a thread.

    Raises OSError, sqlite3.Error: the archive has trouble. ConfigError: the journal is locked, or of a newer version.
    """
    place, partition, epoch = parts.place, claimed.partition, claimed.footing.epoch
    path = place.journal(partition, epoch)
    opening.enter_context(Lock(path.with_suffix(".lock"), place.what(partition)))
    journal = Journal(path)
    opening.callback(journal.close)
    note_journal(place.directory, partition)
    hole_patience = math.inf
    if claimed.before is not None and claimed.before.archive != place.archive:
        _continue_other_archive(journal, claimed.before, partition)
        hole_patience = claimed.lease.every  # the producers have the receipts of the other archive
    layout = replace(place.layout, epoch=epoch)
    store = open_store(
        journal, layout, claimed.lease, OtherPartitions(partition, parts.sources), pulse, open_files=parts.open_files()
    )
    opening.callback(store.close)
    return parts.make_worker(store, partition, hole_patience, stop, pulse)


def _continue_other_archive(journal: Journal, before: Claim, partition: int) -> None:
    """Begin where the other archive ends."""
    at = journal.position
    if before.applied > at.applied:
        events.archived_elsewhere(
            partition=partition,
            directory=before.directory,
            collector=before.owner,
            host=before.host,
            first=at.applied + 1,
            last=before.applied,
        )
    if before.created and (before.applied > at.applied or before.created != at.created):
        journal.move_to(
            Position(
                applied=before.applied,
                applied_ns=before.applied_ns,
                resume=before.resume,
                plain_after_ns=max(at.plain_after_ns, before.plain_after_ns),
                created=before.created,
            )
        )


class OwnedPartition:
    """A partition whose lease this collector has. Owned by the collector's loop; it ends when `run` returns."""

    def __init__(self, parts: WorkerParts, claimed: Claimed) -> None:
        self.partition = claimed.partition
        self.lease = lease = claimed.lease
        self.stop = Stop()
        self.done = asyncio.Event()  #: nothing is left to write
        self.worker: Worker | None = None
        self.pulse = Pulse(f"partition {claimed.partition}")
        self._opening_trouble = "it is not open yet"
        self._parts = parts
        self._claimed = claimed
        self._footing = claimed.footing
        lease.confirm = self._confirm

    async def run(self, hold_until: HoldUntil | None = None) -> None:
        """Write the partition until the work is done, a stop is requested, or another collector has it.

        After the work is done the lease is held until `hold_until` returns, if it is given.

        Raises:
            ShipperError: as the worker does. Being fenced is no error: the other partitions continue.
        """
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._footing.locks.close)
                self.worker = await self._open_when_possible(stack)
                if self.worker is not None:
                    await self._write(self.worker)
                self.pulse.end()
                self.done.set()
                if hold_until is not None:
                    await hold_until()
        except Fenced as error:
            events.fenced(partition=self.partition, error=str(error))
        except Exception:
            await self._release()
            raise
        else:
            await self._release()
        finally:
            self.pulse.end()
            self.stop.ask()
            self.done.set()

    async def _write(self, worker: Worker) -> None:
        self.lease.now = self._as_of_now
        sweeping = asyncio.create_task(self._sweep(worker))
        try:
            await worker.run()
        finally:
            sweeping.cancel()

    async def give_up(self) -> None:
        """Release a partition for which `run` was never called."""
        self._footing.locks.close()
        await self._release()

    def status(self) -> dict[str, Any]:
        """The state of the partition, as `fshipper status` shows it."""
        about = {"epoch": self._footing.epoch, "lease": "sure" if self.lease.is_sure else "not renewed"}
        worker = {"partition": self.partition} if self.worker is None else self.worker.status()
        return worker | about

    @property
    def pending(self) -> int:
        """Messages in the stream that are not written yet."""
        return 0 if self.worker is None else int(self.worker.status()["pending"])

    @property
    def trouble(self) -> str:
        """Why it cannot write at the moment; empty: it can."""
        return self._opening_trouble if self.worker is None else self.worker.trouble

    def is_past(self, date: str) -> bool:
        """Whether the stream can deliver nothing more for `date`, and all of it is sealed."""
        return self.worker is not None and self.worker.is_past(date)

    # -- opening ------------------------------------------------------------------------------------------------

    async def _open_when_possible(self, stack: contextlib.ExitStack) -> Worker | None:
        """The worker; None: a stop was requested while the archive had trouble."""
        while not self.stop.asked:
            self.pulse.turn(rest=AGAIN_SECONDS)
            try:
                return await self._open(stack)
            except (OSError, sqlite3.Error, Transient) as error:
                self._opening_trouble = str(error)
                if isinstance(error, Transient) and not isinstance(error, ArchiveTrouble):
                    events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=AGAIN_SECONDS)
                else:
                    events.archive_failed(partition=self.partition, error=str(error))
                await self.stop.nap(AGAIN_SECONDS)
        return None

    async def _open(self, stack: contextlib.ExitStack) -> Worker:
        if self._footing.copied is not None:
            await asyncio.to_thread(
                begin_epoch, self._parts.place, self.partition, copied=self._footing.copied, epoch=self._footing.epoch
            )
            self._footing.copied = None
        await self.lease.hold()
        with contextlib.ExitStack() as opening:
            worker = await asyncio.to_thread(open_worker, self._claimed, self._parts, self.stop, self.pulse, opening)
            stack.enter_context(opening.pop_all())
        return worker

    def _confirm(self) -> None:
        """Check that the archive has no later epoch. Raises Fenced."""
        newest = self._parts.place.newest_epoch(self.partition)
        if newest is not None and newest > self._footing.epoch:
            raise Fenced(f"partition {self.partition} was taken over: its epoch is {newest} now")

    # -- during the work, and after it --------------------------------------------------------------------------

    def _as_of_now(self, claim: Claim) -> Claim:
        """`claim` with what is committed now."""
        if self.worker is None:
            return claim
        at = self.worker.position
        return replace(
            claim,
            applied=at.applied,
            applied_ns=at.applied_ns,
            resume=at.resume,
            plain_after_ns=at.plain_after_ns,
            created=at.created,
            past=max(claim.past, self.worker.past()),
            forked=forked_text(self.worker.forked),
        )

    async def _sweep(self, worker: Worker) -> None:
        """Remove the files of earlier epochs, once no process can write them any more."""
        place, epoch = self._parts.place, self._footing.epoch
        while epoch and not self.stop.asked:
            with contextlib.suppress(OSError):
                known, aside = (
                    worker.files,
                    worker.moved_aside,
                )  # in this order: a file that is created during the calls is in one of them
                if await asyncio.to_thread(sweep, place, self.partition, epoch=epoch, known=known, moved_aside=aside):
                    return
            await self.stop.nap(SWEEP_SECONDS)

    async def _release(self) -> None:
        try:
            await self.lease.release()
        except Fenced as error:
            events.fenced(partition=self.partition, error=str(error))
        except (Transient, Unavailable):  # the lease expires, and on this machine the lock is free immediately
            events.lease_released(partition=self.partition)
        else:
            events.lease_released(partition=self.partition)


NOTHING_TO_DRAIN = (
    "a collector runs and writes everything that arrives, so there is nothing to do;"
    " fshipper status shows how far it is, and it seals by itself. To drain manually, stop it first."
)


class OwnedPartitions:
    """The partitions of one collector. Owned by its loop."""

    def __init__(self, parts: WorkerParts, membership: Membership, me: Member) -> None:
        self._parts = parts
        self._membership = membership
        self.place = parts.place
        self.me = me
        self._running: dict[int, tuple[OwnedPartition, asyncio.Task[None]]] = {}
        self.failure: BaseException | None = None  #: of the first partition that failed
        self.archived = RunTotals()  #: of the workers that ended
        self.left = 0  #: messages in the streams that were not written

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter([owner for owner, _ in list(self._running.values())])

    def __contains__(self, partition: int) -> bool:
        return partition in self._running

    def __len__(self) -> int:
        return len(self._running)

    async def claim(self, partition: int) -> OwnedPartition | None:
        """The partition, if it is free now; nothing is written before `start`.

        Raises:
            SessionLost: the bucket cannot be read. Fatal: the partition's journal is missing here.
        """
        before, revision = self._membership.claim(partition)
        silent = self._membership.silent(partition)
        footing = find_takeover(self._parts.place, partition, before, expired=self._membership.expired(partition))
        if footing is None:
            return None
        try:
            self._check_journal(partition, footing)
            claim = self._claim(before, footing.epoch, footing.lock)
            sent = clock()
            taken = await self._membership.put(self._membership.lease_key(partition), claim, expected=revision)
        except BaseException:
            footing.locks.close()
            raise
        if taken is None:  # another collector was faster
            footing.locks.close()
            return None
        lease = Lease(self._membership, partition, claim, taken, sent=sent)
        previous = before.owner if before is not None and not before.released else ""
        events.lease_taken(partition=partition, epoch=footing.epoch, previous=previous, silent=silent)
        return OwnedPartition(self._parts, Claimed(partition=partition, footing=footing, lease=lease, before=before))

    def start(self, owner: OwnedPartition, hold_until: HoldUntil | None = None) -> None:
        """Write the partition from now on. After its work is done it is held until `hold_until` returns."""
        self._running[owner.partition] = owner, asyncio.create_task(self._run(owner, hold_until))

    async def renew(self) -> None:
        """Renew every lease. Raises SessionLost: some could not be."""
        leases = [(owner, owner.lease.prove()) for owner in self]
        outcomes = await asyncio.gather(*(renewal for _, renewal in leases), return_exceptions=True)
        for (owner, _), outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Fenced):
                owner.stop.ask()
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fenced):
                raise outcome

    def release(self, partition: int) -> None:
        """Finish the current batch, then release the partition."""
        self._running[partition][0].stop.ask()

    def stop(self) -> None:
        """Release all."""
        for owner in self:
            owner.stop.ask()

    async def ended(self) -> None:
        """Return when nothing is written any more."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])

    def status(self) -> list[dict[str, Any]]:
        """The state of each partition, as `fshipper status` shows it."""
        return [owner.status() for owner in sorted(self, key=lambda owner: owner.partition)]

    async def idle(self) -> None:
        """Return when every partition's work is done, though some may be held still."""
        while self.failure is None and any(not owner.done.is_set() for owner in self):
            waiting = [asyncio.create_task(owner.done.wait()) for owner in self]
            await asyncio.wait(waiting)

    async def _run(self, owner: OwnedPartition, hold_until: HoldUntil | None) -> None:
        try:
            await owner.run(hold_until)
        except BaseException as error:  # noqa: BLE001 - the first that fails ends the program, with its error
            self.failure = self.failure or error
            self.stop()
        finally:
            self.left += owner.pending
            if owner.worker is not None:
                self.archived.add(owner.worker.archived)
            del self._running[owner.partition]

    def _check_journal(self, partition: int, footing: Takeover) -> None:
        place, epoch = self._parts.place, footing.epoch if footing.copied is None else footing.copied
        check_journal(place.directory, place.journal(partition, epoch), partition)

    def _claim(self, before: Claim | None, epoch: int, lock: str) -> Claim:
        """The claim to store. The position of the previous owner is kept until this one's is known."""
        me = self.me
        said = before or Claim(owner="", instance="", host="", pid=0, archive=me.archive, lock="")
        return Claim(
            owner=me.name,
            instance=me.instance,
            host=me.host,
            pid=me.pid,
            archive=me.archive,
            lock=lock,
            epoch=epoch,
            applied=said.applied,
            applied_ns=said.applied_ns,
            resume=said.resume,
            plain_after_ns=said.plain_after_ns,
            created=said.created,
            directory=str(self._parts.place.directory.absolute()),
            past=said.past if said.archive == me.archive else "",
        )


def this_process(*, name: str, lock: str, archive: str, partitions: tuple[int, ...]) -> Member:
    """The identity of this collector in a claim."""
    return Member(
        name=name,
        instance=os.urandom(8).hex(),
        host=socket.gethostname(),
        pid=os.getpid(),
        archive=archive,
        lock=lock,
        partitions=partitions,
    )


def refuse_held(partition: int, claim: Claim) -> ShipperError:
    """Why a partition cannot be drained now: a collector elsewhere, or with another archive, has it."""
    return ShipperError(
        f"partition {partition} is written by collector {claim.owner} (process {claim.pid} on {claim.host})",
        hint=NOTHING_TO_DRAIN,
    )


def refuse_locked(text: str, holder: LockHolder) -> ShipperError:
    """Why a partition cannot be drained now: another process writes this archive."""
    if "--drain" in holder.command.split():
        hint = "another drain runs; it ends by itself and writes everything that is in the streams: wait for it"
        return ShipperError(text, hint=hint)
    see = f" ps -fp {holder.pid} shows it." if holder.pid else ""
    return ShipperError(text, hint=NOTHING_TO_DRAIN + see)
