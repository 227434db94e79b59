"""Another configuration for one stream or consumer, made of the one that is. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from partitioner.desired.document import in_server_units
from partitioner.diff import Json, without_server_notes
from shipper.errors import ConfigError, UsageError
from shipper.subjects import partition_of_stream, partition_subjects

_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[^=]+)?")
NOT_COPIED = frozenset({"name", "mirror", "sources", "first_seq", "sealed"})
"""Whose messages a stream holds, and from where, is not how it is configured."""


def assigned(config: Mapping[str, Any], assignments: Sequence[str], removed: Sequence[str]) -> Json:
    """The fields that `--set NAME=VALUE` and `--unset NAME` change; None: the server's default.

    Values are JSON, or plain text; sizes and times may be written as people do; lists may be parted by commas.

    Raises:
        UsageError: one is no assignment.
    """
    wanted: Json = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not _DOTTED.fullmatch(name.strip()):
            raise UsageError(f"{assignment!r} is no assignment", hint="write for example max_bytes=50GB")
        _put(wanted, name.strip(), _value(text.strip(), config.get(name.strip())))
    for name in removed:
        _put(wanted, name, None)
    return dict(in_server_units(wanted))


def rewritten(config: Mapping[str, Any], text: str) -> Json:
    """The fields that differ after a person edited `config` as JSON; a field that is gone is None.

    Raises:
        ConfigError: it is no JSON object any more.
    """
    try:
        edited = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"what was edited is no JSON: {error}", hint="nothing was changed") from None
    if not isinstance(edited, dict):
        raise ConfigError("what was edited is no JSON object", hint="nothing was changed")
    return dict(in_server_units(edited)) | dict.fromkeys(set(config) - set(edited))


def editable(config: Mapping[str, Any]) -> Json:
    """What a person is shown of a configuration."""
    return without_server_notes(config)


def copied(config: Mapping[str, Any], name: str, subjects: Sequence[str] | None, subject: str) -> Json:
    """The configuration of a stream `name` that is like `config`, listening to `subjects`.

    Without them a partition listens to its own, and any other stream to its name.
    """
    like = {key: value for key, value in without_server_notes(config).items() if key not in NOT_COPIED}
    partition = partition_of_stream(subject, name)
    own = [name] if partition is None else [partition_subjects(subject, partition)]
    return like | {"name": name, "subjects": list(subjects) if subjects else own}


def _put(wanted: Json, name: str, value: Any) -> None:
    """`metadata.team` is a nested field; any further dot is part of the key."""
    outer, dot, inner = name.partition(".")
    if dot:
        wanted.setdefault(outer, {})[inner] = value
    else:
        wanted[outer] = value


def _value(text: str, before: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [part.strip() for part in text.split(",")] if isinstance(before, list) else text
