"""Records of a log file: a line with a time, and the lines without one after it, such as a stack trace. Bounded memory.

A record belongs to the part in which its first line is. A part without times has those of the part before it: it may
hold nothing but a stack trace. In a log file without times each line is a record.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from consumer.archive.event_times import SAMPLE_BYTES, clock_of, timed
from consumer.archive.lines import Block, whole_lines
from consumer.archive.parts import Part
from consumer.read.neighbours import Neighbours
from consumer.read.prefilter import Finder

if TYPE_CHECKING:
    from shipper.line_times import LineClock

MAX_RECORD_BYTES = 1024 * 1024
"""The lines after so many bytes are a record of their own."""
MAX_RECORD_LINES = 1000
"""The same for lines."""
MAX_PARTS = 100
"""Parts that are searched for the format of the times in a part without them."""


class Records:
    """Where the records of a part begin."""

    def __init__(self, part: Part, neighbours: Neighbours) -> None:
        self._part = part
        self._neighbours = neighbours
        self.clock = self._clock_of(part, self._sample(part))

    def blocks(self, lines: Iterator[Block], begin: int) -> Iterator[Block]:
        """The same lines as blocks of whole records. The last one is continued in what follows.

        `begin`: where the first line begins. The end of a record that began before is left out.
        """
        held, at, stop = b"", begin, begin
        is_rest = bool(begin) or self._is_after_times()
        for block in lines:
            stop = block.at + block.end
            first = next_head(self.clock, block.text, block.start, block.end)
            if not is_rest and not held and first > block.start:
                held, at = block.text[block.start : first], block.at + block.start
            elif held:
                held += block.text[block.start : first]
            if first == block.end and len(held) < MAX_RECORD_BYTES:
                continue
            if held:
                yield Block(held, 0, len(held), at)
                held = b""
            is_rest = False if first < block.end else is_rest
            if first < block.end:
                last = _last(self.clock, block.text, first, block.end)
                if last > first:
                    yield Block(block.text, first, last, block.at)
                held, at = block.text[last : block.end], block.at + last
        if held:
            held += b"".join(self._rest(stop, MAX_RECORD_BYTES - len(held)))
            yield Block(held, 0, len(held), at)

    def candidates(self, finder: Finder, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Begin and end of each record between `start` and `end` that may match."""
        next_position, at = finder(text, start, end), start
        while at < end and (found := next_position(at)) >= 0:
            first_end = text.find(b"\n", at, end) + 1 or end  # a record begins at `at`
            if found >= first_end:
                at = _last(self.clock, text, at, text.find(b"\n", found, end) + 1 or end)
                first_end = text.find(b"\n", at, end) + 1 or end
            begin, whole = at, next_head(self.clock, text, first_end, end)
            while at <= found:  # of a record that is too long the piece with the place
                begin, at = at, _bounded(text, at, whole)
            yield begin, at

    def _clock_of(self, part: Part, sample: bytes) -> "LineClock":
        clock = clock_of(sample, part.day, part.zone)
        if clock.has_times:
            return clock
        for number, (each, _) in enumerate(self._neighbours.before(part)):
            earlier = clock_of(self._sample(each), part.day, part.zone)
            if earlier.has_times or number >= MAX_PARTS:
                return clock_of(self._sample(each), part.day, part.zone)
        return clock

    def _sample(self, part: Part) -> bytes:
        with self._neighbours.reader.open_text(part, 0, min(part.raw, SAMPLE_BYTES)) as chunks:
            return b"".join(chunks)

    def _is_after_times(self) -> bool:
        """Whether the first lines may continue a record of the part before."""
        before = next((each.part for each in self._neighbours.before(self._part)), None)
        return before is not None and self._clock_of(before, self._sample(before)).has_times

    def _rest(self, stop: int, most: int) -> Iterator[bytes]:
        """The lines after `stop`, where the text of the part that is read ends, up to the next record."""
        if not self.clock.has_times or most <= 0:
            return
        base, reader = self._neighbours.base(self._part), self._neighbours.reader
        for part, at in ((self._part, base), *self._neighbours.after(self._part)):
            begin = stop if part is self._part else 0
            if begin >= part.raw:
                continue
            clock = self.clock if part is self._part else self._clock_of(part, self._sample(part))
            with reader.open_text(part, begin, part.raw) as chunks:
                for text, start, end, _ in whole_lines(chunks, at):
                    first = next_head(clock, text, start, end)
                    yield text[start : min(first, start + most)]
                    most -= first - start
                    if first < end or most <= 0:
                        return


def _is_head(clock: "LineClock", text: bytes, begin: int, stop: int) -> bool:
    return not clock.has_times or clock.time_ns(timed(text, begin, stop)) is not None


def next_head(clock: "LineClock", text: bytes, begin: int, end: int) -> int:
    """Where the first record at or after `begin` begins. `end` means that there is none."""
    while begin < end:
        stop = text.find(b"\n", begin, end) + 1 or end
        if _is_head(clock, text, begin, stop):
            return begin
        begin = stop
    return end


def _last(clock: "LineClock", text: bytes, start: int, end: int) -> int:
    """Where the last record before `end` begins. `start` means that there is none."""
    while end > start:
        begin = text.rfind(b"\n", start, end - 1) + 1 or start
        if _is_head(clock, text, begin, end):
            return begin
        end = begin
    return start


def _bounded(text: bytes, begin: int, end: int) -> int:
    """Where a record that begins at `begin` ends, by its bytes and lines, at `end` at the latest."""
    if end - begin <= MAX_RECORD_LINES:  # it cannot have more lines than bytes
        return end
    stop = begin
    for _ in range(MAX_RECORD_LINES):
        following = text.find(b"\n", stop, end) + 1 or end
        if stop > begin and following - begin > MAX_RECORD_BYTES:
            return stop
        stop = following
        if stop >= end:
            return end
    return stop
