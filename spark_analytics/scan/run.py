"""Scans a day's segments into groups of log files and hours, with counts reconciled with what `wc` counts.

One scan, and another one each time a segment turns out to be damaged.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from shipper.line_formats import NONE
from shipper.manifest import Segment
from spark_analytics.aggregate.engine import DuckEngine, SparkEngine
from spark_analytics.aggregate.groups import Assignment, EmptySegment, FileGroups, SegmentGroups, SegmentOrigin
from spark_analytics.archive.inventory import Day, escaped, hour_of
from spark_analytics.lines.log_formats import LogFormat
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


@dataclass(frozen=True, slots=True)
class AssignedDay:
    """A scanned day whose groups are assigned to log files and hours."""

    day: Day  #: with the damaged segments that the scan found
    groups: FileGroups
    segments: Sequence[tuple[Segment, LogFormat]]  #: by their numbers in the groups
    counts: Mapping[str, ReconciledCount]  #: by the path of the segment
    has_requests: bool  #: whether there may be lines of web servers
    scratch: Location  #: directory to remove when the groups are no longer used


def scan_day(spark: SparkSession, archive: Location, tables: Tables, day: Day) -> AssignedDay:
    """Scans the readable segments of `day`.

    Raises:
        ShipperError: more than `MAX_DAMAGED` segments are damaged, or Spark failed.
    """
    formats = format_detection.detect_formats(archive, day.readable)
    scanner = Scanner(spark, archive, tables, formats)
    day, groups, counted = scanner.scan(day)
    counts = _reconciled(day, archive, {one.segment: one for one in counted})
    return AssignedDay(
        day=day,
        groups=groups.assign(_assignment(day, counted, counts, formats)),
        segments=[(segment, formats[segment.path]) for segment in day.readable],
        counts={day.readable[number].path: count for number, count in counts.items()},
        has_requests=DayFormats.of(formats.values()).requests,
        scratch=scanner.scratch(day.date),
    )


@dataclass(frozen=True, slots=True)
class Scanner:
    """Scans days; `formats` are the formats of the lines of their segments, by path."""

    spark: SparkSession
    archive: Location
    tables: Tables
    formats: Mapping[str, LogFormat]

    def scan(self, day: Day) -> tuple[Day, SegmentGroups, Sequence[SegmentCount]]:
        """Counts the lines of `day`; `day.readable` are its segments by the numbers in the groups.

        A segment that fails the scan is noted in `day` as damaged, and left out of the next one.
        """
        while True:
            try:
                with spark_io.translated_errors(locations.log_of(self.tables.out)):
                    groups = self._scan(day)
                    return day, groups, groups.by_segment()
            except spark_io.DamagedSegment as error:
                found = next((s.path for s in day.readable if error.path.endswith(f"/{s.path}")), None)
                if found is None or len(day.damaged) >= MAX_DAMAGED:
                    raise
                day = dataclasses.replace(day, damaged=day.damaged | {found})

    def _scan(self, day: Day) -> SegmentGroups:
        """The groups are written once: as a data frame, each query of them would repeat the scan."""
        scratch, staging = self.scratch(day.date), self.tables.staging(day.date)
        formats = DayFormats.of(self.formats[segment.path] for segment in day.readable)
        columns = [
            formats.columns(locations.uri(self.archive, segment.path), number, self.formats[segment.path])
            for number, segment in enumerate(day.readable)
        ]
        only_spark = self.spark.conf.get(ENGINE, "auto") == "spark"
        lines = None if only_spark else self._small_lines(day, columns, formats)
        if lines is not None:
            engine = DuckEngine(self.spark, staging, scratch, threads=1)
            engine.take("grouped", lines, driver_lines.GROUPING)
            driver_lines.classify(self.spark, engine, formats)
            return SegmentGroups(engine)
        known = spark_io.frame(self.spark, columns, line_scan.SEGMENT_SCHEMA)
        rows = line_scan.with_segment(spark_io.read_rows(self.spark, self.archive, day.readable), known)
        frame = line_scan.group_lines(rows, LineColumns.of(formats, day.as_date))
        spark_io.write(frame, scratch / "groups")
        groups = None if only_spark else driver_lines.read_groups(scratch / "groups")
        if groups is not None:
            engine = DuckEngine(self.spark, staging, scratch, threads=os.cpu_count() or 1)
            engine.take("grouped", groups)
            driver_lines.classify(self.spark, engine, formats)
            return SegmentGroups(engine)
        stored = spark_io.read(self.spark, [scratch / "groups"], frame.schema)
        frame = line_scan.classify_groups(stored, formats)
        spark_io.write(frame, scratch / "classified")
        by_spark = SparkEngine(self.spark, staging, scratch)
        by_spark.take("scanned", spark_io.read(self.spark, [scratch / "classified"], frame.schema))
        return SegmentGroups(by_spark)

    def _small_lines(
        self, day: Day, columns: Sequence[driver_lines.SegmentColumns], formats: DayFormats
    ) -> pa.Table | None:
        """What is grouped of the lines of a small day, which the driver reads; None if Spark has to read them."""
        lines = driver_lines.read_lines(self.archive, list(zip(day.readable, columns, strict=True)))
        if lines is None or lines.num_rows > driver_lines.max_groups():
            return None
        with ThreadPoolExecutor(1) as other:  # in Java each of them uses one core
            of_lines = other.submit(LineColumns.of, formats, day.as_date)
            rows = self.spark.createDataFrame(lines)
            evaluated = line_scan.lines_to_group(rows, of_lines.result())
        return spark_io.columns_of(evaluated)

    def scratch(self, date: str) -> Location:
        """The directory of the groups while the tables are made."""
        return self.tables.staging(date) / "counts"


def _reconciled(day: Day, archive: Location, counted: Mapping[int, SegmentCount]) -> dict[int, ReconciledCount]:
    """The count of each segment by its number; a segment that differs from its manifest line is read in `archive`."""
    counts = {}
    for number, segment in enumerate(day.readable):
        one = counted.get(number)
        found = reconcile(one, lines_manifest=segment.lines, bytes_there=day.bytes_there(segment))
        if found is None and one is not None:
            has_bom, is_unterminated = format_detection.ends(archive / segment.path, segment.codec)
            found = reconcile_with_content(one, has_bom=has_bom, is_unterminated=is_unterminated)
        counts[number] = found or EMPTY_COUNT
    return counts


def _assignment(
    day: Day, counted: Sequence[SegmentCount], counts: Mapping[int, ReconciledCount], formats: Mapping[str, LogFormat]
) -> Assignment:
    """How the groups of `day` become groups of log files and hours."""
    log_of = {s.path: (s.partition, escaped(s.host), escaped(s.file)) for s in day.manifests.segments}
    logs = sorted(set(log_of.values()))
    number_of = {log: number for number, log in enumerate(logs)}
    by_number = {one.segment: one for one in counted}

    def origin(number: int, segment: Segment) -> SegmentOrigin:
        is_timed = formats[segment.path].family != NONE
        found = SegmentOrigin(number, number_of[log_of[segment.path]], is_timed, hour_of(segment.first_time))
        one, count = by_number.get(number), counts[number]
        if one is None:
            return found
        return found._replace(
            end_block=one.last[0],
            end_row=one.last[1],
            unterminated=count.unterminated,
            head_block=one.first[0],
            head_row=one.first[1],
            bom_bytes=count.bom_bytes,
        )

    with_rows = {day.readable[one.segment].path for one in counted}
    sizes = {day.readable[number].path: count.bytes for number, count in counts.items()}
    empty = [  # also missing segments: their log files are in the tables, with 0 lines
        EmptySegment(number_of[log_of[s.path]], hour_of(s.first_time), sizes.get(s.path, 0))
        for s in day.manifests.segments
        if s.path not in with_rows
    ]
    return Assignment(day.as_date, logs, [origin(*one) for one in enumerate(day.readable)], empty)
