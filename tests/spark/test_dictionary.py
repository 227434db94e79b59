"""The data dictionary describes every column, and its examples run on the tables of a report."""

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from day_archives import Archive

from spark_analytics import prepare
from spark_analytics.query import sql
from spark_analytics.tables import dictionary, schemas
from spark_analytics.tables.store import Tables

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"


@pytest.fixture(scope="module")
def report(spark, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("dictionary")
    prepare.write_days(place / "archive")
    for date in prepare.DATES:
        Archive(place / "archive", date).reported(spark, place / "out")
    return place / "out"


@pytest.mark.parametrize("table", schemas.TABLES)
def test_every_column_has_unit_and_meaning(table):
    for name in schemas.TABLES[table].names:
        unit, meaning, _ = dictionary.column(table, name)
        assert unit
        assert meaning


def test_nothing_is_described_that_does_not_exist():
    columns = {name for schema in schemas.TABLES.values() for name in schema.names}
    assert set(dictionary.COMMON) - {"date"} <= columns
    assert set(dictionary.ROWS) == set(schemas.TABLES)
    for table, described in dictionary.OF_TABLE.items():
        assert set(described) <= set(schemas.TABLES[table].names), table


def test_a_column_without_a_meaning_is_an_error():
    with pytest.raises(KeyError):
        dictionary.column("runs", "undescribed")


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_example_for_duckdb_finds_the_files_with_errors(report, monkeypatch):
    monkeypatch.chdir(report)
    (example,) = [text for text in examples("sql") if "read_parquet" in text]
    rows = duckdb.sql(example).fetchall()
    assert ("web2", "/var/log/shop/app.log") in {row[:2] for row in rows if row[2] > 0}


def test_the_example_for_pandas_shows_both_days(report, tmp_path):
    """In a directory of its own: pyspark imports pandas where it finds it, and users of the report have none."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path), "pandas>=2.2"]
    subprocess.run(pip, check=True, timeout=300)
    (example,) = examples("python")
    shown = subprocess.run(
        [sys.executable, "-c", example], env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=report,
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert all(date in shown.stdout for date in prepare.DATES)


def test_the_example_for_spark_finds_patterns_of_both_days(spark, report):
    (example,) = [text for text in examples("sql") if "read_parquet" not in text]
    rows = sql.run(spark, example, Tables(report), None, []).collect()
    assert {str(row.date) for row in rows} >= {prepare.DATES[0]}
