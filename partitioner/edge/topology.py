"""Which streams an edge site has, and which of the centre are copies of them. Pure.

A site has partitions of its own. So each stream of the centre has one origin, whose sequences can be told back; no
message of a site fits a stream that listens in the centre; and a site that is away holds up nobody else.
"""

from collections.abc import Iterable, Mapping, Sequence

from partitioner.edge.domain import checked_domain
from partitioner.options import numbers_of
from partitioner.template import Template
from partitioner.topology import Sizing, Wanted, partition_stream
from shipper.bucket import bucket_config
from shipper.errors import ConfigError, UsageError
from shipper.heartbeat import beats_config
from shipper.origin import Origin
from shipper.partition_map import SLOTS, PartitionMap
from shipper.partitioning import MAX_PARTITIONS

Edges = Mapping[str, Sequence[int]]
"""The partitions of each site, by its JetStream domain."""


def edges_of(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What `NAME=NUMBERS` say, as `edge1=100-101`. Raises UsageError, ConfigError."""
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


def in_centre(template: Template, edges: Edges, *, subject: str, partitions: int, sizing: Sizing) -> list[Wanted]:
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
            found.append(_sourced(partition_stream(template, subject, number, sizing), domain))
    return found


def at_site(template: Template, numbers: Sequence[int], *, subject: str, sizing: Sizing) -> list[Wanted]:
    """What the server of a site needs: bucket and heartbeats, and the streams of its partitions. Nobody reads there."""
    replicas = sizing.replicas or 1
    shared = (bucket_config(replicas=replicas), beats_config(subject, replicas=replicas))
    streams = [partition_stream(template, subject, number, sizing) for number in numbers]
    return [
        *(Wanted(stream=stream) for stream in shared),
        *(Wanted(stream=each.stream, partition=each.partition) for each in streams),
    ]


def site_map(numbers: Sequence[int]) -> PartitionMap:
    """The map of a site, by which its hosts find its partitions, whatever their settings say."""
    slots = tuple(numbers[slot % len(numbers)] for slot in range(SLOTS))
    return PartitionMap(version=1, partitions=max(numbers) + 1, slots=slots)


def _sourced(each: Wanted, domain: str) -> Wanted:
    """`each`, which listens to nothing and takes all from the stream of the same name at `domain`."""
    stream = {**each.stream, "subjects": [], "sources": [Origin(each.name, domain).source]}
    return Wanted(stream=stream, consumers=each.consumers, partition=each.partition)
