"""A search as a process: its workers, and the output of what they find."""

import contextlib
import datetime as dt
import os
import select
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consumer.archive.event_times import TimeOrigin
from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.read import selection_notes
from consumer.read.counting import MAX_VALUES, CountBy
from consumer.read.display import STDOUT, Screen, Times, printable, screen_for, shown_time
from consumer.read.neighbours import Neighbours
from consumer.read.options import ProgressForm, SearchOptions
from consumer.read.piece import Piece
from consumer.read.query import Unit
from consumer.read.search_display import Groups, ShownHit, counts, histogram, json_hit, json_line, text_hit
from consumer.read.search_pool import Search
from consumer.read.search_request import Request, request_of
from shipper import units
from shipper.commands import settings_of
from shipper.errors import EXIT_OK, EXIT_OTHER
from shipper.interrupts import interrupt_on_termination
from shipper.layout import date_of

EXIT_UNREADABLE = 3
MAX_NAMED = 3
"""Files without times that are named."""
PROGRESS_SECONDS = 0.5
TOP_VALUES = 100
"""Values of a field that are shown without `--top`."""
_RULE = "that of the last line before it with one (^), else the time of storing (*, and ~ where it is an estimate)"
CLEAR_LINE = "\r\x1b[K"


def run(options: SearchOptions) -> int:
    """Search, and write what is found to stdout, and return the exit code. Raises UsageError, ConfigError."""
    settings = settings_of(options)
    interrupt_on_termination()
    request = request_of(options)
    archive = ArchiveReader(settings.collector.directory, settings.collector.state)
    parts = archive.find(request.wanted)
    output = _Output(
        as_json=options.as_json,
        screen=screen_for(options.color),
        progress=options.progress,
        request=request,
        top=options.top,
        with_fields=options.fields,
        times=Times(request.by, request.zone),
    )
    if options.explain:
        output.explain(parts)
        return EXIT_OK
    neighbours = Neighbours(archive)
    if request.before or request.after or request.unit is Unit.RECORD:
        neighbours = Neighbours.around(archive, request.wanted, parts)
    jobs = options.jobs or len(os.sched_getaffinity(0))
    with Search(request, parts, jobs=jobs, neighbours=neighbours) as found:
        output.show(found)
    output.notes(selection_notes.notes(archive, options, request.wanted, parts, is_any=output.is_any))
    output.notes(request.query.notes)
    if options.follow:
        from consumer.read.search_live import follow  # noqa: PLC0415 - twice the time of the start, for the client of NATS

        follow(request, settings, parts, neighbours, output.live)
    return output.end(found)


def _unknown_formats(found: Search) -> list[tuple[str, str, int]]:
    """Host and path of log files whose times have no format that is known, and how many of their lines match."""
    unknown = Counter[tuple[str, str]]()
    for number, each in found.totals.by_part.items():
        if not each.is_known and each.hits:
            unknown[found.parts[number].host, found.parts[number].file] += each.hits
    ordered = sorted(unknown.items(), key=lambda each: (-each[1], each[0]))
    return [(host, file, lines) for (host, file), lines in ordered]


def _format_notes(unknown: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    for host, file, lines in unknown[:MAX_NAMED]:
        counted = units.counted(lines, "line that matches has", "lines that match have")
        yield f"{host} {file}: the format of its times is not known, {counted} the time of storing"
    if len(unknown) > MAX_NAMED:
        yield f"the same in {units.counted(len(unknown) - MAX_NAMED, 'more file')}"


def _bucket(start_ns: int, count: int, levels: Mapping[str, int] | None) -> bytes:
    by_level = {"levels": levels} if levels else {}
    return json_line("bucket", start=shown_time(start_ns), count=count, **by_level)


def _count_notes(found: Search, rest: Sequence[tuple[str, int]], name: str) -> Iterator[str]:
    """What the counts leave out. `rest`: values that are not shown."""
    values, hits = found.totals.values, found.totals.hits
    if rest:
        lines = units.counted(sum(count for _, count in rest), "line")
        yield f"{units.counted(len(rest), 'more value')} of {lines}; --top N shows more"
    if values.other:
        lines = units.counted(values.other, "line has", "lines have")
        yield f"more than {MAX_VALUES} different values: {lines} another one, and counts may be too low"
    if values.without:
        field = f"a field {printable(name)} (JSON, or {printable(name)}=)"
        if values.without == hits:
            yield f"no line that matches has {field}; --count also takes all, host, file and level"
        else:
            yield f"{values.without} of {units.counted(hits, 'line')} that match have no {field.removeprefix('a ')}"


@dataclass(slots=True, kw_only=True)
class _Output:
    """Writes results to stdout, and progress and errors to stderr."""

    as_json: bool
    screen: Screen
    progress: ProgressForm
    request: Request
    top: int | None
    with_fields: bool
    times: Times
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
                    Piece(
                        hit.time_ns,
                        part.host,
                        part.file,
                        source,
                        offset,
                        hit.line,
                        hit.stored_ns,
                        hit.time_origin,
                        part.zone,
                    ),
                    hit.before,
                    hit.after,
                    hit.place,
                    segment=read.path if read else part.path,
                    is_cut=hit.is_cut,
                )
            )
        self._name_unreadable(found)
        self._clear()
        self._totals(found)

    def hit(self, hit: ShownHit) -> None:
        """Write one hit."""
        self.is_any = True
        self._clear()
        if self.as_json:
            self._write(json_hit(hit, self.times, with_fields=self.with_fields))
            return
        if self.request.before or self.request.after:
            hit, is_apart = self._groups.next(hit)
            self._write(b"--\n" if is_apart else b"")
        self._write(text_hit(hit, self.screen, self.times))

    def live(self, hits: Iterable[ShownHit]) -> None:
        """Write hits that arrived during the search. Raises as `flush`."""
        for hit in hits:
            self._live_hits += 1
            self.hit(hit)
        self.flush()

    def flush(self) -> None:
        """Write what is held. Raises BrokenPipeError: the reader is gone."""
        with _without_number():
            sys.stdout.buffer.flush()
        poll = select.poll()
        poll.register(STDOUT, 0)
        if any(events & select.POLLERR for _, events in poll.poll(0)):  # no process reads the pipe any more
            raise BrokenPipeError

    def end(self, found: Search) -> int:
        """Write the summary, and return the exit code."""
        totals, origins = found.totals, found.totals.origins
        unknown = _unknown_formats(found) if self.request.is_by_event else []
        if self.as_json:
            searched_until = self._searched_until()
            named = [{"host": host, "file": file, "lines": lines} for host, file, lines in unknown]
            self._write_object(
                "summary",
                hits=totals.hits + self._live_hits,
                bytes_read=totals.bytes_read,
                bytes_total=totals.bytes_total,
                seconds=round(time.monotonic() - self.began, 3),
                truncated=totals.is_truncated,
                by=self.request.by.value,
                time_from={origin.value: origins[origin] for origin in TimeOrigin},
                **self._without(found),
                **({"stored_until": shown_time(searched_until)} if searched_until else {}),
                **({"unknown_formats": named} if named else {}),
            )
        self.flush()
        if (others := origins.total() - origins[TimeOrigin.LINE]) and self.request.is_by_event:
            self._note(f"{others} of {origins.total()} lines that match have no time of their own: {_RULE}")
        for note in _format_notes(unknown):
            self._note(note)
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

    def _without(self, found: Search) -> dict[str, int]:
        """How many lines lack the field that is counted, or have a value that is not counted, for programs."""
        counted, values = self.request.counted, found.totals.values
        return {"without_field": values.without, "other_values": values.other} if counted and counted.field else {}

    def _searched_until(self) -> int:
        """Lines that were stored then or later were not searched, ns. 0 means that all were."""
        _, until_ns = self.request.wanted.stored_span()
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
        raw, by_host = sum(part.raw for part in parts), Counter[str]()
        for part in parts:
            by_host[part.host] += part.raw
        if self.as_json:
            self._write_object(
                "explain",
                query=query.text,
                literal=query.explained,
                files=len(parts),
                hosts=len(by_host),
                by_host=dict(by_host),
                bytes_total=stored,
                bytes_raw=raw,
                days=days,
                by=self.request.by.value,
            )
        else:
            rows = [
                f"query    {query.explained}",
                f"files    {len(parts)} of {len(by_host)} hosts, {stored} bytes stored, {raw} bytes of text",
                f"days     {', '.join(days) or 'none'}",
            ]
            if self.request.is_by_event:
                rows.append(f"time     of the line; without one, {_RULE}; the search counts such lines")
            self._write(("\n".join(rows) + "\n").encode())
        self.flush()

    def _totals(self, found: Search) -> None:
        buckets, leveled = Counter[int](), dict[int, dict[str, int]]()
        for each in found.totals.by_part.values():
            self.is_any |= bool(each.hits)
            buckets.update(each.buckets)
            for (start, level), hits in each.leveled.items():
                levels = leveled.setdefault(start, {})
                levels[level] = levels.get(level, 0) + hits
        if self.request.bucket_ns:
            drawn = histogram(buckets, self.request.bucket_ns, self.request.zone or dt.UTC)
            listed = (_bucket(start, buckets[start], leveled.get(start)) for start in sorted(buckets))
            self._write(b"".join(listed) if self.as_json else drawn)
        if self.request.counted is not None:
            counted = self._counts(found)
            ordered = sorted(counted.items(), key=lambda row: (-row[1], row[0]))
            most = self.top or (TOP_VALUES if self.request.counted.by is CountBy.FIELD else None)
            rows, rest = ordered[:most], ordered[most:] if most else []
            by = self.request.counted.name
            listed = (json_line("count", by=by, name=name, count=hits) for name, hits in rows)
            self._write(b"".join(listed) if self.as_json else counts(rows))
            self.notes(_count_notes(found, rest, self.request.counted.field))
        self.flush()

    def _counts(self, found: Search) -> Mapping[str, int]:
        counted, by_name = self.request.counted, Counter[str]()
        if counted is not None and counted.is_of_lines:
            return found.totals.values.lines
        is_all = counted is not None and counted.by is CountBy.ALL
        for number, each in found.totals.by_part.items():
            part = found.parts[number]
            by_name["" if is_all else part.host if counted and counted.by is CountBy.HOST else part.file] += each.hits
        return {"": by_name[""]} if is_all else {name: hits for name, hits in by_name.items() if hits}

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
