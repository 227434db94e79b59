"""A heartbeat: the state of a producer every few seconds, in a few kilobytes for any number of files.

The subject identifies its host, because the server protects subjects; the content is what the sender claims.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

from shipper.json_codec import IF_SET, MAX_COUNT, Reader, items, object_in, strict, written
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


def _count(value: Any) -> int:
    return min(max(int(value), 0), MAX_COUNT)


def _seconds(value: Any) -> float:
    """A duration in whole milliseconds."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no duration")
    return round(min(max(number, 0.0), 1e15), 3)


def _short(text: str, most: int = MAX_NAME) -> str:
    return text if len(text) <= most else "…" + text[1 - most :]


def _name(most: int = MAX_NAME) -> Reader:
    return lambda value: _short(str(value), most)


_Count = Annotated[int, _count]
_Seconds = Annotated[float, _seconds]
_Name = Annotated[str, _name()]
_Id = Annotated[str, _name(32), IF_SET]
_Flag = Annotated[bool, lambda value: value is True]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingFile:
    """A file with bytes that are not acknowledged."""

    file: _Name
    offset: _Count  #: acknowledged up to there
    behind: _Count  #: bytes after it
    age: _Seconds  #: seconds since the oldest of them was seen
    still: _Seconds = 0.0  #: seconds for which the offset has not moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One producer at one moment. Durations are seconds, sizes bytes."""

    version: Annotated[str, _name(40)]
    partition: _Count
    every: _Seconds  #: until the next one
    up: _Seconds  #: since the producer began
    files: _Count  #: that are followed
    backlog: _Count = 0  #: bytes seen in the files and not acknowledged
    backlog_age: _Seconds = 0.0  #: since the oldest of them was seen
    backlog_files: _Count = 0
    silent: _Seconds = 0.0  #: since a block was acknowledged, or since the producer began
    shipped: _Count = 0  #: acknowledged since the producer began
    rate: _Seconds = 0.0  #: acknowledged a second, since the heartbeat before
    in_flight: _Count = 0
    delay: Annotated[_Seconds, IF_SET] = 0.0  #: for which lines are collected before they are sent; 0: older producer
    held: _Count = 0  #: in files that ended and are kept until they are archived
    unreadable: _Count = 0  #: files that cannot be read and directories that cannot be listed
    trouble: _Name = ""  #: what ended the last session, while no block was acknowledged since
    leaves: _Flag = False  #: it is stopping: this is its last heartbeat
    ended: Annotated[_Flag, IF_SET] = False  #: and it stops because all of its files are shipped (`--once`)
    refused: Annotated[_Flag, IF_SET] = False  #: another live producer has the name of this host, so this one ends
    instance: _Id = ""  #: the same for every run on one machine, since its boot, with one state directory
    kernel: _Id = ""  #: the same for all processes that see each other's numbers
    run: _Id = ""  #: differs for every process; empty: an older producer, which sends none of these
    machine: Annotated[_Name, IF_SET] = ""  #: host name of the machine
    state: Annotated[_Name, IF_SET] = ""  #: the state directory
    pid: Annotated[_Count, IF_SET] = 0
    other: Annotated[_Name, IF_SET] = (
        ""  #: another live producer under this name, as this one saw it; empty: none was seen lately
    )
    worst: Annotated[tuple[LaggingFile, ...], items(partial(strict, LaggingFile), MAX_FILES)] = ()

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
    sent = {"v": VERSION, **written(strict(Heartbeat, asdict(beat)))}
    while len(content := json.dumps(sent, separators=(",", ":")).encode()) > MAX_BYTES:
        sent["worst"].pop()  # names of which each character takes twelve bytes
    return content


def decode(content: bytes) -> Heartbeat | None:
    """The heartbeat in a message; None: it is none of this version. Every field is within its bounds."""
    try:
        return strict(Heartbeat, object_in(content, version=VERSION)) if len(content) <= MAX_BYTES else None
    except ValueError:
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
