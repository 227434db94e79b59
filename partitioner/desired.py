"""The desired-state file: which streams and consumers there should be. Reading it is pure; TOML or JSON.

    subject = "logs"                 # these four as the flags of the same names
    partitions = 4
    replicas = 1
    max_bytes = "50GB"

    [stream]                         # fields over the template's: stream, consumer, dead_letters, advisories
    max_msg_size = "2MiB"

    [partition.3]                    # one partition that differs: fields of its stream
    max_bytes = "100GB"

    [edges]                          # sites that this server sources: their JetStream domains, and their partitions
    edge1 = "100-101"

    [[streams]]                      # further streams, as the server knows them
    name = "ORDERS"
    subjects = ["orders.>"]
    [[streams.consumers]]
    durable_name = "billing"

What `nats stream info --json` prints is such a file too, as is a list of these, or a bare configuration.

Sizes and times in the server's own fields, as people write them: `max_bytes = "50GB"`, `max_age = "24h"`. Pure.

What is on a server, as a desired-state file that makes the same again.
"""

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import tomli_w

from partitioner.arguments import with_admin
from partitioner.diff import NANOSECONDS, SIZES, Json, merged, without_server_notes
from partitioner.edge import Edges, edges_of, in_centre
from partitioner.options import ExportOptions, ImportOptions
from partitioner.topology import SECTIONS, DesiredStream, Sizing, Template, wanted
from shipper.commands import settings_of
from shipper.durable_files import replace_file
from shipper.errors import ConfigError, Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.partition_map import MAX_PARTITIONS
from shipper.subjects import ADVISORIES, BUCKET_STREAM, DEAD_LETTERS, beats_stream, checked_prefix, partition_of_stream
from shipper.units import parse_seconds, parse_size

TIMES = frozenset(
    {"max_age", "duplicate_window", "ack_wait", "inactive_threshold", "idle_heartbeat", "max_expires"}
    | {"subject_delete_marker_ttl", "priority_timeout", "backoff"}
)
"""Nanoseconds in the server's JSON."""


def in_server_units(value: Any, field: str = "") -> Any:
    """`value` with sizes in bytes, times in nanoseconds and moments in RFC 3339, however deep.

    Raises ConfigError: a text in a field of sizes or times is none.
    """
    if isinstance(value, Mapping):
        return {key: in_server_units(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [in_server_units(inner, field) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str) or field not in SIZES | TIMES:
        return value
    try:
        return parse_size(value) if field in SIZES else round(parse_seconds(value) * NANOSECONDS)
    except ValueError as error:
        raise ConfigError(f"{field}: {error}") from None


TOP = ("subject", "partitions", "replicas", "max_bytes", *SECTIONS, "partition", "edges", "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredConfig:
    """The content of a desired-state file; None: the file does not set it."""

    subject: str | None = None
    partitions: int | None = None  #: None: only the `streams`
    sizing: Sizing = field(default_factory=Sizing)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  #: over the template's
    exceptions: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  #: partition -> fields of its stream
    edges: Edges = field(default_factory=dict)
    streams: tuple[tuple[Json, tuple[Json, ...]], ...] = ()  #: configurations with those of their consumers

    @property
    def has_partitions(self) -> bool:
        """Whether the partitions are expanded from a template, and not listed one by one, or not at all."""
        return self.partitions is not None or bool(self.sections or self.exceptions or self.edges) or not self.streams


def read(path: Path) -> DesiredConfig:
    """Read the desired-state file `path`. Raises ConfigError: it cannot be read, or is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", hint="correct --file") from None
    return parse(text, str(path))


def parse(text: str, place: str) -> DesiredConfig:
    """Parse the desired state in `text`, which was read from `place`. Raises ConfigError."""
    try:
        content = json.loads(text)
    except ValueError as json_error:
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as toml_error:
            looks_like_json = place.endswith(".json") or text.lstrip()[:1] == "{"
            kind, wrong = ("JSON", json_error) if looks_like_json else ("TOML", toml_error)
            raise ConfigError(f"{place} is no {kind}: {wrong}") from None
    try:
        return _desired(content)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}", hint=error.hint) from None


def wanted_of(
    desired: DesiredConfig, template: Template, *, subject: str, partitions: int, sizing: Sizing | None = None
) -> list[DesiredStream]:
    """Every stream of `desired`; `partitions` and `sizing` apply where it does not set them.

    Raises ConfigError: the programs could not work with it, or it names a stream twice.
    """
    chosen: list[DesiredStream] = []
    if desired.has_partitions:
        own = {name: merged(fields, getattr(template, name)) for name, fields in desired.sections.items()}
        whole = replace(template, **own)
        chosen = wanted(whole, subject=subject, partitions=partitions, sizing=sizing, exceptions=desired.exceptions)
        chosen += in_centre(whole, desired.edges, subject=subject, partitions=partitions, sizing=sizing or Sizing())
    explicit = [
        DesiredStream(stream=config, consumers=consumers, partition=partition_of_stream(subject, str(config["name"])))
        for config, consumers in desired.streams
    ]
    names = [each.name for each in (*chosen, *explicit)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"stream {twice[0]} is defined twice", hint="keep it in [[streams]], or in the partitions")
    return [*chosen, *explicit]


def _desired(content: Any) -> DesiredConfig:
    if isinstance(content, list):
        return DesiredConfig(streams=_joined([_known(each) for each in content]))
    if not isinstance(content, Mapping):
        raise ConfigError("it is neither a table nor a list of streams")
    if "config" in content or ("name" in content and "streams" not in content):
        return DesiredConfig(streams=_joined([_known(content)]))
    if unknown := sorted(set(content) - {"v", *TOP}):  # `v`: of `export --json`
        raise ConfigError(f"unknown field {unknown[0]!r}", hint=f"known are {', '.join(TOP)}")
    content = in_server_units(content)
    exceptions = _object(content.get("partition", {}), "partition")
    if wrong := [key for key in exceptions if not key.isdecimal()]:
        raise ConfigError(f"[partition.{wrong[0]}] is no partition", hint="write for example [partition.3]")
    try:
        size = parse_size(content["max_bytes"]) if "max_bytes" in content else None
    except ValueError as error:
        raise ConfigError(f"max_bytes: {error}") from None
    try:
        edges = edges_of(f"{site}={numbers}" for site, numbers in _object(content.get("edges", {}), "edges").items())
    except UsageError as error:
        raise ConfigError(f"edges: {error}") from None
    return DesiredConfig(
        subject=checked_prefix(str(content["subject"])) if "subject" in content else None,
        partitions=_number(content, "partitions", MAX_PARTITIONS),
        sizing=Sizing(replicas=_number(content, "replicas", 5), max_bytes=size),
        sections={name: _object(content[name], name) for name in SECTIONS if name in content},
        exceptions={int(key): _object(fields, f"partition.{key}") for key, fields in exceptions.items()},
        edges=edges,
        streams=_joined([_known(each) for each in _list(content.get("streams", []), "streams")]),
    )


def _known(value: Any) -> tuple[Json, tuple[Json, ...]]:
    """A stream with its consumers, in any of the formats that a server or a person writes."""
    given = _object(value, "a stream")
    config = _object(given["config"], "config") if "config" in given else given
    consumers = [
        _consumer(each) for each in _list(given.get("consumers") or config.get("consumers") or [], "consumers")
    ]
    if "stream_name" in given and "config" in given:  # `nats consumer info --json`
        return {"name": str(given["stream_name"])}, (_consumer(given),)
    config = without_server_notes(in_server_units({key: each for key, each in config.items() if key != "consumers"}))
    if not isinstance(config.get("name"), str) or not config["name"]:
        raise ConfigError("a stream has no name")
    return config, tuple(consumers)


def _joined(streams: list[tuple[Json, tuple[Json, ...]]]) -> tuple[tuple[Json, tuple[Json, ...]], ...]:
    """Attach consumers that are listed separately to their streams."""
    by_name: dict[str, tuple[Json, tuple[Json, ...]]] = {}
    for config, consumers in streams:
        name = str(config["name"])
        before, known = by_name.get(name, ({}, ()))
        if len(before) > 1 and len(config) > 1:
            raise ConfigError(f"stream {name} is defined twice")
        by_name[name] = (config if len(config) > 1 else before or config, (*known, *consumers))
    return tuple(by_name.values())


def _consumer(value: Any) -> Json:
    given = _object(value, "a consumer")
    config = without_server_notes(in_server_units(_object(given.get("config", given), "config")))
    name = config.get("durable_name") or config.get("name")
    if not isinstance(name, str):
        raise ConfigError("a consumer has no durable_name")
    return config | {"durable_name": name}


def _number(content: Mapping[str, Any], name: str, most: int) -> int | None:
    value = content.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ConfigError(f"{name} = {value!r} is no number from 0 to {most}")
    return value


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is no table of fields")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{name} is no list")
    return value


def is_ours(name: str, subject: str) -> bool:
    """Whether a stream holds a partition of `subject`, or what all partitions share."""
    shared = {DEAD_LETTERS, ADVISORIES, BUCKET_STREAM, beats_stream(subject)}
    return name in shared or partition_of_stream(subject, name) is not None


def _entry(config: Mapping[str, Any], consumers: Iterable[Mapping[str, Any]]) -> Json:
    """A stream for the file: without the metadata of the server and without ephemeral consumers."""
    durable = [_tidy(each) for each in consumers if each.get("durable_name")]
    return _tidy(config) | ({"consumers": durable} if durable else {})


def _tidy(config: Mapping[str, Any]) -> Json:
    """Leave out empty tables, and what the server notes."""
    return {key: value for key, value in without_server_notes(config).items() if value not in ({}, None)}


def to_toml(document: Mapping[str, Any]) -> str:
    """`document` as TOML; fields that are None are left out, because TOML has no null."""
    return tomli_w.dumps(_without_none(document))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_none(each) for each in value if each is not None]
    return value


def export(options: ExportOptions) -> None:
    """Write what exists as a desired-state file: every field of streams and durable consumers as the server has it."""
    settings = settings_of(options)

    async def work(admin: Admin) -> list[Json]:
        there = {str(info["config"]["name"]): info["config"] for info in await admin.streams()}
        if missing := sorted(set(options.streams or ()) - set(there)):
            raise Unavailable(f"there is no stream {missing[0]}", hint="fshipper partition export --all shows them")
        names = options.streams or [name for name in there if options.every or is_ours(name, settings.logs.subject)]
        return [
            _entry(config, [each["config"] for each in await admin.consumers(name)])
            for name, config in there.items()
            if name in names
        ]

    _write(with_admin(settings, work), options)


def import_(options: ImportOptions) -> None:
    """Make one desired-state file of what `nats stream info --json` and `nats consumer info --json` print."""
    streams: dict[str, tuple[Json, list[Json]]] = {}
    for file in options.files:
        desired = read(file)
        if not desired.streams:
            raise ConfigError(f"{file} names no stream", hint="give it what `nats stream info NAME --json` prints")
        for config, consumers in desired.streams:
            known = streams.setdefault(str(config["name"]), ({}, []))
            known[0].update(config)
            known[1].extend(consumers)
    _write([_entry(config, consumers) for config, consumers in streams.values()], options)


def _write(streams: list[Json], options: ExportOptions | ImportOptions) -> None:
    document, output = {"streams": streams}, options.output
    is_json = options.as_json or (output is not None and output.suffix == ".json")
    text = json.dumps({"v": 1, **document}, indent=2) + "\n" if is_json else to_toml(document)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        replace_file(output, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {output}: {error.strerror}", hint="correct --output") from None
    sys.stdout.write(f"wrote {output}\n")
