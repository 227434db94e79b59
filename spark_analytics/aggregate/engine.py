"""Engines that run the texts in `spark_analytics/sql/`: DuckDB in the driver, and Spark.

Both run the same text of a table. DuckDB serves days whose groups are few enough: it is done before Spark has planned
its first query. Spark serves any day. In the texts times are seconds since 1970; tables of the report have timestamps.
"""

import contextlib
import functools
import importlib.resources
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.runtime import interrupts, tuning
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas, spark_io
from spark_analytics.tables.store import SMALL

MEMORY_SHARE = 4
"""DuckDB may use this fraction of the memory that is available when the day begins."""

MIN_MEMORY_BYTES = 256 << 20
"""Minimum memory of DuckDB."""

REQUESTS = "log INT, hour BIGINT, status INT, remote STRING, latency INT, lines BIGINT"
"""The columns of table `requests` that are sketched."""

SKETCHES = "log INT, hour BIGINT, status INT, latency_kll BINARY, clients_hll BINARY, clients BIGINT"

_VALUE = re.compile(r"\$([a-z_]+)")


def text(name: str, **values: int | str | Sequence[str]) -> str:
    """The text `name` with `values` of its `$names`: numbers, texts, or lists of texts."""
    written = {key: _literal(value) for key, value in values.items()}
    return _VALUE.sub(lambda found: written[found[1]], _read(name))


@functools.cache
def _read(name: str) -> str:
    return (importlib.resources.files("spark_analytics") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _literal(value: int | str | Sequence[str]) -> str:
    """Texts are constants of the program, without quotes."""
    if isinstance(value, int):
        return str(value)
    return f"'{value}'" if isinstance(value, str) else ", ".join(f"'{one}'" for one in value)


class Engine(Protocol):
    """Runs texts over the groups of the scan, which are table `scanned`."""

    def give(self, name: str, schema: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Makes a small table `name` of values."""

    def resolve(self, expression: str) -> None:
        """Defines the function `resolved` of a `second`."""

    def define(self, name: str, query: str) -> None:
        """Makes a table `name` of the rows of `query`."""

    def sketch(self, name: str, query: str, of: str) -> None:
        """Makes a table `name` by a text that only Spark can run, and that reads the table `of`."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of `query`."""

    def stage(self, name: str, query: str, order: Sequence[str]) -> None:
        """Stages table `name` of the report, sorted by `order`; later texts read it."""

    def close(self) -> None:
        """Removes the tables and frees their memory."""


class DuckEngine:
    """Runs texts in this process, on all cores, within a limit of memory; what exceeds it is written to `scratch`.

    A text cannot read files, load extensions or change these settings.
    """

    def __init__(self, spark: SparkSession, staging: Location, scratch: Location, threads: int) -> None:
        self._spark, self._staging, self._scratch = spark, staging, scratch
        self._ending = contextlib.ExitStack()
        if isinstance(scratch, Path):
            spilled = scratch / "spilled"
        else:
            spilled = Path(self._ending.enter_context(tempfile.TemporaryDirectory(prefix="fshipper-report-")))
            self._ending.enter_context(interrupts.removed_at_end(spilled))
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(MIN_MEMORY_BYTES, tuning.available_bytes() // MEMORY_SHARE)}B",
            "temp_directory": str(spilled),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "preserve_insertion_order": False,
            "threads": threads,
        }
        self._database = self._ending.enter_context(duckdb.connect(":memory:", config=settings))
        for setting in ("enable_external_access = false", "lock_configuration = true"):
            self._database.execute(f"SET {setting}")

    def take(self, name: str, columns: pa.Table | pa.RecordBatchReader, query: str = "FROM taken") -> None:
        """Makes a table `name` of the rows of `query`, which reads `columns` as table `taken`."""
        with self._database.cursor() as cursor:  # cursors may be used by several threads
            cursor.register("taken", columns)
            cursor.execute(f"CREATE TABLE {name} AS {query}")
            cursor.unregister("taken")

    def give(self, name: str, schema: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Makes a small table `name` of values."""
        self.take(name, parquet.table_of(schemas.schema_of(schema), rows))

    def resolve(self, expression: str) -> None:
        """Defines the function `resolved` of a `second`."""
        self._database.execute(f"CREATE MACRO resolved(second) AS {expression}")

    def define(self, name: str, query: str) -> None:
        """Makes a table `name` of the rows of `query`."""
        self.rows(f"CREATE TABLE {name} AS {query}")

    def sketch(self, name: str, query: str, of: str) -> None:
        """Makes a table `name` by a text that only Spark can run, and that reads the table `of`."""
        given = self.columns(f"FROM {of}")
        if not given.num_rows:  # a query of Spark takes half a second to a second, also without rows
            self.give(name, SKETCHES, [])
            return
        schema, file = schemas.schema_of(REQUESTS), self._scratch / of / SMALL
        parquet.write_table(file, schema, given)
        self._spark.read.schema(schema).parquet(locations.for_spark(file)).createOrReplaceTempView(of)
        with tuning.query_of(self._spark, pc.sum(given["lines"]).as_py()):  # each line is a row of the query
            found = self._spark.sql(query).collect()
        self.give(name, SKETCHES, [tuple(row) for row in found])

    def columns(self, query: str) -> pa.Table:
        """The rows of `query` as columns."""
        with self._database.cursor() as cursor:
            return cursor.sql(query).to_arrow_table()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of `query`."""
        with self._database.cursor() as cursor:
            return cursor.execute(query).fetchall()

    def stage(self, name: str, query: str, order: Sequence[str]) -> None:
        """Stages table `name` of the report, sorted by `order`; later texts read it."""
        self.define(name, query)
        schema = schemas.TABLES[name]
        times = {field.name for field in schema if isinstance(field.dataType, T.TimestampType)}
        columns = ", ".join(f"{one} * 1000000 AS {one}" if one in times else one for one in schema.names)
        ordered = ", ".join(f"{one} NULLS FIRST" for one in order)
        sorted_rows = self.columns(f"FROM {name} SELECT {columns} ORDER BY {ordered}")
        parquet.write_table(self._staging / name / SMALL, schema, sorted_rows)

    def close(self) -> None:
        """Removes the tables and frees their memory."""
        self._ending.close()


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Runs texts by Spark; their tables are views."""

    spark: SparkSession
    staging: Location
    scratch: Location

    def take(self, name: str, rows: DataFrame) -> None:
        """Makes a table `name` of a data frame."""
        rows.createOrReplaceTempView(name)

    def give(self, name: str, schema: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Makes a small table `name` of values."""
        self.take(name, spark_io.frame(self.spark, rows, schema))

    def resolve(self, expression: str) -> None:
        """Defines the function `resolved` of a `second`."""
        signature = "resolved(second BIGINT) RETURNS BIGINT"
        self.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {signature} RETURN {expression}")

    def define(self, name: str, query: str) -> None:
        """Makes a table `name` of the rows of `query`."""
        self.take(name, self.spark.sql(query))

    def sketch(self, name: str, query: str, of: str) -> None:  # noqa: ARG002 - it is a view
        """Makes a table `name` by a text that only Spark can run, and that reads the table `of`."""
        rows = self.spark.sql(query)
        spark_io.write(rows, self.scratch / name)
        self.take(name, spark_io.read(self.spark, [self.scratch / name], rows.schema))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of `query`."""
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def stage(self, name: str, query: str, order: Sequence[str]) -> None:
        """Stages table `name` of the report, sorted by `order`; later texts read it."""
        spark_io.stage(self.spark.sql(query), self.staging, name, order)
        staged = spark_io.read(self.spark, [self.staging / name], schemas.TABLES[name])
        times = {f.name: F.unix_seconds(f.name) for f in staged.schema if isinstance(f.dataType, T.TimestampType)}
        self.take(name, staged.withColumns(times))

    def close(self) -> None:
        """Nothing: the views take no memory."""
