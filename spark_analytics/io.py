"""Reads segments into rows and writes tables, CSV and text. No logic: what is written replaces the old in one step."""

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper.errors import ConfigError, Permanent, ShipperError, Unavailable
from shipper.manifest import Segment
from spark_analytics import schemas
from spark_analytics.inventory import Day, shown

_GLOB = re.compile(r"([{}\[\]*?\\])")
_BROKEN_FILE = re.compile(r"(?:reading file|File) (file:\S+?)\.?(?:\s|$)")

MOST_GAP_BYTES = 1 << 44
"""Of one segment: any host may claim what it likes to have lost, and the sum over a day has to stay a number."""


def read_rows(spark: SparkSession, archive: Path, segments: Sequence[Segment]) -> DataFrame:
    """Every line of `segments` as `schemas.ROWS`, bytes as they are, split at newlines only.

    The paths are given, so Spark lists nothing; they are escaped, as it takes each for a pattern.
    """
    if not segments:
        return spark.createDataFrame([], schemas.ROWS)
    paths = [_GLOB.sub(r"\\\1", uri(archive, segment.path)) for segment in segments]
    reader = spark.read.schema(schemas.TEXT).option("lineSep", "\n").option("recursiveFileLookup", "true")
    return reader.text(paths).select(
        "value",
        F.col("_metadata.file_path").alias("file_path"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.monotonically_increasing_id().alias("row"),
    )


def uri(archive: Path, path: str) -> str:
    """A file of the archive as Spark names it, without percent-encoding."""
    return f"file:{archive}/{path}"


def segments_frame(spark: SparkSession, archive: Path, day: Day) -> DataFrame:
    """The segments that the day's manifests list, as `schemas.SEGMENTS`."""
    rows = [
        (
            shown(uri(archive, segment.path)),
            segment.partition,
            shown(segment.host),
            shown(segment.file),
            segment.lines,
            segment.bytes_raw,
            min(sum(gap.end - gap.start for gap in segment.gaps), MOST_GAP_BYTES),
            segment.duplicates,
            segment.joins,
            segment.first_seq,
            segment.last_seq,
            segment.first_time,
            segment.path not in day.sizes,
            day.bytes_there(segment),
        )
        for segment in day.manifests.segments
    ]
    return spark.createDataFrame(rows, schemas.SEGMENTS)


def files_frame(spark: SparkSession, files: Sequence[tuple[int, str, str]]) -> DataFrame:
    """Rows of (partition, host, file)."""
    return spark.createDataFrame(list(files), "partition INT, host STRING, file STRING")


def write_table(table: DataFrame, out: Path, name: str, date: str, order: Sequence[str]) -> DataFrame:
    """Replaces the day `date` of the Parquet table `name` under `out`, and no other day; returns what was written.

    A directory of the day is swapped in: overwriting by Spark keeps the old day where the new one is empty.
    """
    root = out / "tables"
    fresh, target = root / f".{name}-{date}.new", root / name / f"date={date}"
    _remove(fresh)
    table.repartition(1).sortWithinPartitions(*order).write.parquet(f"file:{fresh}")
    target.parent.mkdir(parents=True, exist_ok=True)
    _swap(fresh, target)
    return table.sparkSession.read.parquet(_GLOB.sub(r"\\\1", f"file:{target}"))


def write_csv(table: DataFrame, path: Path, order: Sequence[str]) -> None:
    """Writes one CSV file with a header, RFC 4180, times as RFC 3339. The JVM writes it: rows may be millions."""
    scratch = path.with_name(f".{path.name}.new")
    _remove(scratch)
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = table.repartition(1).sortWithinPartitions(*order)
    ordered.write.csv(
        f"file:{scratch}",
        header=True,
        escape='"',
        emptyValue="",
        ignoreLeadingWhiteSpace=False,
        ignoreTrailingWhiteSpace=False,
        timestampFormat="yyyy-MM-dd'T'HH:mm:ssXXX",
    )
    parts = list(scratch.glob("part-*.csv"))
    if parts:
        parts[0].replace(path)
    else:
        write_text(path, ",".join(table.columns) + "\n")
    _remove(scratch)


def write_text(path: Path, text: str) -> None:
    """Replaces the file `path` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, encoding="utf-8", errors="backslashreplace")
    scratch.replace(path)


def point_to(link: Path, target: str) -> None:
    """Makes `link` a symbolic link to `target`; a file system without such links goes without."""
    scratch = link.with_name(f".{link.name}.new")
    with contextlib.suppress(OSError):
        scratch.unlink(missing_ok=True)
        scratch.symlink_to(target)
        scratch.replace(link)


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
    """Turns what Spark throws into one sentence that names the file, and keeps the trace in `log`."""
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
        name = unquote(re.sub("^file:/*", "/", broken[1]))
        return Permanent(
            f"{name} cannot be read to its end: it is cut off or damaged",
            hint=f"restore it from the stream or a copy, then run the report again; details are in {log}",
        )
    first = next((line for line in text.splitlines() if "Exception" in line or "[" in line), text[:300])
    return ShipperError(f"Spark gave up: {first.strip()[:300]}", hint=f"details are in {log}")


def reports(out: Path) -> Iterable[Path]:
    """The JSON of every day that was reported, newest first."""
    return sorted(out.glob("[0-9]*-[0-9]*-[0-9]*/report.json"), reverse=True)


def _swap(fresh: Path, target: Path) -> None:
    aside = fresh.with_suffix(".old")
    _remove(aside)
    if target.exists():
        target.rename(aside)
    fresh.rename(target)
    _remove(aside)


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
