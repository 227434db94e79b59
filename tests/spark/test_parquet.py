"""Small tables are written and read back without Spark; that Spark reads them too is held by every report's test."""

import datetime as dt
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.tables import parquet

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


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path):
    texts = T.StructType([T.StructField("text", T.StringType())])
    parquet.write(tmp_path / "texts", texts, [("a\ud800b",), (None,), ("\u20ac",)])

    assert [row["text"] for row in parquet.read(tmp_path / "texts", texts)] == ["a?b", None, "\u20ac"]


def test_times_are_read_where_zones_are_unknown(tmp_path):
    times = T.StructType([T.StructField("time", T.TimestampType())])
    parquet.write(tmp_path / "times", times, [(dt.datetime(2026, 11, 20, 5, tzinfo=dt.UTC),)])
    program = (
        "import sys; from pathlib import Path; from pyspark.sql import types as T;"
        "from spark_analytics.tables import parquet;"
        "kind = T.StructType([T.StructField('time', T.TimestampType())]);"
        "print(parquet.read(Path(sys.argv[1]), kind)[0]['time'].isoformat())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "times"],
        env={**os.environ, "PYTHONTZPATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert told.stdout == "2026-11-20T05:00:00+00:00\n"


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + b"rubbish" + (7).to_bytes(4, "little") + b"PAR1"]
)
def test_a_file_of_another_kind_is_reported(tmp_path, content):
    (tmp_path / "other").write_bytes(content)

    with pytest.raises(ValueError, match="no Parquet file"):
        parquet.read(tmp_path / "other", SCHEMA)
