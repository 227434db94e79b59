"""A day's segments become counts: the scan is run once, and again only where a segment turns out to be damaged."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from shipper.manifest import Segment
from spark_analytics.aggregate import arrow
from spark_analytics.aggregate.arrow import Few
from spark_analytics.aggregate.port import Counts
from spark_analytics.aggregate.spark import Many
from spark_analytics.archive.inventory import Day
from spark_analytics.archive.reconcile import Counted
from spark_analytics.lines.log_formats import ANY, Kind, Writing
from spark_analytics.runtime import tuning
from spark_analytics.scan import classify_distinct, format_detection, line_scan
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import spark_io
from spark_analytics.tables.store import Tables

MOST_DAMAGED = 20
"""Damaged segments that are found one by one, each by a scan that it ends; a day with more is given up."""

_UNKNOWN = Writing(ANY, Kind.PLAIN)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What was counted, of which segments, by their numbers in this run. `day` knows those that are damaged."""

    day: Day
    segments: Sequence[Segment]
    counts: Counts
    found: Sequence[Counted]


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan needs beside the day that it reads."""

    spark: SparkSession
    archive: Location
    tables: Tables
    written: Mapping[format_detection.LogFile, Writing]

    def of(self, day: Day) -> Scanned:
        """Counts the lines of `day`. A segment that ends the scan is left out of the next one.

        Raises:
            ShipperError: more segments are damaged than are looked for, or Spark gave up.
        """
        log = locations.log_of(self.tables.out)
        while True:
            segments = day.readable
            try:
                with spark_io.explained(log):
                    counts = self._counted(day, segments)
                    return Scanned(day, segments, counts, counts.by_segment())
            except spark_io.DamagedSegment as error:
                day = _without(day, error)

    def _counted(self, day: Day, segments: Sequence[Segment]) -> Counts:
        """Groups are written once, whatever asks of them: queries would look through the scan."""
        place = self.place(day.date)
        forms = line_scan.Written.of(writing(self.written, segment) for segment in segments)
        # of a small day nothing is compiled, so what groups say is not worth a query of its own
        at_once = sum(segment.bytes_raw for segment in segments) <= tuning.SMALL_BYTES
        frame = self._groups(segments, forms)
        frame = line_scan.heard(frame, forms) if at_once else frame
        spark_io.write(frame, place / "groups")
        groups = arrow.taken(place / "groups")
        if groups is None:
            counted = spark_io.read(self.spark, [place / "groups"], frame.schema)
            told = counted if at_once else spark_io.kept(line_scan.heard(counted, forms), place / "told")
            return Many(told, self.tables, day.date)
        told = groups if at_once else classify_distinct.heard(self.spark, groups, forms, place / "texts")
        return Few(self.spark, told, self.tables, day.date)

    def place(self, date: str) -> Location:
        """Where groups are kept while the tables are made."""
        return self.tables.staging(date) / "counts"

    def _groups(self, segments: Sequence[Segment], forms: line_scan.Written) -> DataFrame:
        known = [
            forms.columns(locations.uri(self.archive, segment.path), number, writing(self.written, segment))
            for number, segment in enumerate(segments)
        ]
        rows = spark_io.read_rows(self.spark, self.archive, segments)
        return line_scan.count_rows(rows, spark_io.frame(self.spark, known, line_scan.SEGMENT_SCHEMA), forms)


def writing(written: Mapping[format_detection.LogFile, Writing], segment: Segment) -> Writing:
    """How the lines of `segment` are written."""
    return written.get((segment.partition, segment.host, segment.file), _UNKNOWN)


def _without(day: Day, error: spark_io.DamagedSegment) -> Day:
    found = next((s.path for s in day.readable if error.path.endswith(f"/{s.path}")), None)
    if found is None or len(day.damaged) >= MOST_DAMAGED:
        raise error
    return dataclasses.replace(day, damaged=day.damaged | {found})
