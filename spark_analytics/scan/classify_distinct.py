"""What the lines of groups say, asked of Spark once for each text: a million groups have some thousand of them."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.aggregate.arrow_assign import LEVELS, NO_NUMBER
from spark_analytics.runtime import tuning
from spark_analytics.scan import line_scan
from spark_analytics.scan.line_scan import Written
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, spark_io
from spark_analytics.tables.store import SMALL

_NUMBER, _LEVEL, _TEXT = (
    T.StructField(name, kind)
    for name, kind in (("number", T.LongType()), ("level", T.StringType()), ("text", T.StringType()))
)
_ASKED = T.StructType([_NUMBER, T.StructField("writing", T.IntegerType()), _LEVEL, _TEXT])
_TOLD = ("level", "text", "fingerprint")
_LEVEL_BITS, _TEXT_BITS = 4, 32


def heard(spark: SparkSession, groups: pa.Table, written: Written, scratch: Location) -> pa.Table:
    """`groups` of `scan.count_rows` with what `scan.heard` makes of them; `scratch` is a directory for the way."""
    numbers = _numbers(groups)
    asked = _asked(pc.unique(numbers), groups["text"].combine_chunks().dictionary)
    parquet.write_table(scratch / "asked" / SMALL, _ASKED, asked)
    try:
        texts = spark_io.read(spark, [scratch / "asked"], _ASKED)
        with tuning.asking_of(spark, asked.num_rows):
            spark_io.write(line_scan.heard(texts, written).select("number", *_TOLD), scratch / "told")
        told = parquet.together(parquet.files(scratch / "told", repeated=("level", "text")))
    finally:
        locations.remove(scratch)
    place = pc.index_in(numbers, told["number"].combine_chunks())
    kept = groups.drop_columns(["writing", "level", "text"])
    for name in _TOLD:
        kept = kept.append_column(name, pc.take(told[name], place))
    return kept


def _numbers(groups: pa.Table) -> pa.ChunkedArray:
    """Of each group (writing, level, text) in one number: it is found faster than they are."""
    level = pc.add(pc.index_in(groups["level"], LEVELS), 1)
    text = pc.add(groups["text"].combine_chunks().indices, 1)
    above = pc.add(pc.shift_left(groups["writing"].cast(pa.int64()), _LEVEL_BITS), pc.fill_null(level, 0))
    return pc.add(pc.shift_left(above, _TEXT_BITS), pc.fill_null(text, 0))


def _asked(numbers: pa.Array, texts: pa.Array) -> pa.Table:
    """What is asked for each number."""
    text = pc.subtract(pc.bit_wise_and(numbers, (1 << _TEXT_BITS) - 1), 1)
    above = pc.shift_right(numbers, _TEXT_BITS)
    level = pc.subtract(pc.bit_wise_and(above, (1 << _LEVEL_BITS) - 1), 1)
    columns = [
        numbers,
        pc.shift_right(above, _LEVEL_BITS),
        pc.take(LEVELS, _some(level)),
        pc.take(texts, _some(text)),
    ]
    return pa.table(columns, names=_ASKED.names)


def _some(place: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(place, 0), NO_NUMBER, place)
