"""Table `audit`: what the manifests list against what the scan counted, for each log file. Pure.

The counts of a segment are first reconciled with what `wc -l -c` counts. Spark's reader differs from it in two cases:
an unterminated last line is a row but not a line, and the reader skips a byte order mark at the start of a file. Both
show as a difference between the counted and the listed numbers; only such a segment is read again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shipper import layout
from shipper.manifest import FORKED, Segment
from shipper.model import End
from spark_analytics.archive import inventory
from spark_analytics.archive.inventory import Day, escaped
from spark_analytics.metrics.statistics import grouped
from spark_analytics.tables import schemas
from spark_analytics.tables.day_tables import Row

# -- counts of segments ------------------------------------------------------------------------------------------------

BOM_BYTES = 3
"""Bytes of U+FEFF in UTF-8, which Hadoop's line reader skips at the start of a file."""

RowPosition = tuple[int, int]
"""The position of a row in its segment: (start of the block, number in the block)."""


@dataclass(frozen=True, slots=True)
class SegmentCount:
    """What the scan counted of a segment."""

    segment: int
    lines: int
    bytes: int
    first: RowPosition
    last: RowPosition


@dataclass(frozen=True, slots=True)
class ReconciledCount:
    """What `wc` would have counted of a segment, and the corrections of the groups of its first and last row."""

    lines: int
    bytes: int
    unterminated: int = 0  #: 1: the group of the last row has one line and one byte too many
    bom_bytes: int = 0  #: bytes that the group of the first row lacks


EMPTY_COUNT = ReconciledCount(0, 0)


def reconcile(counted: SegmentCount | None, *, lines_manifest: int, bytes_there: int) -> ReconciledCount | None:
    """The count of a segment whose manifest lists `lines_manifest` lines and of which `bytes_there` bytes can be read.

    None if the scan counted other numbers: then `reconcile_with_content` decides.
    """
    if counted is None:  # a file that consists of a byte order mark has no row
        return ReconciledCount(0, bytes_there) if bytes_there == BOM_BYTES and not lines_manifest else EMPTY_COUNT
    agree = (counted.lines, counted.bytes) == (lines_manifest, bytes_there)
    return ReconciledCount(counted.lines, counted.bytes) if agree else None


def reconcile_with_content(counted: SegmentCount, *, has_bom: bool, is_unterminated: bool) -> ReconciledCount:
    """The count of a segment of which the first and last bytes were read.

    The numbers in the manifest are not used: a false manifest line must not produce a false total.
    """
    unterminated, bom_bytes = int(is_unterminated), BOM_BYTES if has_bom else 0
    return ReconciledCount(
        counted.lines - unterminated, counted.bytes - unterminated + bom_bytes, unterminated, bom_bytes
    )


# -- the table ---------------------------------------------------------------------------------------------------------

MAX_GAP_BYTES = 1 << 44
"""Maximum gap bytes of a segment: a host can report any number, and the sum over a day must not overflow."""

MAX_PLACES = 1 << 44

WORST_FIRST = ("missing", "truncated", "differs", "unregistered", "offset_gap", "gap", "doubled", "complete")


def _status(day: Day, segment: Segment, count: ReconciledCount) -> str:
    if segment.path not in day.sizes:
        return "missing"
    if segment.path in day.unreadable:
        return "truncated"
    if (count.lines, count.bytes) != (segment.lines, segment.bytes_raw):
        return "differs"
    if segment.bytes_stored not in {0, day.sizes[segment.path]}:
        return "differs"
    return "gap" if _gap_bytes(segment) else "complete"


def _gap_bytes(segment: Segment) -> int:
    """Lost bytes; those that the host was configured not to read are not lost."""
    return sum(gap.end - gap.start for gap in segment.gaps if gap.reason not in {End.EXCLUDED.value, FORKED})


def rows(day: Day, counts: Mapping[str, ReconciledCount], before: Iterable[Segment] = ()) -> list[Row]:
    """Table `audit`; `counts` has the reconciled count of each path that was read."""
    by_file = grouped(day.manifests.segments, lambda segment: (segment.partition, segment.host, segment.file))
    offset_gaps = inventory.offset_gaps(day.manifests.segments, before)
    twice = {each.segment.path: each for each in day.doubled}
    made = []
    for name, segments in sorted(by_file.items()):
        offset_gap = offset_gaps.get(name, 0)
        doubled = [twice[segment.path] for segment in segments if segment.path in twice]
        counted = [counts.get(segment.path, EMPTY_COUNT) for segment in segments]
        statuses = [_status(day, segment, count) for segment, count in zip(segments, counted, strict=True)]
        of_file = ["offset_gap" if offset_gap else "complete", "doubled" if doubled else "complete"]
        worst = min([*statuses, *of_file], key=WORST_FIRST.index)
        examples = [segment.path for segment, status in zip(segments, statuses, strict=True) if status == worst]
        examples += [each.segment.path for each in doubled] if worst == "doubled" else []
        made.append(
            {
                "partition": name[0],
                "host": escaped(name[1]),
                "file": escaped(name[2]),
                "status": worst,
                "segments": len(segments),
                "lines_manifest": sum(segment.lines for segment in segments),
                "lines_counted": sum(count.lines for count in counted),
                "bytes_manifest": sum(segment.bytes_raw for segment in segments),
                "bytes_counted": sum(count.bytes for count in counted),
                "gap_bytes": sum(min(_gap_bytes(segment), MAX_GAP_BYTES) for segment in segments),
                "offset_gap_bytes": min(offset_gap, MAX_GAP_BYTES),
                "doubled_bytes": min(sum(each.bytes for each in doubled), MAX_GAP_BYTES),
                "doubled_lines": sum(each.lines for each in doubled),
                "duplicates": sum(segment.duplicates for segment in segments),
                "joins": sum(segment.joins for segment in segments),
                "first_seq": min(segment.first_seq for segment in segments),
                "last_seq": max(segment.last_seq for segment in segments),
                "seq_overlap": inventory.sequences_overlapping(segments),
                "segments_missing": statuses.count("missing"),
                "segments_truncated": statuses.count("truncated"),
                "segments_differing": statuses.count("differs"),
                "example": escaped(examples[0] if examples else segments[0].path),
            }
        )
    made += [_unregistered(path) for path in day.unregistered]
    return [{name: row.get(name, 0) for name in schemas.AUDIT.names} for row in made]


def redacted_rows(day: Day) -> list[Row]:
    """Table `redacted_daily`: how often each rule of the hosts' redaction fired, by log file."""
    sums: Counter[tuple[int, str, str, str]] = Counter()
    for segment in day.manifests.segments:
        for rule, places in segment.redacted.items():
            sums[segment.partition, segment.host, segment.file, rule] += places
    return [
        {
            "partition": partition,
            "host": escaped(host),
            "file": escaped(file),
            "rule": escaped(rule),
            "places": min(places, MAX_PLACES),
        }
        for (partition, host, file, rule), places in sorted(sums.items())
    ]


def _unregistered(path: str) -> Row:
    """The row of a sealed file that no manifest lists."""
    named = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    partition = named.get("partition", "")
    return {
        "partition": int(partition) if partition.isdecimal() else -1,
        "host": layout.unescape(escaped(named.get("host", ""))),
        "file": escaped(path.rsplit("/", 1)[-1]),
        "status": "unregistered",
        "files_unregistered": 1,
        "example": escaped(path),
    }
