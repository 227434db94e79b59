"""What differs between a configuration that should be and the raw one that is. Pure.

Only what is wanted counts: fields that the server filled in, or that somebody else set and the template does not
name, are no difference and survive an update.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SERVER_METADATA = "_nats."
"""The server notes its version and the API level in metadata under this prefix."""

UNLIMITED = frozenset(
    {"max_bytes", "max_msgs", "max_msgs_per_subject", "max_msg_size", "max_consumers", "max_deliver", "max_ack_pending"}
)
"""Limits for which the server answers -1 where 0 was asked."""


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
        elif _normal(field, before) != _normal(field, after):
            changes.append(Change(field, before, after))
    return tuple(changes)


def merged(wanted: Mapping[str, Any], actual: Mapping[str, Any]) -> Json:
    """`actual` with the fields of `wanted` put in: what an update sends, because what it leaves out is reset."""
    result = dict(actual)
    for field, value in wanted.items():
        inner = actual.get(field)
        result[field] = merged(value, inner or {}) if isinstance(value, Mapping) else value
    if isinstance(result.get("metadata"), Mapping):
        own = {key: value for key, value in result["metadata"].items() if not key.startswith(SERVER_METADATA)}
        result["metadata"] = own
    return result


def _normal(field: str, value: Any) -> Any:
    """One form for what means the same: absent, empty, zero and false; no limit; lists in any order."""
    if field in UNLIMITED:
        return value if isinstance(value, int) and value > 0 else -1
    if isinstance(value, list):
        return sorted(value, key=str) or None
    return value or None
