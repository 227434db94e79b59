"""Which bytes of each source the archive holds, from the spans of all files: what is doubled, what is missing. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.writing.watermark import SourceKey
from shipper.duplicates import Bounds, begins, cover
from shipper.model import Span


class Held(NamedTuple):
    """An uninterrupted run of a source's bytes, and the day on which it begins."""

    start: int
    end: int
    date: str


class Wanted(NamedTuple):
    """From where to where a source must be there; None: from or to where it is, nobody knows better."""

    start: int | None
    end: int | None


class Hole(NamedTuple):
    """Bytes that no file holds and no gap record names."""

    source: SourceKey
    file: str
    span: Span
    date: str  #: of the bytes behind it


@dataclass(slots=True)
class _Source:
    file: str
    held: Bounds = field(default_factory=list)
    dates: dict[int, str] = field(default_factory=dict)  #: the day of the bytes at the beginning of each run
    gaps: list[Span] = field(default_factory=list)

    def runs(self) -> Iterator[Held]:
        """What is held, ascending, apart from each other."""
        for start, end in zip(self.held[::2], self.held[1::2], strict=True):
            yield Held(start, end, self.dates[start])


class Coverage:
    """Grows file by file, day by day; holds a run for each source as long as nothing is missing."""

    def __init__(self) -> None:
        self._sources: dict[SourceKey, _Source] = {}

    def add(self, key: SourceKey, file: str, span: Span, date: str) -> int:
        """A file of `date` holds `span`; returns how many bytes of it were there already."""
        known = self._sources.setdefault(key, _Source(file))
        doubled = cover(known.held, *span)
        if begins(known.held, span.start):
            known.dates.setdefault(span.start, date)
        return sum(each.length for each in doubled)

    def lose(self, key: SourceKey, file: str, span: Span) -> None:
        """A gap record names `span`."""
        self._sources.setdefault(key, _Source(file)).gaps.append(span)

    def __contains__(self, key: SourceKey) -> bool:
        return key in self._sources

    def end(self, key: SourceKey) -> int:
        """Behind the last byte that a file holds; 0: none does. A gap may lie behind a watermark, bytes may not."""
        known = self._sources.get(key)
        return known.held[-1] if known and known.held else 0

    def holes(self, key: SourceKey, file: str, wanted: Wanted) -> Iterator[Hole]:
        """What of `wanted` is neither held nor known to be lost."""
        known = self._sources.get(key, _Source(file))
        there = sorted([*known.runs(), *(Held(*gap, "") for gap in known.gaps)])
        if not there and wanted.start is None:
            return
        reached = there[0].start if wanted.start is None else wanted.start
        date = ""
        for run in there:
            if run.start > reached:
                yield Hole(key, known.file, Span(reached, run.start), run.date or date)
            reached, date = max(reached, run.end), run.date or date
        if wanted.end is not None and wanted.end > reached:
            yield Hole(key, known.file, Span(reached, wanted.end), date)

    def all_holes(self) -> Iterator[Hole]:
        """Every hole between bytes that are held."""
        for key, known in self._sources.items():
            yield from self.holes(key, known.file, Wanted(None, None))
