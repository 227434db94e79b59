"""What a search shows: hits for people and for programs, histograms and counts."""

import datetime as dt
import itertools
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from consumer.archive.event_times import TimeOf, TimeOrigin
from consumer.read.display import MARKS, Screen, colour, printable, shown_about, shown_in
from consumer.read.file_search import ContextLine
from shipper import zone_names

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
    """A line as text, with bytes that are no UTF-8 as lone surrogates."""
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
    lines = hit.line.split(b"\n")  # several of a record
    rows = [
        *(f"{name}{marks['-']}{_printable(each.line)}" for each in hit.before),
        *(f"{name}{marks[':']}{_printable(line)}" for line in lines[:-1]),
        f"{name}{marks[':']}{_printable(lines[-1])}{cut}",
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
        at = hit.place[0]
        for line in hit.line.split(b"\n"):
            self._shown[*name, at] = None
            at += len(line) + 1
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
        zone = self.zone or zone_names.load(hit.zone) or dt.UTC
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
