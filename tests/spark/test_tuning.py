"""How Java is started for a day of a given size."""

import contextlib
import shlex
import subprocess

import duckdb
import pytest
from day_archives import Archive

from spark_analytics import pipeline, prepare
from spark_analytics.runtime import session, tuning
from spark_analytics.tables import schemas
from spark_analytics.tables.store import Tables

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


def test_tables_of_which_a_directory_may_not_be_read_have_an_unknown_size(tmp_path, monkeypatch):
    (tmp_path / "tables" / "runs").mkdir(parents=True)
    (tmp_path / "tables" / "runs" / "part.parquet").write_bytes(bytes(7))
    tables = Tables(tmp_path)
    assert pipeline._query_bytes(tables, []) == 7 * pipeline.TEXT_BYTES_PER_PARQUET_BYTE

    def refused(_):
        raise PermissionError
        yield

    monkeypatch.setattr(pipeline.locations, "sizes", refused)
    assert pipeline._query_bytes(tables, []) is None


def test_messages_of_java_about_its_compilers_stay_out_of_the_summary():
    assert java(tuning.LARGE_BYTES).stdout == ""


@pytest.mark.parametrize(
    ("rows", "compiled"), [(tuning.MAX_INTERPRETED_ROWS, False), (tuning.MAX_INTERPRETED_ROWS + 1, True)]
)
def test_a_query_of_few_rows_is_not_compiled_and_the_next_query_is_as_usual(spark, rows, compiled):
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


NO_QUERY = {"runs", "redacted_daily"}
"""Of the run, and of the manifests."""


@pytest.mark.parametrize("table", [name for name in schemas.TABLES if name not in NO_QUERY])
def test_a_day_has_the_same_tables_whether_its_queries_are_interpreted_or_compiled(both_ways, table):
    interpreted, compiled = (rows_of(out, table) for out in both_ways)

    assert interpreted
    assert compiled == interpreted


@pytest.fixture(scope="module")
def both_ways(spark, tmp_path_factory):
    """The reports of one day with the settings of a small day, and with those of a large one."""
    place = tmp_path_factory.mktemp("paces")
    prepare.write_days(place / "archive")
    outs = []
    for size_bytes in (tuning.SMALL_BYTES, None):
        settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
        settings |= tuning.java_and_spark_options(size_bytes)[1]
        with tuning.temporary_settings(spark, settings):
            Archive(place / "archive", prepare.DATES[0]).reported(spark, place / f"out{size_bytes}")
        outs.append(place / f"out{size_bytes}")
    return outs


def rows_of(out, table):
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{out}/tables/{table}/*/*.parquet')").fetchall()
    return sorted(map(str, rows))


def java(size_bytes: int | None, *more: str) -> subprocess.CompletedProcess[str]:
    options, _ = tuning.java_and_spark_options(size_bytes)
    command = [session.require_runtime(), *shlex.split(" ".join(options)), *more, "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
