"""Listed against counted, for each log file of the day: values only. The scan counted, so the audit reads nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shipper import layout
from shipper.duplicates import Doubled
from shipper.manifest import FORKED, Segment
from shipper.model import End
from spark_analytics.archive import inventory
from spark_analytics.archive.inventory import Day, shown
from spark_analytics.archive.reconcile import NOTHING, Settled
from spark_analytics.tables import schemas
from spark_analytics.tables.schemas import Row

MOST_GAP_BYTES = 1 << 44
"""Of one segment: any host may claim what it likes to have lost, and the sum over a day has to stay a number."""

WORST_FIRST = ("missing", "truncated", "differs", "unregistered", "offset_gap", "gap", "doubled", "complete")


@dataclass(frozen=True, slots=True)
class Judged:
    """A segment, what was counted of it, and what that makes of it."""

    segment: Segment
    settled: Settled
    status: str


def judged(day: Day, settled: Mapping[str, Settled]) -> list[Judged]:
    """Every listed segment with its status; `settled` has the account of each path that was read."""
    return [
        Judged(segment, account := settled.get(segment.path, NOTHING), _status(day, segment, account))
        for segment in day.manifests.segments
    ]


def _status(day: Day, segment: Segment, account: Settled) -> str:
    if segment.path not in day.sizes:
        return "missing"
    if segment.path in day.unreadable:
        return "truncated"
    if (account.lines, account.bytes) != (segment.lines, segment.bytes_raw):
        return "differs"
    if segment.bytes_stored not in {0, day.sizes[segment.path]}:
        return "differs"
    return "gap" if _gap_bytes(segment) else "complete"


def _gap_bytes(segment: Segment) -> int:
    """Bytes that are lost; what a host was configured not to read is not lost."""
    return sum(gap.end - gap.start for gap in segment.gaps if gap.reason not in {End.EXCLUDED.value, FORKED})


def rows(day: Day, entries: Sequence[Judged], before: Iterable[Segment] = ()) -> list[Row]:
    """Table `audit`."""
    by_file: dict[tuple[int, str, str], list[Judged]] = defaultdict(list)
    for entry in entries:
        by_file[entry.segment.partition, entry.segment.host, entry.segment.file].append(entry)
    offset_gaps = inventory.offset_gaps(day.manifests.segments, before)
    twice = {each.segment.path: each for each in day.doubled}
    listed = [
        _row(name, group, offset_gaps.get(name, 0), [twice[e.segment.path] for e in group if e.segment.path in twice])
        for name, group in sorted(by_file.items())
    ]
    unlisted = [_unregistered(path) for path in day.unregistered]
    return [{name: row.get(name, 0) for name in schemas.AUDIT.names} for row in (*listed, *unlisted)]


def _row(name: tuple[int, str, str], group: Sequence[Judged], offset_gap: int, doubled: Sequence[Doubled]) -> Row:
    segments = [entry.segment for entry in group]
    statuses = [entry.status for entry in group]
    of_file = ["offset_gap" if offset_gap else "complete", "doubled" if doubled else "complete"]
    worst = min([*statuses, *of_file], key=WORST_FIRST.index)
    examples = [entry.segment.path for entry in group if entry.status == worst]
    examples += [each.segment.path for each in doubled] if worst == "doubled" else []
    example = examples[0] if examples else segments[0].path
    partition, host, file = name
    return {
        "partition": partition,
        "host": shown(host),
        "file": shown(file),
        "status": worst,
        "segments": len(group),
        "lines_manifest": sum(segment.lines for segment in segments),
        "lines_counted": sum(entry.settled.lines for entry in group),
        "bytes_manifest": sum(segment.bytes_raw for segment in segments),
        "bytes_counted": sum(entry.settled.bytes for entry in group),
        "gap_bytes": sum(min(_gap_bytes(segment), MOST_GAP_BYTES) for segment in segments),
        "offset_gap_bytes": min(offset_gap, MOST_GAP_BYTES),
        "doubled_bytes": min(sum(each.bytes for each in doubled), MOST_GAP_BYTES),
        "doubled_lines": sum(each.lines for each in doubled),
        "duplicates": sum(segment.duplicates for segment in segments),
        "joins": sum(segment.joins for segment in segments),
        "first_seq": min(segment.first_seq for segment in segments),
        "last_seq": max(segment.last_seq for segment in segments),
        "seq_overlap": inventory.sequences_overlapping(segments),
        "segments_missing": statuses.count("missing"),
        "segments_truncated": statuses.count("truncated"),
        "segments_differing": statuses.count("differs"),
        "example": shown(example),
    }


def _unregistered(path: str) -> Row:
    """The row of a sealed file that no manifest lists."""
    named = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    partition = named.get("partition", "")
    return {
        "partition": int(partition) if partition.isdecimal() else -1,
        "host": layout.unescape(shown(named.get("host", ""))),
        "file": shown(path.rsplit("/", 1)[-1]),
        "status": "unregistered",
        "files_unregistered": 1,
        "example": shown(path),
    }
