"""The partitions on the server: the map, the streams and the hosts in them; how each is read and changed."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from partitioner.diff import merged
from partitioner.topology import Sizing, Template, wanted
from shipper.control import FinishReply, FinishRequest, PlaceReply, PlaceRequest
from shipper.errors import ConfigError, Fatal, Poison
from shipper.jetstream.admin import Admin
from shipper.jetstream.connection import Connection
from shipper.jetstream.kv_bucket import JetStreamBucket
from shipper.jetstream.stream_status import newest_sizes
from shipper.partition_map import PartitionMap, decode, encode
from shipper.stream_source import origin_of
from shipper.subjects import (
    BUCKET_STREAM,
    MOVER,
    checked_host,
    control_down,
    control_up,
    map_key,
    parse_log_subject,
    partition_of_stream,
    retired_subject,
    stream_name,
)

ANSWER_SECONDS = 2.0
MAX_PARALLEL_REQUESTS = 64
SAMPLED = 2000
"""Number of messages of a stream in a sample of sizes."""


class StoredMap(NamedTuple):
    """The map and the revision of its entry."""

    map: PartitionMap | None
    revision: int  #: 0: there is no entry


class MapChanged(Fatal):
    """Another process has just changed the partition map."""


class ClusterState:
    """One session with a server that reads and changes its partitions."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._admin = Admin(connection)
        self._prefix = prefix

    async def map(self) -> StoredMap:
        """The map of the partitions. Raises Fatal: it cannot be understood."""
        if await self._admin.stream(BUCKET_STREAM) is None:
            return StoredMap(None, 0)
        key = map_key(self._prefix)
        entry = (await JetStreamBucket(self._connection).entries([key])).get(key)
        if entry is None or not entry.value:
            return StoredMap(None, entry.revision if entry else 0)
        known = decode(entry.value)
        if known is None:
            raise Fatal(f"the entry {key} of the bucket is no map that can be read", hint="a newer fshipper wrote it?")
        return StoredMap(known, entry.revision)

    async def store_map(self, new: PartitionMap, *, expected: int) -> None:
        """Store `new` as the map. Raises MapChanged: another process changed it meanwhile."""
        bucket = JetStreamBucket(self._connection)
        if await bucket.put(map_key(self._prefix), encode(new), expected=expected) is None:
            raise MapChanged("another process has just changed the partition map", hint="run it again")

    async def streams(self) -> dict[int, Mapping[str, Any]]:
        """The state of each partition's stream; without those of edge sites, which are not moved from here."""
        found: dict[int, Mapping[str, Any]] = {}
        for info in await self._admin.streams():
            number = partition_of_stream(self._prefix, str(info["config"]["name"]))
            if number is not None and origin_of(info["config"]) is None:
                found[number] = info
        return dict(sorted(found.items()))

    async def weights(self, streams: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
        """Bytes in the streams by host, estimated from the newest messages of each; 0: a host has none among them."""
        found: Counter[str] = Counter()
        for number, info in streams.items():
            stream, state = stream_name(self._prefix, number), info["state"]
            found.update(dict.fromkeys(_hosts_of(await self._admin.subjects(stream)), 0))
            sizes = await newest_sizes(self._connection, stream, last=int(state["last_seq"]), messages=SAMPLED)
            total = sum(sizes.values())
            for subject, octets in sizes.items():
                for host in _hosts_of([subject]):
                    found[host] += round(octets * state["bytes"] / max(1, total))
        return found

    async def hosts(self, streams: Mapping[int, Mapping[str, Any]]) -> set[str]:
        """Every host that has messages in the streams."""
        names = [await self._admin.subjects(stream_name(self._prefix, number)) for number in streams]
        return {host for subjects in names for host in _hosts_of(subjects)}

    async def open_streams(self, partitions: Iterable[int], template: Template, sizing: Sizing) -> None:
        """Create the streams and consumers of `partitions`, the shared streams and the bucket."""
        numbers = list(partitions)
        there = {str(info["config"]["name"]): info for info in await self._admin.streams()}
        for each in wanted(template, subject=self._prefix, partitions=max(numbers, default=0) + 1, sizing=sizing):
            if each.partition is not None and each.partition not in numbers:
                continue
            actual = there.get(each.name)
            if actual is not None and (origin := origin_of(actual["config"])):
                raise Fatal(f"partition {each.partition} is one of the edge site {origin.domain}", hint="use another")
            if actual is None:
                await self._admin.create_stream(each.stream)
            elif each.partition is not None and actual["config"].get("subjects") == [
                retired_subject(self._prefix, each.partition)
            ]:
                await self._admin.update_stream(merged({"subjects": each.stream["subjects"]}, actual["config"]))
            for consumer in each.consumers:
                if await self._admin.consumer(each.name, str(consumer["durable_name"])) is None:
                    await self._admin.create_consumer(each.name, consumer)

    async def close_stream(self, partition: int) -> int:
        """Close a partition for publishers; returns the sequence of its last message."""
        name = stream_name(self._prefix, partition)
        info = await self._admin.stream(name)
        if info is None:
            return 0
        closed = [retired_subject(self._prefix, partition)]
        if info["config"].get("subjects") != closed:
            await self._admin.update_stream(merged({"subjects": closed}, info["config"]))
            info = await self._admin.stream(name)  # what came until then is in it
        return int(info["state"]["last_seq"]) if info else 0

    def is_closed(self, info: Mapping[str, Any]) -> bool:
        """Whether a stream is closed for publishers."""
        number = partition_of_stream(self._prefix, str(info["config"]["name"]))
        return number is not None and info["config"].get("subjects") == [retired_subject(self._prefix, number)]

    async def delete_stream(self, partition: int) -> None:
        """Remove a stream whose messages are all archived."""
        await self._admin.delete_stream(stream_name(self._prefix, partition))

    async def finish(self, partition: int) -> FinishReply | None:
        """Have the collector of a closed stream seal its open files; what is left to do, None: no reply."""
        request = FinishRequest(partition).to_json()
        return FinishReply.from_json(await self._connection.ask(control_up(MOVER), request, ANSWER_SECONDS))

    async def places(self, hosts: Iterable[str]) -> dict[str, PlaceReply | None]:
        """The partition of each host as its producer reports it; None: no reply."""
        slots = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)
        names = sorted(hosts)

        async def ask(host: str) -> PlaceReply | None:
            async with slots:
                request = PlaceRequest().to_json()
                return PlaceReply.from_json(await self._connection.ask(control_down(host), request, ANSWER_SECONDS))

        return dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))

    async def newest_version(self, hosts: Iterable[str]) -> int:
        """The newest map version that one of `hosts` follows: a map that was lost must not come again."""
        return max((place.version for place in (await self.places(hosts)).values() if place), default=0)


def _hosts_of(subjects: Iterable[str]) -> list[str]:
    """The valid host names among `subjects`: a client may publish under any other name."""
    hosts = []
    for subject in subjects:
        with contextlib.suppress(Poison, ConfigError):
            hosts.append(checked_host(parse_log_subject(subject).host))
    return hosts


def sizing_like(streams: Mapping[int, Mapping[str, Any]], given: Sizing) -> Sizing:
    """The sizing of new streams: as `given`, else as that of existing ones."""
    first: Mapping[str, Any] = next((info["config"] for info in streams.values()), {})
    replicas = given.replicas if given.replicas is not None else first.get("num_replicas")
    size = given.max_bytes if given.max_bytes is not None else first.get("max_bytes")
    return Sizing(replicas=replicas, max_bytes=size if size and size > 0 else None)
