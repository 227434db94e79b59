"""Entries of the journal as journalctl prints them -> lines. Pure; the same entry always gives the same bytes."""

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

Entry = Mapping[str, Any]
"""The fields of one entry: text, a list of numbers (bytes that are no text), a list of those, or null."""

TEXT, JSON = "text", "json"
_MICROSECONDS = 1_000_000


def parse(line: bytes) -> Entry | None:
    """One line of `journalctl --output=json`; None: it is none."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("__CURSOR"), str) else None


def cursor_of(entry: Entry) -> str:
    """Where the entry lies in the journal."""
    return str(entry["__CURSOR"])


def line_of(entry: Entry, style: str) -> bytes:
    """An entry as one line with its newline.

    JSON: every field as journalctl gave it, sorted by name: journalctl itself prints them in another order each time.
    """
    if style == JSON:
        text = json.dumps(entry, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass") + b"\n"
    pid = _first(entry, "SYSLOG_PID", "_PID")
    who = _first(entry, "SYSLOG_IDENTIFIER", "_COMM") or b"unknown"
    tag = b"%b[%b]" % (who, pid) if pid else who
    head = b"%b %b %b: " % (_time(entry), _first(entry, "_HOSTNAME") or b"-", tag)
    return (head + _bytes(entry.get("MESSAGE"))).rstrip(b"\n").replace(b"\n", b"#012") + b"\n"


def lost_between(before: str, after: str) -> int:
    """How many entries lie between two cursors, as their sequence numbers tell; at least 1 where they do not."""
    first, second = _fields(before), _fields(after)
    try:
        between = int(second["i"], 16) - int(first["i"], 16) - 1
        return between if first["s"] == second["s"] and between >= 0 else 1
    except (KeyError, ValueError):
        return 1


def _fields(cursor: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in cursor.split(";"))}


def _first(entry: Entry, *names: str) -> bytes:
    return next((found for name in names if (found := _bytes(entry.get(name)))), b"")


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list) and all(isinstance(each, int) and 0 <= each < 256 for each in value):  # noqa: PLR2004
        return bytes(value)
    return b"\n".join(map(_bytes, value)) if isinstance(value, list) else b""


def _time(entry: Entry) -> bytes:
    """RFC 3339 with microseconds, UTC; 1970 where the entry has no time that is one."""
    try:
        seconds, micros = divmod(int(_first(entry, "__REALTIME_TIMESTAMP")), _MICROSECONDS)
        when = dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
    except (ValueError, OverflowError, OSError):
        return b"1970-01-01T00:00:00.000000Z"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z".encode()
