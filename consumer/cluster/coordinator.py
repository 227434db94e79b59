"""A collector among others: it tells that it lives, takes its share, and gives back what is another's share.

Nobody leads: each computes the same spread from what the bucket says. A disagreement of a second does no harm, because
a partition changes hands only by its lease.

Which collector should have which partition. Pure: the same values give every collector the same answer.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from consumer.cluster.locks import Place, lock_identity, name_lock, try_lock
from consumer.cluster.membership import FORKED_SECONDS, MAX_FORKED, RENEWALS, Member, Registry
from consumer.cluster.partition_owner import Holding, Holdings, refuse_held, refuse_locked
from consumer.commit.applier import Archived
from shipper import events
from shipper.durable_files import Lock, LockHeld
from shipper.errors import ConfigError, Fatal, ShipperError, StreamMissing
from shipper.lifecycle import Stop, notify
from shipper.retry import Patience
from shipper.session_retry import SessionRetry, Trouble
from shipper.watchdog import Pulse


def spread(partitions: Iterable[int], members: Collection[Member], holders: Mapping[int, str]) -> dict[int, str]:
    """The instance that should have each partition; nobody where no member takes it.

    Members that take the same partitions end up with at most one more than another. Whoever holds a partition keeps it
    unless that evens the numbers out, so that one who comes or goes moves no more than its own share.
    """
    shares: dict[str, list[int]] = {member.instance: [] for member in sorted(members, key=_order)}
    takers = {member.instance: member for member in members}
    free: list[tuple[int, int, list[str]]] = []
    for partition in sorted(set(partitions)):
        able = [instance for instance in shares if takers[instance].takes(partition)]
        holder = holders.get(partition)
        if holder in able:
            shares[holder].append(partition)
        elif able:
            free.append((len(able), partition, able))
    for _, partition, able in sorted(free):  # the most restricted first
        min((shares[instance] for instance in able), key=len).append(partition)
    _even_out(shares, takers)
    return {partition: instance for instance, share in shares.items() for partition in share}


def _order(member: Member) -> tuple[str, str]:
    return member.name, member.instance


def _even_out(shares: dict[str, list[int]], takers: Mapping[str, Member]) -> None:
    """Move one partition after the other from who has two more than another to that one."""
    while True:
        by_size = sorted(shares, key=lambda instance: -len(shares[instance]))
        moved = any(
            _move(shares[giver], shares[getter], takers[getter])
            for giver in by_size
            for getter in reversed(by_size)
            if len(shares[giver]) > len(shares[getter]) + 1
        )
        if not moved:
            return


def _move(giver: list[int], getter: list[int], taker: Member) -> bool:
    """Hand the highest partition that `taker` may have to it."""
    partition = max(filter(taker.takes, giver), default=None)
    if partition is None:
        return False
    giver.remove(partition)
    getter.append(partition)
    return True


FIND_SECONDS = 10.0
NAMED_HOSTS = 5

Find = Callable[[], Awaitable[list[int]]]


class Collector:
    """One process that writes partitions, from its start to its end."""

    def __init__(
        self, place: Place, registry: Registry, holdings: Holdings, me: Member, find: Find, stop: Stop,
        patience: Patience, doubled: Callable[[], int] = lambda: 0,
        over_share: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:  # fmt: skip
        self._place = place
        self._registry = registry
        self._holdings = holdings
        self._me = me
        self._find = find
        self._stop = stop
        self._patience = patience
        self._retry = SessionRetry("collector", patience, report=self._note)
        self._doubled = doubled
        self._over_share = over_share
        self._find_due = 0.0
        self._rounds_without = 0  # a partition
        self._may_end = asyncio.Event()
        self._stands_by = self._has_shared = False
        self.partitions: list[int] = []  #: that there are for this collector
        self._known: list[int] = []  # that there are for anybody: all have to spread the same
        self._others: list[Member] = []
        self.trouble = "it has not asked yet who else is there"
        self._pulse = Pulse("the share of the partitions")

    async def serve(self) -> None:
        """Have a share until somebody asks to stop.

        Raises:
            ShipperError: what ended the first partition that failed, or why nothing could begin.
        """
        self._stop.on_ask(self._holdings.stop)
        try:
            while not self._stop.asked and self._holdings.failure is None:
                async with self._retry.attempt():
                    await self._round()
                    await self._share()
                    self.trouble = ""
                    self._patience.served()
                    self._patience.progress()
                self._pulse.turn(rest=self._registry.every)
                await self._stop.nap(self._registry.every)
        finally:
            self._pulse.end()
            await self._end()

    async def drain(self, before_the_end: Callable[[], Awaitable[None]]) -> None:
        """Take every partition, and end when all of them are read to their end.

        `before_the_end` is done while they are still held.

        Raises:
            ShipperError: another collector that lives has one of them; or as `serve`.
        """
        self._stop.on_ask(self._holdings.stop)
        for holding in await self._claim_all():
            self._holdings.start(holding, lasting=self._until_all_are_done)
        self._known, self._has_shared = self.partitions, True
        keeping = asyncio.create_task(self._keep())
        await self._holdings.idle()
        if self._holdings.failure is None and not self._stop.asked:
            await before_the_end()
        self._may_end.set()
        keeping.cancel()
        await self._end()

    async def _until_all_are_done(self) -> None:
        await self._may_end.wait()

    @property
    def held(self) -> list[Holding]:
        """What is written now."""
        return list(self._holdings)

    def pulses(self) -> list[Pulse]:
        """Of what has to go on: the rounds, and each partition."""
        return [self._pulse, *(holding.pulse for holding in self._holdings)]

    def sentence(self) -> str:
        """What the collector does now, in a line for people."""
        partitions = ",".join(str(holding.partition) for holding in self._holdings)
        if self._stands_by:
            return f"stands by: others have all of the {len(self.partitions)} partitions"
        behind = sum(holding.pending for holding in self._holdings)
        return f"writing partitions {partitions or 'none yet'}, {behind} messages behind"

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have taken anything over yet, and nobody asks to stop."""
        return not self._stop.asked and all(holding.lease.is_sure for holding in self._holdings)

    def is_retired(self, partition: int) -> bool:
        """Whether a partition is no more: the map has no host in it, and its stream is gone."""
        return partition not in self.partitions and self._registry.is_unused(partition)

    def others_past(self, date: str) -> bool:
        """Whether the collectors of the other partitions of this archive have sealed all of `date`."""
        others = [number for number in self._known if number not in self._holdings]
        return self._has_shared and all(self._is_past_elsewhere(number, date) for number in others)

    def _is_past_elsewhere(self, partition: int, date: str) -> bool:
        claim, _ = self._registry.claim(partition)
        if claim is None:
            return self._place.newest_epoch(partition) is None
        theirs = claim.archive != self._place.archive  # then nobody seals here what is open here
        return claim.past >= date and not (theirs and self._place.has_open_files(partition, date))

    @property
    def archived(self) -> Archived:
        """What the workers that ended have made durable, where the run has an end."""
        return self._holdings.archived

    def status(self) -> dict[str, Any]:
        """What the collector does now, for people and scripts."""
        return {
            "collector": self._me.name,
            "partitions": self._holdings.status(),
            "stands_by": self._stands_by,
            "others": sorted(member.name for member in self._others),
            "doubled_bytes": self._doubled(),
            "forked_hosts": self._forked(),
            "hosts_over_share": list(self._over_share()[:NAMED_HOSTS]),
        }

    def _forked(self) -> list[str]:
        """The hosts of which two producers continued one source lately, as many as others are told of."""
        since = time.time_ns() - int(FORKED_SECONDS * 1e9)
        workers = [holding.worker for holding in self._holdings if holding.worker is not None]
        return sorted({host for each in workers for host, at in each.forked.items() if at >= since})[:MAX_FORKED]

    # -- rounds -------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        """Renew what is held first; then look what the others do."""
        await self._holdings.renew()
        await self._find_partitions()
        self._me = replace(self._me, known=tuple(self.partitions), doubled=self._doubled())
        await self._registry.put(self._registry.key_of(self._me), self._me)
        await self._registry.look(self._known or self.partitions)
        self._others = [member for member in self._registry.members() if self._lives(member)]
        self._known = sorted(set(self.partitions).union(*(member.known for member in self._others)))

    async def _find_partitions(self) -> None:
        """Streams that were added are found while the collector runs."""
        if time.monotonic() < self._find_due:
            return
        try:
            found = await self._find()
        except (StreamMissing, ConfigError) as error:
            if not self.partitions:
                raise
            found = self.partitions  # those that are missing are missed by who reads them
            if isinstance(error, ConfigError):
                events.streams_refused(error=str(error))
        self._find_due = time.monotonic() + FIND_SECONDS
        new = sorted(set(found) - set(self.partitions))
        if not self.partitions:
            events.collector_started(directory=str(self._place.directory), partitions=found)
        elif new:
            events.streams_found(partitions=new)
        self.partitions = found
        await self._registry.forget_dead()

    async def _share(self) -> None:
        wanted = spread(self._known, [*self._others, self._me], self._holders())
        lives = {member.instance for member in self._others}
        for holding in self._holdings:
            if self.is_retired(holding.partition):
                holding.stop.ask()
            if wanted.get(holding.partition) in lives:
                holding.stop.ask()
        for partition, instance in sorted(wanted.items()):
            mine = instance == self._me.instance and partition in self.partitions
            if mine and partition not in self._holdings and not self._stop.asked:
                await self._take(partition)
        self._has_shared = True
        self._tell_standing_by(wanted)

    async def _take(self, partition: int) -> None:
        try:
            holding = await self._holdings.claim(partition)
        except Fatal as error:
            if not self._has_shared:  # at the start a person is near
                raise
            self._me = replace(self._me, refused=(*self._me.refused, partition))
            events.partition_refused(partition=partition, error=str(error))
            return
        if holding is not None and self._stop.asked:
            await holding.give_up()
        elif holding is not None:
            self._holdings.start(holding)

    def _holders(self) -> dict[int, str]:
        held = {holding.partition: self._me.instance for holding in self._holdings}
        claims = {number: self._registry.claim(number)[0] for number in self._known}
        others = {number: claim.instance for number, claim in claims.items() if claim and not claim.released}
        return others | held

    def _lives(self, member: Member) -> bool:
        """On one kernel the lock on its name tells at once that a collector is dead, elsewhere its silence does."""
        if (member.name, member.archive) == (self._me.name, self._me.archive):
            return False  # this one, or who had its name before
        path = name_lock(self._place.directory, member.name)
        if member.archive != self._place.archive or not path.exists() or member.lock != lock_identity(path):
            return True
        free = try_lock(path, member.name)
        if free is not None:
            free.close()
        return free is None

    def _tell_standing_by(self, wanted: Mapping[int, str]) -> None:
        self._rounds_without = 0 if len(self._holdings) else self._rounds_without + 1
        stands_by = self._me.instance not in wanted.values() or self._rounds_without > RENEWALS
        if stands_by and not self._stands_by:
            events.standing_by(partitions=len(self.partitions))
            notify("READY=1")
        self._stands_by = stands_by

    def _note(self, error: Trouble, delay: float) -> None:
        self.trouble = str(error)
        events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)

    # -- draining, and the end ----------------------------------------------------------------------------------

    async def _claim_all(self) -> list[Holding]:
        """Every partition. Who was on another machine, or has another archive, may be alive: that takes a lease."""
        claimed: dict[int, Holding] = {}
        try:
            while not self._stop.asked:
                async with self._retry.attempt():
                    await self._look_and_claim(claimed)
                if self.partitions and len(claimed) == len(self.partitions):
                    return list(claimed.values())
                await self._stop.nap(self._registry.every)
        except BaseException:
            await _give_up(claimed.values())
            raise
        await _give_up(claimed.values())
        return []

    async def _look_and_claim(self, claimed: dict[int, Holding]) -> None:
        for held in claimed.values():
            await held.lease.prove()
        await self._find_partitions()
        await self._registry.look(self.partitions)
        self._refuse_second_archive()
        for partition in self.partitions:
            if partition not in claimed:
                if (holding := await self._holdings.claim(partition)) is not None:
                    claimed[partition] = holding
                else:
                    self._check_holder(partition)

    def _refuse_second_archive(self) -> None:
        """Raises ConfigError: another archive has what was in the streams, and this one has nothing yet.

        That is a wrong directory. A collector that is to share the streams from a new archive runs without --drain.
        """
        place = self._place
        if any(place.newest_epoch(partition) is not None for partition in self.partitions):
            return
        for partition in self.partitions:
            claim, _ = self._registry.claim(partition)
            if claim is not None and claim.archive != place.archive and claim.applied:
                where = claim.directory or "another directory"
                raise ConfigError(
                    f"the archive of partition {partition} is {where} (collector {claim.owner} on {claim.host}),"
                    f" and {place.directory} is a new one: it would hold a part of each file only",
                    hint=f"set SHIPPER_DIRECTORY (--directory) to {where}; to begin a second archive on purpose, run"
                    " fshipper consume without --drain",
                )

    def _check_holder(self, partition: int) -> None:
        """Raises Fatal, ShipperError: whoever has the partition lives."""
        place = self._place
        try:
            with Lock(place.lock(partition, place.newest_epoch(partition) or 0), place.what(partition)):
                pass
        except LockHeld as held:
            raise refuse_locked(str(held), held.holder) from None
        claim, _ = self._registry.claim(partition)
        if claim is not None and self._registry.renewed(partition):
            raise refuse_held(partition, claim)

    async def _keep(self) -> None:
        while True:
            try:
                await self._holdings.renew()
            except ShipperError as error:
                self.trouble = str(error)  # the workers wait for their leases, and have patience of their own
            await asyncio.sleep(self._registry.every)

    async def _end(self) -> None:
        """Give everything back, and leave."""
        self._may_end.set()
        self._holdings.stop()
        keeping = asyncio.create_task(self._keep())
        await self._holdings.ended()
        keeping.cancel()
        with contextlib.suppress(ShipperError):  # who does not hear it waits for the time of a lease
            await self._registry.put(self._registry.key_of(self._me), replace(self._me, left=True))
        await self._registry.close()
        events.drained(program="collector", left=self._holdings.left)
        if self._holdings.failure is not None:
            raise self._holdings.failure


async def _give_up(holdings: Iterable[Holding]) -> None:
    for holding in holdings:
        await holding.give_up()
