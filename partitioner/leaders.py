"""`fshipper partition balance`: spread leaders evenly over the nodes of a cluster, with few transfers."""

import asyncio
import json
import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from partitioner.arguments import with_admin
from partitioner.options import BalanceOptions
from shipper.commands import settings_of
from shipper.errors import Fatal, SessionLost
from shipper.jetstream.admin import Admin


class RaftGroup(NamedTuple):
    """A RAFT group of a cluster: a stream, or a consumer on it."""

    stream: str
    consumer: str  #: empty: the stream itself
    leader: str  #: empty: it has none just now
    peers: frozenset[str]  #: nodes that hold it and answer, the leader among them

    @property
    def title(self) -> str:
        """`stream LOGS_0`, `consumer collector on LOGS_0`."""
        return f"consumer {self.consumer} on {self.stream}" if self.consumer else f"stream {self.stream}"


class LeaderTransfer(NamedTuple):
    """The transfer of one leadership to another node."""

    led: RaftGroup
    to: str


def counts(led: Sequence[RaftGroup], nodes: Sequence[str]) -> dict[str, int]:
    """How many each node leads, nodes that lead nothing included."""
    found = Counter(each.leader for each in led if each.leader)
    return {node: found[node] for node in sorted({*nodes, *found})}


def moves(led: Sequence[RaftGroup], nodes: Sequence[str]) -> list[LeaderTransfer]:
    """The transfers after which no node leads two more than another, as far as possible.

    A leadership can only go to a node that holds a copy, so the way from the fullest node to the emptiest may
    lead over others: the search starts at the fullest, shortest first, until there is none.
    """
    leaders = {(each.stream, each.consumer): each.leader for each in led if each.leader}
    while way := _way(led, leaders, nodes):
        for each, to in way:
            leaders[each.stream, each.consumer] = to
    return [
        LeaderTransfer(each, leaders[each.stream, each.consumer])
        for each in led
        if each.leader and leaders[each.stream, each.consumer] != each.leader
    ]


def _way(
    led: Sequence[RaftGroup], leaders: Mapping[tuple[str, str], str], nodes: Sequence[str]
) -> list[tuple[RaftGroup, str]]:
    """The shortest chain of moves that takes one from a full node to one with two fewer; empty: there is none."""
    load = Counter(dict.fromkeys(nodes, 0)) + Counter(leaders.values())
    totals = {node: load[node] for node in {*nodes, *load}}
    for fullest in sorted(totals, key=lambda node: (-totals[node], node)):
        reached: dict[str, tuple[str, RaftGroup]] = {}
        waiting = deque([fullest])
        while waiting:
            node = waiting.popleft()
            if totals[node] <= totals[fullest] - 2:
                chain: list[tuple[RaftGroup, str]] = []
                while node in reached:
                    before, each = reached[node]
                    chain.append((each, node))
                    node = before
                return chain
            for each in led:
                if leaders.get((each.stream, each.consumer)) != node:
                    continue
                for peer in sorted(each.peers - {fullest} - reached.keys()):
                    reached[peer] = (node, each)
                    waiting.append(peer)
    return []


POLL_SECONDS = 0.2
MOVE_SECONDS = 15.0
"""For a new leader; an election takes some."""


class ClusterLeaders(NamedTuple):
    """The leaders of a cluster at one moment."""

    nodes: tuple[str, ...]
    streams: tuple[RaftGroup, ...]
    consumers: tuple[RaftGroup, ...]

    @property
    def moves(self) -> list[LeaderTransfer]:
        """What would spread both evenly."""
        return [*moves(self.streams, self.nodes), *moves(self.consumers, self.nodes)]


async def read_state(admin: Admin) -> ClusterLeaders:
    """Who leads what now. Raises Fatal: the server is not part of a cluster."""
    streams, consumers = [], []
    for info in await admin.streams():
        name = str(info["config"]["name"])
        streams.append(_led(name, "", info))
        consumers += [_led(name, str(each["name"]), each) for each in await admin.consumers(name)]
    if not any(each.leader for each in streams):
        raise Fatal("this server is not part of a cluster, so there are no leaders to spread")
    nodes = {node for each in streams for node in each.peers}
    return ClusterLeaders(tuple(sorted(nodes)), tuple(streams), tuple(consumers))


async def _transfer(admin: Admin, move: LeaderTransfer) -> None:
    """Transfer one leadership. Raises SessionLost: the node did not become the leader in time."""
    waited = 0.0
    while await _leader(admin, move.led) != move.to:
        if waited % 3 < POLL_SECONDS:  # requested again: the server drops a step-down during an election
            await admin.step_down(move.led.stream, move.led.consumer, preferred=move.to)
        if waited >= MOVE_SECONDS:
            raise SessionLost(f"{move.to} did not become the leader of {move.led.title} in {MOVE_SECONDS:.0f} s")
        await asyncio.sleep(POLL_SECONDS)
        waited += POLL_SECONDS


async def _leader(admin: Admin, led: RaftGroup) -> str:
    info = await (admin.consumer(led.stream, led.consumer) if led.consumer else admin.stream(led.stream))
    return str((info or {}).get("cluster", {}).get("leader") or "")


def _led(stream: str, consumer: str, info: dict[str, Any]) -> RaftGroup:
    cluster = info.get("cluster") or {}
    leader = str(cluster.get("leader") or "")
    peers = {str(each["name"]) for each in cluster.get("replicas") or () if not each.get("offline")}
    return RaftGroup(stream, consumer, leader, frozenset(peers | ({leader} if leader else set())))


def balance(options: BalanceOptions) -> None:
    """Spread the leaders, and print each transfer. If it is interrupted, run it again."""

    async def work(admin: Admin) -> tuple[ClusterLeaders, list[LeaderTransfer]]:
        found = await read_state(admin)
        planned = found.moves
        for move in planned:
            if not options.dry_run:
                await _transfer(admin, move)
            if not options.as_json:
                sys.stdout.write(f"{move.led.title}: {move.led.leader} -> {move.to}\n")
                sys.stdout.flush()
        return found if options.dry_run else await read_state(admin), planned

    found, moved = with_admin(settings_of(options), work)
    streams, consumers = counts(found.streams, found.nodes), counts(found.consumers, found.nodes)
    if options.as_json:
        transfers = [
            {"stream": each.led.stream, "consumer": each.led.consumer, "from": each.led.leader, "to": each.to}
            for each in moved
        ]
        shown = {"v": 1, "moves": transfers, "streams": streams, "consumers": consumers}
        sys.stdout.write(json.dumps(shown, indent=1) + "\n")
        return
    for title, led in (("streams:  ", streams), ("consumers:", consumers)):
        sys.stdout.write(f"{title} {', '.join(f'{node} leads {count}' for node, count in led.items())}\n")
    if not moved:
        sys.stdout.write("the leaders are spread evenly; nothing to do\n")
