"""The Spark adapter of the aggregation port: groups are data frames, each table is a query of them.

It serves days whose groups do not fit into the driver's memory.
"""

import datetime as dt
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from shipper.line_times import NONE
from spark_analytics.aggregate import port
from spark_analytics.aggregate.port import Assignment, LinePlace, WebAggregates
from spark_analytics.lines import severity, timestamps
from spark_analytics.metrics import sign_ins, web_requests
from spark_analytics.metrics.pattern_tables import FILES_SHOWN, PatternLines
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import LEVEL_BITS, LINES_BITS, SUMMED, FileSums
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST
from spark_analytics.tables import schemas, spark_io
from spark_analytics.tables.day_tables import ROW_EXAMPLES, ROW_KINDS, AuthCount, Row, RowKey, WebSums
from spark_analytics.tables.schemas import FILE
from spark_analytics.tables.store import Tables

_ORIGINS = "segment INT, partition INT, host STRING, file STRING, family STRING, stored_hour LONG"
_EMPTY = "partition INT, host STRING, file STRING, stored_hour LONG, bytes LONG"
_CORRECTIONS = (
    "segment INT, end_block LONG, end_row LONG, unterminated LONG, head_block LONG, head_row LONG, bom_bytes LONG"
)


@dataclass(frozen=True, slots=True)
class SparkSegmentGroups:
    """`port.SegmentGroups` as a data frame with the columns of `line_scan.classify_groups`."""

    groups: DataFrame
    tables: Tables
    date: str

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""
        return [
            SegmentCount(segment, lines, size, tuple(first), tuple(last))
            for segment, lines, size, first, last in _by_segment(self.groups).collect()
        ]

    def assign(self, assignment: Assignment) -> "SparkFileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""
        spark = self.groups.sparkSession
        corrections = assignment.corrections
        corrected = _corrected(self.groups, spark_io.frame(spark, corrections, _CORRECTIONS) if corrections else None)
        groups = _assigned(corrected, spark_io.frame(spark, assignment.origins, _ORIGINS), assignment.day)
        return SparkFileGroups(spark, self.groups, groups, assignment, self.tables, self.date)


@dataclass(frozen=True, slots=True)
class SparkFileGroups:
    """`port.FileGroups` as data frames: `segment_groups` as the scan made them, `groups` assigned to log files."""

    spark: SparkSession
    segment_groups: DataFrame
    groups: DataFrame
    assignment: Assignment
    tables: Tables
    date: str

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        empty = spark_io.frame(self.spark, self.assignment.empty, _EMPTY)
        hours = empty.withColumn("hour", F.timestamp_seconds("stored_hour")).drop("stored_hour")
        table = _hourly(self.groups, hours, self.assignment.day)
        spark_io.stage(table, self.tables, "hourly", self.date, (*FILE, "hour", "level"))

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        return [FileSums(*row) for row in _by_file(self._staged("hourly")).collect()]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return [tuple(row) for row in _texts(self.segment_groups).collect()]

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:  # noqa: ARG002 - read from the staged table
        """One for each pattern and level."""
        patterns = self._staged("fingerprints").select("fingerprint", "pattern_id")
        return [PatternLines(*row) for row in _by_pattern(self._staged("hourly"), patterns).collect()]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        return dict(map(tuple, _segments_of(self.segment_groups, fingerprints).collect()))

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of lines of each of `wanted`."""
        found: dict[RowKey, list[LinePlace]] = {}
        for kind, names, place in _first_rows(self.groups, wanted).collect() if wanted else ():
            if (key := RowKey(kind, tuple(names))) in wanted:
                found.setdefault(key, []).append(LinePlace(*place))
        return found

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, passwords by second."""
        return [AuthCount(*row) for row in _auth_counts(self.groups).collect()]

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""
        requests = self.groups.where(F.col("status").isNotNull() & (F.col("lines") > 0)).withColumnRenamed(
            "remote", "client"
        )
        order = (*FILE, "hour", "status")
        spark_io.stage(_access_hourly(requests), self.tables, "access_hourly", self.date, order)
        staged = self._staged("access_hourly")
        return WebAggregates(
            [tuple(row) for row in _web_keys(requests).collect()],
            port.web_hours(_web_hours(staged).collect()),
            WebSums(*web_requests.sketch_sums(staged).collect()[0]),
        )

    def _staged(self, name: str) -> DataFrame:
        return spark_io.read(self.spark, [self.tables.staging(self.date) / name], schemas.TABLES[name])


# -- segments ------------------------------------------------------------------------------------------------------


def _by_segment(groups: DataFrame) -> DataFrame:
    """Per segment: lines, bytes, and the positions of its first and last row."""
    return groups.groupBy("segment").agg(
        F.sum("lines").alias("lines"),
        F.sum("bytes").alias("bytes"),
        F.min(F.struct("block_start", "first_row")).alias("first"),
        F.max(F.struct("block_start", "last_row")).alias("last"),
    )


def _corrected(groups: DataFrame, corrections: DataFrame | None) -> DataFrame:
    """`groups` with bytes as `wc` counts them, and with `unfinished`: lines that have no newline."""
    if corrections is None:
        return groups.withColumn("unfinished", F.lit(0).cast("bigint"))
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
    of_segment = origins.select("segment", *FILE, "family", F.timestamp_seconds("stored_hour").alias("stored_hour"))
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


# -- table `hourly` and its sums -----------------------------------------------------------------------------------


def _hourly(groups: DataFrame, empty: DataFrame, day: dt.date) -> DataFrame:
    """Table `hourly` of assigned groups; `empty` are segments without a row, which count 0 lines.

    `empty` has (partition, host, file, hour, bytes): bytes of a byte order mark that is the file's whole content.
    """
    lines = F.col("lines")
    late = ~F.col("undated") & (F.col("hour") < F.lit(timestamps.midnight(day)))
    counted = groups.select(
        *FILE,
        "hour",
        "level",
        "fingerprint",
        "lines",
        "unfinished",
        "bytes",
        "first_ts",
        "last_ts",
        F.when(late, lines).otherwise(0).alias("late_lines"),
        F.when(F.col("undated"), lines).otherwise(0).alias("no_ts_lines"),
        F.when(F.col("undated") & (F.col("family") != NONE), lines).otherwise(0).alias("continuation_lines"),
    )
    return (
        counted.unionByName(_without_lines(empty))
        .groupBy(*FILE, "hour", "level", "fingerprint")
        .agg(
            *(F.sum(name).alias(name) for name in ("lines", "unfinished", "bytes")),
            F.min("first_ts").alias("first_ts"),
            F.max("last_ts").alias("last_ts"),
            *(F.sum(name).alias(name) for name in ("late_lines", "no_ts_lines", "continuation_lines")),
        )
        .select(*schemas.HOURLY.names)
    )


def _without_lines(empty: DataFrame) -> DataFrame:
    constants = {"level": F.lit("none")}
    absent = [field for field in schemas.HOURLY if field.name not in empty.columns]
    nulls = {"first_ts", "last_ts"}
    return empty.select(
        *empty.columns,
        *(
            constants.get(field.name, F.lit(None if field.name in nulls else 0)).cast(field.dataType).alias(field.name)
            for field in absent
        ),
    )


def _by_file(hourly: DataFrame) -> DataFrame:
    """One row for each log file, as `FileSums`."""
    level = F.array_position(severity.constants(schemas.LEVELS), F.col("level")) - 1
    hour = F.expr(f"unix_seconds(hour) div {timestamps.HOUR_SECONDS}")
    cell = F.shiftleft(F.shiftleft(hour, LEVEL_BITS) + level, LINES_BITS) + F.col("lines")
    errors = F.when(F.col("level").isin("fatal", "error"), F.col("lines")).otherwise(0)
    warnings = F.when(F.col("level") == "warn", F.col("lines")).otherwise(0)
    times = (F.min("first_ts").alias("first_ts"), F.max("last_ts").alias("last_ts"))
    counted = [name for name in SUMMED if name not in {"err", "warn"}]
    cells = hourly.groupBy(*FILE, "hour", "level").agg(
        *(F.sum(name).alias(name) for name in (*counted, "unfinished")), *times
    )
    terminated = F.col("lines") - F.col("unfinished")
    return (
        cells.withColumns({"cell": cell, "err": errors, "warn": warnings, "lines": terminated})
        .groupBy(*FILE)
        .agg(*(F.sum(name).alias(name) for name in SUMMED), *times, F.collect_list("cell").alias("cells"))
        .select(*FILE, *SUMMED, *(F.unix_micros(name).alias(name) for name in ("first_ts", "last_ts")), "cells")
    )


# -- patterns ------------------------------------------------------------------------------------------------------


def _texts(groups: DataFrame) -> DataFrame:
    """(fingerprint, text, lines) of the masked lines with the most lines."""
    counted = groups.where(F.col("text").isNotNull()).groupBy("fingerprint", "text").agg(F.sum("lines").alias("lines"))
    ordered = counted.orderBy(F.desc("lines"), "text").limit(MAX_DISTINCT)
    return ordered.select("fingerprint", "text", "lines")


def _segments_of(groups: DataFrame, fingerprints: Iterable[int]) -> DataFrame:
    """(fingerprint, segment): for each of the fingerprints the segment with most of its lines, the first of several."""
    wanted = groups.where(F.col("text").isNotNull() & F.col("fingerprint").isin(list(fingerprints)))
    of_segment = wanted.groupBy("fingerprint", "segment").agg(F.sum("lines").alias("n"))
    most = F.max_by("segment", F.struct("n", -F.col("segment")))
    return of_segment.groupBy("fingerprint").agg(most.alias("segment"))


def _by_pattern(hourly: DataFrame, patterns: DataFrame) -> DataFrame:
    """One row for each pattern and level, as `PatternLines`; `patterns` has (fingerprint, pattern_id).

    Continuation lines have no pattern.
    """
    pattern = F.coalesce("pattern_id", F.lit(REST.id)).alias("pattern_id")
    key = ("pattern_id", "level")
    named = (
        hourly.where(F.col("fingerprint") != 0)
        .groupBy("fingerprint", "level", "file", "host")
        .agg(F.sum("lines").alias("lines"))
        .join(F.broadcast(patterns), on="fingerprint", how="left")
        .select(pattern, "level", "file", "host", "lines")
    )
    of_file = named.groupBy(*key, "file").agg(F.sum("lines").alias("lines"), F.collect_set("host").alias("names"))
    most = F.slice(F.reverse(F.array_sort(F.collect_list(F.struct("lines", "file")))), 1, FILES_SHOWN)
    return of_file.groupBy(*key).agg(
        F.sum("lines").alias("lines"),
        F.size(F.array_distinct(F.flatten(F.collect_list("names")))).alias("hosts"),
        F.count(F.lit(1)).alias("files"),
        F.transform(most, lambda entry: entry["file"]).alias("most"),
    )


# -- authentication and web requests -------------------------------------------------------------------------------


def _auth_counts(groups: DataFrame) -> DataFrame:
    """`AuthCount` of groups with its columns, `hour` and `login_second`."""
    key = ("partition", "host", "auth", "user", "remote")
    return (
        groups.where(F.col("auth").isNotNull() & (F.col("lines") > 0))
        .groupBy(*key, "hour", "login_second")
        .agg(
            F.sum("lines").alias("lines"),
            F.sum(F.col("lines") * F.col("attempts")).alias("attempts"),
            F.unix_seconds(F.min("first_ts")).alias("first_ts"),
            F.unix_seconds(F.max("last_ts")).alias("last_ts"),
        )
        .select(*key, "lines", "attempts", "first_ts", "last_ts")
    )


def _first_rows(groups: DataFrame, wanted: Iterable[RowKey]) -> DataFrame:
    """(kind, names, (row, segment, block_start)) of the example lines of `wanted`, and of more names."""
    blocks = groups.groupBy("segment", "block_start").agg(F.min("first_row").alias("block_row"))
    row = (F.col("first_row") - F.col("block_row")).alias("row")
    placed = (
        groups.where(F.col("lines") > 0)
        .join(F.broadcast(blocks), on=["segment", "block_start"], how="inner")
        .withColumn("place", F.struct(row, "segment", "block_start"))
    )
    kinds: dict[str, list[tuple[str, ...]]] = {}
    for key in wanted:
        kinds.setdefault(key.kind, []).append(key.names)
    rows = functools.reduce(DataFrame.unionByName, (_rows_of(placed, kind, names) for kind, names in kinds.items()))
    order = Window.partitionBy("kind", "names").orderBy(F.desc("lines"), "place")
    return (
        rows.groupBy("kind", "names", "other")
        .agg(F.sum("lines").alias("lines"), F.min("place").alias("place"))
        .withColumn("number", F.row_number().over(order))
        .where(F.col("number") <= ROW_EXAMPLES)
        .orderBy("kind", "names", "number")
        .select("kind", "names", "place")
    )


def _rows_of(groups: DataFrame, kind: str, names: Sequence[tuple[str, ...]]) -> DataFrame:
    columns, other = ROW_KINDS[kind]
    condition = _condition(kind)
    for place, column in enumerate(columns):
        condition &= F.col(column).isin(sorted({one[place] for one in names}))
    texts = F.array(*(F.col(column).cast("string") for column in columns)).alias("names")
    return groups.where(condition).select(
        F.lit(kind).alias("kind"), texts, F.col(other).cast("string").alias("other"), "lines", "place"
    )


def _condition(kind: str) -> Column:
    """Whether a group has lines of that kind of row."""
    auth, status = F.substring_index("auth", " ", 1), F.col("status")
    if kind.startswith("failed"):
        return auth == sign_ins.FAILED
    conditions = {
        "host": F.lit(True),
        "errors": F.col("level").isin("fatal", "error"),
        "password": auth.isin(sign_ins.FAILED, sign_ins.ODD_NAME, sign_ins.ACCEPTED),
        "path404": status == web_requests.NOT_FOUND,
        "path5xx": status >= web_requests.FIRST_SERVER_ERROR,
        "slowpath": web_requests.milliseconds(F.col("latency")) >= web_requests.SLOW_MS,
        "client": status.isNotNull(),
    }
    return conditions[kind]


def _access_hourly(requests: DataFrame) -> DataFrame:
    """Table `access_hourly`: a row for each log file, hour and status.

    `requests` has (partition, host, file, hour, status, client, latency, lines, sent). Quantile sketches have no
    weights, so a group of equal latencies enters the sketch once for each of its lines.
    """
    key = (*FILE, "hour", "status")
    counted = requests.groupBy(*key).agg(
        F.sum("lines").alias("requests"),
        F.sum(F.coalesce("sent", F.lit(0))).cast("bigint").alias("bytes"),
        F.hll_sketch_agg("client", F.lit(web_requests.CLIENTS_LG_K)).alias("clients_hll"),
    )
    latency = web_requests.milliseconds(F.col("latency"))
    timed = requests.where(F.col("latency").isNotNull()).select(
        *key, F.explode(F.array_repeat(latency, F.col("lines").cast("int"))).alias("took")
    )
    sketched = timed.groupBy(*key).agg(F.kll_sketch_agg_double("took").alias("latency_kll"))
    return (
        counted.join(sketched, on=list(key), how="left")
        .withColumn("status_class", F.concat(F.substring(F.col("status").cast("string"), 1, 1), F.lit("xx")))
        .select(*schemas.ACCESS_HOURLY.names)
    )


def _web_keys(requests: DataFrame) -> DataFrame:
    """(kind, key, n) of grouped requests, most first: for `web_requests.top_keys`."""
    code, slow = F.col("status"), web_requests.milliseconds(F.col("latency")) >= web_requests.SLOW_MS
    entries = F.array(
        _key("client", "client", F.lit(True)),
        _key("path404", "path", code == web_requests.NOT_FOUND),
        _key("path5xx", "path", code >= web_requests.FIRST_SERVER_ERROR),
        _key("slowpath", "path", slow),
        _key("status", "status", F.lit(True)),
    )
    return (
        requests.select(F.explode(entries).alias("entry"), "lines")
        .where(F.col("entry.key").isNotNull())
        .groupBy("entry.kind", "entry.key")
        .agg(F.sum("lines").alias("n"))
        .orderBy(F.desc("n"), "kind", "key")
        .limit(web_requests.MAX_KEYS)
    )


def _key(kind: str, column: str, counts: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), F.when(counts, F.col(column).cast("string")).alias("key"))


def _web_hours(table: DataFrame) -> DataFrame:
    """(hour, status class, requests, bytes) of table `access_hourly`; the hour in seconds since 1970."""
    sums = (F.sum(name).alias(name) for name in ("requests", "bytes"))
    ordered = table.groupBy("hour", "status_class").agg(*sums).orderBy("hour", "status_class")
    return ordered.withColumn("hour", F.unix_seconds("hour"))
