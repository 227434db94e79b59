"""Scans a day and assigns its groups to log files and hours, with counts reconciled with what `wc` counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from shipper.manifest import Segment
from spark_analytics.aggregate.arrow_assign import seconds_of
from spark_analytics.aggregate.port import Assignment, Correction, EmptySegment, FileGroups, SegmentOrigin
from spark_analytics.archive import inventory
from spark_analytics.archive.inventory import Day, escaped
from spark_analytics.archive.reconcile import (
    EMPTY_COUNT,
    ReconciledCount,
    SegmentCount,
    reconcile,
    reconcile_with_content,
)
from spark_analytics.lines import timestamps
from spark_analytics.lines.log_formats import LogFormat
from spark_analytics.scan import format_detection
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.scan.run import ScannedDay, Scanner, format_of
from spark_analytics.storage.locations import Location
from spark_analytics.tables.store import Tables

SegmentFormat = tuple[Segment, LogFormat]

_HOURS = range(1 << 20)
"""Valid hours since 1970, until 2089; a manifest may have any number."""


@dataclass(frozen=True, slots=True)
class AssignedDay:
    """A scanned day whose groups are assigned to log files and hours."""

    day: Day  #: with the damaged segments that the scan found
    groups: FileGroups
    segments: Sequence[SegmentFormat]  #: by their numbers in the groups
    counts: Mapping[str, ReconciledCount]  #: by the path of the segment
    has_requests: bool  #: whether there may be lines of web servers
    scratch: Location  #: directory to remove when the groups are no longer used


def scan_day(spark: SparkSession, archive: Location, tables: Tables, day: Day) -> AssignedDay:
    """Scans the readable segments of `day`.

    Raises:
        ShipperError: too many segments are damaged, or Spark failed.
    """
    formats = format_detection.detect_formats(archive, day.readable)
    scanner = Scanner(spark, archive, tables, formats)
    scanned = scanner.scan(day)
    counts = _reconcile_segments(scanned, archive)
    return AssignedDay(
        day=scanned.day,
        groups=scanned.groups.assign(_assignment(scanned, counts, formats)),
        segments=[(segment, format_of(formats, segment)) for segment in scanned.segments],
        counts={scanned.segments[number].path: count for number, count in counts.items()},
        has_requests=DayFormats.of(formats.values()).requests,
        scratch=scanner.scratch(day.date),
    )


def _reconcile_segments(scanned: ScannedDay, archive: Location) -> dict[int, ReconciledCount]:
    """The count of each segment by its number; a segment that differs from its manifest line is read in `archive`."""
    by_number = {counted.segment: counted for counted in scanned.counted}
    return {
        number: _reconcile(scanned.day, archive, by_number.get(number), segment)
        for number, segment in enumerate(scanned.segments)
    }


def _reconcile(day: Day, archive: Location, counted: SegmentCount | None, segment: Segment) -> ReconciledCount:
    found = reconcile(counted, lines_manifest=segment.lines, bytes_there=day.bytes_there(segment))
    if found is None and counted is not None:
        has_bom, is_unterminated = format_detection.ends(archive / segment.path, segment.codec)
        found = reconcile_with_content(counted, has_bom=has_bom, is_unterminated=is_unterminated)
    return found or EMPTY_COUNT


def _assignment(
    scanned: ScannedDay,
    counts: Mapping[int, ReconciledCount],
    formats: Mapping[format_detection.LogFile, LogFormat],
) -> Assignment:
    """How the groups of `scanned` become groups of log files and hours."""
    origins = [
        SegmentOrigin(
            number, s.partition, escaped(s.host), escaped(s.file), format_of(formats, s).family, hour_of(s.first_time)
        )
        for number, s in enumerate(scanned.segments)
    ]
    return Assignment(scanned.day.as_date, origins, _corrections(scanned.counted, counts), _empty(scanned, counts))


def _corrections(counted: Sequence[SegmentCount], counts: Mapping[int, ReconciledCount]) -> list[Correction]:
    return [
        Correction(one.segment, *one.last, count.unterminated, *one.first, count.bom_bytes)
        for one in counted
        if (count := counts[one.segment]).unterminated or count.bom_bytes
    ]


def _empty(scanned: ScannedDay, counts: Mapping[int, ReconciledCount]) -> list[EmptySegment]:
    """Listed segments without a row, also missing ones: their log files are in the tables, with 0 lines."""
    with_rows = {scanned.segments[one.segment].path for one in scanned.counted}
    sizes = {scanned.segments[number].path: count.bytes for number, count in counts.items()}
    return [
        EmptySegment(s.partition, escaped(s.host), escaped(s.file), hour_of(s.first_time), sizes.get(s.path, 0))
        for s in scanned.day.manifests.segments
        if s.path not in with_rows
    ]


def hour_of(text: str) -> int | None:
    """The hour of a manifest's time, in seconds since 1970; None if it is not valid."""
    time = inventory.time_of(text)
    hour = -1 if time is None else seconds_of(time) // timestamps.HOUR_SECONDS
    return hour * timestamps.HOUR_SECONDS if hour in _HOURS else None
