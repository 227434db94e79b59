"""What differs between a configuration that should be and the raw one that is. Pure.

Only fields that the template names count: fields that the server filled in, or that another program set, are no
difference and survive an update.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Json = dict[str, Any]

NANOSECONDS = 1_000_000_000
SERVER_METADATA = "_nats."
"""The server notes its version and the API level in metadata under this prefix."""

UNLIMITED = frozenset(
    {"max_bytes", "max_msgs", "max_msgs_per_subject", "max_msg_size", "max_consumers", "max_deliver", "max_ack_pending"}
)
"""Limits for which the server returns -1 if 0 was set."""

SIZES = frozenset({"max_bytes", "max_msg_size"})
"""Fields in bytes."""
MOMENTS = frozenset({"opt_start_time", "pause_until"})
ORDERED = frozenset({"backoff"})

FILLED_IN: Mapping[str, Any] = {
    "duplicate_window": 120 * NANOSECONDS,
    "num_replicas": 1,
    "ack_wait": 30 * NANOSECONDS,
    "max_waiting": 512,
    "max_ack_pending": 1000,
    "priority_timeout": 120 * NANOSECONDS,
    "src": ">",
}
"""What the server (2.15) makes of a field that is 0 or empty."""

LEFT_OUT = frozenset({("persist_mode", "default"), ("priority_policy", "none"), ("compression", "none")})
"""Names of what is so anyway; the server does not repeat some of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field that is not as it should be; a field within metadata is `metadata.<key>`."""

    field: str
    before: Any
    after: Any


def differences(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> tuple[Change, ...]:
    """Each field of `wanted` that `actual` has otherwise, in the order of `wanted`."""
    changes: list[Change] = []
    for field, after in wanted.items():
        before = actual.get(field)
        if isinstance(after, Mapping):
            inner = differences(after, before if isinstance(before, Mapping) else {})
            changes += [Change(f"{field}.{each.field}", each.before, each.after) for each in inner]
        elif _normal(field, before) != _normal(field, after) and not _is_filled_in(field, wanted, actual):
            changes.append(Change(field, before, after))
    return tuple(changes)


def without_server_notes(config: Mapping[str, Any]) -> Json:
    """`config` without the metadata that the server notes for itself."""
    result = dict(config)
    if isinstance(result.get("metadata"), Mapping):
        result["metadata"] = {
            key: value for key, value in result["metadata"].items() if not key.startswith(SERVER_METADATA)
        }
    return result


def merged(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Json:
    """`actual` with the fields of `wanted` put in: what an update sends, because what it leaves out is reset."""
    result = dict(actual)
    for field, value in wanted.items():
        inner = actual.get(field)
        result[field] = merged(value, inner or {}) if isinstance(value, Mapping) else value
    return without_server_notes(result)


def _is_filled_in(field: str, wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    """Whether the server has put in what it always does where this is wanted."""
    after, before = wanted[field], actual.get(field)
    match field:
        case "ack_wait" if wanted.get("backoff"):
            return bool(before == wanted["backoff"][0])
        case "duplicate_window" if not after and wanted.get("max_age"):
            return bool(before == min(int(wanted["max_age"]), FILLED_IN["duplicate_window"]))
        case "subjects" if not after:
            return bool(before == [wanted.get("name")])
        case _:
            return not after and field in FILLED_IN and before == FILLED_IN[field]


def _normal(field: str, value: Any) -> Any:
    """One form for what means the same: absent, empty, zero and false; no limit; lists in any order; one moment."""
    if field in UNLIMITED and not (field == "max_ack_pending" and not value):
        return value if isinstance(value, int) and value > 0 else -1
    if isinstance(value, str) and (field, value) in LEFT_OUT:
        return None
    if isinstance(value, str) and field in MOMENTS:
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value)
    if isinstance(value, Mapping):
        return {key: inner for key, each in value.items() if (inner := _normal(key, each)) not in (None, -1)} or None
    if isinstance(value, list):
        each = [_normal("", entry) for entry in value]
        return (each if field in ORDERED else sorted(each, key=str)) or None
    return value or None
