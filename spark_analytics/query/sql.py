"""`fshipper report query`: SQL over the tables and, where days are named, over the lines themselves."""

import csv
import enum
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from rich.console import Console
from rich.table import Table

from spark_analytics.archive.inventory import Day
from spark_analytics.query import raw_lines
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas
from spark_analytics.tables.store import Tables

CELL = 200
"""Maximum characters of a value in the terminal table; CSV and JSON are not cut."""


class Format(enum.Enum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def run(spark: SparkSession, sql: str, tables: Tables, archive: Location | None, days: Sequence[Day]) -> DataFrame:
    """The result of `sql` over the views of `register`."""
    register(spark, tables, archive, days)
    return spark.sql(sql)


def register(spark: SparkSession, tables: Tables, archive: Location | None, days: Sequence[Day]) -> None:
    """Views: every table by its name, with `date`; `lines` of `days` (`raw_lines.LINES`)."""
    for name, schema in schemas.TABLES.items():
        if tables.days(name):
            with_date = T.StructType([*schema.fields, T.StructField("date", T.DateType())])
            table = spark.read.schema(with_date).parquet(locations.for_spark(tables.root / name))
            table.createOrReplaceTempView(name)
    if archive is not None:
        raw_lines.lines(spark, archive, days).createOrReplaceTempView("lines")


def show(
    answer: DataFrame, form: Format, stream: TextIO | None = None, *, cancelled: Callable[[], None] = lambda: None
) -> None:
    """Prints the rows while they are read; only a table needs all of them first. Times are RFC 3339 in UTC.

    `cancelled` is called before each row, and may raise.
    """
    stream = stream or sys.stdout
    names, rows = answer.columns, _until(cancelled, _in_utc(answer).toLocalIterator())
    if form is Format.TABLE:
        table = Table(*names)
        for row in rows:
            table.add_row(*map(_cell, row))
        Console(file=stream, markup=False, highlight=False).print(table)
    elif form is Format.CSV:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows([_plain(value) for value in row] for row in rows)
    else:
        stream.writelines(
            json.dumps({name: _plain(value) for name, value in zip(names, row, strict=True)}) + "\n" for row in rows
        )


def _until(cancelled: Callable[[], None], rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        cancelled()
        yield row


def _in_utc(answer: DataFrame) -> DataFrame:
    """Formats times in Spark: Python would convert them to the zone of this machine."""
    names = [f"c{place}" for place in range(len(answer.columns))]  # a query's columns may share a name
    shown = [
        F.date_format(name, "yyyy-MM-dd'T'HH:mm:ss'Z'") if isinstance(field.dataType, T.TimestampType) else F.col(name)
        for name, field in zip(names, answer.schema, strict=True)
    ]
    return answer.toDF(*names).select(*shown)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _cell(value: object) -> str:
    text = "" if value is None else str(_plain(value))
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:CELL])
