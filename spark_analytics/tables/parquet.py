"""Reads and writes Parquet in the driver: a small table is written before a Spark job is planned."""

import datetime as dt
import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as T  # noqa: N812

from shipper.errors import ShipperError
from spark_analytics.storage import locations
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
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.fields)
    table = [_column(field, values) for field, values in zip(schema.fields, columns, strict=True)]
    write_table(path, schema, pa.table(table, names=schema.names))


def _column(field: T.StructField, values: Sequence[Any]) -> pa.Array:
    kind = _KINDS[type(field.dataType)]
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([None if v is None else v.encode("utf-8", "replace").decode() for v in values], kind)


def write_table(path: Location, schema: T.StructType, table: pa.Table) -> None:
    """Writes `table`, whose columns have the names of `schema`, to the new file `path` and makes its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    pq.write_table(
        table.select(schema.names).cast(_kinds(schema)),
        content,
        compression="zstd",
        use_deprecated_int96_timestamps=True,
    )
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
        table = _as_of(schema, _opened(content))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no Parquet file: {error}") from None
    times = [field.name for field in schema if isinstance(field.dataType, T.TimestampType)]
    return [row | {name: row[name].replace(tzinfo=dt.UTC) for name in times if row.get(name)} for row in table]


def _as_of(schema: T.StructType, file: pq.ParquetFile) -> list[dict[str, Any]]:
    there = set(file.schema_arrow.names)
    table = file.read([name for name in schema.names if name in there])
    return list(table.cast(pa.schema([kind for kind in _kinds(schema) if kind.name in there])).to_pylist())


def stored_bytes(directory: Location) -> int:
    """Bytes of the files that Spark wrote to `directory`, compressed."""
    return sum(size for _, size in locations.sizes(directory))


def files(directory: Location, *, repeated: Sequence[str]) -> list[pq.ParquetFile]:
    """The files that Spark wrote to `directory`, for `concatenated`; columns `repeated` are read as dictionaries.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    paths: list[Location] = sorted(directory.glob("*.parquet"), key=lambda path: path.name)
    if not paths:
        raise ShipperError(
            f"there is nothing in {directory}, where Spark wrote what it counted",
            hint="on a cluster --out must be the same place on every machine",
        )
    return [_opened(path.read_bytes(), repeated) for path in paths]


def unpacked_bytes(parts: Iterable[pq.ParquetFile]) -> int:
    """Bytes of `files` without compression."""
    groups = (part.metadata.row_group(number) for part in parts for number in range(part.num_row_groups))
    return sum(int(group.total_byte_size) for group in groups)


def concatenated(parts: Iterable[pq.ParquetFile]) -> pa.Table:
    """The rows of `files` in one chunk."""
    return pa.concat_tables([part.read() for part in parts]).unify_dictionaries().combine_chunks()


def _opened(content: bytes, repeated: Sequence[str] = ()) -> pq.ParquetFile:
    reader = pa.BufferReader(content)
    return pq.ParquetFile(reader, read_dictionary=list(repeated), coerce_int96_timestamp_unit="us")
