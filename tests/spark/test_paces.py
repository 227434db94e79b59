"""How Java is started for a day of a given size."""

import contextlib
import shlex
import subprocess

import pytest

from spark_analytics.runtime import session, tuning

FIRST, BOTH_LESS_THE_LOOP, BOTH = ("1", False), ("4", True), ("4", False)
"""What compiles: `TieredStopAtLevel`, and whether Java was told to leave something out."""


@pytest.mark.parametrize(
    ("size_bytes", "compilers"),
    [
        (tuning.SMALL_BYTES, FIRST),
        (tuning.MIDDLING_BYTES, FIRST),
        (tuning.MIDDLING_BYTES + 1, BOTH_LESS_THE_LOOP),
        (tuning.LARGE_BYTES, BOTH_LESS_THE_LOOP),
        (tuning.LARGE_BYTES + 1, BOTH),
        (None, BOTH),
    ],
)
def test_java_knows_its_options_and_the_larger_the_day_the_more_it_compiles(size_bytes, compilers):
    started = java(size_bytes, "-XX:+PrintFlagsFinal")

    said = started.stdout + started.stderr
    level = next(line.split()[3] for line in said.splitlines() if " TieredStopAtLevel " in line)
    assert (level, "compiler directives added" in said) == compilers


def test_what_java_says_of_its_compilers_stays_out_of_the_summary():
    assert java(tuning.LARGE_BYTES).stdout == ""


@pytest.mark.parametrize(
    ("rows", "compiled"), [(tuning.MAX_INTERPRETED_ROWS, False), (tuning.MAX_INTERPRETED_ROWS + 1, True)]
)
def test_what_few_rows_are_asked_is_not_compiled_and_the_next_query_is_as_ever(spark, rows, compiled):
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name) for name in names]
    spark.conf.set("spark.sql.codegen.wholeStage", "true")

    try:
        with contextlib.suppress(ZeroDivisionError), tuning.query_of(spark, rows):
            within = spark.conf.get("spark.sql.codegen.wholeStage")
            raise ZeroDivisionError
        behind = spark.conf.get("spark.sql.codegen.wholeStage")
    finally:
        for name, value in zip(names, before, strict=True):
            spark.conf.set(name, value)

    assert (within, behind) == (str(compiled).lower(), "true")


def java(size_bytes: int | None, *more: str) -> subprocess.CompletedProcess[str]:
    options, _ = tuning.java_and_spark_options(size_bytes)
    command = [session.require_runtime(), *shlex.split(" ".join(options)), *more, "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
