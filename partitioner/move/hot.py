"""Hosts that are too big for the partition they share, and the overrides that would help. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from partitioner.move.plan import loads
from shipper.partition_map import PartitionMap

HOT_SHARE = 0.5
"""Of the bytes that a partition would have if all had the same: a host with more makes its partition the fullest."""
LEAST_SKEW = 1.2
"""Below it nobody is proposed to move."""
WORTH_IT = 0.9
"""Of what the fuller partition has now: a move that leaves more is not worth its pause."""
MOST_HOT = 10


class Hot(NamedTuple):
    """A host that has much of its partition, and where it would lie better; the same partition: nowhere."""

    host: str
    partition: int
    bytes: int
    share: float  #: of all bytes of its partition
    proposed: int


def hot_hosts(known: PartitionMap, weights: Mapping[str, int]) -> list[Hot]:
    """The hot hosts, the heaviest first, each with the emptiest partition as it is behind the moves before."""
    sums = loads(known, weights)
    mean = sum(sums.values()) / len(sums)
    found = []
    for host, weight in sorted(weights.items(), key=lambda each: (-each[1], each[0]))[:MOST_HOT]:
        home = known.partition_of(host)
        if not mean or weight < HOT_SHARE * mean or home not in sums:
            break
        share = weight / sums[home] if sums[home] else 1.0
        proposed = _better(sums, home, weight, mean)
        if proposed != home:
            sums[home] -= weight
            sums[proposed] += weight
        found.append(Hot(host, home, weight, share, proposed))
    return found


def _better(sums: Mapping[int, int], home: int, weight: int, mean: float) -> int:
    """The emptiest partition, if that makes the fuller one of the two clearly emptier than the host's is now."""
    emptiest = min(sums, key=lambda number: (sums[number], number))
    is_too_full = sums[home] > LEAST_SKEW * mean
    return emptiest if is_too_full and sums[emptiest] + weight < WORTH_IT * sums[home] else home


def proposal(hot: Sequence[Hot], known: PartitionMap) -> str:
    """The command that carries out what is proposed; empty: nothing is."""
    moves = [each for each in hot if each.proposed != each.partition]
    if not moves:
        return ""
    overrides = " ".join(f"--override {each.host}={each.proposed}" for each in moves)
    return f"fshipper partition move --partitions {known.partitions} {overrides}"
