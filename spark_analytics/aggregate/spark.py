"""The Spark adapter of the aggregation port: groups are data frames, each table is a query of them.

It serves days whose groups do not fit into the driver's memory.
"""

import datetime as dt
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from shipper.line_formats import NONE
from spark_analytics.aggregate import port
from spark_analytics.aggregate.port import AUTH_KINDS, ERROR_LEVELS, REQUEST_KINDS, Assignment, LinePlace, WebAggregates
from spark_analytics.lines import severity, timestamps
from spark_analytics.metrics import web_requests
from spark_analytics.metrics.pattern_tables import FILES_SHOWN, PatternLines, PatternPlace
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import LEVEL_BITS, LINES_BITS, SUMMED, FileSums
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas, spark_io
from spark_analytics.tables.day_tables import ROW_EXAMPLES, ROW_KINDS, AuthCount, Row, RowKey, WebSums
from spark_analytics.tables.schemas import FILE

_ORIGINS = "segment INT, partition INT, host STRING, file STRING, family STRING, stored_hour BIGINT"
_EMPTY = "partition INT, host STRING, file STRING, stored_hour BIGINT, bytes BIGINT"
_CORRECTIONS = (
    "segment INT, end_block BIGINT, end_row BIGINT, unterminated BIGINT, head_block BIGINT, head_row BIGINT,"
    " bom_bytes BIGINT"
)


@dataclass(frozen=True, slots=True)
class SparkSegmentGroups:
    """`port.SegmentGroups` as a data frame with the columns of `line_scan.classify_groups`."""

    groups: DataFrame
    staging: Location  #: directory in which the day's tables are made

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""
        counted = self.groups.groupBy("segment").agg(
            F.sum("lines"),
            F.sum("bytes"),
            F.min(F.struct("block_start", "first_row")),
            F.max(F.struct("block_start", "last_row")),
        )
        return [
            SegmentCount(segment, lines, size, tuple(first), tuple(last))
            for segment, lines, size, first, last in counted.collect()
        ]

    def assign(self, assignment: Assignment) -> "SparkFileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""
        spark, day = self.groups.sparkSession, assignment.day
        corrected = self.groups.withColumn("unfinished", F.lit(0).cast("bigint"))
        if assignment.corrections:  # without the join a report takes 1.2 CPU s less (60 MB, four pairs)
            corrected = _corrected(self.groups, spark_io.frame(spark, assignment.corrections, _CORRECTIONS))
        groups = _assigned(corrected, spark_io.frame(spark, assignment.origins, _ORIGINS), day)
        return SparkFileGroups(spark, self.groups, groups, assignment, self.staging)


@dataclass(frozen=True, slots=True)
class SparkFileGroups:
    """`port.FileGroups` as data frames: `segment_groups` as the scan made them, `groups` assigned to log files."""

    spark: SparkSession
    segment_groups: DataFrame
    groups: DataFrame
    assignment: Assignment
    staging: Location

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        empty = spark_io.frame(self.spark, self.assignment.empty, _EMPTY)
        table = _hourly(self.groups, empty, self.assignment.day)
        spark_io.stage(table, self.staging, "hourly", (*FILE, "hour", "level"))

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        level = F.array_position(severity.constants(schemas.LEVELS), F.col("level")) - 1
        hour = F.expr(f"unix_seconds(hour) div {timestamps.HOUR_SECONDS}")
        cells = _summed(self._staged("hourly"), (*FILE, "hour", "level"), port.HOURLY_SUMS, port.TIMES).withColumns(
            {
                "cell": F.shiftleft(F.shiftleft(hour, LEVEL_BITS) + level, LINES_BITS) + F.col("lines"),
                "err": F.when(F.col("level").isin(*ERROR_LEVELS), F.col("lines")).otherwise(0),
                "warn": F.when(F.col("level") == "warn", F.col("lines")).otherwise(0),
                "lines": F.col("lines") - F.col("unfinished"),
            }
        )
        sums = _summed(cells, FILE, SUMMED, (*port.TIMES, ("cell", "collect_list")))
        times = {name: F.unix_micros(name) for name, _ in port.TIMES}
        return [FileSums(*row) for row in sums.withColumns(times).collect()]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        counted = _summed(self.segment_groups.where(F.col("text").isNotNull()), ("fingerprint", "text"), ("lines",))
        return [tuple(row) for row in counted.orderBy(F.desc("lines"), "text").limit(MAX_DISTINCT).collect()]

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:  # noqa: ARG002 - read from the staged table
        """One for each pattern and level."""
        patterns = self._staged("fingerprints").select("fingerprint", "pattern_id")
        known = self._staged("hourly").where(F.col("fingerprint") != 0)
        named = (
            _summed(known, ("fingerprint", "level", "file", "host"), ("lines",))
            .join(F.broadcast(patterns), on="fingerprint", how="left")
            .fillna(REST.id, "pattern_id")
        )
        of_file = named.groupBy("pattern_id", "level", "file").agg(
            F.sum("lines").alias("lines"), F.collect_set("host").alias("names")
        )
        most = F.slice(F.reverse(F.array_sort(F.collect_list(F.struct("lines", "file")))), 1, FILES_SHOWN)
        of_pattern = of_file.groupBy("pattern_id", "level").agg(
            F.sum("lines"),
            F.size(F.array_distinct(F.flatten(F.collect_list("names")))),
            F.count(F.lit(1)),
            F.transform(most, lambda entry: entry["file"]),
        )
        return [PatternLines(*row) for row in of_pattern.collect()]

    def places_of(self, fingerprints: Collection[int]) -> list[PatternPlace]:
        """One for each of `fingerprints`, level and log file."""
        wanted = self._staged("hourly").where(F.col("fingerprint").isin(list(fingerprints)))
        sums = _summed(wanted, ("fingerprint", "level", *FILE), ("lines",), port.TIMES)
        times = {name: F.unix_seconds(name) for name, _ in port.TIMES}
        return [PatternPlace(*row) for row in sums.withColumns(times).collect()]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        wanted = F.col("text").isNotNull() & F.col("fingerprint").isin(list(fingerprints))
        of_segment = _summed(self.segment_groups.where(wanted), ("fingerprint", "segment"), ("lines",))
        most = F.max_by("segment", F.struct("lines", -F.col("segment")))
        return dict(map(tuple, of_segment.groupBy("fingerprint").agg(most).collect()))

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of lines of each of `wanted`."""
        if not wanted:
            return {}
        blocks = self.groups.groupBy("segment", "block_start").agg(F.min("first_row").alias("block_row"))
        row = (F.col("first_row") - F.col("block_row")).alias("row")
        placed = (
            self.groups.where(F.col("lines") > 0)
            .join(F.broadcast(blocks), on=["segment", "block_start"], how="inner")
            .withColumn("place", F.struct(row, "segment", "block_start"))
        )
        kinds = port.values_by_kind(wanted).items()
        rows = functools.reduce(DataFrame.unionByName, (_rows_of(placed, kind, values) for kind, values in kinds))
        order = Window.partitionBy("kind", "names").orderBy(F.desc("lines"), "place")
        first = (
            _summed(rows, ("kind", "names", "other"), ("lines",), [("place", "min")])
            .withColumn("number", F.row_number().over(order))
            .where(F.col("number") <= ROW_EXAMPLES)
            .orderBy("kind", "names", "number")
            .select("kind", "names", "place")
        )
        found: dict[RowKey, list[LinePlace]] = {}
        for kind, names, place in first.collect():
            if (key := RowKey(kind, tuple(names))) in wanted:
                found.setdefault(key, []).append(LinePlace(*place))
        return found

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, passwords by second."""
        events = self.groups.where(F.col("auth").isNotNull() & (F.col("lines") > 0))
        attempts = events.withColumn("attempts", F.col("lines") * F.col("attempts"))
        sums = _summed(attempts, port.AUTH_KEY, ("lines", "attempts"), port.TIMES)
        times = {name: F.unix_seconds(name) for name, _ in port.TIMES}
        return [AuthCount(*row) for row in sums.withColumns(times).select(*AuthCount._fields).collect()]

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""
        requests = self.groups.where(F.col("status").isNotNull() & (F.col("lines") > 0))
        spark_io.stage(_access_hourly(requests), self.staging, "access_hourly", (*FILE, "hour", "status"))
        staged = self._staged("access_hourly")
        hours = _summed(staged, ("hour", "status_class"), ("requests", "bytes"))
        timed = requests.where(F.col("latency").isNotNull())
        steps = [tuple(row) for row in _summed(timed, ("latency",), ("lines",)).collect()]
        return WebAggregates(
            [tuple(row) for row in _web_keys(requests).collect()],
            port.web_hours(hours.withColumn("hour", F.unix_seconds("hour")).collect()),
            WebSums(web_requests.distinct_clients(staged).collect()[0][0], *web_requests.latencies(dict(steps))),
        )

    def _staged(self, name: str) -> DataFrame:
        return spark_io.read(self.spark, [self.staging / name], schemas.TABLES[name])


def _summed(
    rows: DataFrame, keys: Sequence[str], sums: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """One row for each value of `keys`: the `sums` of its rows, and `others` by (column, function)."""
    functions = [*((name, "sum") for name in sums), *others]
    return rows.groupBy(*keys).agg(*(getattr(F, function)(name).alias(name) for name, function in functions))


# -- groups of log files and hours; table `hourly` ---------------------------------------------------------------------


def _corrected(groups: DataFrame, corrections: DataFrame) -> DataFrame:
    """`groups` with bytes as `wc` counts them, and with `unfinished`: lines that have no newline."""
    has_last_row = F.struct("block_start", "last_row") == F.struct("end_block", "end_row")
    has_first_row = F.struct("block_start", "first_row") == F.struct("head_block", "head_row")
    return (
        groups.join(F.broadcast(corrections), on="segment", how="left")
        .withColumns(
            {
                "unfinished": F.coalesce(F.when(has_last_row, F.col("unterminated")), F.lit(0)).cast("bigint"),
                "bom_bytes": F.coalesce(F.when(has_first_row, F.col("bom_bytes")), F.lit(0)),
            }
        )
        .withColumn("bytes", F.col("bytes") - F.col("unfinished") + F.col("bom_bytes"))
        .select(*groups.columns, "unfinished")
    )


def _assigned(groups: DataFrame, origins: DataFrame, day: dt.date) -> DataFrame:
    """Each group with its log file, its hour with the year resolved, and `undated`: it has no valid time."""
    of_segment = origins.withColumn("stored_hour", F.timestamp_seconds("stored_hour"))
    time = timestamps.resolve_year(F.col("hour") * F.lit(timestamps.HOUR_SECONDS), day)
    return (
        groups.join(F.broadcast(of_segment), on="segment", how="inner")
        .withColumn("dated", time)
        .withColumns(
            {
                "hour": F.coalesce("dated", "stored_hour"),
                "undated": F.col("dated").isNull(),
                "first_ts": F.when(F.col("dated").isNotNull(), timestamps.resolve_year(F.col("first_second"), day)),
                "last_ts": F.when(F.col("dated").isNotNull(), timestamps.resolve_year(F.col("last_second"), day)),
            }
        )
    )


def _hourly(groups: DataFrame, empty: DataFrame, day: dt.date) -> DataFrame:
    """Table `hourly` of assigned groups and of `empty` (`port.EmptySegment`), which count 0 lines."""
    lines, undated = F.col("lines"), F.col("undated")
    late = ~undated & (F.col("hour") < F.lit(timestamps.midnight(day)))
    counted = groups.withColumns(
        {
            "late_lines": F.when(late, lines).otherwise(0),
            "no_ts_lines": F.when(undated, lines).otherwise(0),
            "continuation_lines": F.when(undated & (F.col("family") != NONE), lines).otherwise(0),
        }
    ).select(*schemas.HOURLY.names)
    without_lines = empty.select(
        *FILE,
        F.timestamp_seconds("stored_hour").alias("hour"),
        F.lit("none").alias("level"),
        F.lit(0).alias("fingerprint"),
        "bytes",
    )
    rows = counted.unionByName(without_lines, allowMissingColumns=True)
    sums = _summed(rows, (*FILE, "hour", "level", "fingerprint"), port.HOURLY_SUMS, port.TIMES)
    return sums.fillna(0, [*port.HOURLY_SUMS])


# -- example lines -----------------------------------------------------------------------------------------------------


def _rows_of(groups: DataFrame, kind: str, values: Mapping[str, Collection[str]]) -> DataFrame:
    """The groups that have lines of that kind of row, and one of `values` in each of its columns."""
    condition = _condition(kind)
    for column, known in values.items():
        condition &= F.col(column).isin(*known)
    return groups.where(condition).select(
        F.lit(kind).alias("kind"),
        F.array(*(F.col(column).cast("string") for column in values)).alias("names"),
        F.col(ROW_KINDS[kind][1]).cast("string").alias("other"),
        "lines",
        "place",
    )


def _condition(kind: str) -> Column:
    """Whether a group has lines of that kind of row."""
    if one := REQUEST_KINDS.get(kind):
        return F.col(one.number).between(one.least, one.most)
    if kind in AUTH_KINDS:
        return F.substring_index("auth", " ", 1).isin(*AUTH_KINDS[kind])
    return F.col("level").isin(*ERROR_LEVELS) if kind == "errors" else F.lit(True)


# -- web requests ------------------------------------------------------------------------------------------------------


def _access_hourly(requests: DataFrame) -> DataFrame:
    """Table `access_hourly`: a row for each log file, hour and status."""
    once = F.col("place") == 0
    sums = (
        F.sum(F.when(once, F.col("lines"))).alias("requests"),
        F.sum(F.when(once, F.coalesce("sent", F.lit(0)))).cast("bigint").alias("bytes"),
    )
    return (
        web_requests.sketched(requests, *FILE, "hour", "status", sums=sums)
        .withColumn("status_class", F.concat(F.substring(F.col("status").cast("string"), 1, 1), F.lit("xx")))
        .select(*schemas.ACCESS_HOURLY.names)
    )


def _web_keys(requests: DataFrame) -> DataFrame:
    """(kind, key, lines) of grouped requests, most first: for `web_requests.top_keys`."""
    entries = F.array(
        *(
            F.struct(F.lit(kind).alias("kind"), F.when(_condition(kind), F.col(one.key).cast("string")).alias("key"))
            for kind, one in REQUEST_KINDS.items()
        )
    )
    keys = requests.select(F.explode(entries).alias("entry"), "lines").select("entry.*", "lines")
    sums = _summed(keys.where(F.col("key").isNotNull()), ("kind", "key"), ("lines",))
    return sums.orderBy(F.desc("lines"), "kind", "key").limit(web_requests.MAX_KEYS)
