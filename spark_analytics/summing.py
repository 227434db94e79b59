"""Columns are grouped and summed, and become values."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa


def summed(
    table: pa.Table, keys: Sequence[str], sums: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> pa.Table:
    """`table` with a row for each of `keys`, the `sums` of its rows, and `others` by (column, function)."""
    asked = [*((name, "sum") for name in sums), *others]
    made = table.group_by(list(keys), use_threads=False).aggregate(asked)
    return made.rename_columns([*keys, *(name for name, _ in asked)])


def tuples_of(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of `table` as values of the columns `names`."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)
