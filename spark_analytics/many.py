"""What the scan counted where that is much: frames of Spark, and a query for each question."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics import access, auth, counts, hourly, io, mining, volumes
from spark_analytics.counts import Asked, Placing
from spark_analytics.given import Row, WebSums
from spark_analytics.settle import Counted
from spark_analytics.tables import Tables

_PLACES = "segment INT, partition INT, host STRING, file STRING, family STRING, stored_hour LONG"
_SILENT = "partition INT, host STRING, file STRING, stored_hour LONG, bytes LONG"


@dataclass(frozen=True, slots=True)
class Many:
    """`counts.Counts` as a frame of what `scan.heard` yields."""

    counts: DataFrame
    tables: Tables
    date: str

    def by_segment(self) -> list[Counted]:
        """One for each segment that has a row."""
        return [
            Counted(segment, lines, size, tuple(first), tuple(last))
            for segment, lines, size, first, last in hourly.sums(self.counts).collect()
        ]

    def placed(self, placing: Placing) -> "ManyGroups":
        """The same by log file and hour, with bytes as `wc` counts them."""
        spark = self.counts.sparkSession
        corrections = placing.corrections
        settled = hourly.settled(self.counts, io.frame(spark, corrections, hourly.CORRECTIONS) if corrections else None)
        groups = hourly.placed(settled, io.frame(spark, placing.places, _PLACES), placing.day)
        return ManyGroups(spark, self.counts, groups, placing, self.tables, self.date)


@dataclass(frozen=True, slots=True)
class ManyGroups:
    """`counts.Groups` as frames."""

    spark: SparkSession
    counts: DataFrame
    groups: DataFrame
    placing: Placing
    tables: Tables
    date: str

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        silent = io.frame(self.spark, self.placing.silent, _SILENT)
        hours = silent.withColumn("hour", F.timestamp_seconds("stored_hour")).drop("stored_hour")
        made = hourly.hourly(self.groups, hours, self.placing.day)
        io.stage(made, self.tables, "hourly", self.date, (*hourly.FILE, "hour", "level"))

    def by_file(self) -> list[volumes.FileSums]:
        """One for each log file of table `hourly`."""
        return [volumes.FileSums(*row) for row in volumes.by_file(self._staged("hourly")).collect()]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return [tuple(row) for row in mining.texts(self.counts).collect()]

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[mining.Seen]:  # noqa: ARG002 - read as they are staged
        """One for each pattern and level."""
        named = self._staged("fingerprints").select("fingerprint", "pattern_id")
        return [mining.Seen(*row) for row in mining.by_pattern(self._staged("hourly"), named).collect()]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        return dict(map(tuple, mining.places(self.counts, fingerprints).collect()))

    def accounts(self) -> list[Row]:
        """Table `auth_daily`."""
        return [row.asDict() for row in auth.daily(self.groups).collect()]

    def write_requests(self) -> Asked:
        """Stages table `access_hourly`."""
        requests = self.groups.where(F.col("status").isNotNull() & (F.col("lines") > 0)).withColumnRenamed(
            "remote", "client"
        )
        order = (*hourly.FILE, "hour", "status")
        io.stage(access.hourly(requests), self.tables, "access_hourly", self.date, order)
        staged = self._staged("access_hourly")
        return Asked(
            [tuple(row) for row in access.keys(requests).collect()],
            counts.hours_of(access.by_hour(staged).collect()),
            WebSums(*access.sums(staged).collect()[0]),
        )

    def _staged(self, name: str) -> DataFrame:
        return io.staged(self.spark, self.tables, name, self.date)
