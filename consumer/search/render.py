"""The results of a search as text for people, or as JSON for programs. Pure, but for the width of the terminal."""

import json
import shutil
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from consumer.logview.display import Screen, colour, printable, shown_time

BARS = " ▏▎▍▌▋▊▉█"
"""Eighths of a character."""
MAX_BAR = 50
MAX_ROWS = 2000
"""Rows of a histogram that are drawn; more buckets are listed without the empty ones between them."""


class ShownHit(NamedTuple):
    """A hit with all that is known of it."""

    time_ns: int  #: by which it was selected
    host: str
    file: str
    source: str
    offset: int | None
    line: bytes
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    segment: str = ""
    is_cut: bool = False
    stored_ns: int = 0  #: 0: it is `time_ns`
    time_from: str = ""  #: where the own time of the line is from; empty: it was not read


def text(line: bytes) -> str:
    """A line as text; bytes that are no UTF-8 as lone surrogates."""
    return line.decode("utf-8", "surrogateescape")


def json_line(kind: str, **fields: Any) -> bytes:
    """One object of the output of `--json`."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def json_hit(hit: ShownHit) -> bytes:
    """A hit for programs."""
    more: dict[str, Any] = {"cut": True} if hit.is_cut else {}
    if hit.time_from:
        more |= {"event_time": shown_time(hit.time_ns), "time_from": hit.time_from}
    return json_line(
        "hit",
        time=shown_time(hit.stored_ns or hit.time_ns),
        host=hit.host,
        file=hit.file,
        source=hit.source,
        offset=hit.offset,
        line=text(hit.line),
        before=list(map(text, hit.before)),
        after=list(map(text, hit.after)),
        segment=hit.segment,
        **more,
    )


def text_hit(hit: ShownHit, screen: Screen, *, has_context: bool) -> bytes:
    """A hit for people: control characters are escaped. Lines of context have `-` where a hit has `:`."""
    when, host, file = shown_time(hit.time_ns), printable(hit.host), printable(hit.file)
    if screen is Screen.COLOURED:
        name = f"\x1b[2m{when}\x1b[0m \x1b[{colour(hit.host)}m{host}\x1b[0m \x1b[2m{file}"
        marks = {":": ":\x1b[0m ", "-": "-\x1b[0m "}
    else:
        name, marks = f"{when} {host} {file}", {":": ": ", "-": "- "}
    cut = " [cut]" if hit.is_cut else ""
    rows = [
        *(f"{name}{marks['-']}{_shown(line)}" for line in hit.before),
        f"{name}{marks[':']}{_shown(hit.line)}{cut}",
        *(f"{name}{marks['-']}{_shown(line)}" for line in hit.after),
    ]
    return ("\n".join(rows) + ("\n--\n" if has_context else "\n")).encode()


def _shown(line: bytes) -> str:
    return printable(text(line.removesuffix(b"\r")))


def histogram(buckets: Mapping[int, int], bucket_ns: int) -> bytes:
    """The counts over time as bars."""
    if not buckets:
        return b""
    first, last = min(buckets), max(buckets)
    count = (last - first) // bucket_ns + 1
    starts: Iterable[int] = (
        range(first, last + 1, bucket_ns) if count <= MAX_ROWS else sorted(buckets)  # gaps would fill the screen
    )
    most = max(buckets.values())
    width = max(10, min(MAX_BAR, shutil.get_terminal_size().columns - 40))
    digits = len(str(most))
    rows = (
        f"{shown_time(start)[:19]}Z {buckets.get(start, 0):>{digits}} {_bar(buckets.get(start, 0), most, width)}"
        for start in starts
    )
    return "".join(f"{row.rstrip()}\n" for row in rows).encode()


def _bar(count: int, most: int, width: int) -> str:
    eighths = max(1, round(count * width * 8 / most)) if count else 0
    return BARS[-1] * (eighths // 8) + (BARS[eighths % 8] if eighths % 8 else "")


def counts(found: Mapping[str, int]) -> bytes:
    """Counts by name, largest first."""
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    digits = max((len(str(count)) for _, count in rows), default=1)
    return "".join(f"{count:>{digits}} {printable(name)}".rstrip() + "\n" for name, count in rows).encode()
