"""Which changes of a stream would destroy lines, and which ones the server refuses. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from partitioner.diff import Change
from shipper.units import format_bytes

Json = dict[str, Any]

NANOSECONDS = 1_000_000_000

SAFE_FOR_LINES: Mapping[str, tuple[Any, str]] = {
    "discard": ("new", "drops the oldest lines when the stream is full, read or not"),
    "retention": ("limits", "drops lines when they are acknowledged, or when no consumer is there"),
    "storage": ("file", "keeps the lines in memory only"),
    "persist_mode": ("default", "acknowledges lines before they are written: kill -9 of the server loses them"),
    "no_ack": (False, "never tells producers that a line is stored"),
    "sealed": (False, "takes no more lines, and cannot be undone"),
}
"""For a partition's stream: the only value of a field that keeps every line, and what the others do."""

NEVER_UPDATED_STREAM = frozenset({"name", "storage", "persist_mode"})
NEVER_UPDATED_CONSUMER = frozenset(
    {"ack_policy", "deliver_policy", "replay_policy", "max_waiting", "mem_storage", "opt_start_seq", "opt_start_time"}
)
WORK_QUEUE = "workqueue"


def unsafe_settings(changes: Sequence[Change]) -> Iterator[str]:
    """Why these settings would lose lines from a partition's stream from now on."""
    for change in changes:
        safe, effect = SAFE_FOR_LINES.get(change.field, (None, ""))
        if effect and (change.after or safe) != safe:
            yield f"{change.field} {change.after!r} {effect}"


def losses(changes: Sequence[Change], info: Mapping[str, Any]) -> Iterator[str]:
    """Why these changes would lose messages that the stream of `info` holds, or cut producers off from it."""
    state = info["state"]
    for change in changes:
        match change.field:
            case "max_bytes" if 0 < change.after < state["bytes"]:
                yield f"max_bytes {format_bytes(change.after)} is less than the {format_bytes(state['bytes'])} stored"
            case "max_msgs" if 0 < change.after < state["messages"]:
                yield f"max_msgs {change.after} is less than the {state['messages']} stored"
            case "max_msgs_per_subject" if change.after > 0 and state["messages"]:
                yield f"max_msgs_per_subject {change.after} may be less than what is stored for a host"
            case "max_age" if change.after > 0 and (age := _oldest_seconds(info)) > change.after / NANOSECONDS:
                yield f"max_age {change.after / NANOSECONDS:.0f} s would drop messages that are {age:.0f} s old"
            case "subjects":
                gone = sorted(set(change.before or ()) - set(change.after or ()))
                if gone:
                    yield f"producers that publish on {', '.join(gone)} would find no stream"


def impossible_for_stream(changes: Sequence[Change]) -> Iterator[str]:
    """Why the server would refuse these changes of a stream."""
    for change in changes:
        if change.field in NEVER_UPDATED_STREAM:
            yield f"the server cannot change {change.field} ({change.before} to {change.after}) of an existing stream"
        elif change.field == "retention" and WORK_QUEUE in {change.before, change.after}:
            yield f"the server cannot change retention from {change.before} to {change.after}"


def impossible_for_consumer(changes: Sequence[Change]) -> Iterator[str]:
    """Why the server would refuse these changes of a consumer."""
    for change in changes:
        if change.field in NEVER_UPDATED_CONSUMER:
            yield f"the server cannot change {change.field} ({change.before} to {change.after}) of an existing consumer"


def _oldest_seconds(info: Mapping[str, Any]) -> float:
    """Age of the oldest message at the moment of `info`, by the server's own clock; 0 when there is none."""
    if not info["state"]["messages"]:
        return 0.0
    seen = datetime.fromisoformat(info["ts"])
    return (seen - datetime.fromisoformat(info["state"]["first_ts"])).total_seconds()
