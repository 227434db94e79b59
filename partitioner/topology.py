"""Which streams and consumers there should be for N partitions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from partitioner.template import Json, Template, expand
from shipper.bucket import bucket_config
from shipper.errors import ConfigError
from shipper.heartbeat import beats_config
from shipper.model import MAX_BLOCK_BYTES
from shipper.subjects import ADVISORIES, COLLECTOR, DEAD_LETTERS, partition_subjects, stream_name

MAX_HEADER_BYTES = 64 * 1024
"""The server refuses more (10097)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStream:
    """A desired stream, with its desired consumers."""

    stream: Mapping[str, Any]  #: configuration in the server's JSON
    consumers: tuple[Mapping[str, Any], ...] = ()
    partition: int | None = None  #: None: what all partitions share

    @property
    def name(self) -> str:
        """The name of the stream."""
        return str(self.stream["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Options that override the template; None: as in the template."""

    replicas: int | None = None
    max_bytes: int | None = None


def wanted(
    template: Template,
    *,
    subject: str,
    partitions: int,
    sizing: Sizing | None = None,
    exceptions: Mapping[int, Mapping[str, Any]] | None = None,
) -> list[DesiredStream]:
    """The shared streams, then the streams of all partitions in order; 0 means partition 0.

    Dead letters come first, so that they get storage: without them a collector cannot pass its first poison message.
    `exceptions` are fields of single partitions' streams, over the template's and the sizing.

    Raises:
        ConfigError: the template names other streams, consumers or subjects than the programs use.
    """
    sizing, exceptions = sizing or Sizing(), exceptions or {}
    numbers = range(max(1, partitions))
    if beyond := sorted(set(exceptions) - set(numbers)):
        raise ConfigError(f"there is an exception for partition {beyond[0]}, but there are {len(numbers)} partitions")
    return [
        _beside(template.dead_letters, DEAD_LETTERS, sizing),
        _beside(template.advisories, ADVISORIES, sizing),
        DesiredStream(stream=_replicated(bucket_config(), sizing)),
        DesiredStream(stream=beats_config(subject, replicas=sizing.replicas or 1)),
        *(partition_stream(template, subject, number, sizing, exceptions.get(number)) for number in numbers),
    ]


def partition_stream(
    template: Template, subject: str, number: int, sizing: Sizing, exception: Mapping[str, Any] | None = None
) -> DesiredStream:
    """The stream of one partition with the collector's consumer. Raises ConfigError, as `wanted`."""
    stream = expand(template.stream, subject=subject, partition=number)
    consumer = expand(template.consumer, subject=subject, partition=number)
    _named(stream, "name", stream_name(subject, number))
    _named(consumer, "durable_name", COLLECTOR)
    expected = partition_subjects(subject, number)
    if expected not in stream.get("subjects", ()):
        raise ConfigError(
            f"the template gives partition {number} the subjects {stream.get('subjects')}, without {expected!r}",
            hint='let its "subjects" hold "{subject}.p{n}.>"',
        )
    stream |= {"max_bytes": sizing.max_bytes} if sizing.max_bytes is not None else {}
    stream = _replicated(stream, sizing) | expand(exception or {}, subject=subject, partition=number)
    _named(stream, "name", stream_name(subject, number))
    _check_limits(stream)
    return DesiredStream(stream=stream, consumers=(consumer,), partition=number)


def _check_limits(stream: Json) -> None:
    """Refuse limits that would stop producers for ever, or let a stream fill the server's disk.

    A full disk fences the stream until the server is restarted; a full stream only makes producers wait.
    """
    if int(stream.get("max_bytes", -1)) <= 0:
        raise ConfigError("a partition's stream needs max_bytes", hint="set max_bytes in the template, or --max-bytes")
    largest = int(stream.get("max_msg_size", -1))
    if 0 < largest < MAX_BLOCK_BYTES + MAX_HEADER_BYTES:
        raise ConfigError(
            f"max_msg_size {largest} is too small for a block of {MAX_BLOCK_BYTES} bytes with its headers",
            hint=f"set max_msg_size to at least {MAX_BLOCK_BYTES + MAX_HEADER_BYTES}",
        )


def _beside(section: Mapping[str, Any], name: str, sizing: Sizing) -> DesiredStream:
    stream = dict(section)
    _named(stream, "name", name)
    return DesiredStream(stream=_replicated(stream, sizing))


def _replicated(stream: Json, sizing: Sizing) -> Json:
    return stream | ({"num_replicas": sizing.replicas} if sizing.replicas is not None else {})


def _named(config: Json, key: str, name: str) -> None:
    """Set the name that the programs use; a template may repeat it, but not change it."""
    if config.setdefault(key, name) != name:
        raise ConfigError(
            f"the template sets {key} to {config[key]!r}, but the programs use {name!r}",
            hint=f"leave {key} out of the template",
        )
