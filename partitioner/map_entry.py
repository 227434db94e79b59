"""The entry of the partition map, as `partition plan` and `partition apply` treat it: written once, never changed.

Only `partition move` and `partition edge` change a map that is there, because hosts have to follow a change in order.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from partitioner.move.cluster_state import ClusterState
from partitioner.plan import Action, Verb
from partitioner.topology import DesiredStream
from shipper.bucket import BUCKET_STREAM, map_key
from shipper.errors import ConfigError, Fatal, ShipperError
from shipper.jetstream.admin import Admin
from shipper.partition_map import PartitionMap, static
from shipper.stream_source import origin_of
from shipper.units import counted

ASK_HOSTS_SECONDS = 5.0
"""Maximum seconds to wait for running hosts to report the map version that they follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPartitions:
    """The partitions of one subject prefix, as the server has them."""

    map: PartitionMap | None
    revision: int  #: of the map's entry; 0: there is none
    streams: frozenset[int]  #: partitions with an open stream that hosts publish to; copies of edge sites not included
    is_used: bool  #: whether one of these streams ever stored a message

    @property
    def partitions(self) -> int | None:
        """How many partitions hosts hash over; None: neither a map nor a stream with a message decides it."""
        if self.map is not None:
            return self.map.partitions
        return max(self.streams) + 1 if self.is_used else None


async def agreement(admin: Admin, prefix: str) -> ServerPartitions:
    """Read the map and the streams. Raises Fatal: there is a map that this version cannot read."""
    cluster = ClusterState(admin.connection, prefix)
    stored = await cluster.map()
    streams = {number: info for number, info in (await cluster.streams()).items() if not cluster.is_closed(info)}
    return ServerPartitions(
        map=stored.map,
        revision=stored.revision,
        streams=frozenset(streams),
        is_used=any(info["state"]["last_seq"] for info in streams.values()),
    )


def checked_partitions(asked: int | None, found: ServerPartitions) -> int:
    """The number of partitions to apply: `asked`, or that of the server; 1 for None and an empty server.

    Raises:
        ConfigError: the server has another number, so hosts would have to move; or it is an edge site.
    """
    known = found.map
    if known is not None and known.slots and set(known.slots) != set(range(min(known.partitions, len(known.slots)))):
        numbers = ",".join(map(str, sorted(set(known.slots))))
        raise ConfigError(
            f"this server is an edge site: its partition map sends hosts to the partitions {numbers}",
            hint=f"run: fshipper partition edge {numbers}; or set NATS_URL to the server of the centre",
        )
    there = found.partitions
    if asked is None:
        return there or max(found.streams, default=0) + 1
    if there is None or max(1, asked) == there:
        return max(1, asked)
    source = f"the partition map (version {known.version})" if known else "the server"
    raise ConfigError(
        f"{source} has {_count(there)}, and the settings have {_count(max(1, asked))}",
        hint=f"to change the number: fshipper partition move --partitions {max(1, asked)}; to keep it, leave out"
        f" --partitions and SHIPPER_PARTITIONS, or set them to {there}",
    )


def map_action(desired: Sequence[DesiredStream], found: ServerPartitions, prefix: str) -> Action | None:
    """The step that writes the first map; None: there is one, or `desired` has no partitions 0 to N-1 for hosts."""
    numbers = {each.partition for each in desired if each.partition is not None and origin_of(each.stream) is None}
    if found.map is not None or not numbers or numbers != set(range(len(numbers))):
        return None
    return Action(verb=Verb.CREATE, stream=BUCKET_STREAM, entry=map_key(prefix), config={"partitions": len(numbers)})


async def write_first_map(admin: Admin, prefix: str, partitions: int) -> None:
    """Store the first map. Raises Fatal: another program stored one at the same time."""
    found, cluster = await agreement(admin, prefix), ClusterState(admin.connection, prefix)
    newest = await _newest_version(cluster) if found.is_used else 0
    if found.map is not None:
        raise Fatal("another program has written the partition map meanwhile", hint="run the command again")
    first = PartitionMap(version=newest + 1, partitions=static(partitions).partitions)
    await cluster.store_map(first, expected=found.revision)


async def _newest_version(cluster: ClusterState) -> int:
    """The newest map version that a running host follows: a map was lost with its bucket, and must not come again."""
    with contextlib.suppress(TimeoutError, ShipperError):
        async with asyncio.timeout(ASK_HOSTS_SECONDS):
            places = await cluster.places(await cluster.hosts(await cluster.streams()))
            return max((place.version for place in places.values() if place), default=0)
    return 0


def _count(partitions: int) -> str:
    return counted(partitions, "partition")
