"""Values in JSON lines by paths of keys, as `line_times.at_path`: column expressions over the fields of a line."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

QUICK_PATHS = 4
"""Paths that are tried one by one: most lines have one of them. Java does not compile the code of all of them."""

CASE_SENSITIVE = {"spark.sql.caseSensitive": "true"}
"""Setting of Spark."""

_BETWEEN, _END = "\x1f", "\x02"
_FIRST_TEXT = rf"^(?:{_BETWEEN}\{{[^{_BETWEEN}]*+)*+{_BETWEEN}([^{_BETWEEN}]*+)"
"""The first of joined values that is no object."""


def keys_of(paths: Iterable[str]) -> tuple[str, ...]:
    """The keys of a line that are read for `paths`."""
    return tuple(dict.fromkeys(key for path in paths for key in (path, path.partition(".")[0])))


def parsed(line: Column, keys: Iterable[str]) -> Column:
    """The values at `keys` of a line, as texts; the text of an object is JSON.

    Some keys differ only in capitals: Spark distinguishes them if `CASE_SENSITIVE` is set while it resolves the names.
    """
    return F.from_json(line, T.StructType([T.StructField(key, T.StringType()) for key in keys]))


def at(fields: Column, path: str) -> Column:
    """The text of the value at `path`; null if there is none, or an object."""
    value = _any_at(fields, path)
    return F.when(~value.startswith("{"), value)


def first(fields: Column, paths: Sequence[str]) -> Column:
    """The value at the first of `paths` that exists."""
    quick = (at(fields, path) for path in paths[:QUICK_PATHS])
    if len(paths) <= QUICK_PATHS:
        return F.coalesce(*quick)
    others = joined(fields, paths[QUICK_PATHS:])
    found = F.regexp_extract(F.concat(others, F.lit(_BETWEEN + _END)), _FIRST_TEXT, 1)
    return F.coalesce(*quick, F.when(others != "", F.nullif(found, F.lit(_END))))


def joined(fields: Column, paths: Iterable[str]) -> Column:
    """The values at `paths`, also objects, each after `_BETWEEN`; less code for Java to compile than `at` of each."""
    return F.concat_ws(_BETWEEN, F.lit(""), *(_any_at(fields, path) for path in paths))


def first_of(values: Column, known: Iterable[str]) -> Column:
    """The first of `values`, which are of `joined`, that is one of `known` in any case; empty: none is."""
    words = "|".join(sorted(known))
    return F.when(values != "", F.regexp_extract(values, rf"(?i){_BETWEEN}({words})(?![^{_BETWEEN}])", 1))


def _any_at(fields: Column, path: str) -> Column:
    value = fields.getField(path)
    if "." not in path:
        return value
    outer, _, inner = path.partition(".")
    within = fields.getField(outer)
    return F.coalesce(value, F.get_json_object(F.when(within.startswith("{"), within), f"$['{inner}']"))


def first_text(fields: Column, keys: Iterable[str]) -> Column:
    """The value at the first of `keys` that exists; an object as JSON."""
    return F.coalesce(*(fields.getField(key) for key in keys))
