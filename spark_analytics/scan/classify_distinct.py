"""Classifies the lines of groups by Spark, once for each distinct text: a million groups have some thousand texts."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_analytics.aggregate.arrow_assign import LEVELS, NULL_INT
from spark_analytics.runtime import tuning
from spark_analytics.scan import line_scan
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.tables import spark_io

_DISTINCT = pa.schema({"number": pa.int64(), "format": pa.int32(), "level": pa.string(), "text": pa.string()})
_CLASSIFIED = ("level", "text", "fingerprint")
_LEVEL_BITS, _TEXT_BITS = 4, 32


def classify(spark: SparkSession, groups: pa.Table, formats: DayFormats) -> pa.Table:
    """`line_scan.classify_groups` for groups as columns."""
    numbers = _numbers(groups)
    distinct = _distinct(pc.unique(numbers), groups["text"].combine_chunks().dictionary)
    with tuning.query_of(spark, distinct.num_rows):
        texts = spark_io.frame_of_columns(spark, distinct)
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
        pc.take(LEVELS, _null_if_negative(level)),
        pc.take(texts, _null_if_negative(text)),
    ]
    return pa.table(columns, names=_DISTINCT.names).cast(_DISTINCT)


def _null_if_negative(index: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(index, 0), NULL_INT, index)
