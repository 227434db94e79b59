"""The lines of a day as rows, for who wants to ask of them what no table tells: `compact` and `query`."""

import contextlib
import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.archive.inventory import Day, shown
from spark_analytics.lines import log_formats, timestamps
from spark_analytics.lines.log_formats import Kind, Writing
from spark_analytics.runtime import interrupts
from spark_analytics.scan import format_detection, line_scan
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import spark_io

LINES = "date DATE, partition INT, host STRING, file STRING, ts TIMESTAMP, line STRING"
"""A line: the day it arrived, whose it is, when it happened (null where it does not say), its bytes without newline."""

_SEGMENT = (
    "uri STRING, partition INT, host STRING, file STRING, family STRING, stamp_form INT, stamp_pattern STRING,"
    " stamp_shape STRING, stamp_characters INT"
)
_UNKNOWN = Writing(log_formats.ANY, Kind.PLAIN)
PLACE = ("partition", "host", "file", "uri", "block_start", "row")
"""The order in which the lines were written."""


def compact(spark: SparkSession, archive: Location, out: Location, day: Day) -> Location:
    """Writes the lines of `day` as Parquet, in the order in which they were written; returns the directory.

    It takes the place of an older one in one step.
    """
    target = out / "raw" / f"date={day.date}"
    fresh = target.with_name(f".new-{day.date}")
    locations.remove(fresh)
    with interrupts.removed_at_end(fresh) if isinstance(fresh, Path) else contextlib.nullcontext():
        _write(spark, archive, day, fresh)
        locations.swap(fresh, target)
        locations.remove(fresh)
    return target


def _write(spark: SparkSession, archive: Location, day: Day, fresh: Location) -> None:
    placed = _placed(spark, archive, day)
    ordered = placed.hint("rebalance", "partition", "host").sortWithinPartitions(*PLACE)
    ordered.drop("date", "uri", "block_start", "row").write.parquet(locations.target(fresh))


def lines(spark: SparkSession, archive: Location, days: Sequence[Day]) -> DataFrame:
    """The lines of `days` as `LINES`, read from the archive when they are asked for."""
    made = spark.createDataFrame([], LINES)
    for day in days:
        made = made.unionByName(_placed(spark, archive, day).drop("uri", "block_start", "row"))
    return made


def _placed(spark: SparkSession, archive: Location, day: Day) -> DataFrame:
    """`LINES` of a day with their places: (uri, block_start, row)."""
    segments = day.readable
    written = format_detection.writings(archive, segments)
    known = [
        (
            locations.uri(archive, segment.path),
            segment.partition,
            shown(segment.host),
            shown(segment.file),
            *timestamps.writing(written.get((segment.partition, segment.host, segment.file), _UNKNOWN).family),
        )
        for segment in segments
    ]
    rows = spark_io.read_rows(spark, archive, segments).withColumnRenamed("file_path", "uri")
    forms = {form for _, _, _, _, _, form, *_ in known}
    date = dt.date.fromisoformat(day.date)
    line, fields = F.col("value"), F.from_json(F.col("value"), line_scan.json_schema())
    in_json = F.coalesce(*(fields.getField(key) for key in log_formats.TIME_KEYS))
    return (
        rows.join(F.broadcast(spark_io.frame(spark, known, _SEGMENT)), on="uri", how="inner")
        .withColumn("stamp", timestamps.stamp_text(line, forms))
        .withColumn("second", timestamps.event_second(line, F.col("stamp"), in_json, forms))
        .select(
            F.lit(date).alias("date"),
            "partition",
            "host",
            "file",
            timestamps.meant(F.col("second"), date).alias("ts"),
            line.alias("line"),
            "uri",
            "block_start",
            "row",
        )
    )
