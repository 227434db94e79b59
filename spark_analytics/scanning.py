"""A day's segments become counts: the scan is run once, and again only where a segment turns out to be damaged."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from shipper.manifest import Segment
from spark_analytics import few, hearing, io, locations, paces, sample, scan
from spark_analytics.counts import Counts
from spark_analytics.families import ANY, Kind, Writing
from spark_analytics.few import Few
from spark_analytics.inventory import Day
from spark_analytics.locations import Location
from spark_analytics.many import Many
from spark_analytics.settle import Counted
from spark_analytics.tables import Tables

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
    written: Mapping[sample.LogFile, Writing]

    def of(self, day: Day) -> Scanned:
        """Counts the lines of `day`. A segment that ends the scan is left out of the next one.

        Raises:
            ShipperError: more segments are damaged than are looked for, or Spark gave up.
        """
        log = locations.log_of(self.tables.out)
        while True:
            segments = day.readable
            try:
                with io.explained(log):
                    counts = self._counted(day, segments)
                    return Scanned(day, segments, counts, counts.by_segment())
            except io.DamagedSegment as error:
                day = _without(day, error)

    def _counted(self, day: Day, segments: Sequence[Segment]) -> Counts:
        """Groups are written once, whatever asks of them: queries would look through the scan."""
        place = self.place(day.date)
        forms = scan.Written.of(writing(self.written, segment) for segment in segments)
        # of a small day nothing is compiled, so what groups say is not worth a query of its own
        at_once = sum(segment.bytes_raw for segment in segments) <= paces.SMALL_BYTES
        frame = self._groups(segments, forms)
        frame = scan.heard(frame, forms) if at_once else frame
        io.write(frame, place / "groups")
        groups = few.taken(place / "groups")
        if groups is None:
            counted = io.read(self.spark, [place / "groups"], frame.schema)
            told = counted if at_once else io.kept(scan.heard(counted, forms), place / "told")
            return Many(told, self.tables, day.date)
        told = groups if at_once else hearing.heard(self.spark, groups, forms, place / "texts")
        return Few(self.spark, told, self.tables, day.date)

    def place(self, date: str) -> Location:
        """Where groups are kept while the tables are made."""
        return self.tables.staging(date) / "counts"

    def _groups(self, segments: Sequence[Segment], forms: scan.Written) -> DataFrame:
        known = [
            forms.columns(locations.uri(self.archive, segment.path), number, writing(self.written, segment))
            for number, segment in enumerate(segments)
        ]
        rows = io.read_rows(self.spark, self.archive, segments)
        return scan.count_rows(rows, io.frame(self.spark, known, scan.SEGMENT_SCHEMA), forms)


def writing(written: Mapping[sample.LogFile, Writing], segment: Segment) -> Writing:
    """How the lines of `segment` are written."""
    return written.get((segment.partition, segment.host, segment.file), _UNKNOWN)


def _without(day: Day, error: io.DamagedSegment) -> Day:
    found = next((s.path for s in day.readable if error.path.endswith(f"/{s.path}")), None)
    if found is None or len(day.damaged) >= MOST_DAMAGED:
        raise error
    return dataclasses.replace(day, damaged=day.damaged | {found})
