"""Which bytes of each source the archive holds, from the spans of all files: what is doubled, what is missing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.archive.finding import Finding, Kind
from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.archive.parts import Part
from consumer.audit.day_inventory import Scope
from consumer.audit.totals import Rows
from consumer.model import ArchivedSource, SourceKey
from shipper.duplicates import Bounds, begins, cover
from shipper.model import Span


class ArchivedRun(NamedTuple):
    """An uninterrupted run of a source's bytes, and the day on which it begins."""

    start: int
    end: int
    date: str


class ExpectedRange(NamedTuple):
    """The range of a source that must be archived. None: that bound is unknown."""

    start: int | None
    end: int | None


class CoverageGap(NamedTuple):
    """Bytes that no file holds and no gap record names."""

    source: SourceKey
    file: str
    span: Span
    date: str  #: of the bytes after it


@dataclass(slots=True)
class _Source:
    file: str
    held: Bounds = field(default_factory=list)
    dates: dict[int, str] = field(default_factory=dict)  #: the day of the bytes at the beginning of each run
    gaps: list[Span] = field(default_factory=list)


class Coverage:
    """Grows file by file, day by day, and holds a run for each source as long as nothing is missing."""

    def __init__(self) -> None:
        self._sources: dict[SourceKey, _Source] = {}

    def add(self, key: SourceKey, file: str, span: Span, date: str) -> int:
        """Add `span`, which a file of `date` holds, and return how many bytes of it were there already."""
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
        """The end of the last byte in a file, or 0. A gap may be after the watermark, bytes may not."""
        known = self._sources.get(key)
        return known.held[-1] if known and known.held else 0

    def holes(self, key: SourceKey, file: str, wanted: ExpectedRange) -> Iterator[CoverageGap]:
        """The parts of `wanted` that are neither archived nor recorded as lost."""
        known = self._sources.get(key, _Source(file))
        there = [ArchivedRun(*gap, "") for gap in known.gaps]
        runs = zip(known.held[::2], known.held[1::2], strict=True)
        there = sorted([*there, *(ArchivedRun(start, end, known.dates[start]) for start, end in runs)])
        if not there and wanted.start is None:
            return
        reached = there[0].start if wanted.start is None else wanted.start
        date = ""
        for run in there:
            if run.start > reached:
                yield CoverageGap(key, known.file, Span(reached, run.start), run.date or date)
            reached, date = max(reached, run.end), run.date or date
        if wanted.end is not None and wanted.end > reached:
            yield CoverageGap(key, known.file, Span(reached, wanted.end), date)

    def all_holes(self) -> Iterator[CoverageGap]:
        """Every hole between bytes that are held."""
        for key, known in self._sources.items():
            yield from self.holes(key, known.file, ExpectedRange(None, None))


_MISSING_HINT = (
    "restore the files that were removed from the archive; `fshipper audit --hosts` lists what the hosts still have"
)
_DOUBLED_HINT = (
    "fshipper audit --repair-duplicates shows which copy can be removed; with --yes it removes that, with a record"
)
_DOUBLED_OPEN_HINT = (
    "seal it first (after an hour of silence, at the end of the day, or by fshipper consume --drain --seal);"
    " then run fshipper audit --repair-duplicates"
)
_DOUBLED_TEMPLATE_HINT = (
    "a file of a template (SHIPPER_OUTPUT) has no manifest, so nothing repairs it: remove the doubled lines manually"
)
_OLD_HINT = "put the newest journal back before a collector starts: it would write these bytes a second time"


class SourceBounds(NamedTuple):
    """Whether the first and the last byte of a source are within the audited days and hosts."""

    begin: bool
    end: bool
    cut: frozenset[str] = frozenset()  #: hosts of which days were removed: their sources may begin there


class SourceCoverage:
    """The coverage of all sources: add every file, then read what is missing."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._coverage = Coverage()

    def add(self, entry: Part) -> Iterator[Finding]:
        """Add the spans and gaps of `entry`, and return findings about bytes that another file has already."""
        key = entry.key
        for span in entry.spans:
            own = Span(span.start, span.end)
            doubled = self._coverage.add(SourceKey(key.host, span.source), key.file, own, key.date)
            if doubled:
                text = f"{doubled:,} bytes of source {span.source} (of its bytes {own}) are in another file, too"
                hint = open_hint(entry.path) if entry.is_waiting else _DOUBLED_HINT
                yield entry.finding(Kind.DOUBLED_BYTES, text, doubled, hint=hint)
        for gap in entry.gaps:
            if gap.source:
                self._coverage.lose(SourceKey(key.host, gap.source), key.file, Span(gap.start, gap.end))

    def findings(self, journals: JournalSnapshots, rows: Rows, bounds: SourceBounds) -> list[Finding]:
        """Findings about holes, and about journals older than the archive. Counts the holes as missing in `rows`."""
        holes = set(self._coverage.all_holes())
        ahead: set[SourceKey] = set()
        for known in journals.sources():
            if self._scope.has_host(known.host):
                holes.update(self._coverage.holes(known.key, known.file, self._wanted(known, bounds)))
                if self._coverage.end(known.key) > known.watermark:
                    ahead.add(known.key)
        found = [_missing(hole, rows) for hole in sorted(holes)]
        return [*found, *self._old_journal(ahead)]

    def _wanted(self, known: ArchivedSource, bounds: SourceBounds) -> ExpectedRange:
        """The range of a source that must be archived."""
        start = known.origin if bounds.begin and known.key.host not in bounds.cut else None
        if start is None and known.key not in self._coverage:
            return ExpectedRange(None, None)  # all of it may be outside of the audited days
        return ExpectedRange(start, known.watermark if bounds.end else None)

    def _old_journal(self, ahead: set[SourceKey]) -> Iterator[Finding]:
        """Sources with archived bytes after their watermark, also when the journals are read again."""
        if not ahead:
            return
        now: dict[SourceKey, int] = {}
        with JournalSnapshots(self._scope.journals) as journals:
            for _, key, watermark in journals.watermarks():
                if key in ahead:
                    now[key] = max(watermark, now.get(key, 0))
        more = [self._coverage.end(key) - watermark for key, watermark in now.items()]
        lacking = [octets for octets in more if octets > 0]
        if lacking:
            octets, sources = sum(lacking), len(lacking)
            text = f"a journal is older than the archive: it lacks {octets:,} bytes of {sources} sources that are there"
            yield Finding(kind=Kind.BAD_JOURNAL, text=text, octets=octets, hint=_OLD_HINT)


def open_hint(path: str) -> str:
    """What to do about doubled bytes in an open file."""
    return _DOUBLED_OPEN_HINT if path.startswith("date=") else _DOUBLED_TEMPLATE_HINT


def _missing(hole: CoverageGap, rows: Rows) -> Finding:
    rows[hole.source.host, hole.file, hole.date].lose(hole.span.length)
    return Finding(
        kind=Kind.MISSING_BYTES,
        host=hole.source.host,
        file=hole.file,
        date=hole.date,
        text=f"bytes {hole.span} of source {hole.source.id} are in no file, and no gap record names them",
        octets=hole.span.length,
        hint=_MISSING_HINT,
    )
