"""Reads segments into rows, makes frames of values, writes tables. What is written replaces the old in one step."""

import contextlib
import fcntl
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from shipper.errors import ConfigError, Permanent, ShipperError, Unavailable
from shipper.manifest import Segment
from spark_analytics import schemas
from spark_analytics.tables import Tables

_GLOB = re.compile(r"([{}\[\]*?\\])")
_BROKEN_FILE = re.compile(r"(?:reading file|File) (file:\S+?)\.?(?:\s|$)")
_JAVA_KEEPS = "/_-!.~'()*,;:$&+=@"
"""What Java leaves as it is in the path of a URI, beside letters and digits."""


class DamagedSegment(Permanent):
    """A segment cannot be read to its end: it is cut off or damaged."""

    def __init__(self, path: str, log: Path) -> None:
        super().__init__(
            f"{path} cannot be read to its end: it is cut off or damaged",
            hint=f"restore it from the stream or a copy, then run the report again; details are in {log}",
        )
        self.path = path


def read_rows(spark: SparkSession, archive: Path, segments: Sequence[Segment]) -> DataFrame:
    """Every line of `segments`, bytes as they are, split at newlines only, with its place: (block_start, row).

    The paths are given, so Spark lists nothing; they are escaped, as it takes each for a pattern.
    """
    if not segments:
        return spark.createDataFrame([], "value STRING, file_path STRING, block_start LONG, row LONG")
    paths = [_GLOB.sub(r"\\\1", f"file:{archive}/{segment.path}") for segment in segments]
    reader = spark.read.schema(schemas.TEXT).option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(paths).select(
        "value",
        F.col("_metadata.file_path").alias("file_path"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.monotonically_increasing_id().alias("row"),
    )


def uri(archive: Path, path: str) -> str:
    """A file of the archive as Spark's metadata names it: percent-encoded as `java.net.URI` does, which leaves letters.

    A name that is encoded otherwise yields lines of no segment: the audit then shows it as differing.
    """
    return "file:" + "".join(_encoded(char) for char in f"{archive}/{path}")


def _encoded(char: str) -> str:
    if char.isascii():
        return quote(char, safe=_JAVA_KEEPS)
    return quote(char) if unicodedata.category(char) in {"Cc", "Zs", "Zl", "Zp"} else char


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: T.StructType | str) -> DataFrame:
    """A frame of values."""
    return spark.createDataFrame(list(rows), schema)


def kept(made: DataFrame, directory: Path) -> DataFrame:
    """`made`, written to `directory` in place of what was there, and read back."""
    made.write.mode("overwrite").parquet(f"file:{directory}")
    return _read(made.sparkSession, [directory], made.schema)


def table(spark: SparkSession, tables: Tables, name: str, dates: Sequence[str]) -> DataFrame:
    """Table `name` on `dates`, without the column `date`; empty without dates."""
    return _read(spark, [tables.day(name, date) for date in dates], schemas.TABLES[name])


def staged(spark: SparkSession, tables: Tables, name: str, date: str) -> DataFrame:
    """Table `name` of the day that is being made."""
    return _read(spark, [tables.staging(date) / name], schemas.TABLES[name])


def _read(spark: SparkSession, directories: Sequence[Path], schema: T.StructType) -> DataFrame:
    if not directories:
        return spark.createDataFrame([], schema)
    paths = [_GLOB.sub(r"\\\1", f"file:{directory}") for directory in directories]
    return spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)


def stage(made: DataFrame, tables: Tables, name: str, date: str, order: Sequence[str]) -> None:
    """Writes table `name` of the day that is being made, in files of a size that suits readers."""
    schema = schemas.TABLES[name]
    columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in schema]
    target = tables.staging(date) / name
    spread = made.select(*columns).hint("rebalance")
    ordered = spread.sortWithinPartitions(*order) if order else spread
    ordered.write.parquet(f"file:{target}")


def write_text(path: Path, text: str) -> None:
    """Replaces the file `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, encoding="utf-8", errors="backslashreplace")
    scratch.replace(path)


@contextlib.contextmanager
def claimed(out: Path) -> Iterator[None]:
    """The right to write under `out`, which one report at a time has.

    Raises:
        ConfigError: `out` cannot be made or written.
        Unavailable: another report is writing there.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {out}: {error.strerror}", hint="name another directory with --out"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Unavailable(f"another report is writing to {out}", hint="wait for it, or choose another --out") from None
    finally:
        os.close(handle)


@contextlib.contextmanager
def explained(log: Path) -> Iterator[None]:
    """Turns what Spark throws into one sentence that names the file, and keeps the trace in `log`.

    Raises:
        DamagedSegment: a file could not be read to its end.
        ShipperError: anything else.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
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
