"""Which streams and consumers there should be for N partitions, and the template from which they are made.

The template is a JSON file with `{n}` and `{subject}` that is expanded for each partition: nats-server had stream
templates of its own and removed them in 2.14.
"""

import dataclasses
import importlib.resources
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from partitioner.diff import Json
from partitioner.options import TAIL
from shipper.errors import ConfigError, UsageError
from shipper.heartbeat import beats_config
from shipper.model import MAX_BLOCK_BYTES
from shipper.subjects import ADVISORIES, COLLECTOR, DEAD_LETTERS, bucket_config, partition_subjects, stream_name

SECTIONS = ("stream", "consumer", "dead_letters", "advisories")


@dataclass(frozen=True, slots=True)
class Template:
    """The configuration of every partition's stream and consumer, and of the streams of dead letters and advisories."""

    stream: Mapping[str, Any]
    consumer: Mapping[str, Any]
    dead_letters: Mapping[str, Any]
    advisories: Mapping[str, Any]


def shipped_template() -> Template:
    """The template that comes with the program."""
    resource = importlib.resources.files("deploy") / "nats" / "stream.json"
    return parse_template(resource.read_text(encoding="utf-8"), "deploy/nats/stream.json")


def template_in(path: Path | None) -> Template:
    """The template in `path`; it, and each section that it leaves out, is the shipped one by default.

    Raises ConfigError: the file cannot be read, or is no template.
    """
    if path is None:
        return shipped_template()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"template {path}: {error}", hint="correct --template") from None
    return parse_template(text, str(path), shipped_template())


def parse_template(text: str, place: str, default: Template | None = None) -> Template:
    """The template in `text`, which was found at `place`.

    Raises ConfigError: it is no JSON, has an unknown section, or lacks one that `default` does not fill.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"template {place} is no JSON: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(section, dict) for section in content.values()):
        raise ConfigError(f"template {place} is not an object of the sections {', '.join(SECTIONS)}")
    if unknown := sorted(set(content) - set(SECTIONS)):
        raise ConfigError(f"template {place}: unknown section {unknown[0]!r}", hint=f"known are {', '.join(SECTIONS)}")
    sections = (dataclasses.asdict(default) if default else {}) | content
    if missing := [name for name in SECTIONS if name not in sections]:
        raise ConfigError(f"template {place} has no section {missing[0]!r}")
    return Template(**sections)


def expand(value: Any, *, subject: str, partition: int) -> Any:
    """`value` with `{n}` and `{subject}` replaced in every text, however deep; other braces stay as they are."""
    if isinstance(value, str):
        return value.replace("{n}", str(partition)).replace("{subject}", subject)
    if isinstance(value, Mapping):
        return {key: expand(inner, subject=subject, partition=partition) for key, inner in value.items()}
    if isinstance(value, list):
        return [expand(inner, subject=subject, partition=partition) for inner in value]
    return value


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

    Raises ConfigError: the template names other streams, consumers or subjects than the programs use.
    """
    sizing, exceptions = sizing or Sizing(), exceptions or {}
    numbers = range(max(1, partitions))
    if beyond := sorted(set(exceptions) - set(numbers)):
        raise ConfigError(f"there is an exception for partition {beyond[0]}, but there are {len(numbers)} partitions")
    return [
        DesiredStream(stream=_replicated(_named(template.dead_letters, "name", DEAD_LETTERS), sizing)),
        DesiredStream(stream=_replicated(_named(template.advisories, "name", ADVISORIES), sizing)),
        DesiredStream(stream=_replicated(bucket_config(), sizing)),
        DesiredStream(stream=beats_config(subject, replicas=sizing.replicas or 1)),
        *(partition_stream(template, subject, number, sizing, exceptions.get(number)) for number in numbers),
    ]


def partition_stream(
    template: Template, subject: str, number: int, sizing: Sizing, exception: Mapping[str, Any] | None = None
) -> DesiredStream:
    """The stream of one partition with the collector's consumer. Raises ConfigError, as `wanted`."""
    name = stream_name(subject, number)
    stream = _named(expand(template.stream, subject=subject, partition=number), "name", name)
    consumer = _named(expand(template.consumer, subject=subject, partition=number), "durable_name", COLLECTOR)
    expected = partition_subjects(subject, number)
    if expected not in stream.get("subjects", ()):
        raise ConfigError(
            f"the template gives partition {number} the subjects {stream.get('subjects')}, without {expected!r}",
            hint='let its "subjects" hold "{subject}.p{n}.>"',
        )
    stream |= {"max_bytes": sizing.max_bytes} if sizing.max_bytes is not None else {}
    stream = _replicated(stream, sizing) | expand(exception or {}, subject=subject, partition=number)
    stream = _named(stream, "name", name)
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


def _replicated(stream: Json, sizing: Sizing) -> Json:
    return stream | ({"num_replicas": sizing.replicas} if sizing.replicas is not None else {})


def _named(config: Mapping[str, Any], key: str, name: str) -> Json:
    """`config` with the name that the programs use; a template may repeat it, but not change it."""
    if config.get(key, name) != name:
        raise ConfigError(
            f"the template sets {key} to {config[key]!r}, but the programs use {name!r}",
            hint=f"leave {key} out of the template",
        )
    return {**config, key: name}


# -- push consumers -----------------------------------------------------------------------------------------------
#
# They are for subscribers without JetStream, such as `nats sub`, and read what line mode ships (`produce --encoding
# plain`): a message a line. While its target has no subscriber, a push consumer pauses; it continues from there when
# one subscribes.

ACK_POLICIES = ("none", "explicit")


def checked_target(target: str, *, prefix: str) -> str:
    """`target`, if lines may be sent there. Raises UsageError: it is no subject, or the streams would take them."""
    tokens = target.split(".")
    if not all(tokens) or any(char in target for char in " \t*>") or tokens[0].startswith("$"):
        raise UsageError(f"--push {target!r} is no subject", hint="write for example --push out.logs")
    if tokens[0] == prefix:
        raise UsageError(f"--push {target}: the streams take all of {prefix}.p<N>.>", hint="begin with another word")
    return target


def push_consumer(target: str, partition: int, *, ack: str) -> dict[str, Any]:
    """The push consumer of a partition's stream.

    `ack`: none, as who only subscribes acknowledges nothing; explicit for those that answer each message.
    """
    return {
        "durable_name": TAIL,
        "deliver_subject": f"{target}.p{partition}",
        "deliver_policy": "all",
        "ack_policy": ack,
        "replay_policy": "instant",
    }


def with_push(wanted: Iterable[DesiredStream], target: str, *, ack: str) -> list[DesiredStream]:
    """`wanted` with a push consumer on each partition's stream."""
    return [
        each
        if each.partition is None
        else replace(each, consumers=(*each.consumers, push_consumer(target, each.partition, ack=ack)))
        for each in wanted
    ]
