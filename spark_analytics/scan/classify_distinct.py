"""Classifies the lines of groups by Spark, once for each distinct text: a million groups have some thousand texts."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.aggregate.arrow_assign import LEVELS, NULL_INT
from spark_analytics.runtime import tuning
from spark_analytics.scan import line_scan
from spark_analytics.scan.line_scan import DayFormats
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, spark_io
from spark_analytics.tables.store import SMALL

_NUMBER, _LEVEL, _TEXT = (
    T.StructField(name, kind)
    for name, kind in (("number", T.LongType()), ("level", T.StringType()), ("text", T.StringType()))
)
_DISTINCT = T.StructType([_NUMBER, T.StructField("format", T.IntegerType()), _LEVEL, _TEXT])
_CLASSIFIED = ("level", "text", "fingerprint")
_LEVEL_BITS, _TEXT_BITS = 4, 32


def classify(spark: SparkSession, groups: pa.Table, formats: DayFormats, scratch: Location) -> pa.Table:
    """`line_scan.classify_groups` for groups as columns; `scratch` is a directory that Arrow and Spark both use."""
    numbers = _numbers(groups)
    distinct = _distinct(pc.unique(numbers), groups["text"].combine_chunks().dictionary)
    parquet.write_table(scratch / "distinct" / SMALL, _DISTINCT, distinct)
    try:
        texts = spark_io.read(spark, [scratch / "distinct"], _DISTINCT)
        with tuning.query_of(spark, distinct.num_rows):
            classified = line_scan.classify_groups(texts, formats).select("number", *_CLASSIFIED)
            spark_io.write(classified, scratch / "classified")
        found = parquet.concatenated(parquet.files(scratch / "classified", repeated=("level", "text")))
    finally:
        locations.remove(scratch)
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
    return pa.table(columns, names=_DISTINCT.names)


def _null_if_negative(index: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(index, 0), NULL_INT, index)
