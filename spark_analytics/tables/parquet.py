"""Reads and writes Parquet in the driver: a small table is written before a Spark job is planned."""

import datetime as dt
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812

from shipper.errors import ShipperError
from spark_analytics.storage.locations import Location

_KINDS: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.IntegerType: pa.int32(),
    T.DateType: pa.date32(),
    T.LongType: pa.int64(),
    T.TimestampType: pa.timestamp("us"),  # UTC without naming it: Arrow would read the system's zone files
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
}


def write(path: Location, schema: T.StructType, rows: Sequence[Sequence[Any]]) -> None:
    """Writes `rows` of values in the order of `schema` to the new file `path` and makes its directory.

    A time may be a number of microseconds since 1970; half a surrogate pair becomes a question mark.

    Raises:
        pyarrow.ArrowException, OverflowError, TypeError: a value does not fit its column.
    """
    write_table(path, schema, table_of(schema, rows))


def table_of(schema: T.StructType, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """`rows` of values in the order of `schema` as columns."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.fields)
    table = [_column(kind.type, values) for kind, values in zip(_kinds(schema), columns, strict=True)]
    return pa.table(table, names=schema.names)


def _column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([None if v is None else v.encode("utf-8", "replace").decode() for v in values], kind)


def write_table(path: Location, schema: T.StructType, table: pa.Table) -> None:
    """Writes `table`, whose columns have the names of `schema`, to the new file `path` and makes its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content, typed = io.BytesIO(), table.select(schema.names).cast(_kinds(schema))
    pq.write_table(typed, content, compression="zstd", use_deprecated_int96_timestamps=True)
    path.write_bytes(content.getvalue())


def _kinds(schema: T.StructType) -> pa.Schema:
    return pa.schema([(field.name, _KINDS[type(field.dataType)]) for field in schema])


def read(path: Location, schema: T.StructType) -> list[dict[str, Any]]:
    """The rows of a file by the names of its columns; columns of `schema` that the file lacks are left out.

    Raises:
        ValueError: it is not a Parquet file.
    """
    content = path.read_bytes()
    try:
        file = _opened(content)
        kinds = pa.schema([kind for kind in _kinds(schema) if kind.name in file.schema_arrow.names])
        rows = file.read(kinds.names).cast(kinds).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None
    times = [field.name for field in schema if isinstance(field.dataType, T.TimestampType)]
    return [row | {name: row[name].replace(tzinfo=dt.UTC) for name in times if row.get(name)} for row in rows]


def files(directory: Location) -> list[pq.ParquetFile]:
    """The files that Spark wrote to `directory`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    paths: list[Location] = sorted(directory.glob("*.parquet"), key=lambda path: path.name)
    if not paths:
        raise ShipperError(
            f"there is nothing in {directory}, where Spark wrote what it counted",
            hint="on a cluster --out must be the same place on every machine",
        )
    return [_opened(path.read_bytes()) for path in paths]


def _opened(content: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
