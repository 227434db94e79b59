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
from spark_analytics.aggregate.arrow import LEVELS, NULL_INT
from spark_analytics.runtime import tuning
from spark_analytics.scan import format_detection, line_scan
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.storage.locations import Location
from spark_analytics.tables import spark_io

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


def group_lines(lines: pa.Table) -> pa.Table:
    """`line_scan.group_lines` of what `line_scan.lines_to_group` gives."""
    groups = lines.group_by(list(line_scan.KEY), use_threads=False).aggregate(list(line_scan.SUMMED.values()))
    return groups.rename_columns([*line_scan.KEY, *line_scan.SUMMED]).combine_chunks()


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


# -- classification of groups ------------------------------------------------------------------------------------------

_DISTINCT = pa.schema({"number": pa.int64(), "format": pa.int32(), "level": pa.string(), "text": pa.string()})
_CLASSIFIED = ("level", "text", "fingerprint")
_LEVEL_BITS, _TEXT_BITS = 4, 32


def classify(spark: SparkSession, groups: pa.Table, formats: DayFormats) -> pa.Table:
    """`line_scan.classify_groups` for groups as columns: a million groups have some thousand distinct texts."""
    numbers = _numbers(groups)
    distinct = _distinct(pc.unique(numbers), groups["text"].combine_chunks().dictionary)
    with tuning.query_of(spark, distinct.num_rows):
        texts = spark.createDataFrame(distinct)
        classified = line_scan.classify_groups(texts, formats).select("number", *_CLASSIFIED)
        found = spark_io.columns_of(classified, repeated=("level", "text"))
    index = pc.index_in(numbers, found["number"].combine_chunks())
    kept = groups.drop_columns(["format", "level", "text"])
    for name in _CLASSIFIED:
        kept = kept.append_column(name, pc.take(found[name], index))
    return kept


def _numbers(groups: pa.Table) -> pa.ChunkedArray:
    """(format, level, text) of each group packed into one number, which is found faster."""
    level = pc.add(pc.index_in(groups["level"], LEVELS), 1)
    text = pc.add(groups["text"].combine_chunks().indices, 1)
    above = pc.add(pc.shift_left(groups["format"].cast(pa.int64()), _LEVEL_BITS), pc.fill_null(level, 0))
    return pc.add(pc.shift_left(above, _TEXT_BITS), pc.fill_null(text, 0))


def _distinct(numbers: pa.Array, texts: pa.Array) -> pa.Table:
    """The reverse of `_numbers`, for distinct numbers."""
    text = pc.subtract(pc.bit_wise_and(numbers, (1 << _TEXT_BITS) - 1), 1)
    above = pc.shift_right(numbers, _TEXT_BITS)
    level = pc.subtract(pc.bit_wise_and(above, (1 << _LEVEL_BITS) - 1), 1)
    columns = [
        numbers,
        pc.shift_right(above, _LEVEL_BITS),
        _taken(LEVELS, level),
        _taken(texts, text),
    ]
    return pa.table(columns, names=_DISTINCT.names).cast(_DISTINCT)


def _taken(values: pa.Array, index: pa.Array) -> pa.Array:
    """The value of each index, null where that is negative."""
    return pc.take(values, pc.if_else(pc.less(index, 0), NULL_INT, index))
