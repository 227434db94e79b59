"""From lines to tables: every function takes DataFrames and gives one, and none reads, writes or starts a job.

`count_rows` is the one pass over the lines. Spark's reader and `wc` differ in two places, which `settle` makes good
by the manifest: an unterminated last line is a row to Spark and no line to `wc`; and the reader eats a byte order
mark at the start of a file. Both show as a certain difference from the listed sizes, so no second pass is needed.
"""

import datetime as dt

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics import parse, schemas

BYTE_ORDER_MARK = 3
"""Bytes of U+FEFF in UTF-8, which Hadoop's line reader skips at the start of a file."""

KEY = ("partition", "host", "file")
"""What a log file is known by."""


def count_rows(rows: DataFrame) -> DataFrame:
    """Rows and bytes per segment, block, hour and level, with the group's first and last row.

    Only long columns are aggregated: a string or a struct would turn the hash aggregate into two sorts. Hence the
    block is a grouping key and not a part of `max(struct(block, row))`; all but huge plain segments have one block.
    """
    return (
        rows.select(
            "file_path",
            "block_start",
            "row",
            (F.octet_length("value") + F.lit(1)).cast("bigint").alias("bytes"),
            parse.event_hour(F.col("value")).alias("hour"),
            parse.level(F.col("value")).alias("level"),
        )
        .groupBy("file_path", "block_start", "hour", "level")
        .agg(
            F.count(F.lit(1)).alias("lines"),
            F.sum("bytes").alias("bytes"),
            F.min("row").alias("first_row"),
            F.max("row").alias("last_row"),
        )
        .select(
            plain_uri(F.col("file_path")).alias("uri"),
            "hour",
            "level",
            "lines",
            "bytes",
            F.struct("block_start", "first_row").alias("first_place"),
            F.struct("block_start", "last_row").alias("last_place"),
        )
    )


def plain_uri(file_path: Column) -> Column:
    """`_metadata.file_path` without its percent-encoding; `url_decode` is for forms, where `+` means a space."""
    return F.url_decode(F.replace(file_path, F.lit("+"), F.lit("%2B")))


def settle(counts: DataFrame, segments: DataFrame, day: dt.date) -> DataFrame:
    """Lines and bytes as `wc -l -c` counts them, per segment, hour and level; segments without a row have one of 0.

    The row of a segment that holds its last line gives back one line and one byte when the line is unterminated; the
    row with its first line gets the bytes of a byte order mark.
    """
    segment = Window.partitionBy("uri")
    extra_lines = F.sum("lines").over(segment) - F.col("lines_manifest")
    extra_bytes = F.sum("bytes").over(segment) - F.col("bytes_there")
    cut = (extra_lines == 1) & (extra_bytes == 1 - BYTE_ORDER_MARK)
    unterminated = cut | (extra_bytes == 1)
    marked = ~F.col("missing") & (cut | ((extra_lines == 0) & (extra_bytes == -BYTE_ORDER_MARK)))
    is_last = F.col("last_place").eqNullSafe(F.max("last_place").over(segment))
    is_first = F.col("first_place").eqNullSafe(F.min("first_place").over(segment))
    stored_hour = F.date_trunc("HOUR", F.col("stored_at").try_cast("timestamp"))
    return (
        segments.join(counts, on="uri", how="left")
        .fillna(0, subset=["lines", "bytes"])
        .withColumn("hour", parse.meant_hour(F.col("hour"), day))
        .withColumns(
            {
                "surplus": (unterminated & is_last).cast("bigint"),
                "mark": (marked & is_first).cast("bigint") * F.lit(BYTE_ORDER_MARK),
            }
        )
        .select(
            *schemas.SEGMENTS.names,
            F.coalesce("hour", stored_hour).alias("hour"),
            F.coalesce("level", F.lit("none")).alias("level"),
            (F.col("lines") - F.col("surplus")).alias("lines"),
            (F.col("bytes") - F.col("surplus") + F.col("mark")).alias("bytes"),
            F.col("hour").isNull().alias("no_ts"),
        )
    )


def hourly(settled: DataFrame) -> DataFrame:
    """Table `hourly`: lines and bytes by partition, host, log file, hour and level."""
    no_ts_lines = F.sum(F.when(F.col("no_ts"), F.col("lines")).otherwise(0))
    return (
        settled.groupBy(*KEY, "hour", "level")
        .agg(F.sum("lines").alias("lines"), F.sum("bytes").alias("bytes"), no_ts_lines.alias("no_ts_lines"))
        .select(*schemas.HOURLY)
    )


def audit(settled: DataFrame) -> DataFrame:
    """Table `audit` for what the manifests list: per log file, listed against counted."""
    counted = settled.groupBy(*schemas.SEGMENTS.names).agg(
        F.sum("lines").alias("lines_counted"), F.sum("bytes").alias("bytes_counted")
    )
    differs = ~F.col("missing") & (
        (F.col("lines_counted") != F.col("lines_manifest")) | (F.col("bytes_counted") != F.col("bytes_manifest"))
    )
    summed = (
        "lines_manifest",
        "lines_counted",
        "bytes_manifest",
        "bytes_counted",
        "gap_bytes",
        "duplicates",
        "joins",
    )
    return (
        counted.groupBy(*KEY)
        .agg(
            F.count(F.lit(1)).alias("segments"),
            *(F.sum(name).alias(name) for name in summed),
            F.min("first_seq").alias("first_seq"),
            F.max("last_seq").alias("last_seq"),
            F.count_if("missing").alias("segments_missing"),
            F.count_if(differs).alias("segments_differing"),
            F.lit(0).cast("bigint").alias("files_unregistered"),
        )
        .withColumn("status", _status())
        .select(*schemas.AUDIT)
    )


def _status() -> Column:
    return (
        F.when(F.col("segments_missing") > 0, "missing")
        .when(F.col("segments_differing") > 0, "differs")
        .when(F.col("gap_bytes") > 0, "gap")
        .otherwise("complete")
    )


def unregistered(files: DataFrame) -> DataFrame:
    """Rows of table `audit` for sealed files that no manifest lists: `files` has (partition, host, file)."""
    zero = F.lit(0).cast("bigint")
    given = {"status": F.lit("unregistered"), "files_unregistered": F.lit(1).cast("bigint")}
    columns = (name if name in KEY else given.get(name, zero).alias(name) for name in schemas.AUDIT)
    return files.select(*columns)


def host_days(table: DataFrame) -> DataFrame:
    """Per partition and host: log files, lines, bytes, and lines by badness, from table `hourly`."""
    return (
        table.groupBy("partition", "host")
        .agg(
            F.count_distinct("file").alias("files"),
            F.sum("lines").alias("lines"),
            F.sum("bytes").alias("bytes"),
            _lines_of("fatal", "error").alias("errors"),
            _lines_of("warn").alias("warnings"),
            F.sum("no_ts_lines").alias("no_ts_lines"),
        )
        .orderBy(F.desc("bytes"), "partition", "host")
    )


def file_days(table: DataFrame) -> DataFrame:
    """Per partition, host and log file: lines, bytes, and lines by badness, from table `hourly`."""
    return (
        table.groupBy(*KEY)
        .agg(
            F.sum("lines").alias("lines"),
            F.sum("bytes").alias("bytes"),
            _lines_of("fatal", "error").alias("errors"),
            _lines_of("warn").alias("warnings"),
        )
        .orderBy(F.desc("bytes"), *KEY)
    )


def _lines_of(*levels: str) -> Column:
    return F.sum(F.when(F.col("level").isin(*levels), F.col("lines")).otherwise(0))


def hour_levels(table: DataFrame, day: dt.date) -> DataFrame:
    """Lines and bytes by hour of the day (0 to 23), level, and whether the event was on `day` itself."""
    return (
        table.groupBy(F.hour("hour").alias("hour"), _is_on(day).alias("on_day"), "level")
        .agg(F.sum("lines").alias("lines"), F.sum("bytes").alias("bytes"))
        .orderBy("hour", "on_day", "level")
    )


def host_hours(table: DataFrame, hosts: DataFrame, day: dt.date) -> DataFrame:
    """Lines by (partition, host) of `hosts`, hour of the day, and whether the event was on `day` itself."""
    return (
        table.join(F.broadcast(hosts), on=["partition", "host"], how="left_semi")
        .groupBy("partition", "host", F.hour("hour").alias("hour"), _is_on(day).alias("on_day"))
        .agg(F.sum("lines").alias("lines"))
    )


def _is_on(day: dt.date) -> Column:
    return F.coalesce(F.to_date("hour") == F.lit(day), F.lit(False))


def audit_totals(table: DataFrame) -> DataFrame:
    """One row for each status of table `audit`, with the sums of its numbers."""
    names = [name for name in schemas.AUDIT if name not in {*KEY, "status", "first_seq", "last_seq"}]
    return table.groupBy("status").agg(F.count(F.lit(1)).alias("files"), *(F.sum(name).alias(name) for name in names))
