"""Which streams an edge site has, and which of the centre are copies of them. Pure.

A site has partitions of its own. So each stream of the centre has one origin, whose sequences acks can carry back; no
message of a site matches a stream of the centre; and a site that is away delays no other site.
"""

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from partitioner.access.roster import checked_domain
from partitioner.apply import plan_and_apply
from partitioner.arguments import numbers_of, size_of
from partitioner.move.cluster_state import ClusterState, StoredMap
from partitioner.options import EdgeOptions
from partitioner.plan import AllowedChanges
from partitioner.topology import DesiredStream, Sizing, Template, partition_stream, template_in
from shipper.commands import settings_of
from shipper.errors import ConfigError, Fatal, UsageError
from shipper.heartbeat import beats_config
from shipper.jetstream.connection import connect
from shipper.partition_map import MAX_PARTITIONS, SLOTS, PartitionMap
from shipper.settings import Settings
from shipper.stream_source import Origin
from shipper.subjects import bucket_config

Edges = Mapping[str, Sequence[int]]
"""The partitions of each site, by its JetStream domain."""


def edges_of(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Parse `NAME=NUMBERS`, as `edge1=100-101`. Raises UsageError, ConfigError."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        domain, _, numbers = text.partition("=")
        if not numbers or domain in found:
            raise UsageError(f"--edge {text}: write DOMAIN=NUMBERS, as edge1=100-101, once for each site")
        found[checked_domain(domain)] = checked_numbers(numbers_of(numbers, flag="--edge"))
    return found


def checked_numbers(numbers: Sequence[int]) -> tuple[int, ...]:
    """`numbers`, if they can be partitions. Raises UsageError."""
    if not numbers or max(numbers) >= MAX_PARTITIONS:
        raise UsageError(f"{', '.join(map(str, numbers)) or 'nothing'} is no list of partitions below {MAX_PARTITIONS}")
    return tuple(numbers)


def in_centre(
    template: Template, edges: Edges, *, subject: str, partitions: int, sizing: Sizing
) -> list[DesiredStream]:
    """The streams of the centre that are sourced from sites, each with the collector's consumer.

    Raises ConfigError: a partition is another site's, too, or one of the `partitions` of the centre.
    """
    owners: dict[int, str] = dict.fromkeys(range(max(1, partitions)), "the centre")
    found = []
    for domain, numbers in edges.items():
        for number in numbers:
            if number in owners:
                raise ConfigError(
                    f"partition {number} of {domain} is one of {owners[number]}, too",
                    hint="give each site numbers of its own, above all that the centre may ever have, as 100-101",
                )
            owners[number] = domain
            each = partition_stream(template, subject, number, sizing)
            # It listens to nothing, and takes all from the stream of the same name at the site.
            stream = {**each.stream, "subjects": [], "sources": [Origin(each.name, domain).source]}
            found.append(replace(each, stream=stream))
    return found


def at_site(template: Template, numbers: Sequence[int], *, subject: str, sizing: Sizing) -> list[DesiredStream]:
    """The streams that a site's server needs: bucket, heartbeats, its partitions. No collector reads there."""
    replicas = sizing.replicas or 1
    shared = (bucket_config(replicas=replicas), beats_config(subject, replicas=replicas))
    return [
        *(DesiredStream(stream=stream) for stream in shared),
        *(replace(partition_stream(template, subject, number, sizing), consumers=()) for number in numbers),
    ]


def site_map(numbers: Sequence[int]) -> PartitionMap:
    """The map of a site: its hosts find the partitions by it, not by their settings."""
    slots = tuple(numbers[slot % len(numbers)] for slot in range(SLOTS))
    return PartitionMap(version=1, partitions=max(numbers) + 1, slots=slots)


def edge(options: EdgeOptions) -> None:
    """Make the streams of an edge site on its own server."""
    settings = settings_of(options)
    chosen = checked_numbers(numbers_of(options.numbers, flag="partitions"))
    sizing = Sizing(replicas=options.replicas, max_bytes=size_of(options.max_bytes, "--max-bytes"))
    wanted = at_site(template_in(options.template), chosen, subject=settings.logs.subject, sizing=sizing)
    wants, known = site_map(chosen), asyncio.run(_map(settings)).map
    if known is not None and known != wants:  # this is the centre, or the site has other numbers
        raise Fatal(
            f"this server has a map of its own already (version {known.version}), so it is no new edge site",
            hint="is NATS_URL the site's server? A site keeps its partitions for good",
        )
    plan_and_apply(settings, wanted, AllowedChanges(), yes=options.yes)
    if asyncio.run(_map(settings, put=wants)).map != wants:
        sys.stdout.write(f"hosts here go to {options.numbers} (the map in the bucket)\n")


async def _map(settings: Settings, *, put: PartitionMap | None = None) -> StoredMap:
    """The existing map; afterwards the map is `put`. Raises UsageError: the server has no domain of a site."""
    async with await connect(settings.nats, name="fshipper partition edge", inbox="_INBOX_partitioner") as connection:
        checked_domain(str((await connection.api("INFO")).get("domain", "")))
        cluster = ClusterState(connection, settings.logs.subject)
        stored = await cluster.map()
        if put is not None and stored.map != put:
            await cluster.store_map(put, expected=stored.revision)
        return stored
