"""Whether what the manifests list hangs together: sequences of the streams, offsets of the sources. Values only."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from shipper.manifest import Segment

Range = tuple[int, int]


def sequences_missing(segments: Iterable[Segment]) -> dict[int, tuple[int, int, int]]:
    """(first, last, missing) of each partition's stream: how many numbers between them no segment's range covers.

    Blocks of many hosts share a stream, so the ranges overlap, and only a number that none covers was surely for no
    segment: lost, or not meant for one (a duplicate, a dead letter, a file that is still open).
    """
    ranges: dict[int, list[Range]] = defaultdict(list)
    for segment in segments:
        ranges[segment.partition].append((segment.first_seq, segment.last_seq + 1))
    return {
        partition: (min(listed)[0], max(end for _, end in listed) - 1, _holes(sorted(listed)))
        for partition, listed in ranges.items()
    }


def _holes(ranges: Sequence[Range]) -> int:
    missing, end = 0, ranges[0][0]
    for start, next_end in ranges:
        missing += max(0, start - end)
        end = max(end, next_end)
    return missing


def sequences_overlapping(segments: Iterable[Segment]) -> int:
    """How many numbers two segments of one log file both claim."""
    overlap, end = 0, -1
    for start, last in sorted((segment.first_seq, segment.last_seq) for segment in segments):
        overlap += max(0, min(end, last) - start + 1)
        end = max(end, last)
    return overlap


def offset_gaps(segments: Sequence[Segment], before: Iterable[Segment] = ()) -> dict[tuple[int, str, str], int]:
    """Bytes by (partition, host, file) that lie between two spans of a source and in no recorded gap.

    `before` are segments of the day before: their spans say where each source stood at midnight.
    """
    owner: dict[str, tuple[int, str, str]] = {}
    spans: dict[str, list[Range]] = defaultdict(list)
    explained: dict[str, list[Range]] = defaultdict(list)
    stood: dict[str, int] = {}
    for segment in segments:
        for span in segment.spans:
            owner[span.source] = (segment.partition, segment.host, segment.file)
            spans[span.source].append((span.start, span.end))
        for gap in segment.gaps:
            explained[gap.source].append((gap.start, gap.end))
    for segment in before:
        ends = [(part.source, part.end) for part in segment.spans] + [(gap.source, gap.end) for gap in segment.gaps]
        for source, end in ends:
            stood[source] = max(stood.get(source, 0), end)
    gaps: dict[tuple[int, str, str], int] = defaultdict(int)
    for source, listed in spans.items():
        known = [(stood[source], stood[source])] if source in stood else []
        covered = sorted([*known, *listed, *_between(explained[source], min(listed)[0], known)])
        if missing := _holes(covered):
            gaps[owner[source]] += missing
    return dict(gaps)


def _between(gaps: Iterable[Range], first: int, known: Sequence[Range]) -> list[Range]:
    """The gaps behind the first byte that is known of a source: one before it is no hole's border."""
    begin = known[0][0] if known else first
    return [gap for gap in gaps if gap[1] > begin]
