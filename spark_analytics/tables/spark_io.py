"""Reads segments as rows, passes values and columns to Spark and back, writes tables, translates errors of Spark."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from shipper.errors import Permanent, ShipperError
from shipper.manifest import Segment
from spark_analytics.runtime import jvm, tuning
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas

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

    The paths are explicit, so Spark lists no directory; they are escaped, because Spark takes each for a pattern.
    """
    if not segments:
        return frame(spark, (), "value STRING, file_path STRING, block_start BIGINT, row BIGINT")
    paths = [locations.for_spark(archive / segment.path) for segment in segments]
    reader = spark.read.schema("value STRING").option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(paths).select(
        F.coalesce("value", F.lit("")).alias("value"),  # declared not null, so that Spark does not check each line
        F.col("_metadata.file_path").alias("file_path"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.monotonically_increasing_id().alias("row"),
    )


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """A data frame of a few values. They are part of the plan: `createDataFrame` would start Python workers."""
    kind = schemas.schema_of(schema)
    text = json.dumps([dict(zip(kind.names, row, strict=True)) for row in rows])
    parsed = F.from_json(F.lit(text), T.ArrayType(kind))
    return spark.range(0, 1, 1, 1).select(F.explode(parsed).alias("row")).select("row.*")


_IN_TASKS = {
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}
"""The planner evaluates no expression over the rows of an Arrow table: it would do so on one core."""


def columns_of(rows: DataFrame) -> pa.Table:
    """`rows` as columns, without a file: for each one that it writes, Hadoop starts a process."""
    with tuning.temporary_settings(rows.sparkSession, _IN_TASKS):
        return rows.toArrow()


def write(rows: DataFrame, directory: Location) -> None:
    """Writes `rows` to `directory`, replacing its content."""
    rows.write.mode("overwrite").parquet(locations.target(directory))


def read(spark: SparkSession, directories: Sequence[Location], schema: T.StructType) -> DataFrame:
    """The rows in `directories`; empty without any."""
    if not directories:
        return spark.createDataFrame([], schema)
    paths = [locations.for_spark(directory) for directory in directories]
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def stage(rows: DataFrame, staging: Location, name: str, order: Sequence[str]) -> None:
    """Stages table `name`, in files of a size that suits readers, sorted by `order`."""
    columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in schemas.TABLES[name]]
    spread = rows.select(*columns).hint("rebalance")
    spread.sortWithinPartitions(*order).write.parquet(locations.target(staging / name))


@contextlib.contextmanager
def translated_errors(log: Path) -> Iterator[None]:
    """Translates exceptions of Spark into one sentence that names the file; the trace goes to `log`.

    Raises:
        DamagedSegment: a file could not be read to its end.
        JavaEnded: Java has ended.
        ShipperError: anything else.
    """
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        if not jvm.is_responding():
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
