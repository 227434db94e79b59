"""Values in JSON lines by paths of keys, as `line_times.at_path`: column expressions over the fields of a line."""

import re
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812


def keys_of(paths: Iterable[str]) -> tuple[str, ...]:
    """The keys of a line that are read for `paths`."""
    return tuple(dict.fromkeys(key for path in paths for key in (path, path.partition(".")[0])))


def _named(key: str) -> str:
    """The column of a key: Spark finds fields of a struct without regard to capitals."""
    return re.sub("[A-Z]", lambda found: f"^{found[0].lower()}", key)


def struct_of(keys: Iterable[str]) -> T.StructType:
    """The type of `parsed`."""
    return T.StructType([T.StructField(_named(key), T.StringType()) for key in keys])


def parsed(line: Column, keys: Iterable[str]) -> Column:
    """The values at `keys` of a line, as texts; the text of an object is JSON."""
    known = list(keys)
    found = F.from_json(line, T.StructType([T.StructField(key, T.StringType()) for key in known]))
    return found.cast(struct_of(known))


def at(fields: Column, path: str) -> Column:
    """The text of the value at `path`; null if there is none, or an object."""
    value = fields.getField(_named(path))
    if "." in path:
        outer, _, inner = path.partition(".")
        within = fields.getField(_named(outer))
        inside = F.get_json_object(F.when(within.startswith("{"), within), f"$['{inner}']")
        value = F.coalesce(value, inside)
    return F.when(~value.startswith("{"), value)


def first(fields: Column, paths: Iterable[str]) -> Column:
    """The value at the first of `paths` that exists."""
    return F.coalesce(*(at(fields, path) for path in paths))


def first_text(fields: Column, keys: Iterable[str]) -> Column:
    """The value at the first of `keys` that exists; an object as JSON."""
    return F.coalesce(*(fields.getField(_named(key)) for key in keys))
