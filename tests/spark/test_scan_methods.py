"""Java methods of the scan: a long one is interpreted, because Java's compilers refuse it."""

import pytest
from day_archives import DAY
from test_spark_parse import CLF

from spark_analytics.lines import log_formats
from spark_analytics.runtime import tuning
from spark_analytics.scan import line_scan
from spark_analytics.scan.line_scan import DayFormats, LineColumns
from spark_analytics.tables import spark_io

COMPILED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
    "spark.sql.codegen.hugeMethodLimit": "65535",
}
JIT_LIMIT = 8_000
"""Bytes of a method that Java compiles without other settings."""


@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("2026-11-20T10:00:00Z INFO x", JIT_LIMIT),
        (CLF, JIT_LIMIT),
        ("Nov 20 06:55:46 host sshd[1]: x", JIT_LIMIT),
        ('{"ts":"2026-11-20T10:00:00Z","level":"info","msg":"x"}', 14_000),  # of a branch, not the loop
    ],
    ids=["iso", "access", "syslog", "json"],
)
def test_no_method_of_the_scan_is_too_long_for_the_compilers_of_java(spark, line, most):
    of_day = DayFormats.of([log_formats.detect([line] * 2)])
    names = "value STRING, block_start BIGINT, row BIGINT, " + line_scan.SEGMENT_SCHEMA.partition(", ")[2]
    row = (line, 0, 0, *of_day.columns("", 0, of_day.known[0])[1:])
    with tuning.temporary_settings(spark, COMPILED):
        groups = line_scan.group_lines(spark_io.frame(spark, [row], names), LineColumns.of(of_day, DAY))
        plan = groups._jdf.queryExecution().executedPlan()
        codes = spark._jvm.org.apache.spark.sql.execution.debug.package.codegenStringSeq(plan)
        longest = max(codes.apply(number)._3().maxMethodCodeSize() for number in range(codes.size()))
    assert longest <= most
