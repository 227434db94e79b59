"""A search as a process: its workers, and the output of what they find."""

import contextlib
import datetime as dt
import itertools
import json
import os
import select
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from consumer.event_times import TimeOf, TimeOrigin
from consumer.logview import file_index
from consumer.logview.display import (
    MARKS,
    STDOUT,
    Screen,
    colour,
    printable,
    screen_for,
    shown_about,
    shown_in,
    shown_time,
)
from consumer.logview.file_index import Part
from consumer.logview.query import USUAL, Piece, Wanted, allowance_of, wanted_of, zone_of
from consumer.search import selection
from consumer.search.file_search import ContextLine, Request
from consumer.search.neighbours import Neighbours
from consumer.search.options import CountBy, ProgressForm, SearchOptions
from consumer.search.pool import Search
from consumer.search.query import Case, Options, Query, parse, parse_fixed
from shipper import units, zones
from shipper.errors import EXIT_OK, EXIT_OTHER, UsageError
from shipper.interrupts import interrupt_on_termination
from shipper.layout import NANOSECONDS, date_of
from shipper.moments import duration_seconds
from shipper.settings import Settings

BARS = " ▏▎▍▌▋▊▉█"
"""Eighths of a character."""
MAX_BAR = 50
MAX_SHOWN = 100_000
"""Lines of context that are remembered, so that none is shown twice."""
MAX_ROWS = 2000
"""Rows of a histogram that are drawn; more buckets are listed without the empty ones between them."""


class ShownHit(NamedTuple):
    """A hit with all that is known of it."""

    time_ns: int  #: by which it was selected
    stored_ns: tuple[int, int]  #: the first and the last time at which it may have been stored
    time_from: TimeOrigin
    host: str
    file: str
    source: str
    offset: int | None
    line: bytes
    before: tuple[ContextLine, ...] = ()
    after: tuple[ContextLine, ...] = ()
    place: tuple[int, int] = (0, 0)  #: where the line begins in the text of its log file, and where the next one begins
    segment: str = ""
    is_cut: bool = False
    zone: str = ""  #: IANA name of the zone of its host


def _decoded(line: bytes) -> str:
    """A line as text; bytes that are no UTF-8 as lone surrogates."""
    return line.decode("utf-8", "surrogateescape")


def json_line(kind: str, **fields: Any) -> bytes:
    """One object of the output of `--json`."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def json_hit(hit: ShownHit, *, by: TimeOf) -> bytes:
    """A hit for programs: `time` is that of storing, `event_time` the one in the line."""
    more: dict[str, Any] = {"cut": True} if hit.is_cut else {}
    first_ns, last_ns = hit.stored_ns
    is_known = first_ns == last_ns
    stored_from = TimeOrigin.STORED if is_known else TimeOrigin.ESTIMATED
    if hit.zone:
        more |= {"zone": hit.zone}
    if by is TimeOf.EVENT:
        more |= {"event_time": shown_in(dt.UTC, hit.time_ns), "time_from": hit.time_from.value}
        more |= {"stored_from": stored_from.value}
    else:
        more |= {"time_from": stored_from.value}
    if not is_known:
        more |= {"stored_between": [shown_in(dt.UTC, first_ns), shown_in(dt.UTC, last_ns)]}
    return json_line(
        "hit",
        time=shown_in(dt.UTC, first_ns),
        host=hit.host,
        file=hit.file,
        source=hit.source,
        offset=hit.offset,
        line=_decoded(hit.line),
        before=[_decoded(each.line) for each in hit.before],
        after=[_decoded(each.line) for each in hit.after],
        segment=hit.segment,
        **more,
    )


def text_hit(hit: ShownHit, screen: Screen, shown: "ShownTimes") -> bytes:
    """A hit for people: control characters are escaped. Lines of context have `-` where a hit has `:`."""
    when, host, file = shown.of(hit), printable(hit.host), printable(hit.file)
    if screen is Screen.COLOURED:
        name = f"\x1b[2m{when}\x1b[0m \x1b[{colour(hit.host)}m{host}\x1b[0m \x1b[2m{file}"
        marks = {":": ":\x1b[0m ", "-": "-\x1b[0m "}
    else:
        name, marks = f"{when} {host} {file}", {":": ": ", "-": "- "}
    cut = " [cut]" if hit.is_cut else ""
    rows = [
        *(f"{name}{marks['-']}{_printable(each.line)}" for each in hit.before),
        f"{name}{marks[':']}{_printable(hit.line)}{cut}",
        *(f"{name}{marks['-']}{_printable(each.line)}" for each in hit.after),
    ]
    return ("\n".join(rows) + "\n").encode()


class Groups:
    """Context for people, as `grep` shows it: no line twice, and `--` between lines that are not neighbours."""

    def __init__(self) -> None:
        self._shown = dict[tuple[str, str, int], None]()  # lines of context, by where they begin
        self._end: tuple[str, str, int] | None = None  # of the last line that was shown

    def next(self, hit: ShownHit) -> tuple[ShownHit, bool]:
        """A hit with the context that was not shown yet, and whether `--` is before it.

        The lines on the other side of another line that matches are the context of that one.
        """
        name = hit.host, hit.file
        before = list(itertools.takewhile(lambda each: not each.is_hit, reversed(hit.before)))[::-1]
        after = itertools.takewhile(lambda each: not each.is_hit, hit.after)
        hit = hit._replace(before=self._new(name, before), after=self._new(name, after))
        begin = hit.before[0].at if hit.before else hit.place[0]
        is_apart = self._end is not None and self._end != (*name, begin)
        self._end = (*name, hit.after[-1].end if hit.after else hit.place[1])
        return hit, is_apart

    def _new(self, name: tuple[str, str], lines: Iterable[ContextLine]) -> tuple[ContextLine, ...]:
        found = tuple(each for each in lines if (*name, each.at) not in self._shown)
        self._shown.update(((*name, each.at), None) for each in found)
        while len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        return found


@dataclass(frozen=True, slots=True)
class ShownTimes:
    """How times are shown to people."""

    by: TimeOf = TimeOf.STORED
    zone: dt.tzinfo | None = dt.UTC  #: None: that of the host of each line

    def of(self, hit: ShownHit) -> str:
        """The time of a hit, with a mark that shows where it is from."""
        zone = self.zone or zones.load(hit.zone) or dt.UTC
        if hit.time_from is TimeOrigin.ESTIMATED:
            return shown_about(zone, *hit.stored_ns, hit.time_ns)
        mark = MARKS[hit.time_from] if self.by is TimeOf.EVENT else ""
        return mark + shown_in(zone, hit.time_ns)


def _printable(line: bytes) -> str:
    return printable(_decoded(line.removesuffix(b"\r")))


def histogram(buckets: Mapping[int, int], bucket_ns: int, zone: dt.tzinfo = dt.UTC) -> bytes:
    """The counts over time as bars."""
    if not buckets:
        return b""
    first, last = min(buckets), max(buckets)
    count = (last - first) // bucket_ns + 1
    starts: Iterable[int] = (  # gaps would fill the screen; where a clock is changed buckets are not in one row
        sorted({*range(first, last + 1, bucket_ns), *buckets} if zone is dt.UTC else buckets)
        if count <= MAX_ROWS
        else sorted(buckets)
    )
    most = max(buckets.values())
    width = max(10, min(MAX_BAR, shutil.get_terminal_size().columns - 40))
    digits = len(str(most))
    rows = (
        f"{shown_in(zone, start)} {buckets.get(start, 0):>{digits}} {_bar(buckets.get(start, 0), most, width)}"
        for start in starts
    )
    return "".join(f"{row.rstrip()}\n" for row in rows).encode()


def _bar(count: int, most: int, width: int) -> str:
    eighths = max(1, round(count * width * 8 / most)) if count else 0
    return BARS[-1] * (eighths // 8) + (BARS[eighths % 8] if eighths % 8 else "")


def counts(rows: Sequence[tuple[str, int]]) -> bytes:
    """Names and their counts, in this order."""
    digits = max((len(str(count)) for _, count in rows), default=1)
    return "".join(f"{count:>{digits}} {printable(name)}".rstrip() + "\n" for name, count in rows).encode()


EXIT_UNREADABLE = 3
DEFAULT_LIMIT = 1000
PROGRESS_SECONDS = 0.5
_RULE = "that of the last line before it with one (^), else the time of storing (*, and ~ where it is an estimate)"
CLEAR_LINE = "\r\x1b[K"


def run(options: SearchOptions, settings: Settings) -> int:
    """Search, and write what is found to stdout; the exit code. Raises UsageError, ConfigError."""
    interrupt_on_termination()
    query_options = Options(case=_case(options), whole_words=options.whole_words)
    query = (parse_fixed if options.fixed else parse)(options.query, query_options)
    by, zone = _time_of(options), zone_of(options.timezone)
    allowance = allowance_of(options.late) if by is TimeOf.EVENT else None
    wanted = wanted_of(
        options.hosts, options.files, since=options.since, until=options.until, now_ns=time.time_ns(),
        zone=zone or dt.UTC, allowance=allowance,
    )  # fmt: skip
    bucket_ns = _bucket(options.histogram)
    counts_only = options.count is not None or (bool(bucket_ns) and options.limit is None)
    most = 0 if counts_only else DEFAULT_LIMIT if options.limit is None else options.limit
    _check(options, excludes_follow=counts_only or bool(bucket_ns), is_unlimited=not most and not counts_only)
    request = Request(
        archive=settings.collector.directory,
        query=query,
        since_ns=wanted.since_ns,
        until_ns=wanted.until_ns,
        before=options.before,
        after=options.after,
        counts_only=counts_only,
        bucket_ns=bucket_ns,
        limit=most,
        newest_first=options.newest_first,
        by=by,
        allowance=allowance or USUAL,
        zone=options.timezone if zone not in {None, dt.UTC} else "",
    )
    parts = file_index.find(request.archive, settings.collector.state, wanted, {})
    output = _Output(
        as_json=options.as_json, screen=screen_for(options.color), progress=options.progress, request=request,
        by=options.count, times=ShownTimes(by, zone), wanted=wanted,
    )  # fmt: skip
    if options.explain:
        output.explain(parts)
        return EXIT_OK
    neighbours = Neighbours(request.archive)
    if options.before or options.after:
        neighbours = Neighbours.around(request.archive, settings.collector.state, wanted, parts)
    jobs = options.jobs or len(os.sched_getaffinity(0))
    with Search(request, parts, jobs=jobs, neighbours=neighbours) as found:
        output.show(found)
    chosen = selection.Selection(wanted, hosts=options.hosts, files=options.files, query=options.query)
    output.notes(selection.notes(request.archive, settings.collector.state, chosen, parts, is_any=output.is_any))
    output.notes(query.notes)
    if options.follow:
        _follow(settings, wanted, query, parts, output)
    return output.end(found)


def _case(options: SearchOptions) -> Case:
    if options.ignore_case and options.case_sensitive:
        raise UsageError("-i excludes -s", hint="leave out both: a query without a capital letter ignores case")
    return Case.IGNORED if options.ignore_case else Case.SENSITIVE if options.case_sensitive else Case.SMART


def _check(options: SearchOptions, *, excludes_follow: bool, is_unlimited: bool) -> None:
    if options.follow and (options.until or options.newest_first or excludes_follow):
        raise UsageError("-f excludes --until, --newest-first, --count and --histogram", hint="search without -f")
    if options.follow and options.by is TimeOf.EVENT:
        raise UsageError("-f excludes --by event: lines that arrive are not sorted", hint="search without -f")
    if options.newest_first and is_unlimited:
        raise UsageError("--newest-first needs a limit", hint="leave out --limit 0")


def _time_of(options: SearchOptions) -> TimeOf:
    return options.by or (TimeOf.STORED if options.follow else TimeOf.EVENT)


def _bucket(text: str) -> int:
    if not text:
        return 0
    seconds = duration_seconds(text)
    if not seconds:
        raise UsageError(f"--histogram {text!r} is not a duration", hint="write 10m, 1h or 30s")
    return max(1, round(seconds * NANOSECONDS))


@dataclass(slots=True, kw_only=True)
class _Output:
    """Writes results to stdout, and progress and errors to stderr."""

    as_json: bool
    screen: Screen
    progress: ProgressForm
    request: Request
    by: CountBy | None
    times: ShownTimes
    wanted: Wanted
    began: float = field(default_factory=time.monotonic)
    is_any: bool = False
    _named: int = 0  # files that could not be read and were named
    _reported: float = 0.0
    _live_hits: int = 0
    _on_screen: bool = False
    _groups: Groups = field(default_factory=Groups)

    def show(self, found: Search) -> None:
        """Write the hits as they come."""
        for hit in found.hits(lambda: self._idle(found)):
            part, (source, offset) = found.parts[hit.number], found.parts[hit.number].source_at(hit.at)
            read = found.totals.by_part.get(hit.number)
            self.hit(
                ShownHit(
                    hit.time_ns, hit.stored_ns, hit.time_origin, part.host, part.file, source, offset, hit.line,
                    hit.before, hit.after, hit.place, segment=read.path if read else part.path, is_cut=hit.is_cut,
                    zone=part.zone,
                )
            )  # fmt: skip
        self._name_unreadable(found)
        self._clear()
        self._totals(found)

    def hit(self, hit: ShownHit) -> None:
        """Write one hit."""
        self.is_any = True
        self._clear()
        if self.as_json:
            self._write(json_hit(hit, by=self.request.by))
            return
        if self.request.before or self.request.after:
            hit, is_apart = self._groups.next(hit)
            self._write(b"--\n" if is_apart else b"")
        self._write(text_hit(hit, self.screen, self.times))

    def live_hit(self, hit: ShownHit) -> None:
        """Write a hit that arrived during the search."""
        self._live_hits += 1
        self.hit(hit)

    def flush(self) -> None:
        """Write what is held. Raises BrokenPipeError: the reader is gone."""
        with _without_number():
            sys.stdout.buffer.flush()
        poll = select.poll()
        poll.register(STDOUT, 0)
        if any(events & select.POLLERR for _, events in poll.poll(0)):  # no process reads the pipe any more
            raise BrokenPipeError

    def end(self, found: Search) -> int:
        """Write the summary; the exit code."""
        totals, origins = found.totals, found.totals.origins
        if self.as_json:
            searched_until = self._searched_until()
            self._write_object(
                "summary",
                hits=totals.hits + self._live_hits,
                bytes_read=totals.bytes_read,
                bytes_total=totals.bytes_total,
                seconds=round(time.monotonic() - self.began, 3),
                truncated=totals.is_truncated,
                by=self.request.by.value,
                time_from={origin.value: origins[origin] for origin in TimeOrigin},
                **({"stored_until": shown_time(searched_until)} if searched_until else {}),
            )
        self.flush()
        if (others := origins.total() - origins[TimeOrigin.LINE]) and self.request.is_by_event:
            self._note(f"{others} of {origins.total()} lines that match have no time of their own: {_RULE}")
        if totals.is_truncated:
            shown = units.counted(totals.hits, "line is", "lines are")
            self._note(f"{shown} shown, there may be more; --limit N shows more of them")
        elif estimated := origins[TimeOrigin.ESTIMATED]:
            self._note(f"of {estimated} lines the time of storing is an estimate (~)")
        if searched_until := self._searched_until():
            self._note(
                f"lines that were stored after {shown_time(searched_until)[:19]}Z were not searched, unless their file"
                " is known to be late; --late 1d searches more"
            )
        if totals.is_approximate:
            self._note(
                "the order is approximate: too many lines to sort them in memory, or some came later than --late"
            )
        if found.unreadable:
            return EXIT_UNREADABLE
        return EXIT_OK if self.is_any else EXIT_OTHER

    def _searched_until(self) -> int:
        """Lines that were stored then or later were not searched, ns; 0: all were."""
        _, until_ns = self.wanted.stored_span()
        is_open = until_ns is None or not self.request.is_by_event or until_ns > time.time_ns()
        return 0 if is_open else until_ns or 0

    def notes(self, notes: Iterable[str]) -> None:
        """Write what the reader may not expect."""
        for each in notes:
            if self.as_json:
                self._write_object("note", note=each)
            self._note(each)

    def explain(self, parts: list[Part]) -> None:
        """Write what would be read."""
        query, stored = self.request.query, sum(part.stored for part in parts)
        days = sorted({date_of(part.path) for part in parts})
        raw, hosts = sum(part.raw for part in parts), len({part.host for part in parts})
        if self.as_json:
            self._write_object(
                "explain", query=query.text, literal=query.explained, files=len(parts), hosts=hosts,
                bytes_total=stored, bytes_raw=raw, days=days, by=self.request.by.value,
            )  # fmt: skip
        else:
            rows = [
                f"query    {query.explained}",
                f"files    {len(parts)} of {hosts} hosts, {stored} bytes stored, {raw} bytes of text",
                f"days     {', '.join(days) or 'none'}",
            ]
            if self.request.is_by_event:
                rows.append(f"time     of the line; without one, {_RULE}; the search counts such lines")
            self._write(("\n".join(rows) + "\n").encode())
        self.flush()

    def _totals(self, found: Search) -> None:
        buckets, by_name = Counter[int](), Counter[str]()
        for number, each in found.totals.by_part.items():
            self.is_any |= bool(each.hits)
            buckets.update(each.buckets)
            part = found.parts[number]
            by_name[{CountBy.HOST: part.host, CountBy.FILE: part.file}.get(self.by or CountBy.ALL, "")] += each.hits
        if self.request.bucket_ns:
            starts = sorted(buckets)
            drawn = histogram(buckets, self.request.bucket_ns, self.times.zone or dt.UTC)
            listed = (json_line("bucket", start=shown_time(start), count=buckets[start]) for start in starts)
            self._write(b"".join(listed) if self.as_json else drawn)
        if self.by is not None:
            counted = Counter({name: hits for name, hits in by_name.items() if hits or self.by is CountBy.ALL})
            if self.by is CountBy.ALL and not counted:
                counted[""] = 0
            rows = sorted(counted.items(), key=lambda row: (-row[1], row[0]))
            listed = (json_line("count", by=self.by.value, name=name, count=hits) for name, hits in rows)
            self._write(b"".join(listed) if self.as_json else counts(rows))
        self.flush()

    def _idle(self, found: Search) -> None:
        self._name_unreadable(found)
        self.flush()
        now = time.monotonic()
        if now - self._reported < PROGRESS_SECONDS:
            return
        self._reported, totals = now, found.totals
        if self.progress is ProgressForm.JSON:
            read, total = totals.bytes_read, totals.bytes_total
            self._write_object("progress", bytes_read=read, bytes_total=total, hits=totals.hits)
            self.flush()
        elif self.progress is ProgressForm.AUTO and os.isatty(sys.stderr.fileno()):
            part = 100 * totals.bytes_read // max(1, totals.bytes_total)
            size, lines = units.format_bytes(totals.bytes_total), units.counted(totals.hits, "line")
            sys.stderr.write(f"{CLEAR_LINE}{part} % of {size}, {lines}")
            sys.stderr.flush()
            self._on_screen = True

    def _name_unreadable(self, found: Search) -> None:
        for path, error in found.unreadable[self._named :]:
            self._named += 1
            if self.as_json:
                self._write_object("unreadable", path=path, error=error)
            self._note(f"{path} cannot be read: {error}")

    def _note(self, text: str) -> None:
        self._clear()
        sys.stderr.write(f"note: {printable(text)}\n")
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._on_screen:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()
            self._on_screen = False

    def _write_object(self, kind: str, **fields: Any) -> None:
        self._write(json_line(kind, **fields))

    def _write(self, data: bytes) -> None:
        with _without_number():
            sys.stdout.buffer.write(data)


@contextlib.contextmanager
def _without_number() -> Iterator[None]:
    """A closed pipe as the face of the commands expects it: click ends with 1 where the error has a number."""
    try:
        yield
    except BrokenPipeError:
        raise BrokenPipeError from None


def _follow(settings: Settings, wanted: Wanted, query: Query, parts: list[Part], output: _Output) -> None:
    """Show what is not in `parts`, then what arrives, until this process is interrupted."""
    import asyncio  # noqa: PLC0415 - only -f needs a server

    from consumer.logview.log_reader import FleetLog, Places  # noqa: PLC0415

    def show(piece: Piece) -> None:
        for line in piece.lines():
            text = line.text.removesuffix(b"\n")
            if query.matches(text):
                stored = (line.time_ns, line.time_ns)
                output.live_hit(
                    ShownHit(
                        line.time_ns, stored, TimeOrigin.STORED, line.host, line.file, line.source, line.offset, text
                    )
                )  # fmt: skip

    async def work() -> None:
        places = Places(settings=settings, archive=None)
        async with FleetLog(places, wanted, patience=60.0, name="search", archived=tuple(parts)) as log:
            async for piece in log.stored(wanted.since_ns, None):
                show(piece)
            output.flush()
            async for piece in log.follow(output.flush):
                show(piece)
                output.flush()

    asyncio.run(work())
