"""What a search shows: hits for people and for programs, histograms and counts."""

import datetime as dt
import itertools
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from consumer.read.display import VERSION, Screen, Times, colour, decoded, printable, shown_in
from consumer.read.fields import fields_of
from consumer.read.file_search import ContextLine
from consumer.read.piece import Piece

BARS = " ▏▎▍▌▋▊▉█"
"""Eighths of a character."""
MAX_BAR = 50
MAX_FIELDS = 200
"""Fields of one line that are written."""
MAX_SHOWN = 100_000
"""Lines of context that are remembered, so that none is shown twice."""
MAX_ROWS = 2000
"""Rows of a histogram that are drawn; more buckets are listed without the empty ones between them."""


class ShownHit(NamedTuple):
    """A hit with all that is known of it."""

    piece: Piece  #: the line, or the lines of a record, without the last newline
    before: tuple[ContextLine, ...] = ()
    after: tuple[ContextLine, ...] = ()
    place: tuple[int, int] = (0, 0)  #: where the line begins in the text of its log file, and where the next one begins
    segment: str = ""
    is_cut: bool = False


def json_line(kind: str, **fields: Any) -> bytes:
    """One object of the output of `--json`."""
    return json.dumps({"v": VERSION, "type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def json_hit(hit: ShownHit, times: Times, *, with_fields: bool = False) -> bytes:
    """A hit for programs: `time` is that of storing, `event_time` the one in the line."""
    piece = hit.piece
    more: dict[str, Any] = {"cut": True} if hit.is_cut else {}
    if piece.zone:
        more["zone"] = piece.zone
    if with_fields:
        more["fields"] = fields = dict[str, list[str]]()
        for name, value in fields_of(piece.text.removesuffix(b"\n"))[:MAX_FIELDS]:
            fields.setdefault(name, []).append(value)
    return json_line(
        "hit",
        time=shown_in(dt.UTC, piece.stored_ns[0] if piece.stored_ns else piece.time_ns),
        host=piece.host,
        file=piece.file,
        source=piece.source,
        offset=piece.offset,
        line=decoded(piece.text),
        before=[decoded(each.line) for each in hit.before],
        after=[decoded(each.line) for each in hit.after],
        segment=hit.segment,
        **more,
        **times.fields(piece),
    )


def text_hit(hit: ShownHit, screen: Screen, times: Times) -> bytes:
    """A hit for people: control characters are escaped. Lines of context have `-` where a hit has `:`."""
    piece = hit.piece
    when, host, file = times.of(piece), printable(piece.host), printable(piece.file)
    if screen is Screen.COLOURED:
        name = f"\x1b[2m{when}\x1b[0m \x1b[{colour(piece.host)}m{host}\x1b[0m \x1b[2m{file}"
        marks = {":": ":\x1b[0m ", "-": "-\x1b[0m "}
    else:
        name, marks = f"{when} {host} {file}", {":": ": ", "-": "- "}
    lines = [
        *(("-", each.line) for each in hit.before),
        *((":", line) for line in piece.text.split(b"\n")),  # several of a record
        *(("-", each.line) for each in hit.after),
    ]
    rows = [name + marks[mark] + printable(decoded(line.removesuffix(b"\r"))) for mark, line in lines]
    rows[-1 - len(hit.after)] += " [cut]" if hit.is_cut else ""
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
        name = hit.piece.host, hit.piece.file
        before = list(itertools.takewhile(lambda each: not each.is_hit, reversed(hit.before)))[::-1]
        after = itertools.takewhile(lambda each: not each.is_hit, hit.after)
        at = hit.place[0]
        for line in hit.piece.text.split(b"\n"):
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
