"""What the scan counted where that is much: frames of Spark, and a query for each question."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.aggregate import port, spark_hourly
from spark_analytics.aggregate.port import Asked, Placing
from spark_analytics.archive.reconcile import Counted
from spark_analytics.metrics import auth_events, pattern_tables, volumes, web_requests
from spark_analytics.tables import schemas, spark_io
from spark_analytics.tables.schemas import Row, WebSums
from spark_analytics.tables.store import Tables

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
            for segment, lines, size, first, last in spark_hourly.sums(self.counts).collect()
        ]

    def placed(self, placing: Placing) -> "ManyGroups":
        """The same by log file and hour, with bytes as `wc` counts them."""
        spark = self.counts.sparkSession
        corrections = placing.corrections
        settled = spark_hourly.settled(
            self.counts, spark_io.frame(spark, corrections, spark_hourly.CORRECTIONS) if corrections else None
        )
        groups = spark_hourly.placed(settled, spark_io.frame(spark, placing.places, _PLACES), placing.day)
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
        silent = spark_io.frame(self.spark, self.placing.silent, _SILENT)
        hours = silent.withColumn("hour", F.timestamp_seconds("stored_hour")).drop("stored_hour")
        made = spark_hourly.hourly(self.groups, hours, self.placing.day)
        spark_io.stage(made, self.tables, "hourly", self.date, (*schemas.FILE, "hour", "level"))

    def by_file(self) -> list[volumes.FileSums]:
        """One for each log file of table `hourly`."""
        return [volumes.FileSums(*row) for row in volumes.by_file(self._staged("hourly")).collect()]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return [tuple(row) for row in pattern_tables.texts(self.counts).collect()]

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[pattern_tables.Seen]:  # noqa: ARG002 - read as they are staged
        """One for each pattern and level."""
        named = self._staged("fingerprints").select("fingerprint", "pattern_id")
        return [pattern_tables.Seen(*row) for row in pattern_tables.by_pattern(self._staged("hourly"), named).collect()]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        return dict(map(tuple, pattern_tables.places(self.counts, fingerprints).collect()))

    def accounts(self) -> list[Row]:
        """Table `auth_daily`."""
        return [row.asDict() for row in auth_events.daily(self.groups).collect()]

    def write_requests(self) -> Asked:
        """Stages table `access_hourly`."""
        requests = self.groups.where(F.col("status").isNotNull() & (F.col("lines") > 0)).withColumnRenamed(
            "remote", "client"
        )
        order = (*schemas.FILE, "hour", "status")
        spark_io.stage(web_requests.hourly(requests), self.tables, "access_hourly", self.date, order)
        staged = self._staged("access_hourly")
        return Asked(
            [tuple(row) for row in web_requests.keys(requests).collect()],
            port.hours_of(web_requests.by_hour(staged).collect()),
            WebSums(*web_requests.sums(staged).collect()[0]),
        )

    def _staged(self, name: str) -> DataFrame:
        return spark_io.staged(self.spark, self.tables, name, self.date)
