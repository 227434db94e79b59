"""Scans a day's segments into groups of log files and hours, with counts reconciled with what `wc` counts.

One scan, and another one each time a segment turns out to be damaged.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shipper.line_times import ANY
from shipper.manifest import Segment
from spark_analytics.aggregate import arrow
from spark_analytics.aggregate.arrow import ArrowSegmentGroups
from spark_analytics.aggregate.port import (
    Assignment,
    Correction,
    EmptySegment,
    FileGroups,
    SegmentGroups,
    SegmentOrigin,
)
from spark_analytics.aggregate.spark import SparkSegmentGroups
from spark_analytics.archive.inventory import Day, escaped, hour_of
from spark_analytics.lines.log_formats import LineKind, LogFormat
from spark_analytics.metrics.segment_audit import (
    EMPTY_COUNT,
    ReconciledCount,
    SegmentCount,
    reconcile,
    reconcile_with_content,
)
from spark_analytics.scan import driver_lines, format_detection, line_scan
from spark_analytics.scan.line_scan import DayFormats, LineColumns
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import spark_io
from spark_analytics.tables.store import Tables

MAX_DAMAGED = 20
"""Maximum number of damaged segments that are found, each by a scan that fails; a day with more is an error."""

ENGINE = "spark.fshipper.aggregation"
"""Setting of Spark: `auto`, or `spark` to aggregate with Spark although the groups fit into memory."""

_UNKNOWN = LogFormat(ANY, LineKind.PLAIN)


@dataclass(frozen=True, slots=True)
class ScannedDay:
    """The groups of a day, and its segments by their numbers in this run. `day` has the damaged segments noted."""

    day: Day
    segments: Sequence[Segment]
    groups: SegmentGroups
    counted: Sequence[SegmentCount]


@dataclass(frozen=True, slots=True)
class Scanner:
    """Scans days; `formats` are the formats of their log files."""

    spark: SparkSession
    archive: Location
    tables: Tables
    formats: Mapping[format_detection.LogFile, LogFormat]

    def scan(self, day: Day) -> ScannedDay:
        """Counts the lines of `day`. A segment that fails the scan is left out of the next one.

        Raises:
            ShipperError: more than `MAX_DAMAGED` segments are damaged, or Spark failed.
        """
        log = locations.log_of(self.tables.out)
        while True:
            segments = day.readable
            try:
                with spark_io.translated_errors(log):
                    groups = self._scan(day, segments)
                    return ScannedDay(day, segments, groups, groups.by_segment())
            except spark_io.DamagedSegment as error:
                day = _without(day, error)

    def _scan(self, day: Day, segments: Sequence[Segment]) -> SegmentGroups:
        """The groups are written once: as a data frame, each query of them would repeat the scan."""
        scratch = self.scratch(day.date)
        formats = DayFormats.of(format_of(self.formats, segment) for segment in segments)
        only_spark = self.spark.conf.get(ENGINE, "auto") == "spark"
        groups = None if only_spark else self._small_groups(segments, formats)
        if groups is None:
            frame = self._grouped(segments, formats)
            spark_io.write(frame, scratch / "groups")
            groups = None if only_spark else arrow.read_groups(scratch / "groups")
        if groups is not None:
            classified = driver_lines.classify(self.spark, groups, formats)
            return ArrowSegmentGroups(self.spark, classified, self.tables, day.date)
        stored = spark_io.read(self.spark, [scratch / "groups"], frame.schema)
        frame = line_scan.classify_groups(stored, formats)
        spark_io.write(frame, scratch / "classified")
        stored = spark_io.read(self.spark, [scratch / "classified"], frame.schema)
        return SparkSegmentGroups(stored, self.tables, day.date)

    def _small_groups(self, segments: Sequence[Segment], formats: DayFormats) -> pa.Table | None:
        """The groups of a small day, whose lines the driver reads; None if Spark has to read them."""
        columns = self._columns(segments, formats)
        lines = driver_lines.read_lines(self.archive, list(zip(segments, columns, strict=True)))
        if lines is None or lines.num_rows > arrow.max_groups():
            return None
        with ThreadPoolExecutor(1) as other:  # in Java each of them uses one core
            of_lines = other.submit(LineColumns.of, formats)
            rows = self.spark.createDataFrame(lines)
            evaluated = line_scan.lines_to_group(rows, of_lines.result())
        return driver_lines.group_lines(spark_io.columns_of(evaluated, repeated=arrow.REPEATED))

    def scratch(self, date: str) -> Location:
        """The directory of the groups while the tables are made."""
        return self.tables.staging(date) / "counts"

    def _grouped(self, segments: Sequence[Segment], formats: DayFormats) -> DataFrame:
        known = spark_io.frame(self.spark, self._columns(segments, formats), line_scan.SEGMENT_SCHEMA)
        rows = spark_io.read_rows(self.spark, self.archive, segments)
        return line_scan.group_lines(line_scan.with_segment(rows, known), LineColumns.of(formats))

    def _columns(self, segments: Sequence[Segment], formats: DayFormats) -> list[driver_lines.SegmentColumns]:
        """Of each segment the values of `line_scan.SEGMENT_SCHEMA`."""
        return [
            formats.columns(locations.uri(self.archive, segment.path), number, format_of(self.formats, segment))
            for number, segment in enumerate(segments)
        ]


def format_of(formats: Mapping[format_detection.LogFile, LogFormat], segment: Segment) -> LogFormat:
    """The format of the lines of `segment`."""
    return formats.get((segment.partition, segment.host, segment.file), _UNKNOWN)


def _without(day: Day, error: spark_io.DamagedSegment) -> Day:
    found = next((s.path for s in day.readable if error.path.endswith(f"/{s.path}")), None)
    if found is None or len(day.damaged) >= MAX_DAMAGED:
        raise error
    return dataclasses.replace(day, damaged=day.damaged | {found})


# -- assignment of the groups to log files and hours -------------------------------------------------------------------

SegmentFormat = tuple[Segment, LogFormat]


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
