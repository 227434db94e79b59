"""A heartbeat: the state of a producer every few seconds, in a few kilobytes for any number of files.

The subject identifies its host, because the server protects subjects; the content is what the sender claims.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from shipper.subjects import beat_subject, beats_stream
from shipper.units import format_duration

VERSION = 1
MAX_BYTES = 16 * 1024
"""Of one heartbeat; the stream takes no larger one."""
MAX_FILES = 10
"""Number of files in a heartbeat: those with the largest lag."""
MAX_NAME = 240
"""Maximum characters of a file name and of an error text; of a longer one the end is kept."""

STREAM_MAX_BYTES = 32 * 1024 * 1024
"""Maximum bytes of the stream, which the server reserves: enough for 10,000 hosts that each have a backlog."""
KEEP_NS = 30 * 86400 * 10**9
"""How long a silent host stays known."""
DUPLICATE_WINDOW_NS = 100_000_000
"""The server's minimum: it keeps the ids of messages so long, and a host may send ids of several kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingFile:
    """A file with bytes that are not acknowledged."""

    file: str
    offset: int  #: acknowledged up to there
    behind: int  #: bytes after it
    age: float  #: seconds since the oldest of them was seen
    still: float = 0.0  #: seconds for which the offset has not moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One producer at one moment. Durations are seconds, sizes bytes."""

    version: str
    partition: int
    every: float  #: until the next one
    up: float  #: since the producer began
    files: int  #: that are followed
    backlog: int = 0  #: bytes seen in the files and not acknowledged
    backlog_age: float = 0.0  #: since the oldest of them was seen
    backlog_files: int = 0
    silent: float = 0.0  #: since a block was acknowledged, or since the producer began
    shipped: int = 0  #: acknowledged since the producer began
    rate: float = 0.0  #: acknowledged a second, since the heartbeat before
    in_flight: int = 0
    held: int = 0  #: in files that ended and are kept until they are archived
    unreadable: int = 0  #: files that cannot be read and directories that cannot be listed
    trouble: str = ""  #: what ended the last session, while no block was acknowledged since
    leaves: bool = False  #: it is stopping: this is its last heartbeat
    ended: bool = False  #: and it stops because all of its files are shipped (`--once`)
    refused: bool = False  #: another live producer has the name of this host, so this one ends
    instance: str = ""  #: the same for every run on one machine, since its boot, with one state directory
    kernel: str = ""  #: the same for all processes that see each other's numbers
    run: str = ""  #: differs for every process; empty: an older producer, which sends none of these
    machine: str = ""  #: host name of the machine
    state: str = ""  #: the state directory
    pid: int = 0
    other: str = ""  #: another live producer under this name, as this one saw it; empty: none was seen lately
    worst: tuple[LaggingFile, ...] = ()

    @property
    def sender(self) -> str:
        """The process that sent it, for people."""
        since = f", for {format_duration(self.up)}" if self.up else ""
        return f"process {self.pid} on {self.machine or 'an unnamed machine'}, state directory {self.state}{since}"


ENDED_EVERY = KEEP_NS / 1e9
"""`every` of the heartbeat of a producer that ended on purpose: an older version, which does not know `ended`, must not
report it as dead while the stream keeps it."""
DEAD_SECONDS = 20.0
"""Minimum silence after which a producer is dead: one whose stream is full sends a heartbeat every 15 s."""
DEAD_BEATS = 4.0
"""And so many of its own intervals."""


def dead_after(every: float) -> float:
    """Seconds without a heartbeat after which a producer is dead that promised one `every` so many."""
    return max(DEAD_SECONDS, DEAD_BEATS * every)


_SENT_IF_SET = frozenset({"ended", "refused", "instance", "kernel", "run", "machine", "state", "pid", "other"})
_MAX_CHARACTERS = {"version": 40, "instance": 32, "kernel": 32, "run": 32}
"""Of texts that are shorter than `MAX_NAME`."""
_K = TypeVar("_K")


def beats_config(prefix: str, *, replicas: int = 1) -> dict[str, Any]:
    """The stream that keeps the newest heartbeat of each host.

    A lost one is followed by another, so the server need not wait for its disk, where it may do without.
    """
    config = {
        "name": beats_stream(prefix),
        "subjects": [beat_subject(prefix, ">")],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "max_msg_size": MAX_BYTES,
        "max_bytes": STREAM_MAX_BYTES,
        "max_age": KEEP_NS,
        "duplicate_window": DUPLICATE_WINDOW_NS,
        "num_replicas": replicas,
        "allow_direct": True,
        "compression": "none",
        "metadata": {"fshipper.template": "beats-v1"},
    }
    return config if replicas > 1 else {**config, "persist_mode": "async"}


PLAUSIBLE_BYTES = 1 << 50
"""1 PiB; a host that claims more is in no sum, else it would hide the backlog of all others."""
PLAUSIBLE_SECONDS = 20 * 365 * 86400.0


def encode(beat: Heartbeat) -> bytes:
    """`beat` as it travels, at most `MAX_BYTES`."""
    known = {"v": VERSION, **asdict(beat)}
    known |= {name: _short(known[name]) for name in ("trouble", "machine", "state", "other")}
    sent = {name: value for name, value in known.items() if name not in _SENT_IF_SET or value}
    sent["worst"] = [{**each, "file": _short(each["file"])} for each in sent["worst"][:MAX_FILES]]
    while len(content := json.dumps(_rounded(sent), separators=(",", ":")).encode()) > MAX_BYTES:
        sent["worst"].pop()  # names of which each character takes twelve bytes
    return content


def decode(content: bytes) -> Heartbeat | None:
    """The heartbeat in a message; None: it is none of this version. Every field is within its bounds."""
    if len(content) > MAX_BYTES:
        return None
    try:
        received = json.loads(content)
        is_known = isinstance(received, dict) and received.get("v") == VERSION
        return _bounded(Heartbeat, received) if is_known else None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def plausible(beat: Heartbeat) -> Heartbeat:
    """`beat`, or one that names the error if its numbers are impossible: they would hide those of all other hosts."""
    largest = max((beat.backlog, beat.held, beat.in_flight, *(each.behind for each in beat.worst)))
    if largest <= PLAUSIBLE_BYTES and max(beat.backlog_age, beat.silent) <= PLAUSIBLE_SECONDS:
        return beat
    trouble = _short(f"its heartbeat holds numbers that cannot be, {largest} bytes; {beat.trouble}")
    return replace(
        beat, backlog=0, backlog_age=0.0, backlog_files=0, held=0, in_flight=0, silent=0.0, worst=(), trouble=trouble
    )


def _bounded(kind: type[_K], received: Mapping[str, Any]) -> _K:
    """The `kind` with the fields that `received` has. Raises TypeError, ValueError, OverflowError: they do not fit."""
    known = [one for one in fields(kind) if one.name in received]  # type: ignore[arg-type]
    return kind(**{one.name: _value(one.name, one.type, received[one.name]) for one in known})


def _value(name: str, kind: Any, value: Any) -> Any:
    if kind is int:
        return _count(value)
    if kind is float:
        return _seconds(value)
    if kind is bool:
        return value is True
    if kind is str:
        return _short(str(value), _MAX_CHARACTERS.get(name, MAX_NAME))
    if name == "worst":
        return tuple(_bounded(LaggingFile, each) for each in value[:MAX_FILES])
    raise NotImplementedError(f"no bound for {name}: {kind}")


def _count(value: Any) -> int:
    return min(max(int(value), 0), 2**63 - 1)


def _seconds(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no duration")
    return min(max(number, 0.0), 1e15)


def _short(text: str, at_most: int = MAX_NAME) -> str:
    return text if len(text) <= at_most else "…" + text[1 - at_most :]


def _rounded(value: Any) -> Any:
    """Milliseconds are enough."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return {key: _rounded(each) for key, each in value.items()} if isinstance(value, dict) else value
