"""One partition that this collector writes: its locks, journal, files and worker, from the claim to the release."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from consumer.archive import note_journal
from consumer.pipeline import OpenInbox, Worker
from consumer.sealing.seal import Sealer
from consumer.sharing.entries import Claim, forked_text
from consumer.sharing.epochs import begin_epoch, sweep
from consumer.sharing.footing import Footing
from consumer.sharing.lease import Lease
from consumer.sharing.place import Place
from consumer.task import Task
from consumer.writing.journal import Journal
from consumer.writing.other_partitions import ArchiveSources, OtherPartitions
from consumer.writing.records import Position
from consumer.writing.sink import Sink
from shipper import events
from shipper.errors import ArchiveTrouble, Fenced, Transient, Unavailable
from shipper.files import Lock
from shipper.lifecycle import Stop
from shipper.retry import Patience
from shipper.supervision import Pulse

SWEEP_SECONDS = 30.0
AGAIN_SECONDS = 1.0

Lasting = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """What every worker of a collector gets."""

    place: Place
    sealer: Sealer
    open_files: Callable[[], int]  #: of one partition
    task: Callable[[int], Task]
    open_inbox: Callable[[int], OpenInbox]
    patience: Callable[[], Patience]
    sources: ArchiveSources


class Holding:
    """A partition whose lease is ours. Owned by the collector's loop; `run` is its whole life."""

    def __init__(self, outfit: Outfit, partition: int, footing: Footing, lease: Lease, before: Claim | None) -> None:
        self.partition = partition
        self.lease = lease
        self.stop = Stop()
        self.done = asyncio.Event()  #: nothing is left to write
        self.worker: Worker | None = None
        self.pulse = Pulse(f"partition {partition}")
        self._opening_trouble = "it is not open yet"
        self._outfit = outfit
        self._footing = footing
        self._before = before  # what the bucket said before the claim
        self._layout = replace(outfit.place.layout, epoch=footing.epoch)
        lease.confirm = self._confirm

    async def run(self, lasting: Lasting | None = None) -> None:
        """Write the partition until the work is done, somebody asks to stop, or another collector has it.

        What is done is held until `lasting` returns, if there is one.

        Raises:
            ShipperError: as the worker does. Being fenced is no error: the others go on.
        """
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._footing.locks.close)
                self.worker = await self._open_when_possible(stack)
                if self.worker is not None:
                    await self._write(self.worker)
                self.pulse.end()
                self.done.set()
                if lasting is not None:
                    await lasting()
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
        """Give back what `run` was never called for."""
        self._footing.locks.close()
        await self._release()

    def status(self) -> dict[str, Any]:
        """What it does now, for people and scripts."""
        about = {"epoch": self._footing.epoch, "lease": "sure" if self.lease.is_sure else "not renewed"}
        worker = {"partition": self.partition} if self.worker is None else self.worker.status()
        return worker | about

    @property
    def pending(self) -> int:
        """Messages in the stream behind what is written."""
        return 0 if self.worker is None else int(self.worker.status()["pending"])

    @property
    def trouble(self) -> str:
        """Why it does not do its work; empty: it does."""
        return self._opening_trouble if self.worker is None else self.worker.trouble

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed."""
        return self.worker is not None and self.worker.is_past(date)

    # -- opening ------------------------------------------------------------------------------------------------

    async def _open_when_possible(self, stack: contextlib.ExitStack) -> Worker | None:
        """The worker; None: somebody asked to stop while the archive had trouble."""
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
                begin_epoch,
                self._outfit.place,
                self.partition,
                copied=self._footing.copied,
                epoch=self._footing.epoch,
            )
            self._footing.copied = None
        await self.lease.hold()
        with contextlib.ExitStack() as opening:
            worker = await asyncio.to_thread(self._make_worker, opening)
            stack.enter_context(opening.pop_all())
        return worker

    def _make_worker(self, opening: contextlib.ExitStack) -> Worker:
        outfit = self._outfit
        path = outfit.place.journal(self.partition, self._footing.epoch)
        opening.enter_context(Lock(path.with_suffix(".lock"), outfit.place.what(self.partition)))
        journal = Journal(path)
        opening.callback(journal.close)
        note_journal(outfit.place.directory, self.partition)
        task = outfit.task(self.partition)
        if self._before is not None and self._before.archive != outfit.place.archive:
            task = self._go_on_elsewhere(journal, self._before, task)
        worker = Worker(
            task,
            journal,
            Sink(self._layout.archive, open_files=outfit.open_files(), links=self._layout.seals),
            outfit.sealer,
            self._layout,
            outfit.open_inbox(self.partition),
            self.stop,
            outfit.patience(),
            self.lease,
            pulse=self.pulse,
            others=OtherPartitions(self.partition, outfit.sources),
        )
        opening.callback(worker.close)
        return worker

    def _go_on_elsewhere(self, journal: Journal, before: Claim, task: Task) -> Task:
        """Begin where the other archive ends. What it has of a source is asked for at once, not after half a minute."""
        at = journal.position
        if before.applied > at.applied:
            events.archived_elsewhere(
                partition=self.partition,
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
        return replace(task, hole_patience=min(task.hole_patience, self.lease.every))

    def _confirm(self) -> None:
        """Whether the archive knows of nobody who followed. Raises Fenced."""
        newest = self._outfit.place.newest_epoch(self.partition)
        if newest is not None and newest > self._footing.epoch:
            raise Fenced(f"partition {self.partition} was taken over: its epoch is {newest} now")

    # -- meanwhile, and behind ----------------------------------------------------------------------------------

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
        """Remove what epochs before this one left, once nobody can write it any more."""
        place, epoch = self._outfit.place, self._footing.epoch
        while epoch and not self.stop.asked:
            with contextlib.suppress(OSError):
                known, aside = (
                    worker.files,
                    worker.put_aside,
                )  # in this order: what is begun meanwhile is in one of them
                if await asyncio.to_thread(sweep, place, self.partition, epoch=epoch, known=known, put_aside=aside):
                    return
            await self.stop.nap(SWEEP_SECONDS)

    async def _release(self) -> None:
        try:
            await self.lease.release()
        except Fenced as error:
            events.fenced(partition=self.partition, error=str(error))
        except (Transient, Unavailable):  # it runs out by itself, and on this machine the lock is free at once
            events.lease_released(partition=self.partition)
        else:
            events.lease_released(partition=self.partition)
