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
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from consumer.archive.directory import check_journal, note_journal
from consumer.archive.journal import Journal
from consumer.cluster.epochs import Takeover, begin_epoch, find_takeover, sweep
from consumer.cluster.lease import Lease
from consumer.cluster.membership import MAX_TROUBLE, Claim, Member, Membership, clock, forked_text
from consumer.commit.batch import RunTotals
from consumer.commit.other_partitions import OtherPartitions
from consumer.commit.sink import Sink
from consumer.commit.store import PartitionStore
from consumer.partition.session_loop import NO_SESSION, SessionLoop
from consumer.pipeline import Worker, WorkerParts, make_worker
from shipper import events
from shipper.durable_files import Lock
from shipper.errors import ArchiveTrouble, Fenced, Transient, Unavailable
from shipper.lifecycle import Pulse, Stop

SWEEP_SECONDS = 30.0
AGAIN_SECONDS = 1.0
NOT_OPEN = "it is not open yet"

HoldUntil = Callable[[], Awaitable[object]]


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
        plain_after_ns = max(at.plain_after_ns, before.plain_after_ns)
        journal.move_to(replace(before.position, plain_after_ns=plain_after_ns))


class OwnedPartition:
    """A partition whose lease this collector has. Owned by the collector's loop. It ends when `run` returns.

    `before` is the claim that was in the bucket before that of this collector.
    """

    def __init__(
        self, parts: WorkerParts, partition: int, footing: Takeover, lease: Lease, before: Claim | None
    ) -> None:
        self.partition = partition
        self.lease = lease
        self.stop = Stop()
        self.done = asyncio.Event()  #: nothing is left to write
        self.worker: Worker | None = None
        self.pulse = Pulse(f"partition {partition}")
        self._opening_trouble = NOT_OPEN
        self._parts = parts
        self._footing = footing
        self._before = before
        lease.confirm = self._confirm
        lease.now = self._as_of_now

    async def run(self, hold_until: HoldUntil | None = None) -> None:
        """Write the partition until the work is done, a stop is requested, or another collector has it.

        After the work is done the lease is held until `hold_until` returns, if it is given. Raises ShipperError: as the
        worker does. Being fenced is no error: the other partitions continue.
        """
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._footing.locks.close)
                self.worker = await self._open_when_possible(stack)
                if self.worker is not None:
                    sweeping = asyncio.create_task(self._sweep(self.worker))
                    stack.callback(sweeping.cancel)
                    await self.worker.run()
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
            self.stop.request()
            self.done.set()

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
        return 0 if self.worker is None else self.worker.pending

    @property
    def trouble(self) -> str:
        """Why it cannot write at the moment. Empty means that it can."""
        return self._opening_trouble if self.worker is None else self.worker.trouble

    def is_past(self, date: str) -> bool:
        """Whether the stream can deliver nothing more for `date`, and all of it is sealed."""
        return self.worker is not None and self.worker.is_past(date)

    # -- opening ------------------------------------------------------------------------------------------------

    async def _open_when_possible(self, stack: contextlib.ExitStack) -> Worker | None:
        """The worker. None means that a stop was requested while the archive had trouble."""
        footing, place = self._footing, self._parts.place
        while not self.stop.requested:
            self.pulse.turn(rest=AGAIN_SECONDS)
            try:
                if (copied := footing.copied) is not None:
                    await asyncio.to_thread(begin_epoch, place, self.partition, copied=copied, epoch=footing.epoch)
                    footing.copied = None
                await self.lease.hold()
                with contextlib.ExitStack() as opening:
                    worker = await asyncio.to_thread(self._open_worker, opening)
                    stack.enter_context(opening.pop_all())
                return worker
            except (OSError, sqlite3.Error, Transient) as error:
                self._opening_trouble = str(error)
                if isinstance(error, Transient) and not isinstance(error, ArchiveTrouble):
                    events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=AGAIN_SECONDS)
                else:
                    events.archive_failed(partition=self.partition, error=str(error))
                await self.stop.nap(AGAIN_SECONDS)
        return None

    def _open_worker(self, opening: contextlib.ExitStack) -> Worker:
        """The worker. `opening` closes what this opens. Called in a thread.

        Raises OSError, sqlite3.Error: the archive has trouble. ConfigError: the journal is locked, or of a newer
        version.
        """
        parts, place, partition = self._parts, self._parts.place, self.partition
        path = place.journal(partition, self._footing.epoch)
        opening.enter_context(Lock(path.with_suffix(".lock"), place.what(partition)))
        journal = Journal(path)
        opening.callback(journal.close)
        note_journal(place.directory, partition)
        hole_patience = math.inf
        if self._before is not None and self._before.archive != place.archive:
            _continue_other_archive(journal, self._before, partition)
            hole_patience = self.lease.every  # the producers have the receipts of the other archive
        layout, others = replace(place.layout, epoch=self._footing.epoch), OtherPartitions(partition, parts.sources)
        sink = Sink(layout.archive, open_files=parts.open_files(), links=layout.seals)
        store = PartitionStore(journal, sink, layout, others, self.lease, self.pulse)
        opening.callback(store.close)
        options = parts.options(partition, hole_patience)
        open_inbox = partial(parts.open_inbox, stream=options.stream)
        sessions = SessionLoop(options, open_inbox, self.stop, parts.patience(), self.pulse)
        return make_worker(options, store, parts.sealer, sessions, parts.pace)

    def _confirm(self) -> None:
        """Check that the archive has no later epoch. Raises Fenced."""
        newest = self._parts.place.newest_epoch(self.partition)
        if newest is not None and newest > self._footing.epoch:
            raise Fenced(f"partition {self.partition} was taken over: its epoch is {newest} now")

    # -- during the work, and after it --------------------------------------------------------------------------

    def _as_of_now(self, claim: Claim) -> Claim:
        """`claim` with what is committed now, and why nothing can be written."""
        trouble = "" if self.trouble in {NOT_OPEN, NO_SESSION} else self.trouble[:MAX_TROUBLE]
        claim = replace(claim, trouble=trouble)
        if self.worker is None:
            return claim
        past, forked = max(claim.past, self.worker.past()), forked_text(self.worker.journal.forked)
        return replace(claim, **asdict(self.worker.journal.position), past=past, forked=forked)

    async def _sweep(self, worker: Worker) -> None:
        """Remove the files of earlier epochs, once no process can write them any more."""
        place, epoch = self._parts.place, self._footing.epoch
        while epoch and not self.stop.requested:
            with contextlib.suppress(OSError):
                # in this order: a file that is created during the calls is in one of them
                known = frozenset(worker.journal.files)
                aside = frozenset(file.opened for file in worker.journal.files.values() if file.opened)
                if await asyncio.to_thread(sweep, place, self.partition, epoch=epoch, known=known, moved_aside=aside):
                    return
            await self.stop.nap(SWEEP_SECONDS)

    async def _release(self) -> None:
        try:
            with contextlib.suppress(Transient, Unavailable):  # it expires; on this machine the lock is free already
                await self.lease.release()
        except Fenced as error:
            events.fenced(partition=self.partition, error=str(error))
        else:
            events.lease_released(partition=self.partition)


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
        """The partition, if it is free now. Nothing is written before `start`.

        Raises SessionLost: the bucket cannot be read. Fatal: the partition's journal is missing here.
        """
        before, revision = self._membership.claim(partition)
        silent = self._membership.silent(partition)
        footing = find_takeover(self._parts.place, partition, before, expired=self._membership.expired(partition))
        if footing is None:
            return None
        try:
            place, epoch = self._parts.place, footing.epoch if footing.copied is None else footing.copied
            check_journal(place.directory, place.journal(partition, epoch), partition)
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
        return OwnedPartition(self._parts, partition, footing, lease, before)

    def start(self, owner: OwnedPartition, hold_until: HoldUntil | None = None) -> None:
        """Write the partition from now on. After its work is done it is held until `hold_until` returns."""
        self._running[owner.partition] = owner, asyncio.create_task(self._run(owner, hold_until))

    async def renew(self) -> None:
        """Renew every lease. Raises SessionLost: some could not be."""
        leases = [(owner, owner.lease.prove()) for owner in self]
        outcomes = await asyncio.gather(*(renewal for _, renewal in leases), return_exceptions=True)
        for (owner, _), outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Fenced):
                owner.stop.request()
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fenced):
                raise outcome

    def stop(self) -> None:
        """Release all."""
        for owner in self:
            owner.stop.request()

    async def ended(self) -> None:
        """Return when nothing is written any more."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])

    async def idle(self) -> None:
        """Return when every partition's work is done, though some may be held still."""
        while self.failure is None and any(not owner.done.is_set() for owner in self):
            await asyncio.wait([asyncio.create_task(owner.done.wait()) for owner in self])

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

    def _claim(self, before: Claim | None, epoch: int, lock: str) -> Claim:
        """The claim to store. The position of the previous owner is kept until this one's is known."""
        me = self.me
        mine = Claim(
            owner=me.name,
            instance=me.instance,
            host=me.host,
            pid=me.pid,
            archive=me.archive,
            lock=lock,
            epoch=epoch,
            directory=str(self._parts.place.directory.absolute()),
            lease_seconds=math.ceil(self._membership.lease),
        )
        if before is None:
            return mine
        past = before.past if before.archive == me.archive else ""
        return replace(mine, **asdict(before.position), past=past)


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
