"""Which small segments of a log file become one, and what its manifest line says. Pure."""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from consumer.sealing.packing import Passing, Tally, Written
from shipper import layout
from shipper.layout import FileKey
from shipper.manifest import Gap, Segment, SourceSpan

_SEGMENT = re.compile(r"(?P<file>.+)-(?P<number>\d{20})(\.zst|\.gz)?", re.DOTALL)
_FEWEST = 2


def split_name(name: str) -> tuple[str, int] | None:
    """The file and the number of a segment, by its name; None: it is no segment's."""
    found = _SEGMENT.fullmatch(name)
    return (found["file"], int(found["number"])) if found else None


def number_of(segment: Segment) -> int:
    """The number in a segment's name."""
    return int(_SEGMENT.fullmatch(segment.path)["number"])  # type: ignore[index]


def target_of(run: Sequence[Segment]) -> str:
    """The path of what `run` becomes: numbered behind its last part, so that names go on telling the order."""
    date, last = run[-1].path.partition("/")[0].removeprefix("date="), run[-1]
    return layout.segment_path(FileKey(date, last.partition, last.host, last.file), number_of(last) + 1, last.codec)


def runs(segments: Sequence[Segment], taken: Set[int], *, below: int, most: int) -> list[list[Segment]]:
    """Neighbours of less than `below` bytes that become one of at most `most` bytes (of text).

    `segments` are in the order of their numbers. `taken` are all numbers of the file: where the number behind a run is
    taken, the run is shorter, and its rest stays as it is.
    """
    found: list[list[Segment]] = []
    run: list[Segment] = []
    for segment in segments:
        small = segment.bytes_raw < below
        if run and (not small or segment.codec != run[0].codec or _bytes(run) + segment.bytes_raw > most):
            found.append(run)
            run = []
        if small:
            run.append(segment)
    cut = [_fitting(each, taken) for each in (*found, run)]
    return [each for each in cut if len(each) >= _FEWEST]


def _fitting(run: list[Segment], taken: Set[int]) -> list[Segment]:
    while run and number_of(run[-1]) + 1 in taken:
        run = run[:-1]
    return run


def _bytes(run: Iterable[Segment]) -> int:
    return sum(segment.bytes_raw for segment in run)


def continues(earlier: Segment, later: Segment) -> bool:
    """Whether an unfinished last line of `earlier` goes on in `later`: both hold one source, the same."""
    return (
        len({span.source for span in earlier.spans})
        == 1
        == len({span.source for span in (*earlier.spans, *later.spans)})
    )


def joined(run: Sequence[Segment], text: Tally, stored: Written | Passing, *, collector: str, now: str) -> Segment:
    """The manifest line of `run` as one segment: `text` is in it, `stored` passed by."""
    return replace(
        run[-1],
        collector=collector,
        sealed_at=now,
        path=target_of(run),
        lines=text.lines,
        bytes_raw=text.octets,
        bytes_stored=stored.octets,
        crc32=f"{text.crc:08x}",
        crc32_stored=f"{stored.crc:08x}",
        first_seq=min(part.first_seq for part in run),
        last_seq=max(part.last_seq for part in run),
        first_time=min(part.first_time for part in run),
        last_time=max(part.last_time for part in run),
        spans=_spans(run),
        gaps=_gaps(run),
        duplicates=sum(part.duplicates for part in run),
        joins=sum(part.joins for part in run),
        filtered=sum(part.filtered for part in run),
        edited=sum(part.edited for part in run),
        labels=next((part.labels for part in reversed(run) if part.labels), {}),
        replaces=tuple(part.path for part in run),
        redactions=tuple(redaction for part in run for redaction in part.redactions),
        removals=tuple(removal for part in run for removal in part.removals),
    )


def _spans(run: Iterable[Segment]) -> tuple[SourceSpan, ...]:
    """The spans of all parts in order; one that goes on where the last one of its source ended is one with it."""
    spans: list[SourceSpan] = []
    last: dict[str, int] = {}
    for span in (span for part in run for span in part.spans):
        at = last.get(span.source)
        if at is not None and spans[at].end == span.start:
            spans[at] = replace(spans[at], end=span.end)
        else:
            last[span.source] = len(spans)
            spans.append(span)
    return tuple(spans)


def _gaps(run: Iterable[Segment]) -> tuple[Gap, ...]:
    """The gaps of all parts; those of no source are places in the text."""
    gaps: list[Gap] = []
    before = 0
    for part in run:
        gaps += [
            gap if gap.source else replace(gap, start=gap.start + before, end=gap.end + before) for gap in part.gaps
        ]
        before += part.bytes_raw
    return tuple(gaps)
