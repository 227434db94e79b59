"""The times in the lines of a log file, and how much later than them the lines were stored."""

import codecs
import datetime as dt
import enum
import heapq
import math
import operator
import os
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from consumer.archive.stored_times import StoredTimes
from shipper.layout import NANOSECONDS

if TYPE_CHECKING:
    from shipper.line_times import LineClock

SAMPLE_BYTES = 32 * 1024
"""Of the beginning of a file, from which the form of its times is detected."""
TIMED_BYTES = 64 * 1024
"""Of a line that is searched for a time."""
UNREAD_CHUNKS = 2
"""Chunks before the first line whose time is needed, that are searched for the last time before it."""
LATE_SECONDS = 600
"""So long after the time in it a line is stored at most, usually."""
AHEAD_SECONDS = 60
"""So long before the time in it a line is stored at most, usually: clocks differ."""
PROBES = 24
"""Places of a text whose lines are compared with their stored times, of each kind."""
PROBE_BYTES = 4096


class TimeOf(enum.Enum):
    """Which time orders and selects lines."""

    STORED = "stored"
    EVENT = "event"


class TimeOrigin(enum.Enum):
    """Where the time of a line is from."""

    LINE = "line"
    PREVIOUS = "previous"  #: the first line of its record, or another line before it in the same file
    STORED = "stored"
    ESTIMATED = "estimated"  #: it was stored at about that time: an earlier version did not note the second


def clock_of(sample: bytes, day: dt.date, zone: str) -> "LineClock":
    """The clock of a log file that begins with `sample`, and was stored on `day` (UTC), of a host in `zone`."""
    from shipper import line_times  # noqa: PLC0415 - it compiles many patterns

    most = line_times.SAMPLE_LINES
    text = sample[:SAMPLE_BYTES].removeprefix(codecs.BOM_UTF8)
    lines = text.decode("utf-8", "replace").split("\n", most)[:most]
    whole = lines[:-1] if len(lines) > 1 and len(sample) >= SAMPLE_BYTES else lines
    return line_times.LineClock(line_times.detect_family(whole), day, zone or "UTC")


class EventTimes:
    """The own times of the lines of one part, which is read in order.

    A line without a time has that of the last line before it that has one: the lines of a stack trace have the time of
    the message. Before the first line with a time, and in a file without times, a line has the time of storing.
    """

    def __init__(self, day: dt.date, zone: str, sample: bytes, clock: "LineClock | None" = None) -> None:
        self._day = day  #: on which it was stored (UTC)
        self._zone = zone
        self._clock = clock
        self._sample = sample  # of its text: the form of its times is detected from it
        self._passed = deque[tuple[bytes, int, int]](maxlen=UNREAD_CHUNKS)  # while there is no clock
        self._last: int | None = None  # the time of the last line before `_at` that has one
        self._at = 0

    @property
    def is_known(self) -> bool:
        """Whether the form of its times is known, as far as that was needed."""
        return self._clock is None or self._clock.has_times

    def begin(self, start: int) -> None:
        """The lines from `start` of a text on come next."""
        self._at = start

    def end(self, text: bytes, start: int, end: int) -> None:
        """All lines between `start` and `end` have passed."""
        if self._clock is None:
            self._passed.append((text, start, end))
        else:
            self._search_back(self._clock, text, end)

    def time_of(self, text: bytes, begin: int, stop: int) -> tuple[int, TimeOrigin] | None:
        """The time of the line between `begin` and `stop`, which is after all lines before.

        None means that the time of storing counts.
        """
        clock = self._clock or self._begin_clock()
        if not clock.has_times:
            return None
        own = clock.time_ns(timed(text, begin, stop))
        if own is not None:
            self._last, self._at = own, stop
            return own, TimeOrigin.LINE
        self._search_back(clock, text, begin)
        self._at = stop
        return None if self._last is None else (self._last, TimeOrigin.PREVIOUS)

    def _begin_clock(self) -> "LineClock":
        """Most files have no line that matches: the form of their times is not needed."""
        self._clock = clock_of(self._sample, self._day, self._zone)
        at = self._at
        for text, start, end in self._passed:
            self._at = start
            self._search_back(self._clock, text, end)
        self._passed.clear()
        self._at = at
        return self._clock

    def _search_back(self, clock: "LineClock", text: bytes, end: int) -> None:
        """Find the last time before `end`, where all lines up to it have passed. Lines before `_at` are known."""
        stop = end if clock.has_times else self._at
        while stop > self._at:
            begin = text.rfind(b"\n", self._at, stop - 1) + 1 or self._at
            if (own := clock.time_ns(timed(text, begin, stop))) is not None:
                self._last = own
                break
            stop = begin
        self._at = end


def timed(text: bytes, begin: int, stop: int) -> bytes:
    """The bytes of a line that are searched for a time."""
    return text[begin : min(stop, begin + TIMED_BYTES)].rstrip(b"\r\n")


class Lag(NamedTuple):
    """How far the stored times of a text and the times in its lines are apart, in seconds, where it is unusual."""

    late: int = 0  #: lines were stored so long after the time in them; 0: not more than LATE_SECONDS
    ahead: int = 0  #: lines were stored so long before it; 0: not more than AHEAD_SECONDS


def lag_of(text: BinaryIO, times: StoredTimes, day: dt.date, zone: str, *, probes: int = PROBES) -> Lag:
    """The lag of a plain file, by some of its lines: after pauses of storing, and at even distances. Raises OSError."""
    descriptor = text.fileno()
    clock = clock_of(os.pread(descriptor, min(SAMPLE_BYTES, times.raw), 0), day, zone)
    if not clock.has_times:
        return Lag()
    late = ahead = 0
    for offset in sorted(_probed(times, probes)):
        piece = os.pread(descriptor, min(PROBE_BYTES, times.raw - offset), offset)
        begin = 0
        for line in piece.splitlines(keepends=True):
            own = clock.time_ns(line.rstrip(b"\r\n"))
            if own is not None:
                first_ns, last_ns = times.bounds(offset + begin)
                late = max(late, math.ceil((last_ns - own) / NANOSECONDS))
                ahead = max(ahead, math.ceil((own - first_ns) / NANOSECONDS))
                break
            begin += len(line)
    return Lag(late if late > LATE_SECONDS else 0, ahead if ahead > AHEAD_SECONDS else 0)


def _probed(times: StoredTimes, probes: int) -> set[int]:
    """Offsets that are probed. Lines of a host that was disconnected come after a pause."""
    pauses = enumerate(map(operator.sub, times.seconds[1:], times.seconds), 1)
    long = [(seconds, number) for number, seconds in pauses if seconds > LATE_SECONDS]
    marks = [times.offsets[number] for _, number in heapq.nlargest(probes, long)]
    even = [times.raw * number // probes for number in range(probes)]
    return {0, max(0, times.raw - PROBE_BYTES), *marks, *even}
