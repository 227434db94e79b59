"""The main loop of a collector: renew its leases, find partitions, and take or release those that its share requires.

There is no leader: each collector computes the same assignment from the entries in the bucket. A disagreement of a
second does no harm, because a partition changes its owner only by its lease.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from consumer.archive.directory import try_lock
from consumer.cluster.locks import lock_identity, name_lock
from consumer.cluster.membership import FORKED_SECONDS, MAX_FORKED, RENEWALS, Member, Membership
from consumer.cluster.partition_owner import OwnedPartition, OwnedPartitions
from consumer.disk_space import DiskGauge
from shipper import events
from shipper.durable_files import Lock, LockHeld
from shipper.errors import ConfigError, Fatal, ShipperError, StreamMissing
from shipper.lifecycle import Pulse, Stop, notify
from shipper.periodic import Periodic
from shipper.retry import Patience, SessionRetry, Trouble

FIND_SECONDS = 10.0
NAMED_HOSTS = 5
NOTHING_TO_DRAIN = (
    "a collector runs and writes everything that arrives, so there is nothing to do;"
    " fshipper status shows how far it is, and it seals by itself. To drain manually, stop it first."
)


class ArchiveUsage(NamedTuple):
    """What a collector reports of its archive, apart from its partitions."""

    doubled_bytes: int = 0
    over_share: Sequence[str] = ()  #: hosts that hold more than their share, the largest first


class Collector:
    """One process that writes partitions, from its start to its end."""

    def __init__(
        self,
        membership: Membership,
        owned: OwnedPartitions,
        find: Callable[[], Awaitable[list[int]]],
        stop: Stop,
        patience: Patience,
        usage: Callable[[], ArchiveUsage] = ArchiveUsage,
    ) -> None:
        self._membership = membership
        self._owned = owned
        self.archived = owned.archived  #: totals of the workers that ended, if the run has an end
        self._place = owned.place
        self._me = owned.me
        self._find = find
        self._stop = stop
        self._patience = patience
        self._retry = SessionRetry("collector", patience, report=self._note)
        self._usage = usage
        self._disk = DiskGauge(owned.place.directory)
        self._find_due = 0.0
        self._rounds_without = 0  # a partition
        self._may_end = asyncio.Event()
        self._stands_by = self._has_shared = False
        self.partitions: list[int] = []  #: partitions that this collector can read
        self._known: list[int] = []  # that any collector can read: every one has to assign the same
        self._others: list[Member] = []
        self.trouble = "the other collectors are not known yet"
        self._pulse = Pulse("the share of the partitions")

    async def serve(self) -> None:
        """Write a share of the partitions until a stop is requested.

        Raises ShipperError: what ended the first partition that failed, or why nothing could begin.
        """
        self._stop.on_request(self._owned.stop)
        try:
            while not self._stop.requested and self._owned.failure is None:
                async with self._retry.attempt():
                    await self._round()
                    await self._share()
                    self.trouble = ""
                    self._patience.served()
                    self._patience.progress()
                self._pulse.turn(rest=self._membership.every)
                await self._stop.nap(self._membership.every)
        finally:
            self._pulse.end()
            await self._end()

    async def drain(self, before_the_end: Callable[[], Awaitable[None]]) -> None:
        """Take every partition, and end when all of them are read to their end.

        `before_the_end` runs while they are still held. Raises ShipperError: another collector that lives has one of
        them; or as `serve`.
        """
        self._stop.on_request(self._owned.stop)
        for owner in await self._claim_all():
            self._owned.start(owner, hold_until=self._may_end.wait)
        self._known, self._has_shared = self.partitions, True
        keeping = self._keep()
        await self._owned.idle()
        if self._owned.failure is None and not self._stop.requested:
            await before_the_end()
        self._may_end.set()
        keeping.cancel()
        await self._end()

    @property
    def held(self) -> list[OwnedPartition]:
        """What is written now."""
        return list(self._owned)

    def pulses(self) -> list[Pulse]:
        """The progress signals of everything that must keep running: the rounds, and each partition."""
        return [self._pulse, *(owner.pulse for owner in self._owned)]

    def sentence(self) -> str:
        """What the collector does now, in one line."""
        partitions = ",".join(str(owner.partition) for owner in self._owned)
        if self._stands_by:
            return f"stands by: others have all of the {len(self.partitions)} partitions"
        pending = sum(owner.pending for owner in self._owned)
        return f"writing partitions {partitions or 'none yet'}, {pending} messages to write"

    @property
    def is_sure(self) -> bool:
        """Whether no other collector can have taken a partition over yet, and no stop is requested."""
        return not self._stop.requested and all(owner.lease.is_sure for owner in self._owned)

    def is_retired(self, partition: int) -> bool:
        """Whether a partition is retired: the map has no host in it, and its stream is deleted."""
        return partition not in self.partitions and self._membership.is_unused(partition)

    def others_past(self, date: str) -> bool:
        """Whether the collectors of the other partitions of this archive have sealed all of `date`."""
        others = [number for number in self._known if number not in self._owned]
        return self._has_shared and all(self._is_past_elsewhere(number, date) for number in others)

    def _is_past_elsewhere(self, partition: int, date: str) -> bool:
        claim, _ = self._membership.claim(partition)
        if claim is None:
            return self._place.newest_epoch(partition) is None
        theirs = claim.archive != self._place.archive  # its owner does not seal files that are open in this archive
        return claim.past >= date and not (theirs and self._place.has_open_files(partition, date))

    def status(self) -> dict[str, Any]:
        """The state of the collector, as `fshipper status` shows it."""
        return {
            "collector": self._me.name,
            "partitions": [owner.status() for owner in sorted(self._owned, key=lambda owner: owner.partition)],
            "stands_by": self._stands_by,
            "others": sorted(member.name for member in self._others),
            "doubled_bytes": self._usage().doubled_bytes,
            "forked_hosts": self._forked(),
            "hosts_over_share": list(self._usage().over_share[:NAMED_HOSTS]),
        }

    def _forked(self) -> list[str]:
        """The hosts of which two producers recently continued one source, as many as claims contain."""
        since = time.time_ns() - int(FORKED_SECONDS * 1e9)
        workers = [owner.worker for owner in self._owned if owner.worker is not None]
        forked = (each.journal.forked for each in workers)
        return sorted({host for hosts in forked for host, at in hosts.items() if at >= since})[:MAX_FORKED]

    # -- rounds -------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        """Renew the held leases, then read the entries of the others."""
        await self._owned.renew()
        await self._find_partitions()
        disk = self._disk.read()
        self._me = replace(
            self._me,
            known=tuple(self.partitions),
            doubled=self._usage().doubled_bytes,
            disk_size=disk.size if disk else 0,
            disk_free=disk.free if disk else 0,
            lease_seconds=math.ceil(self._membership.lease),
        )
        await self._membership.put(self._membership.key_of(self._me), self._me)
        await self._membership.read_all(self._known or self.partitions)
        self._others = [member for member in self._membership.members() if self._lives(member)]
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
            found = self.partitions  # the workers report streams that are missing
            if isinstance(error, ConfigError):
                events.streams_refused(error=str(error))
        self._find_due = time.monotonic() + FIND_SECONDS
        new = sorted(set(found) - set(self.partitions))
        if not self.partitions:
            events.collector_started(directory=str(self._place.directory), partitions=found)
        elif new:
            events.streams_found(partitions=new)
        self.partitions = found
        await self._membership.forget_dead()

    async def _share(self) -> None:
        wanted = assign(self._known, [*self._others, self._me], self._holders())
        lives = {member.instance for member in self._others}
        for owner in self._owned:
            if self.is_retired(owner.partition) or wanted.get(owner.partition) in lives:
                owner.stop.request()
        for partition, instance in sorted(wanted.items()):
            mine = instance == self._me.instance and partition in self.partitions
            if mine and partition not in self._owned and not self._stop.requested:
                await self._take(partition)
        self._has_shared = True
        self._log_standby(wanted)

    async def _take(self, partition: int) -> None:
        try:
            owner = await self._owned.claim(partition)
        except Fatal as error:
            if not self._has_shared:  # at the start the error ends the program
                raise
            self._me = replace(self._me, refused=(*self._me.refused, partition))
            events.partition_refused(partition=partition, error=str(error))
            return
        if owner is not None and self._stop.requested:
            await owner.give_up()
        elif owner is not None:
            self._owned.start(owner)

    def _holders(self) -> dict[int, str]:
        held = {owner.partition: self._me.instance for owner in self._owned}
        claims = {number: self._membership.claim(number)[0] for number in self._known}
        others = {number: claim.instance for number, claim in claims.items() if claim and not claim.released}
        return others | held

    def _lives(self, member: Member) -> bool:
        """Whether a member is alive: on the same kernel the lock on its name shows it, else the age of its entry."""
        if (member.name, member.archive) == (self._me.name, self._me.archive):
            return False  # this collector, or an earlier one with its name
        path = name_lock(self._place.directory, member.name)
        if member.archive != self._place.archive or not path.exists() or member.lock != lock_identity(path):
            return True
        free = try_lock(path, member.name)
        if free is not None:
            free.close()
        return free is None

    def _log_standby(self, wanted: Mapping[int, str]) -> None:
        self._rounds_without = 0 if len(self._owned) else self._rounds_without + 1
        stands_by = self._me.instance not in wanted.values() or self._rounds_without > RENEWALS
        if stands_by and not self._stands_by:
            events.standing_by(partitions=len(self.partitions))
            notify("READY=1")
        self._stands_by = stands_by

    def _note(self, error: Trouble, delay: float) -> None:
        self.trouble = str(error)
        events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)

    # -- draining, and the end ----------------------------------------------------------------------------------

    async def _claim_all(self) -> list[OwnedPartition]:
        """Take every partition. An owner on another machine or of another archive may be alive: wait for its lease."""
        claimed: dict[int, OwnedPartition] = {}
        try:
            while not self._stop.requested:
                async with self._retry.attempt():
                    await self._poll_and_claim(claimed)
                if self.partitions and len(claimed) == len(self.partitions):
                    taken, claimed = claimed, {}
                    return list(taken.values())
                await self._stop.nap(self._membership.every)
            return []
        finally:
            await asyncio.gather(*(owner.give_up() for owner in claimed.values()))

    async def _poll_and_claim(self, claimed: dict[int, OwnedPartition]) -> None:
        for held in claimed.values():
            await held.lease.prove()
        await self._find_partitions()
        await self._membership.read_all(self.partitions)
        self._refuse_second_archive()
        for partition in self.partitions:
            if partition not in claimed:
                if (owner := await self._owned.claim(partition)) is not None:
                    claimed[partition] = owner
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
            claim, _ = self._membership.claim(partition)
            if claim is not None and claim.archive != place.archive and claim.applied:
                where = claim.directory or "another directory"
                raise ConfigError(
                    f"the archive of partition {partition} is {where} (collector {claim.owner} on {claim.host}),"
                    f" and {place.directory} is a new one: it would hold a part of each file only",
                    hint=f"set SHIPPER_DIRECTORY (--directory) to {where}; to begin a second archive on purpose, run"
                    " fshipper consume without --drain",
                )

    def _check_holder(self, partition: int) -> None:
        """Raises Fatal, ShipperError: the owner of the partition is alive."""
        place = self._place
        try:
            with Lock(place.lock(partition, place.newest_epoch(partition) or 0), place.what(partition)):
                pass
        except LockHeld as held:
            hint = f"{NOTHING_TO_DRAIN} ps -fp {held.holder.pid} shows it." if held.holder.pid else NOTHING_TO_DRAIN
            if "--drain" in held.holder.command.split():
                hint = "another drain runs; it ends by itself and writes everything that is in the streams: wait for it"
            raise ShipperError(str(held), hint=hint) from None
        claim, _ = self._membership.claim(partition)
        if claim is not None and self._membership.renewed(partition):
            raise ShipperError(
                f"partition {partition} is written by collector {claim.owner} (process {claim.pid} on {claim.host})",
                hint=NOTHING_TO_DRAIN,
            )

    def _keep(self) -> asyncio.Task[None]:
        """Renew the leases until the task is cancelled."""

        async def renew() -> None:
            try:
                await self._owned.renew()
            except ShipperError as error:
                self.trouble = str(error)  # the workers wait for their leases, with their own time limit

        return asyncio.create_task(Periodic("renew the leases", renew, lambda: self._membership.every).repeat())

    async def _end(self) -> None:
        """Release every partition, and remove the entry of this member."""
        self._may_end.set()
        self._owned.stop()
        keeping = self._keep()
        await self._owned.ended()
        keeping.cancel()
        with contextlib.suppress(ShipperError):  # a collector that does not receive it waits until the lease expires
            await self._membership.put(self._membership.key_of(self._me), replace(self._me, left=True))
        await self._membership.close()
        if self.partitions:
            events.drained(program="collector", left=self._owned.left)
        else:
            events.ended_without_session(program="collector", reason=self.trouble)
        if self._owned.failure is not None:
            raise self._owned.failure


def assign(partitions: Iterable[int], members: Collection[Member], holders: Mapping[int, str]) -> dict[int, str]:
    """The instance that should have each partition. A partition that no member takes is not in the result.

    Members that take the same partitions have numbers of partitions that differ by at most one. The holder of a
    partition keeps it unless the numbers differ by more, so a member that joins or leaves moves only its own share.
    """
    ordered = sorted(members, key=lambda member: (member.name, member.instance))
    shares: dict[str, list[int]] = {member.instance: [] for member in ordered}
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


def _even_out(shares: dict[str, list[int]], takers: Mapping[str, Member]) -> None:
    """Move one partition at a time, the highest that can be moved, to a member from one that has at least two more."""
    while True:
        by_size = sorted(shares, key=lambda instance: -len(shares[instance]))
        moves = (
            (shares[giver], shares[getter], partition)
            for giver in by_size
            for getter in reversed(by_size)
            if len(shares[giver]) > len(shares[getter]) + 1
            for partition in sorted(filter(takers[getter].takes, shares[giver]), reverse=True)
        )
        move = next(moves, None)
        if move is None:
            return
        larger, smaller, partition = move
        larger.remove(partition)
        smaller.append(partition)
