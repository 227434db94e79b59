"""How many bytes each host has in which partition; hosts that are too big for theirs, and the overrides that help."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.text import Text

from partitioner.move.cluster_state import ClusterState
from shipper.jetstream.connection import MONITOR_INBOX, connect_as
from shipper.jetstream.stream_status import Status
from shipper.partition_map import PartitionMap, static
from shipper.settings import Settings
from shipper.table_printer import fitted, print_lines, standard_output, texts
from shipper.units import format_bytes

HOT_SHARE = 0.5
"""Of the bytes that a partition would have if all had the same: a host with more makes its partition the fullest."""
LEAST_SKEW = 1.2
"""Below it no move is proposed."""
WORTH_IT = 0.9
"""Of what the fuller partition has now: a move that leaves more is not worth its pause."""
MOST_HOSTS = 10


def loads(known: PartitionMap, weights: Mapping[str, int]) -> dict[int, int]:
    """Bytes by partition, of every partition that the map uses."""
    sums: Counter[int] = Counter(dict.fromkeys(known.used, 0))
    for host, weight in weights.items():
        sums[known.partition_of(host)] += weight
    return dict(sorted(sums.items()))


def skew(sums: Iterable[int]) -> float:
    """How many times the mean the fullest partition has: 1.0 is even; 1.0 too where there is nothing."""
    values = list(sums)
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


class HotHost(NamedTuple):
    """A host with a large share of its partition, and a better partition; the same partition: there is none."""

    host: str
    partition: int
    bytes: int
    share: float  #: of all bytes of its partition
    proposed: int


def hot_hosts(known: PartitionMap, weights: Mapping[str, int]) -> list[HotHost]:
    """The hot hosts, the heaviest first, each with the emptiest partition after the moves before."""
    sums = loads(known, weights)
    mean = sum(sums.values()) / len(sums)
    found = []
    for host, weight in sorted(weights.items(), key=lambda each: (-each[1], each[0]))[:MOST_HOSTS]:
        home = known.partition_of(host)
        if not mean or weight < HOT_SHARE * mean or home not in sums:
            break
        share = weight / sums[home] if sums[home] else 1.0
        proposed, emptiest = home, min(sums, key=lambda number: (sums[number], number))
        if sums[home] > LEAST_SKEW * mean and sums[emptiest] + weight < WORTH_IT * sums[home]:
            proposed = emptiest  # the fuller one of the two is clearly emptier then than the host's is now
            sums[home] -= weight
            sums[proposed] += weight
        found.append(HotHost(host, home, weight, share, proposed))
    return found


def proposal(hot: Sequence[HotHost], known: PartitionMap) -> str:
    """The command that carries out what is proposed; empty: nothing is."""
    moves = [each for each in hot if each.proposed != each.partition]
    if not moves:
        return ""
    overrides = " ".join(f"--override {each.host}={each.proposed}" for each in moves)
    return f"fshipper partition move --partitions {known.partitions} {overrides}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDistribution:
    """The current distribution of hosts over the partitions."""

    map: PartitionMap  #: version 0: there is none
    bytes: Mapping[int, Mapping[str, int]]  #: by partition and host, in the streams
    hot: Sequence[HotHost]


async def spread(settings: Settings) -> HostDistribution:
    """Read the load from the streams. Raises Unavailable, SessionLost."""
    connection = await connect_as(
        settings.nats, name="fshipper partition status", inboxes=("_INBOX_partitioner", MONITOR_INBOX)
    )
    async with connection:
        cluster = ClusterState(connection, settings.logs.subject)
        streams, stored = await cluster.streams(), await cluster.map()
        known = stored.map or static(settings.logs.partitions or max(streams, default=0) + 1)
        # Weighing needs a consumer, which a monitor may not make: it sees partitions, and no bytes by host.
        weighed = {} if connection.is_monitor else streams
        octets = {number: await cluster.weights({number: info}) for number, info in weighed.items()}
    weights: Counter[str] = Counter()
    for hosts in octets.values():
        weights.update(hosts)
    return HostDistribution(map=known, bytes=octets, hot=hot_hosts(known, weights))


def with_hosts(status: Status, found: HostDistribution) -> str:
    """The JSON list of the partitions, each with the bytes of its hosts and with those that are hot."""
    listed: list[dict[str, Any]] = [{"v": 1, **asdict(each)} for each in status.partitions]
    for row in listed:
        hosts = found.bytes.get(row["partition"], {})
        row["hosts"] = dict(sorted(hosts.items(), key=lambda each: (-each[1], each[0])))
        row["hot"] = [each._asdict() for each in found.hot if each.partition == row["partition"]]
        row["map_version"] = found.map.version
    return json.dumps(listed, indent=2)


def print_spread(found: HostDistribution) -> None:
    """Print the biggest hosts, the skew of the partitions, and the command that reduces it."""
    hosts = [(octets, host, number) for number, each in found.bytes.items() for host, octets in each.items()]
    if not hosts:
        return
    console, columns, rows = standard_output(), ("host", "partition", "bytes", "share"), []
    for octets, host, number in sorted(hosts, key=lambda each: (-each[0], each[1]))[:MOST_HOSTS]:
        share = octets / max(1, sum(found.bytes[number].values()))
        rows.append(texts((host, str(number), format_bytes(octets), f"{share:.0%}")))
    print_lines(console, fitted(console, columns, rows, numbers=columns[1:]))
    sums = [sum(each.values()) for number, each in found.bytes.items() if number in found.map.used]
    named = f"map version {found.map.version}" if found.map.version else "no map, SHIPPER_PARTITIONS counts"
    console.print(Text(f"skew {skew(sums):.2f} (the fullest partition to the mean); {named}"), soft_wrap=True)
    for each in found.hot:
        better = f"; partition {each.proposed} has more free capacity" if each.proposed != each.partition else ""
        line = f"hot: {each.host} is {each.share:.0%} of partition {each.partition}{better}"
        console.print(Text(line, style="yellow"), soft_wrap=True)
    if command := proposal(found.hot, found.map):
        console.print(Text(f"to spread them: {command}"), soft_wrap=True)
