"""The own times of the lines of one file, for `fshipper search --by event`.

A line without a time has that of the last line before it that has one: the lines of a stack trace have the time of the
message. Before the first line with a time, and in a file without times, a line has the time of storing.
"""

import codecs
import datetime as dt

from consumer.logview.file_index import Part
from consumer.search.options import TimeOrigin
from shipper.layout import date_of, day_of
from shipper.line_times import SAMPLE_LINES, LineClock, detect_family

_SAMPLE_BYTES = 32 * 1024
_LINE_BYTES = 64 * 1024
"""Of a line that is searched for a time."""


class EventTimes:
    """The times of lines of one part, which is read from its beginning, in order."""

    def __init__(self, part: Part) -> None:
        self._day = dt.date.fromisoformat(day_of_path(part))
        self._clock: LineClock | None = None
        self._last: int | None = None  # the time of the last line before `_at` that has one
        self._at = 0

    def begin(self, text: bytes, start: int, end: int) -> None:
        """The lines between `start` and `end` come next."""
        self._at = start
        if self._clock is None:
            sample = text[start : min(end, start + _SAMPLE_BYTES)].removeprefix(codecs.BOM_UTF8)
            lines = sample.decode("utf-8", "replace").split("\n", SAMPLE_LINES)[:SAMPLE_LINES]
            whole = lines[:-1] if len(lines) > 1 and len(sample) == _SAMPLE_BYTES else lines
            self._clock = LineClock(detect_family(whole), self._day)

    def time_of(self, text: bytes, begin: int, stop: int, stored_ns: int) -> tuple[int, TimeOrigin]:
        """The time of the line between `begin` and `stop`, which is after all lines before."""
        own = self._own(text, begin, stop)
        if own is not None:
            self._last, self._at = own, stop
            return own, TimeOrigin.LINE
        self._search_back(text, begin)
        self._at = stop
        return (stored_ns, TimeOrigin.STORED) if self._last is None else (self._last, TimeOrigin.PREVIOUS)

    def end(self, text: bytes, end: int) -> None:
        """All lines up to `end` have passed."""
        self._search_back(text, end)

    def _search_back(self, text: bytes, end: int) -> None:
        """Find the last time before `end`; lines before `_at` are known."""
        if self._clock is None or not self._clock.has_times:
            return
        stop = end
        while stop > self._at:
            begin = text.rfind(b"\n", self._at, stop - 1) + 1 or self._at
            if (own := self._own(text, begin, stop)) is not None:
                self._last = own
                break
            stop = begin
        self._at = end

    def _own(self, text: bytes, begin: int, stop: int) -> int | None:
        if self._clock is None or not self._clock.has_times:
            return None
        return self._clock.time_ns(text[begin : min(stop, begin + _LINE_BYTES)].rstrip(b"\r\n"))


def day_of_path(part: Part) -> str:
    """The UTC day on which the text of a part was stored: of its directory."""
    return date_of(part.path) if part.path.startswith("date=") else day_of(part.first_ns)
