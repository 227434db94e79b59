"""Claims partitions, keeps their leases, and gives them back: what a collector holds just now."""

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any

from consumer.archive import check_journal
from consumer.sharing.entries import Claim, Member
from consumer.sharing.footing import Footing, find_footing
from consumer.sharing.holding import Holding, Lasting, Outfit
from consumer.sharing.lease import Lease
from consumer.sharing.registry import Registry
from consumer.sharing.watch import clock
from consumer.writing.stage import Archived
from shipper import events
from shipper.errors import Fenced, ShipperError
from shipper.files import Holder

NOTHING_TO_DRAIN = (
    "a collector runs and writes everything that arrives, so there is nothing to do;"
    " fshipper status shows how far it is, and it seals by itself. To drain by hand, stop it first."
)


class Holdings:
    """The partitions of one collector. Owned by its loop."""

    def __init__(self, outfit: Outfit, registry: Registry, me: Member) -> None:
        self._outfit = outfit
        self._registry = registry
        self._me = me
        self._running: dict[int, tuple[Holding, asyncio.Task[None]]] = {}
        self.failure: BaseException | None = None  #: of the first partition that failed
        self.archived = Archived()  #: by those that ended
        self.left = 0  #: messages that were in the streams behind what was written

    def __iter__(self) -> Iterator[Holding]:
        return iter([holding for holding, _ in list(self._running.values())])

    def __contains__(self, partition: int) -> bool:
        return partition in self._running

    def __len__(self) -> int:
        return len(self._running)

    async def claim(self, partition: int) -> Holding | None:
        """The partition, if it is free now; nothing is written before `start`.

        Raises:
            SessionLost: the bucket cannot be asked. Fatal: the partition's journal is missing here.
        """
        before, revision = self._registry.claim(partition)
        silent = self._registry.silent(partition)
        footing = find_footing(self._outfit.place, partition, before, expired=self._registry.expired(partition))
        if footing is None:
            return None
        try:
            self._check_journal(partition, footing)
            claim = self._claim(before, footing.epoch, footing.lock)
            sent = clock()
            taken = await self._registry.put(self._registry.lease_key(partition), claim, expected=revision)
        except BaseException:
            footing.locks.close()
            raise
        if taken is None:  # another one was faster
            footing.locks.close()
            return None
        lease = Lease(self._registry, partition, claim, taken, sent=sent)
        previous = before.owner if before is not None and not before.released else ""
        events.lease_taken(partition=partition, epoch=footing.epoch, previous=previous, silent=silent)
        return Holding(self._outfit, partition, footing, lease, before)

    def start(self, holding: Holding, lasting: Lasting | None = None) -> None:
        """Write the partition from now on; with its work done it is held until `lasting` returns."""
        self._running[holding.partition] = holding, asyncio.create_task(self._run(holding, lasting))

    async def renew(self) -> None:
        """Renew every lease. Raises SessionLost: some could not be."""
        leases = [(holding, holding.lease.prove()) for holding in self]
        outcomes = await asyncio.gather(*(renewal for _, renewal in leases), return_exceptions=True)
        for (holding, _), outcome in zip(leases, outcomes, strict=True):
            if isinstance(outcome, Fenced):
                holding.stop.ask()
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Fenced):
                raise outcome

    def release(self, partition: int) -> None:
        """Finish what is begun, then give the partition back."""
        self._running[partition][0].stop.ask()

    def stop(self) -> None:
        """Release all."""
        for holding in self:
            holding.stop.ask()

    async def ended(self) -> None:
        """Return when nothing is written any more."""
        while self._running:
            await asyncio.wait([task for _, task in self._running.values()])

    def status(self) -> list[dict[str, Any]]:
        """What each does now, for people and scripts."""
        return [holding.status() for holding in sorted(self, key=lambda holding: holding.partition)]

    async def idle(self) -> None:
        """Return when every partition's work is done, though some may be held still."""
        while self.failure is None and any(not holding.done.is_set() for holding in self):
            waiting = [asyncio.create_task(holding.done.wait()) for holding in self]
            await asyncio.wait(waiting)

    async def _run(self, holding: Holding, lasting: Lasting | None) -> None:
        try:
            await holding.run(lasting)
        except BaseException as error:  # noqa: BLE001 - the first that fails ends the program, with its error
            self.failure = self.failure or error
            self.stop()
        finally:
            self.left += holding.pending
            if holding.worker is not None:
                self.archived.add(holding.worker.archived)
            del self._running[holding.partition]

    def _check_journal(self, partition: int, footing: Footing) -> None:
        place, epoch = self._outfit.place, footing.epoch if footing.copied is None else footing.copied
        check_journal(place.directory, place.journal(partition, epoch), partition)

    def _claim(self, before: Claim | None, epoch: int, lock: str) -> Claim:
        """What the bucket is to say. How far the one before came is kept until more is known."""
        me = self._me
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
            directory=str(self._outfit.place.directory.absolute()),
            past=said.past if said.archive == me.archive else "",
        )


def this_process(*, name: str, lock: str, archive: str, partitions: tuple[int, ...]) -> Member:
    """How this collector calls itself."""
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


def refuse_locked(text: str, holder: Holder) -> ShipperError:
    """Why a partition cannot be drained now: another process writes this archive."""
    if "--drain" in holder.command.split():
        hint = "another drain runs; it ends by itself and writes everything that is in the streams: wait for it"
        return ShipperError(text, hint=hint)
    see = f" ps -fp {holder.pid} shows it." if holder.pid else ""
    return ShipperError(text, hint=NOTHING_TO_DRAIN + see)
