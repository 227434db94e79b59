"""The lines of a day as rows, for questions that no table answers: `compact` and `query`."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper import line_formats
from spark_analytics.archive.inventory import Day, escaped
from spark_analytics.lines import json_fields, timestamps
from spark_analytics.runtime import interrupts, tuning
from spark_analytics.scan import format_detection, line_scan
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import spark_io

LINES = "date DATE, partition INT, host STRING, file STRING, ts TIMESTAMP, line STRING"
"""Columns of a line: day of arrival, log file, time of the event (null if the line has none), bytes without newline."""

_SEGMENT = (
    "uri STRING, partition INT, host STRING, file STRING, family STRING, stamp_form INT, stamp_pattern STRING,"
    " stamp_shape STRING, stamp_characters INT, format INT"
)
POSITION = ("partition", "host", "file", "uri", "block_start", "row")
"""The order in which the lines were written."""


def compact(spark: SparkSession, archive: Location, out: Location, day: Day) -> Location:
    """Writes the lines of `day` as Parquet, in the order in which they were written; returns the directory.

    It replaces an older one in one step.
    """
    target = out / "raw" / f"date={day.date}"
    fresh = target.with_name(f".new-{day.date}")
    ordered = _with_position(spark, archive, day).hint("rebalance", "partition", "host").sortWithinPartitions(*POSITION)
    locations.remove(fresh)
    with interrupts.removed_at_end(fresh):
        ordered.drop("date", "uri", "block_start", "row").write.parquet(locations.target(fresh))
        locations.swap(fresh, target)
        locations.remove(fresh)
    return target


def lines(spark: SparkSession, archive: Location, days: Sequence[Day]) -> DataFrame:
    """The lines of `days` as `LINES`, read from the archive when the data frame is evaluated."""
    made = spark_io.frame(spark, (), LINES)
    for day in days:
        made = made.unionByName(_with_position(spark, archive, day).drop("uri", "block_start", "row"))
    return made


def _with_position(spark: SparkSession, archive: Location, day: Day) -> DataFrame:
    """`LINES` of a day with their positions: (uri, block_start, row)."""
    segments = day.readable
    formats = format_detection.detect_formats(archive, segments)
    of_day = DayFormats.of(formats.values())
    known = [
        (
            locations.uri(archive, segment.path),
            segment.partition,
            escaped(segment.host),
            escaped(segment.file),
            *timestamps.stamp_columns(formats[segment.path].family, formats[segment.path].zone),
            of_day.known.index(formats[segment.path]),
        )
        for segment in segments
    ]
    rows = spark_io.read_rows(spark, archive, segments).withColumnRenamed("file_path", "uri")
    rows = rows.join(F.broadcast(spark_io.frame(spark, known, _SEGMENT)), on="uri", how="inner")
    line = F.col("value")
    may_be_json = F.col("stamp_form").isin(timestamps.FORMS[line_formats.ANY], timestamps.FORMS[line_formats.JSON])
    fields = json_fields.parsed(F.when(may_be_json, line), line_scan.JSON_KEYS)
    with tuning.temporary_settings(spark, json_fields.CASE_SENSITIVE):
        rows = rows.withColumn("fields", fields)
        rows = rows.withColumn("json_time", json_fields.first(F.col("fields"), line_formats.TIME_PATHS)).drop("fields")
    rows = rows.withColumn("front", timestamps.front_of(line))
    usual = of_day.usual_time(line_scan.digits_hidden(F.col("front").cast("string")))
    times = timestamps.Dated(line, F.col("json_time"), of_day.forms, usual, of_day.host_zone(day.as_date))
    for step in times.steps():
        rows = rows.withColumns(dict(step))
    return rows.select(
        F.lit(day.as_date).alias("date"),
        "partition",
        "host",
        "file",
        timestamps.resolve_year(F.col("second"), day.as_date).alias("ts"),
        line.alias("line"),
        "uri",
        "block_start",
        "row",
    )
