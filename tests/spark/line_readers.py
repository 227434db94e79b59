"""Times and levels of lines, as the report and as a search find them."""

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence

from day_archives import DAY
from harness.formats import level_of_line
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper.layout import NANOSECONDS
from shipper.line_times import LineClock
from spark_analytics.lines import log_formats
from spark_analytics.lines.log_formats import LineKind, LogFormat
from spark_analytics.scan import line_scan
from spark_analytics.scan.line_scan import DayFormats, LineColumns

Pair = tuple[str, str]
"""A line, and the text that decides the format of its file."""

MIXED: Mapping[str, str] = {}


def formats_of(
    pairs: Sequence[Pair], families: Mapping[str, str], zone: str, *, is_numbered: bool = True
) -> list[LogFormat]:
    """The format of each line; levels are not at a known place, and if `is_numbered` evaluated for each line."""
    detected = {other: log_formats.detect(other.split("\n") * 2) for other in {other for _, other in pairs}}
    others = ((other, one) for other, one in detected.items() if other in families)
    mixed = {other: dataclasses.replace(one, family=families[other], kind=LineKind.JSON) for other, one in others}
    detected |= mixed
    return [dataclasses.replace(detected[other], level="", zone=zone, is_numbered=is_numbered) for _, other in pairs]


def as_reported(
    spark: SparkSession,
    pairs: Sequence[Pair],
    families: Mapping[str, str] = MIXED,
    zone: str = "",
    day: dt.date = DAY,
    *,
    is_numbered: bool = True,
) -> list[tuple[int | None, str]]:
    """Second and level of each line by the expressions of the scan; not `is_numbered`: the level may be deferred."""
    formats = formats_of(pairs, families, zone, is_numbered=is_numbered)
    of_day = DayFormats.of(formats)
    rows = [
        (line, 0, number, *of_day.columns("", number, one)[1:])
        for number, ((line, _), one) in enumerate(zip(pairs, formats, strict=True))
    ]
    names = "value STRING, block_start BIGINT, row BIGINT, " + line_scan.SEGMENT_SCHEMA.partition(", ")[2]
    frame = spark.createDataFrame(rows, names)
    columns = LineColumns.of(of_day, day)
    second = line_scan.timestamps.resolve_year(F.col("second"), day)
    resolved = second.cast("bigint").alias("resolved")
    kept = dataclasses.replace(columns, kept=(*columns.kept, resolved)).of_lines(frame)
    found = {row["segment"]: (row["resolved"], row["level"]) for row in kept.collect()}
    return [found[number] for number in range(len(pairs))]


def as_searched(
    pairs: Sequence[Pair], families: Mapping[str, str] = MIXED, zone: str = "", day: dt.date = DAY
) -> list[int | None]:
    """The second of each line by the clock of a search."""
    formats = formats_of(pairs, families, zone)
    clocks = {one.family: LineClock(one.family, day, zone or "UTC") for one in formats}
    times = [clocks[one.family].time_ns(line.encode()) for (line, _), one in zip(pairs, formats, strict=True)]
    return [None if time is None else time // NANOSECONDS for time in times]


def levels_read(pairs: Sequence[Pair]) -> list[str]:
    """The level of each line by the rules without Spark."""
    return [level_of_line(line.removesuffix("\n")) for line, _ in pairs]


def differing(
    pairs: Sequence[Pair], one: Sequence[object], other: Sequence[object]
) -> dict[Pair, tuple[object, object]]:
    """What two readers find where they differ."""
    return {pair: (a, b) for pair, a, b in zip(pairs, one, other, strict=True) if a != b}
