"""The tables of patterns: `fingerprints`, `patterns` and `pattern_daily`, from masked lines and what they became.

Spark groups the masked lines (`texts`), then the lines by what these became (`by_pattern`); all else is values.
"""

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.metrics import statistics
from spark_analytics.patterns.model import MOST_DISTINCT, REST
from spark_analytics.tables.schemas import Row

NEW_DAYS = 30
"""A pattern that nobody saw for so many days is new."""

MIN_LINES, MIN_DAYS, EASE = 20, 3, 5
"""Fewer lines or days prove no surge, and 5 is added to both sides, so that few against none is little."""

FILES_SHOWN = 3
_KEY = ("pattern_id", "level")


def texts(counts: DataFrame) -> DataFrame:
    """(fingerprint, text, lines) of the masked lines with the most lines."""
    counted = counts.where(F.col("text").isNotNull()).groupBy("fingerprint", "text").agg(F.sum("lines").alias("lines"))
    ordered = counted.orderBy(F.desc("lines"), "text").limit(MOST_DISTINCT)
    return ordered.select("fingerprint", "text", "lines")


def places(counts: DataFrame, wanted: Iterable[int]) -> DataFrame:
    """(fingerprint, segment): for each of the fingerprints the segment with most of its lines, the first of several."""
    asked = counts.where(F.col("text").isNotNull() & F.col("fingerprint").isin(list(wanted)))
    of_segment = asked.groupBy("fingerprint", "segment").agg(F.sum("lines").alias("n"))
    most = F.max_by("segment", F.struct("n", -F.col("segment")))
    return of_segment.groupBy("fingerprint").agg(most.alias("segment"))


def by_pattern(hourly: DataFrame, known: DataFrame) -> DataFrame:
    """One row for each pattern and level, `Seen`; `known` has (fingerprint, pattern_id). Continuations have none."""
    pattern = F.coalesce("pattern_id", F.lit(REST.id)).alias("pattern_id")
    named = (
        hourly.where(F.col("fingerprint") != 0)
        .groupBy("fingerprint", "level", "file", "host")
        .agg(F.sum("lines").alias("lines"))
        .join(F.broadcast(known), on="fingerprint", how="left")
        .select(pattern, "level", "file", "host", "lines")
    )
    of_file = named.groupBy(*_KEY, "file").agg(F.sum("lines").alias("lines"), F.collect_set("host").alias("names"))
    most = F.slice(F.reverse(F.array_sort(F.collect_list(F.struct("lines", "file")))), 1, FILES_SHOWN)
    return of_file.groupBy(*_KEY).agg(
        F.sum("lines").alias("lines"),
        F.size(F.array_distinct(F.flatten(F.collect_list("names")))).alias("hosts"),
        F.count(F.lit(1)).alias("files"),
        F.transform(most, lambda entry: entry["file"]).alias("most"),
    )


class Seen(NamedTuple):
    """A pattern at one level today; `most` are the log files with most of its lines."""

    pattern_id: str
    level: str
    lines: int
    hosts: int
    files: int
    most: Sequence[str]


def fingerprints(found: Sequence[tuple[int, str, int]], assigned: Iterable[tuple[str, str]]) -> list[Row]:
    """Table `fingerprints`: `found` as of `texts`, and for each its (pattern id, template)."""
    return [
        {
            "fingerprint": fingerprint,
            "text": text,
            "example": None,
            "lines": lines,
            "pattern_id": pattern_id,
        }
        for (fingerprint, text, lines), (pattern_id, _) in zip(found, assigned, strict=True)
    ]


def daily(
    seen: Sequence[Seen], before: Mapping[str, Sequence[Row]], registry: Sequence[Row] | None, day: dt.date
) -> list[Row]:
    """Table `pattern_daily`; `before` are its days before, `registry` that of the last day, None: there is none."""
    history: dict[tuple[str, str], list[int]] = {}
    for rows in before.values():
        for row in rows:
            history.setdefault((row["pattern_id"], row["level"]), []).append(row["lines"])
    recent = {row["pattern_id"] for row in registry or () if (day - row["last_seen_date"]).days <= NEW_DAYS}
    return [
        _pattern(one, history.get((one.pattern_id, one.level), []), len(before), None if registry is None else recent)
        for one in sorted(seen)
    ]


def _pattern(one: Seen, lines_before: Sequence[int], days: int, recent: set[str] | None) -> Row:
    median = statistics.median_over_days(lines_before, days)
    enough = median is not None and one.lines >= MIN_LINES and days >= MIN_DAYS
    return {
        "pattern_id": one.pattern_id,
        "level": one.level,
        "lines": one.lines,
        "hosts": one.hosts,
        "files": one.files,
        "file": one.most[0] if one.most else None,
        "baseline_days": days,
        "baseline_median": median,
        "surge": math.log2((one.lines + EASE) / (median + EASE)) if enough and median is not None else None,
        "is_new": None if recent is None else one.pattern_id not in recent and one.pattern_id != REST.id,
    }


def registry(
    before: Sequence[Row], seen: Sequence[Seen], templates: Mapping[str, str], examples: Mapping[str, str], day: dt.date
) -> list[Row]:
    """Table `patterns`: that of the last day with what `day` saw; `examples` by pattern id."""
    made: dict[str, dict[str, Any]] = {row["pattern_id"]: dict(row) for row in before}
    files: dict[str, list[str]] = {}
    for one in seen:
        files.setdefault(one.pattern_id, []).extend(one.most)
    for pattern_id, most in files.items():
        old = made.get(pattern_id, {})
        made[pattern_id] = {
            "pattern_id": pattern_id,
            "template": old.get("template") or templates.get(pattern_id, REST.template),
            "first_seen_date": old.get("first_seen_date") or day,
            "last_seen_date": day,
            "files": ", ".join(sorted(dict.fromkeys(most))[:FILES_SHOWN]),
            "example": old.get("example") or examples.get(pattern_id),
        }
    return [made[pattern_id] for pattern_id in sorted(made)]
