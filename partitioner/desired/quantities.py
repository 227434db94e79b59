"""Sizes and times in the server's own fields, as people write them: `max_bytes = "50GB"`, `max_age = "24h"`. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shipper.errors import ConfigError
from shipper.units import parse_seconds, parse_size

NANOSECONDS = 1_000_000_000

SIZES = frozenset({"max_bytes", "max_msg_size"})
TIMES = frozenset(
    {"max_age", "duplicate_window", "ack_wait", "inactive_threshold", "idle_heartbeat", "max_expires"}
    | {"subject_delete_marker_ttl", "priority_timeout", "backoff"}
)
"""Nanoseconds in the server's JSON."""


def in_server_units(value: Any, field: str = "") -> Any:
    """`value` with sizes in bytes, times in nanoseconds and moments in RFC 3339, however deep.

    Raises:
        ConfigError: a text in a field of sizes or times is none.
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
