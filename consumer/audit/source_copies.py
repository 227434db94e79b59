"""Bytes that stand twice under different names: one source of a host begins with all bytes of another one.

Such a source is perhaps a copy that a rotation made (copytruncate), archived by a producer that did not recognise it.
Sums of the beginnings of sources, which the audit takes as it reads, show which ones to compare; the sum of the shorter
one is compared with that of as many bytes of the longer one, for which one file is read again, within a bound.

Only what is the host's file from its first byte is compared: no edited lines, no source that began later.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from consumer.archive.event_times import clock_of
from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.parts import Part
from consumer.audit.text_parts import Cuts, TextPart, is_as_sent
from consumer.model import SourceKey
from shipper.bytes_ops import crc32_combine
from shipper.units import counted, format_bytes

LEAST_BYTES = 512
"""Shorter texts are not compared."""
RUNGS = tuple(LEAST_BYTES << 2 * step for step in range(11))
"""Offsets at which the sum of a source is kept, to 512 MiB: what differs in one of them is not compared further."""
CERTAIN_BYTES = 64 * 1024
"""From there on a text needs no times to be no banner, header or fixed report."""
LEAST_TIMES = 2
"""Different times of lines that a shorter text needs: programs write fixed texts again and again, with one or none."""
RECENT_NS = 31 * 86400 * 10**9
"""Older times before the day of the file do not count: they are of a fixed text."""
LEAST_LINES = 64
"""Different lines that are enough without times."""
MOST_SOURCES = 50_000
"""Sources that are remembered, the newest; some 100 MB."""
MOST_READ_BYTES = 1024 * 1024 * 1024
"""Stored bytes that are read again; of further pairs the audit reports the bytes up to a rung."""
READ_COST_BYTES = 64 * 1024
"""Of opening a file, besides its bytes."""
MOST_TRIES = 64
"""Sources that begin alike and are tried for one source, the newest first."""

Reading = Callable[[Part, Mapping[str, Cuts]], Sequence[TextPart]]
"""The parts of a file, read again with other cuts."""
HeadReading = Callable[[Part, str, int], bytes]
"""The first bytes of a source in a file."""


class _Piece(NamedTuple):
    """Consecutive bytes of a source in one file."""

    start: int
    end: int
    crc_before: int  #: of the source up to `start`
    entry: Part


@dataclass(slots=True)
class _SourceText:
    """A source from its first byte, as far as it follows without a hole."""

    key: SourceKey
    file: str
    length: int = 0
    crc: int = 0
    rungs: dict[int, int] = field(default_factory=dict)  #: sums by offset
    pieces: list[_Piece] = field(default_factory=list)

    def add(self, entry: Part, part: TextPart) -> None:
        if self.pieces and self.pieces[-1].entry.path == entry.path:
            self.pieces[-1] = self.pieces[-1]._replace(end=part.end)
        else:
            self.pieces.append(_Piece(part.start, part.end, self.crc, entry))
        self.crc = crc32_combine(self.crc, part.crc, part.end - part.start)
        self.length = part.end
        if self.length in RUNGS:
            self.rungs[self.length] = self.crc

    @property
    def first(self) -> Part:
        return self.pieces[0].entry

    @property
    def lines(self) -> int | None:
        """Lines of it. None means that they are not counted apart from those of other sources."""
        alone = all({span.source for span in piece.entry.spans} == {self.key.id} for piece in self.pieces)
        each = [piece.entry.lines for piece in self.pieces]
        return sum(filter(None, each)) if alone and None not in each else None

    def agrees(self, other: "_SourceText") -> bool:
        """Whether the sums that both have are the same."""
        common = self.rungs.keys() & other.rungs.keys()
        same_length = self.length != other.length or self.crc == other.crc
        return same_length and all(self.rungs[at] == other.rungs[at] for at in common)


class SourceCopies:
    """The beginnings of sources: add every file, then read which ones stand twice."""

    def __init__(self, parts_of: Reading, head_of: HeadReading) -> None:
        self._parts_of = parts_of
        self._head_of = head_of
        self._left_bytes = MOST_READ_BYTES
        self._texts: dict[SourceKey, _SourceText] = {}  # in the order of the archive
        self._forgotten = 0

    @staticmethod
    def cuts(entry: Part) -> Mapping[str, Cuts]:
        """Where the parts of a file end, by source."""
        return dict.fromkeys((span.source for span in entry.spans), RUNGS) if is_as_sent(entry) else {}

    def add(self, entry: Part, parts: Iterable[TextPart]) -> None:
        """A file holds `parts`."""
        for part in parts:
            key = SourceKey(entry.key.host, part.source)
            text = self._texts.get(key)
            if text is None:
                if part.start or not entry.key.file.startswith("/"):
                    continue
                text = self._texts[key] = _SourceText(key, entry.key.file)
            if part.start == text.length:
                text.add(entry, part)
        while len(self._texts) > MOST_SOURCES:
            del self._texts[next(iter(self._texts))]
            self._forgotten += 1

    def findings(self) -> Iterator[Finding]:
        """A note for each source that stands under the name of an earlier one, too. Raises OSError."""
        by_head: dict[tuple[str, int], list[_SourceText]] = {}
        for text in self._texts.values():
            if text.length >= LEAST_BYTES:
                by_head.setdefault((text.key.host, text.rungs[LEAST_BYTES]), []).append(text)
        for alike in by_head.values():
            for number, text in enumerate(alike):
                candidates = (each for each in reversed(alike[:number]) if each.file != text.file)
                likely = [each for each in islice(candidates, MOST_TRIES) if each.agrees(text)]
                likely.sort(key=lambda each: min(each.length, text.length), reverse=True)
                found = ((each, self._common(each, text)) for each in likely)
                original, common = next(((each, common) for each, common in found if common), (None, 0))
                if original is not None and self._is_distinct(text, common):
                    yield _finding(text, original, common)
        if self._forgotten:
            what = counted(self._forgotten, "source")
            yield Finding(
                kind=Kind.SAME_TEXT,
                weight=Weight.NOTE,
                text=f"{what} of the first days were not compared with other names: too many at a time",
                hint="audit fewer days or hosts at a time: --since, --until, --host",
            )

    def _common(self, one: _SourceText, other: _SourceText) -> int:
        """Bytes that both begin with: all of the shorter one, or 0, to a rung if no more may be read."""
        shorter, longer = sorted((one, other), key=lambda each: each.length)
        at = shorter.length
        if longer.length == at:
            return at  # the sums agree
        piece = next(each for each in longer.pieces if each.end >= at)
        cost = piece.entry.stored + READ_COST_BYTES
        if cost > self._left_bytes:
            return max(shorter.rungs)
        self._left_bytes -= cost
        crc = piece.crc_before
        for part in self._parts_of(piece.entry, {longer.key.id: (at,)}):
            if part.source == longer.key.id and piece.start <= part.start < part.end <= at:
                crc = crc32_combine(crc, part.crc, part.end - part.start)
        return at if crc == shorter.crc else 0

    def _is_distinct(self, text: _SourceText, common: int) -> bool:
        """Whether it is no text that a program may write again: a banner, a header, the same report every day."""
        if common >= CERTAIN_BYTES:
            return True
        head, day = self._head_of(text.first, text.key.id, common), dt.date.fromisoformat(text.first.key.date)
        lines = set(head.splitlines())
        if len(lines) >= LEAST_LINES:
            return True
        clock, since = clock_of(head, day, text.first.zone), _midnight_ns(day) - RECENT_NS
        times = {time for line in lines if (time := clock.time_ns(line)) is not None and time >= since}
        return len(times) >= LEAST_TIMES


def _midnight_ns(day: dt.date) -> int:
    return int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp()) * 10**9


def _finding(text: _SourceText, original: _SourceText, common: int) -> Finding:
    is_all, lines = common == text.length, text.lines if common == text.length else None
    size = f"{common:,} bytes" + (f" ({counted(lines, 'line')})" if lines is not None else "")
    what = f"all {size}" if is_all else f"the first {format_bytes(common)} ({common:,} bytes)"
    where = f"{original.file} (source {original.key.id}, {original.first.key.date})"
    return Finding(
        kind=Kind.SAME_TEXT,
        weight=Weight.NOTE,
        host=text.key.host,
        file=text.file,
        date=text.first.key.date,
        path=text.first.path,
        text=f"{what} of source {text.key.id} are in {where}, too: perhaps a copy of a rotation",
        octets=common,
        hint=_hint(text.file),
        other=original.file,
    )


def _hint(file: str) -> str:
    directory, _, name = file.rpartition("/")
    pattern = re.sub(r"\d+(?:[-_.]\d+)*", "*", name)
    return (
        "both stay in the archive, and no command removes one; if it is a copy, let its host leave such files out:"
        f' exclude = ["{directory}/{pattern}"]'
    )
