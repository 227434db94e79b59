"""Moves hosts: store a new map, then wait. The state is on the server, so a kill at any line loses nothing.

    streams of the new partitions -> map (compare and set) -> hosts follow by themselves -> for each that is not needed:
    close its stream -> its collector archives and seals the rest -> delete it

A second run finds the state of the move and continues. Hosts that are away move when they come back: the journal of a
retired partition answers for what it archived of them.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from partitioner.move.cluster_state import ClusterState
from partitioner.topology import Sizing, Template
from shipper.control import PlaceReply
from shipper.errors import Unavailable
from shipper.partition_map import PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMove:
    """One host that changes its partition."""

    host: str
    before: int
    after: int
    bytes: int  #: that the streams hold of it


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """The effect of a new map on the known hosts."""

    before: PartitionMap
    after: PartitionMap
    weights: Mapping[str, int]  #: bytes in the streams, by host
    creates: tuple[int, ...]  #: partitions that need a stream
    retires: tuple[int, ...]  #: partitions whose streams are no longer needed

    @property
    def moves(self) -> list[HostMove]:
        """The hosts that move, the heaviest first."""
        found = [
            HostMove(
                host=host, before=self.before.partition_of(host), after=self.after.partition_of(host), bytes=weight
            )
            for host, weight in self.weights.items()
        ]
        return sorted((move for move in found if move.before != move.after), key=lambda move: (-move.bytes, move.host))

    @property
    def is_new(self) -> bool:
        """Whether the map has to be written: it differs from the desired one."""
        return self.after.version != self.before.version

    @property
    def changes(self) -> bool:
        """Whether anything is left to do, as far as the streams show."""
        return bool(self.is_new or self.creates or self.retires)


ROUND_SECONDS = 1.0
AWAY_SECONDS = 10.0
"""A host that does not reply for so long, in seconds, is away: the move does not wait for it."""


class MoveProgress(NamedTuple):
    """The progress of a move."""

    hosts: int
    moved: int
    away: tuple[str, ...]  #: hosts that do not answer
    retiring: tuple[int, ...]  #: partitions whose streams are there and not needed


Tell = Callable[[MoveProgress], None]


@dataclass(slots=True)
class HostTracker:
    """The known hosts, their partitions, and when each last replied."""

    names: set[str]
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, float] = field(default_factory=dict)
    at: dict[str, PlaceReply] = field(default_factory=dict)

    def note(self, places: Mapping[str, PlaceReply | None]) -> None:
        """Who answered now."""
        for host, place in places.items():
            if place is not None:
                self.heard[host], self.at[host] = time.monotonic(), place

    def is_away(self, host: str) -> bool:
        """Whether a host was silent for long enough."""
        return time.monotonic() - self.heard.get(host, self.began) >= AWAY_SECONDS


async def prepare(cluster: ClusterState, plan: MovePlan, template: Template, sizing: Sizing, *, revision: int) -> None:
    """Create the streams that are needed, then store the map. Raises Fatal: another process changes it concurrently."""
    await cluster.open_streams(sorted(plan.after.used), template, sizing)
    if plan.is_new:
        await cluster.store_map(plan.after, expected=revision)


async def follow(cluster: ClusterState, plan: MovePlan, *, until: float, tell: Tell) -> MoveProgress:
    """Wait until every host that replies is in its partition of the map; retire streams without a host.

    `until`: monotonic time. Raises Unavailable: it takes longer.
    """
    hosts = HostTracker(set(plan.weights))
    while True:
        streams = await cluster.streams()
        hosts.names |= await cluster.hosts(streams)
        hosts.note(await cluster.places(hosts.names))
        retiring = tuple(number for number in streams if number not in plan.after.used)
        left = [number for number in retiring if not await _retired(cluster, plan, hosts, number)]
        progress = _progress(plan, hosts, tuple(left))
        tell(progress)
        if not left and progress.moved + len(progress.away) == progress.hosts:
            return progress
        if time.monotonic() >= until:
            raise Unavailable(_late(progress), hint="nothing is lost or half done: run the command again to go on")
        await asyncio.sleep(ROUND_SECONDS)


async def _retired(cluster: ClusterState, plan: MovePlan, hosts: HostTracker, partition: int) -> bool:
    """One step towards a stream that is gone; whether it is."""
    if any(not _may_close(plan, hosts, host, partition) for host in hosts.names):
        return False
    last = await cluster.close_stream(partition)
    remains = await cluster.finish(partition)
    if remains is None or remains.through < last or remains.open:
        return False
    await cluster.delete_stream(partition)
    return True


def _may_close(plan: MovePlan, hosts: HostTracker, host: str, partition: int) -> bool:
    """Whether a host publishes in `partition` no more. One that is away finds it closed, and moves then."""
    if hosts.is_away(host):
        return True
    place = hosts.at.get(host)
    return place is not None and place.version >= plan.after.version and place.partition != partition


def _progress(plan: MovePlan, hosts: HostTracker, retiring: tuple[int, ...]) -> MoveProgress:
    away = tuple(sorted(host for host in hosts.names if hosts.is_away(host)))
    moved = sum(1 for host in hosts.names if host not in away and _is_home(plan, hosts.at.get(host), host))
    return MoveProgress(len(hosts.names), moved, away, retiring)


def _is_home(plan: MovePlan, place: PlaceReply | None, host: str) -> bool:
    if place is None or place.leaving or place.version < plan.after.version:
        return False
    return place.version > plan.after.version or place.partition == plan.after.partition_of(host)


def _late(progress: MoveProgress) -> str:
    waiting = progress.hosts - progress.moved - len(progress.away)
    parts = [f"{waiting} of {progress.hosts} hosts have not moved yet"] if waiting else []
    numbers = ", ".join(map(str, progress.retiring))
    parts += [f"partition {numbers} is not archived to its end, or no collector reads it"] if progress.retiring else []
    return "; ".join(parts) or "the move is not finished"


def outcome(plan: MovePlan, progress: MoveProgress) -> dict[str, Any]:
    """What was done, for programs."""
    return {
        "version": plan.after.version,
        "hosts": progress.hosts,
        "at_home": progress.moved,
        "away": list(progress.away),
        "retired": list(plan.retires),
    }
