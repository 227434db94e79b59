"""Reads segments into rows, makes frames of values, writes tables; says what Spark says in a sentence."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from shipper.errors import Permanent, ShipperError
from shipper.manifest import Segment
from spark_analytics.runtime import jvm
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas
from spark_analytics.tables.store import Tables

_BROKEN_FILE = re.compile(r"(?:reading file|File) ([a-z][a-z0-9+.-]*:\S+?)\.?(?:\s|$)")


class DamagedSegment(Permanent):
    """A segment cannot be read to its end: it is cut off or damaged."""

    def __init__(self, path: str, log: Path) -> None:
        super().__init__(
            f"{path} cannot be read to its end: it is cut off or damaged",
            hint=f"restore it from the stream or a copy, then run the report again; details are in {log}",
        )
        self.path = path


def read_rows(spark: SparkSession, archive: Location, segments: Sequence[Segment]) -> DataFrame:
    """Every line of `segments`, bytes as they are, split at newlines only, with its place: (block_start, row).

    The paths are given, so Spark lists nothing; they are escaped, as it takes each for a pattern.
    """
    if not segments:
        return spark.createDataFrame([], "value STRING, file_path STRING, block_start LONG, row LONG")
    paths = [locations.for_spark(archive / segment.path) for segment in segments]
    reader = spark.read.schema(schemas.TEXT).option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(paths).select(
        F.coalesce("value", F.lit("")).alias("value"),  # never null, told so that Spark's code asks no line for it
        F.col("_metadata.file_path").alias("file_path"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.monotonically_increasing_id().alias("row"),
    )


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """A frame of few values; they travel in the plan, for `createDataFrame` starts workers in Python."""
    kind = cast("T.StructType", T.StructType.fromDDL(schema))
    text = json.dumps([dict(zip(kind.names, row, strict=True)) for row in rows])
    parsed = F.from_json(F.lit(text), T.ArrayType(kind))
    return spark.range(0, 1, 1, 1).select(F.explode(parsed).alias("row")).select("row.*")


def kept(made: DataFrame, directory: Location) -> DataFrame:
    """`made`, written to `directory` in place of what was there, and read back."""
    write(made, directory)
    return read(made.sparkSession, [directory], made.schema)


def write(made: DataFrame, directory: Location) -> None:
    """Writes `made` to `directory` in place of what was there."""
    made.write.mode("overwrite").parquet(locations.target(directory))


def table(spark: SparkSession, tables: Tables, name: str, dates: Sequence[str]) -> DataFrame:
    """Table `name` on `dates`, without the column `date`; empty without dates."""
    return read(spark, [tables.day(name, date) for date in dates], schemas.TABLES[name])


def staged(spark: SparkSession, tables: Tables, name: str, date: str) -> DataFrame:
    """Table `name` of the day that is being made."""
    return read(spark, [tables.staging(date) / name], schemas.TABLES[name])


def read(spark: SparkSession, directories: Sequence[Location], schema: T.StructType) -> DataFrame:
    """What `directories` hold, empty without any."""
    if not directories:
        return spark.createDataFrame([], schema)
    paths = [locations.for_spark(directory) for directory in directories]
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def stage(made: DataFrame, tables: Tables, name: str, date: str, order: Sequence[str]) -> None:
    """Writes table `name` of the day that is being made, in files of a size that suits readers."""
    schema = schemas.TABLES[name]
    columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in schema]
    target = tables.staging(date) / name
    spread = made.select(*columns).hint("rebalance")
    ordered = spread.sortWithinPartitions(*order) if order else spread
    ordered.write.parquet(locations.target(target))


@contextlib.contextmanager
def explained(log: Path) -> Iterator[None]:
    """Turns what Spark throws into one sentence that names the file, and keeps the trace in `log`.

    Raises:
        DamagedSegment: a file could not be read to its end.
        JavaEnded: there is nobody left to ask.
        ShipperError: anything else.
    """
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        if not jvm.answers():
            raise jvm.JavaEnded(log) from error
        if not isinstance(error, Py4JJavaError | PySparkException):
            raise
        text = str(error)
        with contextlib.suppress(OSError), log.open("a", encoding="utf-8", errors="replace") as kept:
            kept.write(text + "\n")
        raise _sentence(text, log) from None


def _sentence(text: str, log: Path) -> ShipperError:
    broken = _BROKEN_FILE.search(text)
    if broken:
        return DamagedSegment(unquote(re.sub("^file:/*", "/", broken[1])), log)
    first = next((line for line in text.splitlines() if "Exception" in line or "[" in line), text[:300])
    return ShipperError(f"Spark gave up: {first.strip()[:300]}", hint=f"details are in {log}")
