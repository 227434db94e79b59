"""Writes small tables as Parquet here, without a Spark job: some thousands of rows are written before one is planned.

One row group, a page for each column, PLAIN encoding, zstd; columns may hold null. What a reader needs is in
https://github.com/apache/parquet-format: the footer is a Thrift struct in the compact protocol.
"""

import datetime as dt
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import zstandard
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.locations import Location

_MAGIC = b"PAR1"
_BOOLEAN, _INT32, _INT64, _DOUBLE, _BYTES = 0, 1, 2, 5, 6
_OPTIONAL, _ZSTD, _DATA_PAGE = 1, 6, 0
_PLAIN, _RLE = 0, 3
_UTF8, _DATE, _TIMESTAMP_MICROS = 0, 6, 10
"""ConvertedType: what a physical type means."""

_STOP, _I32, _I64, _BINARY, _LIST, _STRUCT = 0, 5, 6, 8, 9, 12
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

_KINDS: dict[type[T.DataType], tuple[int, int | None]] = {
    T.BooleanType: (_BOOLEAN, None),
    T.IntegerType: (_INT32, None),
    T.DateType: (_INT32, _DATE),
    T.LongType: (_INT64, None),
    T.TimestampType: (_INT64, _TIMESTAMP_MICROS),
    T.DoubleType: (_DOUBLE, None),
    T.StringType: (_BYTES, _UTF8),
    T.BinaryType: (_BYTES, None),
}


def write(path: Location, schema: T.StructType, rows: Sequence[Sequence[Any]]) -> None:
    """Writes `rows` of values in the order of `schema` to the new file `path`, whose directory is made.

    Raises:
        TypeError, struct.error: a value does not fit its column.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.fields)
    content, chunks = bytearray(_MAGIC), []
    for field, values in zip(schema.fields, columns, strict=True):
        chunks.append(_append_column(content, field, values))
    footer = _footer(schema, chunks, len(rows)) if rows else _footer(schema, [], 0)
    path.write_bytes(bytes(content) + footer + struct.pack("<I", len(footer)) + _MAGIC)


def _append_column(content: bytearray, field: T.StructField, values: Sequence[Any]) -> bytes:
    """Appends the column's page to `content`; returns its entry in the footer."""
    kind = _KINDS[type(field.dataType)][0]
    page = _levels(values) + _plain(field.dataType, [value for value in values if value is not None])
    packed = zstandard.ZstdCompressor(level=3).compress(page)
    data = _struct((1, _I32, len(values)), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE))
    header = _struct((1, _I32, _DATA_PAGE), (2, _I32, len(page)), (3, _I32, len(packed)), (5, _STRUCT, data))
    offset = len(content)
    content += header + packed
    meta = _struct(
        (1, _I32, kind),
        (2, _LIST, _list(_I32, [_zigzag(_PLAIN), _zigzag(_RLE)])),
        (3, _LIST, _list(_BINARY, [_text(field.name)])),
        (4, _I32, _ZSTD),
        (5, _I64, len(values)),
        (6, _I64, len(header) + len(page)),
        (7, _I64, len(header) + len(packed)),
        (9, _I64, offset),
    )
    return _struct((2, _I64, offset), (3, _STRUCT, meta))


def _levels(values: Sequence[Any]) -> bytes:
    """Which values there are: runs of 1 (there) and 0 (null), behind their length."""
    if None in values:
        found = [(there, len(list(run))) for there, run in itertools.groupby(value is not None for value in values)]
    else:
        found = [(True, len(values))] if values else []
    runs = b"".join(_varint(length << 1) + bytes([there]) for there, length in found)
    return struct.pack("<I", len(runs)) + runs


def _plain(kind: T.DataType, values: Sequence[Any]) -> bytes:
    if isinstance(kind, T.BooleanType):
        bits = sum(1 << place for place, value in enumerate(values) if value)
        return bits.to_bytes((len(values) + 7) // 8, "little")
    if isinstance(kind, T.StringType):
        sized = {value: _sized(value.encode("utf-8", "replace")) for value in set(values)}  # many rows, few texts
        return b"".join(map(sized.__getitem__, values))
    if isinstance(kind, T.BinaryType):
        return b"".join(_sized(bytes(value)) for value in values)
    code, made = _NUMBERS[type(kind)]
    return struct.pack(f"<{len(values)}{code}", *map(made, values))


def _sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _microseconds(time: dt.datetime | int) -> int:
    """Since 1970; a number is that already."""
    if isinstance(time, int):
        return time
    return (time if time.tzinfo else time.replace(tzinfo=dt.UTC)).__sub__(_EPOCH) // _MICROSECOND


_NUMBERS: dict[type[T.DataType], tuple[str, Callable[[Any], Any]]] = {
    T.IntegerType: ("i", int),
    T.DateType: ("i", lambda day: day.toordinal() - _EPOCH.date().toordinal()),
    T.LongType: ("q", int),
    T.TimestampType: ("q", _microseconds),
    T.DoubleType: ("d", float),
}


def _footer(schema: T.StructType, chunks: Sequence[bytes], rows: int) -> bytes:
    root = _struct((4, _BINARY, _text("spark_schema")), (5, _I32, len(schema.fields)))
    elements = [root, *(_element(field) for field in schema.fields)]
    groups = [_struct((1, _LIST, _list(_STRUCT, chunks)), (2, _I64, sum(map(len, chunks))), (3, _I64, rows))]
    return _struct(
        (1, _I32, 1),
        (2, _LIST, _list(_STRUCT, elements)),
        (3, _I64, rows),
        (4, _LIST, _list(_STRUCT, groups if chunks else [])),
        (6, _BINARY, _text("fshipper")),
    )


def _element(field: T.StructField) -> bytes:
    kind, meaning = _KINDS[type(field.dataType)]
    fields: list[tuple[int, int, Any]] = [(1, _I32, kind), (3, _I32, _OPTIONAL), (4, _BINARY, _text(field.name))]
    return _struct(*fields, *([] if meaning is None else [(6, _I32, meaning)]))


# -- Thrift's compact protocol -----------------------------------------------------------------------------------------


def _struct(*fields: tuple[int, int, Any]) -> bytes:
    """Fields of (number, type, value), in the order of their numbers; the values of lists and structs are bytes."""
    written, last = bytearray(), 0
    for number, kind, value in fields:
        written.append(((number - last) << 4) | kind)
        written += _zigzag(value) if kind in {_I32, _I64} else value
        last = number
    return bytes(written) + bytes([_STOP])


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    short = 15
    size = len(items)
    header = bytes([(size << 4) | kind]) if size < short else bytes([0xF0 | kind]) + _varint(size)
    return header + b"".join(items)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _varint(len(encoded)) + encoded


def _zigzag(number: int) -> bytes:
    return _varint((number << 1) ^ (number >> 63))


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        written.append((number & 0x7F) | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def as_rows(schema: T.StructType, entries: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The values of `entries` in the order of `schema`; what an entry lacks is null."""
    return [tuple(entry.get(name) for name in schema.names) for entry in entries]


# -- reading back what `write` wrote -----------------------------------------------------------------------------------


def read(path: Location, schema: T.StructType) -> list[dict[str, Any]]:
    """The rows of a file that `write` wrote, by the columns' names; of `schema` only what the file has.

    Raises:
        ValueError: it is no such file.
    """
    content = path.read_bytes()
    if len(content) < 2 * len(_MAGIC) + 4 or content[-4:] != _MAGIC:
        raise ValueError(f"{path} is no Parquet file")
    size = struct.unpack("<I", content[-8:-4])[0]
    footer, _ = _parsed(content, len(content) - 8 - size)
    if footer.get(6) != b"fshipper":
        raise ValueError(f"{path} was written by {footer.get(6)!r}")
    rows, columns = footer[3], {}
    for group in footer[4]:
        for chunk in group[1]:
            meta = chunk[3]
            columns[meta[3][0].decode()] = _column(content, meta)
    named = {field.name: _meant(field.dataType, columns[field.name]) for field in schema if field.name in columns}
    return [dict(zip(named, values, strict=True)) for values in zip(*named.values(), strict=True)] if rows else []


def _column(content: bytes, meta: dict[int, Any]) -> tuple[list[bool], bytes]:
    """Which values there are, and the others' bytes."""
    header, start = _parsed(content, meta[9])
    page = zstandard.ZstdDecompressor().decompress(content[start : start + header[3]], max_output_size=header[2])
    size = struct.unpack_from("<I", page)[0]
    there: list[bool] = []
    place = 4
    while place < 4 + size:
        length, place = _unvarint(page, place)
        there += [bool(page[place])] * (length >> 1)
        place += 1
    return there, page[4 + size :]


def _meant(kind: T.DataType, column: tuple[list[bool], bytes]) -> list[Any]:
    there, content = column
    values = iter(_values(kind, content, sum(there)))
    return [next(values) if one else None for one in there]


def _values(kind: T.DataType, content: bytes, count: int) -> Iterable[Any]:
    if isinstance(kind, T.BooleanType):
        return [bool(content[place // 8] >> (place % 8) & 1) for place in range(count)]
    if isinstance(kind, T.StringType | T.BinaryType):
        return _texts(content, count, binary=isinstance(kind, T.BinaryType))
    code, _ = _NUMBERS[type(kind)]
    numbers = struct.unpack(f"<{count}{code}", content)
    if isinstance(kind, T.DateType):
        return [dt.date.fromordinal(number + _EPOCH.date().toordinal()) for number in numbers]
    if isinstance(kind, T.TimestampType):
        return [_EPOCH + number * _MICROSECOND for number in numbers]
    return numbers


def _texts(content: bytes, count: int, *, binary: bool) -> list[Any]:
    found, place = [], 0
    for _ in range(count):
        end = place + 4 + struct.unpack_from("<I", content, place)[0]
        found.append(content[place + 4 : end] if binary else content[place + 4 : end].decode())
        place = end
    return found


def _parsed(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    """A Thrift struct as values by their numbers, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := content[place]) != _STOP:
        number += head >> 4
        fields[number], place = _value(content, place + 1, head & 0x0F)
    return fields, place + 1


def _value(content: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind == _STRUCT:
        return _parsed(content, place)
    if kind == _BINARY:
        size, place = _unvarint(content, place)
        return content[place : place + size], place + size
    if kind == _LIST:
        size, kind = content[place] >> 4, content[place] & 0x0F
        place += 1
        if size == 0x0F:  # noqa: PLR2004 - more follow
            size, place = _unvarint(content, place)
        items = []
        for _ in range(size):
            item, place = _value(content, place, kind)
            items.append(item)
        return items, place
    number, place = _unvarint(content, place)
    return (number >> 1) ^ -(number & 1), place


def _unvarint(content: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004
            return number, place
