"""Find the hits of a query in the text of one file, with lines of context. Bounded memory, however long lines are."""

import contextlib
import datetime as dt
import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from consumer.archive.event_times import EventTimes, TimeOrigin, clock_of
from consumer.archive.lines import Block, whole_lines
from consumer.archive.parts import Part
from consumer.archive.segment_io import BROKEN
from consumer.archive.segment_reader import SegmentReader
from consumer.read.counting import CountBy, Counted, Values
from consumer.read.neighbours import Neighbours, Placed
from consumer.read.prefilter import candidates
from consumer.read.query import Unit
from consumer.read.records import Records, next_head
from consumer.read.search_request import Request
from consumer.read.severity import severity_of
from shipper.layout import NANOSECONDS

if TYPE_CHECKING:
    from shipper.line_times import LineClock

_NEWLINE = ord("\n")
_SURPLUS = 1000
"""Hits that are kept beyond those that are needed, so that they are sorted seldom."""
BACK_NS = 4 * NANOSECONDS
"""Stored time of the text that is searched first for the newest lines."""
BACK_GROWTH = 4
"""So many times as much is searched next."""
SHOWN_BYTES = 64 * 1024
"""Of a hit's line; the rest is cut off."""
MAX_CONTEXT_BYTES = 1024 * 1024
"""Text of the chunks before that is kept for -B."""


class ContextLine(NamedTuple):
    """A line before or after one that matches."""

    at: int  #: where it begins in the text of its log file, see `Neighbours`
    end: int  #: where the next line begins
    line: bytes  #: without its newline, at most SHOWN_BYTES
    is_hit: bool = False  #: it matches itself


class Hit(NamedTuple):
    """One line that matches."""

    time_ns: int  #: by which it is selected and ordered
    number: int  #: of the task, so that hits of one time have an order
    at: int  #: where the line begins in the text of its file
    line: bytes  #: without its newline, at most SHOWN_BYTES
    is_cut: bool
    before: tuple[ContextLine, ...]
    after: tuple[ContextLine, ...]
    place: tuple[int, int]  #: where the line begins in the text of its log file, and where the next one begins
    stored_ns: tuple[int, int]  #: the first and the last time at which it may have been stored
    time_origin: TimeOrigin = TimeOrigin.STORED

    def order(self, *, newest_first: bool) -> tuple[int, int, int]:
        """Its place in the output."""
        sign = -1 if newest_first else 1
        return sign * self.time_ns, self.number, sign * self.at


class _Match(NamedTuple):
    """A line of a chunk that matches: its bytes in the chunk, newline included, and its times."""

    begin: int
    stop: int
    time_ns: int
    origin: TimeOrigin


@dataclass(slots=True)
class Found:
    """What one file holds."""

    hits: int = 0
    origins: Counter[TimeOrigin] = field(default_factory=Counter)  #: of hits, by event only
    buckets: Counter[int] = field(default_factory=Counter)
    leveled: Counter[tuple[int, str]] = field(default_factory=Counter)  #: buckets by severity
    values: Values = field(default_factory=Values)
    bytes_read: int = 0
    path: str = ""
    is_known: bool = True  #: the form of its times is, as far as that was needed


_newest_first = partial(Hit.order, newest_first=True)
Report = Callable[[list[Hit], int, int], None]
"""Takes hits, the stored time up to which they are complete, and the bytes that were read so far."""


class FileSearch:
    """Searches one part of the archive."""

    def __init__(self, request: Request, part: Part, number: int, report: Report, neighbours: Neighbours) -> None:
        self._request = request
        self._archive = neighbours.reader
        self._neighbours = neighbours
        self._base = self._neighbours.base(part)
        self._part = part
        self._number = number
        self._report = report
        self._waiting: deque[tuple[Hit, list[ContextLine]]] = deque()  # for lines after them
        most = request.most_hits
        keeps_last = most and request.newest_first and not (request.is_by_event or request.reads_back)
        self._last: deque[Hit] | None = deque(maxlen=most) if keeps_last else None
        self._holds = bool(most) and request.newest_first
        """Which hits are the first is known at the end of the file."""
        self._event: EventTimes | None = None
        self._first_times: list[int] = []  # of the first hits by event, negative: a heap, the latest of them on top
        self._clock: LineClock | None = None  # of a file that is read from its end
        self._records: Records | None = None
        self._wanted = (0, part.raw)  # the text that may have been stored in the time that is wanted
        self._ready: list[Hit] = []
        self._tail = b""  # the end of the text before the chunk, for -B
        self._begin = 0  # of the text that is read
        self._earlier: list[ContextLine] | None = None  # the lines before it; None: they were not needed so far
        self._last_hits = deque[int](maxlen=request.before or 1)
        self._found = Found()

    def run(self) -> Found:
        """Search the whole part. Raises OSError, those of BROKEN, RemovedError."""
        request = self._request
        span = request.wanted.stored_span(self._part)
        if request.reads_back:
            self._read_back(*span)
        else:
            stop = self._read(*span)
            if self._waiting:
                self._read_on(self._base + stop)
        if self._event is not None:
            self._found.is_known = self._event.is_known
        if self._holds:
            kept = self._ready if self._last is None else self._last
            self._ready = heapq.nsmallest(request.most_hits, kept, key=_newest_first)
        self._flush(self._part.last_ns)
        return self._found

    def _read(self, since_ns: int, until_ns: int | None) -> int:
        """Search the text that may have been stored in that time, and return where the search ended."""
        request = self._request
        with self._archive.open(self._part, since_ns, until_ns) as reader:
            self._found.path, self._wanted = reader.path, reader.times.within(since_ns, until_ns)
            if request.needs_event:
                self._event = EventTimes(self._part.day, self._part.zone, reader.sample)
            self._begin = stop = reader.text_start
            for text, start, end, at in self._blocks(reader):
                self._begin = at + start if self._found.bytes_read == 0 else self._begin
                stop = at + end
                is_over = self._scan_block(reader, text, start, end, at)
                self._found.bytes_read = reader.stored.octets
                complete_ns = reader.times.at(min(at + end, self._part.raw)) - request.allowance(self._part).late_ns
                if is_over or self._is_enough or self._is_enough_by_event(complete_ns):
                    break
                if not self._holds:
                    self._flush(complete_ns)
        return stop

    def _read_back(self, since_ns: int, until_ns: int | None) -> None:
        """Search the newest text first, in spans of time that grow, until no earlier line can be among the newest."""
        part, ahead_ns = self._part, self._request.allowance(self._part).ahead_ns
        newest_ns = part.last_ns if until_ns is None else min(part.last_ns, until_ns)
        width_ns, end = BACK_NS + min(ahead_ns, newest_ns), part.raw
        while end:
            begin_ns = max(since_ns, newest_ns - width_ns)
            is_all = begin_ns == since_ns
            with self._archive.open(part, begin_ns, until_ns) as reader:
                self._found.path, self._wanted = reader.path, reader.times.within(since_ns, until_ns)
                begin = self._scan_back(reader, end, is_all=is_all)
                earlier_ns = reader.times.bounds(begin)[1]
            kept = heapq.nsmallest(self._request.most_hits, self._ready, key=_newest_first)
            is_full = len(kept) >= self._request.most_hits and kept[-1].time_ns > earlier_ns + ahead_ns
            if is_all or is_full or begin == 0:
                return
            width_ns, end = width_ns * BACK_GROWTH, min(begin, end)

    def _scan_back(self, reader: SegmentReader, end: int, *, is_all: bool) -> int:
        """Search the text up to `end`, and return where that began.

        If lines have times, it is one with a time. `is_all`: it is the first line, as nothing before it is read.
        """
        part, read, begin = self._part, self._found.bytes_read, -1
        clock = self._clock
        if self._request.needs_event:
            clock = self._clock = clock or clock_of(reader.sample, part.day, part.zone)
            self._event = EventTimes(part.day, part.zone, reader.sample, clock)
        for text, start, block_end, at in reader.blocks:
            first, last = start, min(block_end, end - at)
            if begin < 0:
                if clock is not None and clock.has_times and at + start and not is_all:
                    first = next_head(clock, text, start, last)
                begin = at + first
            is_over = first < last and self._scan_block(reader, text, first, last, at)
            self._found.bytes_read = min(part.stored, read + reader.stored.octets)
            if is_over or at + block_end >= end:
                break
        return end if begin < 0 else begin

    def _scan_block(self, reader: SegmentReader, text: bytes, start: int, end: int, at: int) -> bool:
        """Scan whole lines, whose own times count where they have some."""
        if self._event is not None:
            self._event.begin(start)
        is_over = self._scan_lines(reader, text, start, end, at)
        if self._event is not None:
            self._event.end(text, start, end)
        return is_over

    def _blocks(self, reader: SegmentReader) -> Iterator[Block]:
        """Whole lines, or whole records."""
        if self._request.unit is Unit.LINE:
            return reader.blocks
        self._records = Records(self._part, self._neighbours)
        if self._event is not None:
            self._event = EventTimes(self._part.day, self._part.zone, reader.sample, self._records.clock)
        return self._records.blocks(reader.blocks, reader.text_start)

    def _candidates(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Begin and end of the lines or records that match, if the query is decided by that, and else may match."""
        query = self._request.query
        if self._records is not None:
            found = self._records.candidates(query.finder, text, start, end)
            return (each for each in found if query.is_decided or query.matches_record(text[each[0] : each[1]]))
        return (
            (begin, stop)
            for begin, stop in candidates(query.finder, text, start, end)
            if query.is_decided or query.matches(text[begin : stop - (text[stop - 1] == _NEWLINE)])
        )

    @property
    def _is_enough(self) -> bool:
        """Whether the first hits of the file were found, and nothing else in it counts."""
        request = self._request
        needs_all = not request.limit or request.newest_first or request.is_by_event or request.bucket_ns
        return not (needs_all or self._waiting) and self._found.hits >= request.most_hits

    def _is_enough_by_event(self, complete_ns: int) -> bool:
        """The same by event. What follows is not earlier than `complete_ns`."""
        request = self._request
        is_full = 0 < request.most_hits <= len(self._first_times)
        needs_all = not request.is_by_event or request.newest_first or request.bucket_ns or self._waiting
        return is_full and not needs_all and -self._first_times[0] < complete_ns

    def _scan_lines(self, reader: SegmentReader, text: bytes, start: int, end: int, at: int) -> bool:
        """Scan whole lines of a chunk that begins `at`, and return whether all that follows was stored too late."""
        request, (first, last) = self._request, self._wanted
        if at + end <= first and not request.before:
            return False
        if at + start >= last and not self._waiting:
            return True
        position = start
        for found in self._matching(reader, text, start, end, at):
            if request.counts_only:
                continue
            if self._waiting:
                self._follow(text, position, found.stop, self._base + at, found.begin)
            position = found.stop
            hit = self._hit(reader, text, start, at, found)
            if request.after:
                self._waiting.append((hit, []))
            else:
                self._keep(hit)
            if self._is_enough:
                return True
        if self._waiting:
            self._follow(text, position, end, self._base + at)
        if request.before:
            self._tail = (self._tail + text[max(start, end - MAX_CONTEXT_BYTES) : end])[-MAX_CONTEXT_BYTES:]
        return False

    def _matching(self, reader: SegmentReader, text: bytes, start: int, end: int, at: int) -> Iterator[_Match]:
        """Each line that matches and is of the time that is wanted."""
        request, found = self._request, self._found
        since, until = request.wanted.since_ns, request.wanted.until_ns
        since_second = since - since % NANOSECONDS  # the archive knows seconds of storing
        needs_time = bool(since or until is not None or request.bucket_ns or not request.counts_only)
        counted = request.counted if request.counted is not None and request.counted.is_of_lines else None
        bucket = 0
        for begin, stop in self._candidates(text, start, end):
            if not needs_time:
                found.hits += 1
                if counted is not None:
                    found.values.add(counted, _without_end(text, begin, stop))
                continue
            first = stop if self._records is None else text.find(b"\n", begin, stop) + 1 or stop
            own = self._event.time_of(text, begin, first) if self._event is not None else None
            if own is not None:
                (time_ns, origin), earliest = own, since
            else:
                time_ns, is_known = reader.times.known_at(at + begin)
                origin, earliest = TimeOrigin.STORED if is_known else TimeOrigin.ESTIMATED, since_second
            if time_ns < earliest or (until is not None and time_ns >= until):
                continue
            found.hits += 1
            found.origins[origin] += 1
            if request.bucket_ns:
                bucket = bucket_of(time_ns, request.bucket_ns, request.zone or dt.UTC)
                found.buckets[bucket] += 1
            if counted is not None:
                self._count(counted, _without_end(text, begin, stop), bucket)
            if request.most_hits and request.is_by_event:
                keep = heapq.heappush if len(self._first_times) < request.most_hits else heapq.heappushpop
                keep(self._first_times, -time_ns)
            yield _Match(begin, stop, time_ns, origin)

    def _count(self, counted: Counted, line: bytes, bucket: int) -> None:
        """Count a line by what it holds; by severity also over time."""
        if counted.by is CountBy.LEVEL and self._request.bucket_ns:
            level = severity_of(line)
            self._found.values.lines[level] += 1
            self._found.leveled[bucket, level] += 1
        else:
            self._found.values.add(counted, line)

    def _hit(self, reader: SegmentReader, text: bytes, start: int, at: int, found: _Match) -> Hit:
        begin, end = found.begin, found.stop - (text[found.stop - 1] == _NEWLINE)
        place = self._base + at + begin
        before = tuple(self._lines_before(text, start, begin, self._base + at)) if self._request.before else ()
        self._last_hits.append(place)
        return Hit(
            time_ns=found.time_ns,
            number=self._number,
            at=at + begin,
            line=text[begin : min(end, begin + SHOWN_BYTES)],
            is_cut=end - begin > SHOWN_BYTES,
            before=before,
            after=(),
            place=(place, self._base + at + found.stop),
            stored_ns=reader.times.bounds(at + begin),
            time_origin=found.origin,
        )

    def _lines_before(self, text: bytes, start: int, begin: int, base: int) -> list[ContextLine]:
        """`base`: where `text` begins in the text of the log file."""
        wanted = self._request.before
        found = _last_lines(text, start, begin, base, wanted)
        if len(found) < wanted and self._tail:
            found[:0] = _last_lines(self._tail, 0, len(self._tail), base + start - len(self._tail), wanted - len(found))
        if len(found) < wanted and len(self._tail) < MAX_CONTEXT_BYTES:
            if self._earlier is None:
                self._earlier = self._lines_earlier()
            found[:0] = self._earlier[max(0, len(self._earlier) - wanted + len(found)) :]
        return [each._replace(is_hit=True) if each.at in self._last_hits else each for each in found]

    def _lines_earlier(self) -> list[ContextLine]:
        """The lines before the text that is read: of frames that were passed over, and of the parts before."""
        request, found = self._request, list[ContextLine]()
        for part, lines in lines_before(Placed(self._part, self._base), self._begin, request.before, self._neighbours):
            if part is not self._part and part.first_ns >= request.wanted.since_ns:
                lines = [each._replace(is_hit=request.query.matches(each.line)) for each in lines]  # noqa: PLW2901
            found[:0] = lines
        return found

    def _read_on(self, stop: int) -> None:
        """The lines of the log file after `stop`, for the hits that wait for them."""
        wanted = self._request.wanted
        pieces = itertools.chain([Placed(self._part, self._base)], self._neighbours.after(self._part))
        with contextlib.suppress(OSError, *BROKEN):
            for part, base in pieces:
                begin = max(0, stop - base)
                if begin >= part.raw:
                    continue
                is_wanted = wanted.until_ns is None or part.first_ns < wanted.until_ns
                judges = is_wanted and part is not self._part
                with self._archive.open_text(part, begin, part.raw) as chunks:
                    for text, start, end, at in whole_lines(chunks, begin):
                        self._follow(text, start, end, base + at, judges=judges)
                        if not self._waiting:
                            return
        while self._waiting:
            self._complete()

    def _follow(self, text: bytes, position: int, end: int, base: int, hit: int = -1, *, judges: bool = False) -> None:
        """Give the lines between `position` and `end` to the hits that wait for them. `hit`: where one begins."""
        while self._waiting and position < end:
            stop = text.find(b"\n", position, end) + 1 or end
            line = text[position : min(stop - (text[stop - 1] == _NEWLINE), position + SHOWN_BYTES)]
            is_hit = position == hit or (judges and self._request.query.matches(line))
            for _, after in self._waiting:
                after.append(ContextLine(base + position, base + stop, line, is_hit))
            while self._waiting and len(self._waiting[0][1]) >= self._request.after:
                self._complete()
            position = stop

    def _complete(self) -> None:
        hit, after = self._waiting.popleft()
        self._keep(hit._replace(after=tuple(after)))

    def _keep(self, hit: Hit) -> None:
        if self._last is not None:
            self._last.append(hit)
        else:
            self._ready.append(hit)
            if self._holds and len(self._ready) > 2 * self._request.most_hits + _SURPLUS:
                self._ready = heapq.nsmallest(self._request.most_hits, self._ready, key=_newest_first)

    def _flush(self, complete_ns: int) -> None:
        ready, self._ready = self._ready, []
        complete_ns = min([complete_ns, *(hit.time_ns for hit, _ in self._waiting)])
        self._report(ready, complete_ns, self._found.bytes_read)


def _without_end(text: bytes, begin: int, stop: int) -> bytes:
    """A line, or a record, without its last newline."""
    return text[begin : stop - (text[stop - 1] == _NEWLINE)]


def bucket_of(time_ns: int, bucket_ns: int, zone: dt.tzinfo) -> int:
    """Where the bucket begins that a time is in. Hours and days are those of a zone."""
    if zone is dt.UTC:
        return time_ns - time_ns % bucket_ns
    offset = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=zone).utcoffset() or dt.timedelta()
    offset_ns = round(offset.total_seconds()) * NANOSECONDS
    return time_ns - (time_ns + offset_ns) % bucket_ns


def lines_before(
    place: Placed, end: int, count: int, neighbours: Neighbours
) -> Iterator[tuple[Part, list[ContextLine]]]:
    """The last lines before byte `end` of a part, at most `count`, as lines of this part and of those before it."""
    found = octets = 0
    pieces = itertools.chain([(place, end)], ((each, each.part.raw) for each in neighbours.before(place.part)))
    with contextlib.suppress(OSError, *BROKEN):  # a part that cannot be read is named where it is searched
        for (part, base), stop in pieces:
            start = max(0, stop - MAX_CONTEXT_BYTES)
            with neighbours.reader.open_text(part, start, stop) as chunks:
                text = b"".join(chunks)
            lines = _last_lines(text, 0, len(text), base + start, count - found)
            yield part, lines
            found, octets = found + len(lines), octets + sum(len(each.line) for each in lines)
            if start or found >= count or octets >= MAX_CONTEXT_BYTES:
                return


def _last_lines(text: bytes, start: int, end: int, base: int, count: int) -> list[ContextLine]:
    """The last lines between `start` and `end`, at most `count`, oldest first. `base`: where `text` begins."""
    found = deque[ContextLine]()
    while len(found) < count and end > start:
        begin = text.rfind(b"\n", start, end - 1) + 1 or start
        stop = end - (text[end - 1] == _NEWLINE)
        found.appendleft(ContextLine(base + begin, base + end, text[begin : min(stop, begin + SHOWN_BYTES)]))
        end = begin
    return list(found)
