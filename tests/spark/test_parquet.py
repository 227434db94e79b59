"""Small tables are written and read back without Spark; that Spark reads them too is held by every report's test."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812

from spark_analytics import parquet

KINDS = {
    T.BooleanType(): st.booleans(),
    T.IntegerType(): st.integers(-(2**31), 2**31 - 1),
    T.LongType(): st.integers(-(2**63), 2**63 - 1),
    T.DoubleType(): st.floats(allow_nan=False),
    T.StringType(): st.text(),
    T.BinaryType(): st.binary(),
    T.DateType(): st.dates(),
    T.TimestampType(): st.datetimes(timezones=st.just(dt.UTC)),
}
SCHEMA = T.StructType([T.StructField(kind.typeName(), kind) for kind in KINDS])
ROWS = st.lists(st.tuples(*(st.none() | values for values in KINDS.values())), max_size=40)


@given(ROWS)
def test_what_was_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("parquet") / "table.parquet"

    parquet.write(path, SCHEMA, rows)

    assert [tuple(row.values()) for row in parquet.read(path, SCHEMA)] == rows


def test_a_column_that_an_older_file_lacks_is_left_out(tmp_path):
    older = T.StructType(SCHEMA.fields[:2])
    parquet.write(tmp_path / "old", older, [(True, 7)])

    assert parquet.read(tmp_path / "old", SCHEMA) == [{"boolean": True, "integer": 7}]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_such_file_is_said(tmp_path, content):
    (tmp_path / "other").write_bytes(content)

    with pytest.raises(ValueError, match="no Parquet file"):
        parquet.read(tmp_path / "other", SCHEMA)
