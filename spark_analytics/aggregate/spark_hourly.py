"""Table `hourly` of what the scan counted, and the groups of it that the other tables begin with."""

import datetime as dt

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.lines import timestamps
from spark_analytics.lines.log_formats import NONE
from spark_analytics.tables import schemas
from spark_analytics.tables.schemas import FILE

"""What a log file is known by."""

CORRECTIONS = "segment INT, end_block LONG, end_row LONG, surplus LONG, head_block LONG, head_row LONG, mark LONG"
"""Which group of a segment has the line without a newline, and which gets a byte order mark (`settle`)."""


def sums(counts: DataFrame) -> DataFrame:
    """Per segment: lines, bytes, and the places of its first and last row, of what `scan.count_rows` gave."""
    return counts.groupBy("segment").agg(
        F.sum("lines").alias("lines"),
        F.sum("bytes").alias("bytes"),
        F.min(F.struct("block_start", "first_row")).alias("first"),
        F.max(F.struct("block_start", "last_row")).alias("last"),
    )


def settled(counts: DataFrame, corrections: DataFrame | None) -> DataFrame:
    """`counts` with bytes as `wc` counts them, and with `unfinished`: lines that have no newline."""
    if corrections is None:
        return counts.withColumn("unfinished", F.lit(0).cast("bigint"))
    gives = F.struct("block_start", "last_row") == F.struct("end_block", "end_row")
    gets = F.struct("block_start", "first_row") == F.struct("head_block", "head_row")
    return (
        counts.join(F.broadcast(corrections), on="segment", how="left")
        .withColumns(
            {
                "unfinished": F.coalesce(F.when(gives, F.col("surplus")), F.lit(0)).cast("bigint"),
                "mark": F.coalesce(F.when(gets, F.col("mark")), F.lit(0)),
            }
        )
        .withColumn("bytes", F.col("bytes") - F.col("unfinished") + F.col("mark"))
        .select(*counts.columns, "unfinished")
    )


def placed(counts: DataFrame, segments: DataFrame, day: dt.date) -> DataFrame:
    """Each group with its log file, its hour as it is meant, and `undated`: no time that can be meant."""
    of_segment = segments.select("segment", *FILE, "family", F.timestamp_seconds("stored_hour").alias("stored_hour"))
    time = timestamps.meant(F.col("hour") * F.lit(timestamps.HOUR_SECONDS), day)
    return (
        counts.join(F.broadcast(of_segment), on="segment", how="inner")
        .withColumn("dated", time)
        .withColumns(
            {
                "hour": F.coalesce("dated", "stored_hour"),
                "undated": F.col("dated").isNull(),
                "first_ts": F.when(F.col("dated").isNotNull(), timestamps.meant(F.col("first_second"), day)),
                "last_ts": F.when(F.col("dated").isNotNull(), timestamps.meant(F.col("last_second"), day)),
            }
        )
    )


def hourly(groups: DataFrame, silent: DataFrame, day: dt.date) -> DataFrame:
    """Table `hourly` of `placed` groups; `silent` are segments without a row, which count 0 lines.

    `silent` has (partition, host, file, hour, bytes): bytes of a byte order mark that is all that the file holds.
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
        counted.unionByName(_of_none(silent))
        .groupBy(*FILE, "hour", "level", "fingerprint")
        .agg(
            *(F.sum(name).alias(name) for name in ("lines", "unfinished", "bytes")),
            F.min("first_ts").alias("first_ts"),
            F.max("last_ts").alias("last_ts"),
            *(F.sum(name).alias(name) for name in ("late_lines", "no_ts_lines", "continuation_lines")),
        )
        .select(*schemas.HOURLY.names)
    )


def _of_none(silent: DataFrame) -> DataFrame:
    given = {"level": F.lit("none")}
    missing = [field for field in schemas.HOURLY if field.name not in silent.columns]
    empty = {"first_ts", "last_ts"}
    return silent.select(
        *silent.columns,
        *(
            given.get(field.name, F.lit(None if field.name in empty else 0)).cast(field.dataType).alias(field.name)
            for field in missing
        ),
    )
