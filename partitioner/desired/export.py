"""What is on a server, as a desired-state file that makes the same again."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from partitioner.desired.toml_text import to_toml
from partitioner.diff import Json, without_server_notes
from shipper.bucket import BUCKET_STREAM
from shipper.jetstream.admin import Admin
from shipper.subjects import ADVISORIES, DEAD_LETTERS, beats_stream, partition_of_stream

SHARED = frozenset({DEAD_LETTERS, ADVISORIES, BUCKET_STREAM})


def is_ours(name: str, subject: str) -> bool:
    """Whether a stream holds a partition of `subject`, or what all partitions share."""
    return name in {*SHARED, beats_stream(subject)} or partition_of_stream(subject, name) is not None


async def exported(admin: Admin, names: Iterable[str]) -> Json:
    """The streams `names` with their durable consumers, every field as the server has it."""
    wanted, streams = set(names), list[Json]()
    for info in await admin.streams():
        name = str(info["config"]["name"])
        if name in wanted:
            consumers = await admin.consumers(name)
            streams.append(entry(info["config"], [each["config"] for each in consumers]))
    return {"streams": streams}


def entry(config: Mapping[str, Any], consumers: Iterable[Mapping[str, Any]]) -> Json:
    """A stream as the file has it: without what the server noted for itself and consumers that nobody named."""
    durable = [without_server_notes(each) for each in consumers if each.get("durable_name")]
    return _tidy(without_server_notes(config)) | ({"consumers": [_tidy(each) for each in durable]} if durable else {})


def as_text(document: Json, *, as_json: bool) -> str:
    """The document as it is written to a file."""
    return json.dumps(document, indent=2) + "\n" if as_json else to_toml(document)


def _tidy(config: Mapping[str, Any]) -> Json:
    """Without empty tables, which say nothing."""
    return {key: value for key, value in config.items() if value not in ({}, None)}
