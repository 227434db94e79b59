"""Lines of small days, and groups, as Arrow columns: the driver reads and groups lines, Spark evaluates expressions.

Spark's reader of text files loads the classes of Hadoop and of a Java compiler, joining lines with their segments is a
job of its own, and so is each side of a shuffle. A small day does not repay these seconds.
"""

import codecs
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import zstandard
from pyspark.sql import SparkSession

from shipper.manifest import Segment
from spark_analytics.aggregate.engine import DuckEngine, text
from spark_analytics.runtime import tuning
from spark_analytics.scan import format_detection, line_scan
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, spark_io

MAX_LINES = 500_000
"""Maximum number of lines; in Java a line takes some 200 bytes more than its text."""

SegmentColumns = tuple[str | int | bool, ...]
"""The values of `line_scan.SEGMENT_SCHEMA`."""

_OF_LINE = (("value", pa.string()), ("block_start", pa.int64()), ("row", pa.int64()))
_OF_SEGMENT = tuple(
    (name, pa.bool_() if kind == "BOOLEAN" else pa.int32())
    for name, kind in (column.split() for column in line_scan.SEGMENT_SCHEMA.split(", ")[1:])
)
_SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in (*_OF_LINE, *_OF_SEGMENT)])
_UNCHECKED = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)


def read_lines(archive: Location, segments: Sequence[tuple[Segment, SegmentColumns]]) -> pa.Table | None:
    """Every line of `segments`, as `spark_io.read_rows` gives them, with the columns of its segment.

    None if Spark has to read them: the archive is on a store, the day is not small (`tuning.SMALL_BYTES`, `MAX_LINES`),
    it has no lines, or a segment is not as its manifest line describes it (a scan by Spark finds the damaged ones).
    """
    if not isinstance(archive, Path) or sum(segment.bytes_raw for segment, _ in segments) > tuning.SMALL_BYTES:
        return None
    parts, count = [], 0
    for segment, columns in segments:
        content = _content(archive / segment.path, segment)
        if content is None:
            return None
        lines = _split(content)
        parts.append(_table(lines, columns))
        count += len(lines)
    return pa.concat_tables(parts).combine_chunks() if 0 < count <= MAX_LINES else None


def _content(path: Path, segment: Segment) -> bytes | None:
    """The text of a segment without its byte order mark; None if it differs from the manifest."""
    try:
        with path.open("rb") as stored, format_detection.unpacked(stored, segment.codec) as stream:
            content = bytes(stream.read(segment.bytes_raw + 1))
            stored_bytes = path.stat().st_size
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        return None
    if (len(content), stored_bytes) != (segment.bytes_raw, segment.bytes_stored):
        return None
    return content.removeprefix(codecs.BOM_UTF8)


def _split(content: bytes) -> pa.Array:
    """The lines, bytes as they are, split at newlines only."""
    if not content:
        return pa.array([], pa.string())
    lines = pc.split_pattern(pa.array([content], pa.binary()), b"\n").flatten()
    complete = lines.slice(0, len(lines) - 1) if content.endswith(b"\n") else lines
    return pc.cast(complete, options=_UNCHECKED)


def _table(lines: pa.Array, columns: SegmentColumns) -> pa.Table:
    count = len(lines)
    of_line = (lines, pa.repeat(pa.scalar(0, pa.int64()), count), pa.array(range(count), pa.int64()))
    of_segment = (
        pa.repeat(pa.scalar(value, kind), count) for value, (_, kind) in zip(columns[1:], _OF_SEGMENT, strict=True)
    )
    return pa.table([*of_line, *of_segment], schema=_SCHEMA)


# -- groups in the driver's engine ------------------------------------------------------------------------------------

MAX_GROUPS = 8_000_000
"""Maximum number of groups that are aggregated in the driver if there is memory for them."""

GROUP_BYTES = 600
"""Memory of one group with everything that is made of it (measured)."""

MEMORY_RESERVE = 2
"""Factor: so many times the memory of the groups must be available, because other programs run at the same time."""

MAX_BYTES = 500_000_000
"""Maximum size of the groups as uncompressed Parquet: texts such as paths may be different in every group."""

_KEY = ", ".join(line_scan.KEY)
_SUMS = ", ".join(
    f"CAST({function}({column}) AS BIGINT) AS {name}" for name, (column, function) in line_scan.SUMMED.items()
)
GROUPING = f"FROM taken SELECT {_KEY}, {_SUMS} GROUP BY {_KEY}"
"""`line_scan.group_lines` of table `taken`, which is what `line_scan.lines_to_group` gives."""


def max_groups() -> int:
    """Maximum number of groups that may be aggregated in the driver with the memory that is available now."""
    return min(MAX_GROUPS, tuning.available_bytes() // (MEMORY_RESERVE * GROUP_BYTES))


def read_groups(directory: Location) -> pa.RecordBatchReader | None:
    """The groups that Spark wrote to `directory`; None if they are more than `max_groups` or `MAX_BYTES`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    if sum(size for _, size in locations.sizes(directory)) > MAX_BYTES:  # compressed
        return None
    parts = parquet.files(directory)
    row_groups = [part.metadata.row_group(number) for part in parts for number in range(part.num_row_groups)]
    rows, unpacked_bytes = (sum(getattr(one, of) for one in row_groups) for of in ("num_rows", "total_byte_size"))
    if rows > max_groups() or unpacked_bytes > MAX_BYTES:
        return None
    return pa.RecordBatchReader.from_batches(
        parts[0].schema_arrow, (batch for part in parts for batch in part.iter_batches())
    )


def classify(spark: SparkSession, engine: DuckEngine, formats: DayFormats) -> None:
    """Makes table `scanned` of table `grouped`, as `line_scan.classify_groups` does.

    A million groups have some thousand distinct texts, which Spark classifies.
    """
    engine.define("distinct_texts", text("distinct_texts"))
    distinct = engine.columns("FROM distinct_texts")
    with tuning.query_of(spark, distinct.num_rows):
        classified = line_scan.classify_groups(spark.createDataFrame(distinct), formats)
        engine.take("classified", spark_io.columns_of(classified.select("number", "level", "text", "fingerprint")))
    engine.define("scanned", text("scanned"))
