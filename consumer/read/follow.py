"""The logs of all hosts as one: stored lines, oldest first, then new ones. Continues after lost sessions.

stored   each stream up to the message that was its last at the start; what is older than a stream, from the archive
follow   everything after that, also from streams that are created meanwhile

Messages of many streams, and the text of many files, as one sequence, by the time at which they were stored; of the
archive alone also by the times in the lines, where lines of one file keep their order.
"""

import asyncio
import bisect
import contextlib
import difflib
import heapq
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from consumer.archive.event_times import EventTimes, TimeOrigin
from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.segment_io import BROKEN, CHUNK_BYTES
from consumer.archive.segment_reader import RemovedError, SegmentReader
from consumer.archive.selection import Globs, Wanted
from consumer.read.dedup import ArchivedSpans, Deduplicator, archived_spans
from consumer.read.piece import Piece
from shipper import layout
from shipper.errors import Poison, Transient, Unavailable
from shipper.jetstream.ordered_consumer import (
    OrderedReader,
    StartPosition,
    StreamSnapshot,
    StreamWatcher,
    TimedDelivery,
)
from shipper.layout import NANOSECONDS
from shipper.model import Delivery
from shipper.retry import Patience, SessionRetry, Trouble
from shipper.settings import Settings
from shipper.subjects import parse_log_subject

PIECES = 64
"""Into about so many a file is cut, so that those of other hosts come between them."""
LEAST_PIECE_BYTES = 4096
UNPACKER_BYTES = 2 * 1024 * 1024
"""What unpacking a file of some size holds at most, about: the window of its frames."""
MOST_BYTES = 128 * 1024 * 1024
"""Of unpackers at a time: beyond it a file is read in one go, and text of other files of that time comes after it."""
MOST_FILES = 200
_NEWLINE = ord("\n")


class _Next(NamedTuple):
    """A file's next piece. A file that was not opened so far has none."""

    time_ns: int
    number: int
    piece: Piece | None
    rest: Iterator[Piece]
    cost: int


def _archived_pieces(
    archive: ArchiveReader, parts: Sequence[Part], wanted: Wanted, trouble: Callable[[str], None]
) -> Iterator[Piece]:
    """The pieces of some files, oldest first. `trouble` gets a message for each file that cannot be read."""
    waiting = []
    for number, part in enumerate(parts):
        cost = min(part.raw, UNPACKER_BYTES) + 2 * min(part.raw, CHUNK_BYTES)
        late_ns = wanted.allowance.late_ns + part.late * NANOSECONDS if wanted.allowance else 0
        pieces = _requested_pieces(archive, part, wanted, trouble)
        waiting.append(_Next(part.first_ns - late_ns, number, None, pieces, cost))
    heapq.heapify(waiting)
    files = octets = 0  # that are open, and what they need
    while waiting:
        first = heapq.heappop(waiting)
        if first.piece is not None:
            yield first.piece
        elif files >= MOST_FILES or octets + first.cost > MOST_BYTES:
            yield from first.rest
            continue
        else:
            files, octets = files + 1, octets + first.cost
        following = next(first.rest, None)
        if following is None:
            files, octets = files - 1, octets - first.cost
        else:
            heapq.heappush(waiting, first._replace(time_ns=following.time_ns, piece=following))


def _requested_pieces(
    archive: ArchiveReader, part: Part, wanted: Wanted, trouble: Callable[[str], None]
) -> Iterator[Piece]:
    """The pieces of the requested time."""
    try:
        with archive.open(part, *wanted.stored_span(part)) as reader:
            pieces = _pieces(reader, part, wanted)
            if wanted.allowance is None:
                yield from (piece for piece, is_requested in pieces if is_requested)
            else:
                yield from _by_event(pieces, EventTimes(part.day, part.zone, reader.sample), wanted)
    except RemovedError:
        return
    except (OSError, *BROKEN) as error:
        trouble(f"{part.path}: {getattr(error, 'strerror', None) or error}")


def _pieces(reader: SegmentReader, part: Part, wanted: Wanted) -> Iterator[tuple[Piece, bool]]:
    """All that is read, and whether it was stored in the requested time, to the second."""
    since_ns, until_ns = wanted.stored_span(part)
    size, times = min(CHUNK_BYTES, max(LEAST_PIECE_BYTES, part.raw // PIECES)), reader.times
    pieces = (piece for block in reader.blocks for piece in block.pieces(size))
    for start, lines in pieces:
        for at, text in _at_marks(lines, start, times.offsets):
            stored_ns, known = times.at(at), times.bounds(at)
            origin = TimeOrigin.STORED if known[0] == known[1] else TimeOrigin.ESTIMATED
            end_ns = stored_ns if origin is TimeOrigin.STORED else times.at(at + len(text))
            piece = Piece(stored_ns, part.host, part.file, *part.source_at(at), text, known, origin, part.zone)
            yield piece, since_ns <= end_ns and (until_ns is None or stored_ns < until_ns)


def _at_marks(text: bytes, start: int, marks: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Lines that were stored in one second together, and where they begin. `text` begins at `start`."""
    position, number = 0, bisect.bisect_right(marks, start)
    while number < len(marks) and (border := marks[number] - start) < len(text):
        is_line = text[border - 1] == _NEWLINE
        stop = border if is_line else text.find(b"\n", border) + 1 or len(text)
        if stop > position:
            yield start + position, text[position:stop]
            position = stop
        number += 1
    if position < len(text):
        yield start + position, text[position:] if position else text


def _by_event(pieces: Iterator[tuple[Piece, bool]], times: EventTimes, wanted: Wanted) -> Iterator[Piece]:
    """The lines whose own time is requested, in the order of the file, neighbours of one time together."""
    since_ns, until_ns = wanted.since_ns, wanted.until_ns
    for piece, is_requested in pieces:
        text, start, begin, last = piece.text, 0, 0, (0, TimeOrigin.LINE)
        times.begin(0)
        if not is_requested:  # lines without a time may be of one before them
            times.end(text, 0, len(text))
            continue
        while begin < len(text):
            stop = text.find(b"\n", begin) + 1 or len(text)
            own = times.time_of(text, begin, stop) or (piece.time_ns, piece.time_from)
            if begin == 0:
                last = own
            elif own != last:
                yield from _of_time(piece, start, begin, last, since_ns, until_ns)
                start, last = begin, own
            begin = stop
        yield from _of_time(piece, start, len(text), last, since_ns, until_ns)


def _of_time(
    piece: Piece, start: int, end: int, time: tuple[int, TimeOrigin], since_ns: int, until_ns: int | None
) -> Iterator[Piece]:
    time_ns, origin = time
    earliest = since_ns - since_ns % NANOSECONDS if origin in {TimeOrigin.STORED, TimeOrigin.ESTIMATED} else since_ns
    if earliest <= time_ns and (until_ns is None or time_ns < until_ns):
        yield piece.part(start, end)._replace(time_ns=time_ns, time_from=origin)


HORIZON_SECONDS = 0.15
"""So long a message waits for an older one of another stream, once all streams are read to their end."""
PATIENCE_SECONDS = 3.0
"""So long it waits for a stream that has more to give and gives nothing."""


class Merge:
    """The oldest head first. The readers belong to the caller, who may add and remove some between two calls."""

    def __init__(
        self, feeds: Mapping[str, OrderedReader], news: asyncio.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._feeds = feeds
        self._news = news
        self._clock = clock

    async def stored(self, ends: Mapping[str, int], until_ns: int | None) -> tuple[str, Delivery] | None:
        """The oldest message, and its stream, up to the sequences `ends`.

        None means that there is no more. Takes nothing.
        """
        while True:
            self._news.clear()
            heads = self._heads()
            if all(name in heads or feed.caught_up for name, feed in self._feeds.items()):
                return _oldest(
                    {
                        name: head
                        for name, head in heads.items()
                        if head.delivery.sequence <= ends[name]
                        and (until_ns is None or head.delivery.time_ns < until_ns)
                    }
                )
            await self._wait(PATIENCE_SECONDS)

    async def live(self, within: float) -> str | None:
        """The stream whose head is the oldest. None means that nothing came within so many seconds. Takes nothing."""
        until = self._clock() + within
        while True:
            self._news.clear()
            heads = self._heads()
            left = until - self._clock()
            if oldest := _oldest(heads):
                wait = self._horizon(heads) - (self._clock() - heads[oldest[0]].at)
                if wait <= 0:
                    return oldest[0]
                left = wait
            elif left <= 0:
                return None
            await self._wait(left)

    def _horizon(self, heads: Mapping[str, TimedDelivery]) -> float:
        silent = [feed for name, feed in self._feeds.items() if name not in heads]
        if not silent:
            return 0.0
        return HORIZON_SECONDS if all(feed.caught_up for feed in silent) else PATIENCE_SECONDS

    def _heads(self) -> dict[str, TimedDelivery]:
        """Raises what ended a reader."""
        heads = {name: head for name, feed in self._feeds.items() if (head := feed.head) is not None}
        for name, feed in self._feeds.items():
            if feed.trouble is not None and name not in heads:
                raise feed.trouble
        return heads

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


def _oldest(heads: Mapping[str, TimedDelivery]) -> tuple[str, Delivery] | None:
    found = min(heads, key=lambda name: (heads[name].delivery.time_ns, name), default=None)
    return None if found is None else (found, heads[found].delivery)


BUDGET_BYTES = 3 * 1024 * 1024
"""Of messages that wait here, for all streams together; a stream has at least `LEAST_BYTES`.

It is below `max_pending` of the shipped servers: what a slow link has not carried yet waits at the server.
"""
LEAST_BYTES = 1024 * 1024
MOST_FILTERS = 300
"""Subjects that a consumer is given one by one; where more hosts are meant, it gets all and we choose."""
PLAIN_FILE = "messages.log"
OVERLAP_SECONDS = 600
"""A stream is read from so long before the end of what is archived of it: later messages may be archived first while
a source waits for missing bytes, and the clock of another leader may be slow."""
MOST_FOLLOWED = 100
"""Maximum number of hosts that are requested to send lines early. More hosts would cost the fleet too much."""
POLL_SECONDS = 1.0
"""Interval of the checks for new streams and for a closed output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What is read."""

    settings: Settings
    archive: ArchiveReader | None  #: None: in the streams only
    streams: bool = True  #: False: in the archive only


class FleetLog:
    """One reading of the fleet. Owns the session with the server."""

    def __init__(
        self, places: Places, wanted: Wanted, *, patience: float, name: str, archived: tuple[Part, ...] = ()
    ) -> None:
        self.troubled = False  #: a part of the requested lines could not be read
        self.places = places
        self._wanted = wanted
        self._name = name
        self._read_already = archived  # parts of the archive whose text is not repeated
        self._archived_until_ns: dict[int, int] = {}  # of them, by partition
        for part in archived:
            self._archived_until_ns[part.partition] = max(self._archived_until_ns.get(part.partition, 0), part.last_ns)
        self._patience = Patience(at_start=0.0, later=patience)
        self._retry = SessionRetry(name, self._patience, nap=self._wait, report=self._report)
        self._watch: StreamWatcher | None = None
        self._news = asyncio.Event()
        self._readers: dict[str, OrderedReader] = {}
        self._ends: dict[str, StreamSnapshot] = {}
        self._taken: dict[str, int] = {}  # the last sequence of each stream that was cut
        self._hosts: set[str] = set()
        self._sending: set[str] = set()  # hosts of the streams whose lines are meant
        self._are_early = True  # their lines, as they are requested to be
        self._parts: list[Part] = []  # of the archive, older than what the streams hold
        self._cutter = self._new_cutter(ArchivedSpans())

    async def __aenter__(self) -> "FleetLog":
        places = self.places
        try:
            if places.streams:
                for seen in await (await self._session()).poll():
                    self._ends[seen.name] = seen
                    hosts = set(filter(None, map(_host, seen.subjects)))
                    self._hosts |= hosts
                    self._sending.update(filter(self._wanted.hosts.takes, hosts))
            if places.archive is not None:
                self._parts = places.archive.find(self._wanted, self._borders())
                self._hosts.update(part.host for part in self._parts)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the session and remove its consumers."""
        await self._end_session()
        if self._cutter.unreadable:
            tell(f"{self._cutter.unreadable} messages cannot be read; fshipper dlq ls shows what no collector applies")

    # -- what is stored -----------------------------------------------------------------------------------------

    async def stored(self, since_ns: int, until_ns: int | None) -> AsyncGenerator[Piece]:
        """All matching text that was stored at the start, oldest first. May be called again with another time."""
        wanted = replace(self._wanted, since_ns=since_ns, until_ns=until_ns)
        found = [part for part in self._parts if wanted.may_be_in(part)]
        borders = self._borders() if not self._read_already else dict.fromkeys(self._borders(), 0)
        self._cutter = self._new_cutter(archived_spans((*found, *self._read_already), borders, self._plain_file))
        self._taken = {}
        archive = self.places.archive
        archived = _archived_pieces(archive, found, wanted, self._trouble) if archive else iter(())
        older = next(archived, None)
        async for delivery in self._deliveries(wanted):
            while older is not None and older.time_ns <= delivery.time_ns:
                yield older
                older = next(archived, None)
            for piece in self._cutter.cut(delivery):
                yield piece
        while older is not None:
            yield older
            await asyncio.sleep(0)
            older = next(archived, None)

    def _borders(self) -> dict[int, int]:
        return {seen.partition: seen.first_ns for seen in self._ends.values() if seen.first_ns is not None}

    async def _deliveries(self, wanted: Wanted) -> AsyncGenerator[Delivery]:
        """The streams' messages of that time, oldest first. After a lost session those that were not taken yet."""
        while self._ends:
            async with self._retry.attempt():
                watch = await self._session()
                for name, seen in self._ends.items():
                    filters, taken = self._narrow(seen), self._taken.get(name, 0)
                    if filters and taken < seen.last_sequence:
                        archived_ns = self._archived_until_ns.get(seen.partition, 0)
                        first_ns = max(0, wanted.since_ns, archived_ns - OVERLAP_SECONDS * NANOSECONDS)
                        start = StartPosition(taken + 1) if taken else StartPosition(1, first_ns)
                        self._read(watch, name, filters, start)
                merge = Merge(self._readers, self._news)
                ends = {name: seen.last_sequence for name, seen in self._ends.items()}
                while head := await merge.stored(ends, wanted.until_ns):
                    self._take(head[0])
                    yield head[1]
                readers, self._readers = list(self._readers.values()), {}
                if self._watch is not None:
                    await self._watch.stop(readers)
                return

    def _narrow(self, seen: StreamSnapshot) -> list[str]:
        """The subjects of a stream that are meant. It is empty where none is meant."""
        meant = [each for each in seen.subjects if (host := _host(each)) and self._wanted.hosts.takes(host)]
        is_most = len(meant) > MOST_FILTERS or len(meant) == len(seen.subjects)
        return self._filters(seen.partition) if meant and is_most else sorted(meant)

    # -- what comes ---------------------------------------------------------------------------------------------

    async def follow(self, idle: Callable[[], None]) -> AsyncGenerator[Piece]:
        """Everything after what was stored at the start. `idle` is called regularly, also while nothing arrives."""
        for name, seen in self._ends.items():
            self._taken[name] = max(seen.last_sequence, self._taken.get(name, 0))
        while True:
            async with self._retry.attempt():
                watch = await self._session()
                merge, looked = Merge(self._readers, self._news), 0.0
                while True:
                    if time.monotonic() - looked > POLL_SECONDS:
                        idle()
                        await self._check_streams(watch)
                        await self._request_early_lines(watch)
                        looked = time.monotonic()
                    if oldest := await merge.live(POLL_SECONDS):
                        delivery = self._take(oldest)
                        if (host := _host(delivery.subject)) and len(self._sending) <= MOST_FOLLOWED:
                            self._sending.add(host)
                        for piece in self._cutter.cut(delivery):
                            yield piece

    async def _request_early_lines(self, watch: StreamWatcher) -> None:
        """Request that the hosts whose lines are shown send them early, as long as they are shown."""
        if not self._are_early:
            return
        late = "new lines come a second late or more (producer.max_delay)"
        if len(self._sending) > MOST_FOLLOWED:
            self._are_early = False
            tell(f"{late}: there are more than {MOST_FOLLOWED} hosts; name fewer to see lines earlier")
        elif not await watch.request_early_lines(sorted(self._sending)):
            self._are_early = False
            tell(f"{late}: the server refuses requests for earlier ones; `fshipper hosts add` writes the rights anew")

    async def _check_streams(self, watch: StreamWatcher) -> None:
        """Read new streams from their beginning, and forget those that were deleted."""
        partitions = await watch.partitions()
        for name in self._readers.keys() - partitions.keys():
            await watch.stop([self._readers.pop(name)])
            self._taken.pop(name, None)
        for name in partitions.keys() - self._readers.keys():
            self._read(watch, name, self._filters(partitions[name]), StartPosition(self._taken.get(name, 0) + 1))
        self._patience.progress()

    # -- the session --------------------------------------------------------------------------------------------

    async def _session(self) -> StreamWatcher:
        if self._watch is None:
            settings = self.places.settings
            self._watch = await StreamWatcher.open(settings.nats, settings.logs.subject, name=self._name)
        return self._watch

    def _report(self, error: Trouble, _: float) -> None:
        if self._watch is not None:
            tell(f"{error}; trying again")

    async def _wait(self, delay: float) -> None:
        """End the session, and wait until the next one may begin."""
        await self._end_session()
        self._readers = {}
        await asyncio.sleep(delay)
        await self._check_again()

    async def _end_session(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.close()

    async def _check_again(self) -> None:
        """Forget streams that are gone, and how far those were read that are other ones under the same name."""
        try:
            looked = {each.name: each for each in await (await self._session()).poll()}
        except (Transient, Unavailable):
            return  # reported when the next session begins
        for name, seen in list(self._ends.items()):
            now = looked.get(name)
            if now is None or now.created != seen.created:
                self._taken.pop(name, None)
                del self._ends[name]

    def _read(self, watch: StreamWatcher, name: str, filters: list[str], start: StartPosition) -> None:
        budget = max(LEAST_BYTES, BUDGET_BYTES // max(1, len(self._ends)))
        self._readers[name] = watch.read(name, filters, start, budget=budget, news=self._news.set)

    def _take(self, name: str) -> Delivery:
        delivery = self._readers[name].take().delivery
        self._taken[name] = delivery.sequence
        self._patience.served()
        self._patience.progress()
        return delivery

    def _filters(self, partition: int) -> list[str]:
        return self._wanted.subjects(f"{self.places.settings.logs.subject}.p{partition}")

    def _new_cutter(self, shown: ArchivedSpans) -> Deduplicator:
        return Deduplicator(self._wanted, plain_file=self._plain_file, shown=shown)

    @property
    def _plain_file(self) -> str:
        output = self.places.settings.collector.output
        return PLAIN_FILE if layout.is_template(output) else output

    # -- messages -----------------------------------------------------------------------------------------------

    @property
    def is_blank(self) -> bool:
        """Whether the server has no stream of ours."""
        return self.places.streams and not self._ends

    def unknown(self, patterns: Globs) -> dict[str, list[str]]:
        """Those of the patterns that are no host that was seen so far, with hosts of a similar name."""
        unknown = [each for each in patterns.patterns if not any(map(Globs((each,)).takes, self._hosts))]
        return {each: difflib.get_close_matches(each, self._hosts, n=3, cutoff=0.5) for each in unknown}

    def missing_before(self, since_ns: int) -> int | None:
        """The time (ns) at which the streams begin.

        None means before `since_ns`, or that an archive is read.
        """
        cut = [seen.first_ns for seen in self._ends.values() if seen.first_ns and seen.first_sequence > 1]
        first = min(cut, default=0)
        return first if self.places.archive is None and first > since_ns else None

    def _trouble(self, text: str) -> None:
        self.troubled = True
        tell(f"the archive: {text}")


def tell(text: str) -> None:
    """Write a message for a person to stderr."""
    sys.stderr.write(f"note: {text}\n")
    sys.stderr.flush()


def _host(subject: str) -> str:
    """The host of a subject. Empty means that it has none that can be one."""
    try:
        return parse_log_subject(subject).host
    except Poison:
        return ""
