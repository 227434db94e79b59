"""An even spread of leaders over nodes, as a pure plan: who leads what now, who could, and which few moves suffice."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Led(NamedTuple):
    """Something that one node leads: a stream, or a consumer on it."""

    stream: str
    consumer: str
    """Empty: the stream itself."""
    leader: str
    """Empty: it has none just now."""
    peers: frozenset[str]
    """Nodes that hold it and answer, the leader among them."""

    @property
    def title(self) -> str:
        """`stream LOGS_0`, `consumer collector on LOGS_0`."""
        return f"consumer {self.consumer} on {self.stream}" if self.consumer else f"stream {self.stream}"


class Move(NamedTuple):
    """One leadership that goes to another node."""

    led: Led
    to: str


def counts(led: Sequence[Led], nodes: Sequence[str]) -> dict[str, int]:
    """How many each node leads, nodes that lead nothing included."""
    found = Counter(each.leader for each in led if each.leader)
    return {node: found[node] for node in sorted({*nodes, *found})}


def moves(led: Sequence[Led], nodes: Sequence[str]) -> list[Move]:
    """The moves after which no node leads two more than another, as far as it can be had.

    A leadership can only go to a node that holds a copy, so the way from the fullest node to the emptiest may
    lead over others: it is looked for from the fullest, shortest first, until there is none.
    """
    leaders = {(each.stream, each.consumer): each.leader for each in led if each.leader}
    while way := _way(led, leaders, nodes):
        for each, to in way:
            leaders[each.stream, each.consumer] = to
    return [
        Move(each, leaders[each.stream, each.consumer])
        for each in led
        if each.leader and leaders[each.stream, each.consumer] != each.leader
    ]


def _way(led: Sequence[Led], leaders: Mapping[tuple[str, str], str], nodes: Sequence[str]) -> list[tuple[Led, str]]:
    """The shortest chain of moves that takes one from a full node to one with two fewer; empty: there is none."""
    load = Counter(dict.fromkeys(nodes, 0)) + Counter(leaders.values())
    totals = {node: load[node] for node in {*nodes, *load}}
    for fullest in sorted(totals, key=lambda node: (-totals[node], node)):
        reached: dict[str, tuple[str, Led]] = {}
        waiting = deque([fullest])
        while waiting:
            node = waiting.popleft()
            if totals[node] <= totals[fullest] - 2:
                return _chain(reached, node)
            for each in led:
                if leaders.get((each.stream, each.consumer)) != node:
                    continue
                for peer in sorted(each.peers - {fullest} - reached.keys()):
                    reached[peer] = (node, each)
                    waiting.append(peer)
    return []


def _chain(reached: Mapping[str, tuple[str, Led]], node: str) -> list[tuple[Led, str]]:
    chain: list[tuple[Led, str]] = []
    while node in reached:
        before, each = reached[node]
        chain.append((each, node))
        node = before
    return chain
