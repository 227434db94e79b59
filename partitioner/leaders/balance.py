"""Looks who leads what on a cluster, and asks leaders to step down for another node."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from partitioner.leaders.spread import Led, Move, counts, moves
from shipper.errors import Fatal, SessionLost
from shipper.jetstream.admin import Admin
from shipper.lifecycle import Stop

LOOK_SECONDS = 0.2
MOVE_SECONDS = 15.0
"""For a new leader; an election takes some."""


class Leaders(NamedTuple):
    """A cluster at one moment."""

    nodes: tuple[str, ...]
    streams: tuple[Led, ...]
    consumers: tuple[Led, ...]

    @property
    def moves(self) -> list[Move]:
        """What would spread both evenly."""
        return [*moves(self.streams, self.nodes), *moves(self.consumers, self.nodes)]

    def counts(self, led: Sequence[Led]) -> dict[str, int]:
        """How many of `led` each node leads."""
        return counts(led, self.nodes)


async def look(admin: Admin) -> Leaders:
    """Who leads what now.

    Raises:
        Fatal: the server is not part of a cluster.
    """
    streams, consumers = [], []
    for info in await admin.streams():
        name = str(info["config"]["name"])
        streams.append(_led(name, "", info))
        consumers += [_led(name, str(each["name"]), each) for each in await admin.consumers(name)]
    if not any(each.leader for each in streams):
        raise Fatal("this server is not part of a cluster, so there are no leaders to spread")
    nodes = {node for each in streams for node in each.peers}
    return Leaders(tuple(sorted(nodes)), tuple(streams), tuple(consumers))


async def balance(admin: Admin, stop: Stop, done: Callable[[Move], None]) -> Leaders:
    """Make it even; `done` is told of each move. Interrupted anywhere, doing it again goes on.

    Raises:
        SessionLost: a node did not become the leader in time.
    """
    found = await look(admin)
    for move in found.moves:
        if stop.asked:
            break
        await _hand_over(admin, move, stop)
        done(move)
    return await look(admin)


async def _hand_over(admin: Admin, move: Move, stop: Stop) -> None:
    waited = 0.0
    while await _leader(admin, move.led) != move.to:
        if waited % 3 < LOOK_SECONDS:  # asked again: a stepping down in the middle of an election is forgotten
            await admin.step_down(move.led.stream, move.led.consumer, preferred=move.to)
        if waited >= MOVE_SECONDS or stop.asked:
            raise SessionLost(f"{move.to} did not become the leader of {move.led.title} in {MOVE_SECONDS:.0f} s")
        await stop.nap(LOOK_SECONDS)
        waited += LOOK_SECONDS


async def _leader(admin: Admin, led: Led) -> str:
    info = await (admin.consumer(led.stream, led.consumer) if led.consumer else admin.stream(led.stream))
    return str((info or {}).get("cluster", {}).get("leader") or "")


def _led(stream: str, consumer: str, info: dict[str, Any]) -> Led:
    cluster = info.get("cluster") or {}
    leader = str(cluster.get("leader") or "")
    peers = {str(each["name"]) for each in cluster.get("replicas") or () if not each.get("offline")}
    return Led(stream, consumer, leader, frozenset(peers | ({leader} if leader else set())))
