"""The mask in Spark is the mask in Python: one set of rules, two engines."""

from pathlib import Path

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from shipper import line_times
from spark_analytics.lines import log_formats
from spark_analytics.patterns import mask
from spark_analytics.patterns.cluster import cluster_texts
from spark_analytics.patterns.mask import masked
from spark_analytics.scan import line_scan

LOGHUB = Path(__file__).resolve().parents[3] / "shared" / "data" / "loghub"

HOSTILE = (
    "",
    "\r",
    "0",
    "٣ arabic ١٢ digits",
    "a\u2028b\u0085c 7",
    "Jun  4 15:16:01 h p[1]:",
    "2026-11-20 05:00:00,1 INFO [a[b]c] x.Y:\tz\x00\x01 9",
    "2026-11-20 05:00:00 " + "[" * 600,
    "é" * 600,
    "\U0001f600" * 513,
    "x" * 512,
    "x" * 513,
    "Jun 31 99:99:99 " + "a(" * 400,
    "- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 R02 RAS KERNEL INFO core.7",
)


def in_spark(spark, rows: list[tuple[str, str]]) -> list[str]:
    known = [
        (n, line, mask.header_before_masking(family), mask.header_after_masking(family))
        for n, (line, family) in enumerate(rows)
    ]
    frame = spark.createDataFrame(known, "n INT, line STRING, ahead STRING, behind STRING")
    text = masked_in_spark(F.col("line"), F.col("ahead"), F.col("behind"))
    return [row.text for row in frame.select("n", text.alias("text")).orderBy("n").collect()]


def masked_in_spark(line: Column, ahead: Column, behind: Column) -> Column:
    return line_scan.headless(line_scan.numbered(line, ahead), behind)


def test_hostile_lines_are_masked_alike(spark):
    names = ("any", "none", *line_times.BY_NAME)
    pairs = [(line, family) for family in names for line in HOSTILE]
    assert in_spark(spark, pairs) == [masked(line, family) for line, family in pairs]


def test_a_line_whose_digits_are_hidden_is_masked_as_the_line_is(spark):
    lines = [*HOSTILE, "1", "a1b22c333d4444", "\U0001d7d8\U0001d7d9 \uff13 7", "<34>1 x 12", "9" * 511 + "x", "9" * 600]
    frame = spark.createDataFrame([(n, line) for n, line in enumerate(lines)], "n INT, line STRING")
    hidden = line_scan.digits_hidden(line_scan.cut(F.col("line")))

    rows = frame.select("n", hidden, line_scan.numbered(hidden, None), line_scan.numbered(F.col("line"), None)).orderBy(
        "n"
    )

    for line, (_, text, twice, once) in zip(lines, rows.collect(), strict=True):
        assert twice == once == masked(line, "none")
        assert len(text) == min(len(line), mask.MAX_CHARACTERS + 1)


@pytest.mark.skipif(not LOGHUB.is_dir(), reason="the real logs are not here")
def test_every_line_of_the_real_logs_is_masked_alike_and_as_well_by_its_family_as_by_any(spark):
    for path in sorted(LOGHUB.glob("*.log")):
        lines = [line.decode("utf-8", "replace") for line in path.read_bytes().split(b"\n")]
        family = log_formats.detect(lines[:200]).family
        frame = spark.read.option("lineSep", "\n").schema("value STRING").text(str(path)).repartition(1)
        texts = [
            masked_in_spark(
                F.col("value"), F.lit(mask.header_before_masking(name)), F.lit(mask.header_after_masking(name))
            )
            for name in (family, "any")
        ]
        rows = frame.select("value", *texts).collect()
        assert len(rows) >= 2000
        for value, by_family, by_any in rows:
            assert by_family == masked(value, family), path.name
            assert by_any == masked(value, "any"), path.name
            assert by_any == by_family, path.name


@pytest.mark.skipif(not LOGHUB.is_dir(), reason="the real logs are not here")
def test_patterns_of_the_real_logs_say_what_is_known_of_them():
    lines = (LOGHUB / "OpenSSH_2k.log").read_text(encoding="utf-8").splitlines()
    texts = [masked(line, "rfc3164") for line in lines]
    found = [template for _, template in cluster_texts([(text, 1) for text in texts])]
    assert sum(template.startswith("Failed password for ") for template in found) == 518  # and two that are repeated
    assert found.count("Failed password for invalid user <*> from <*> port <*>") == 135
    assert sum(template.endswith("failed - POSSIBLE BREAK-IN ATTEMPT!") for template in found) == 85
    assert len(set(found)) < 30
