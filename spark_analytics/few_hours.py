"""Table `hourly` and its sums by log file, of groups as columns."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics import parse, schemas
from spark_analytics.counts import Silent
from spark_analytics.placing import LEVELS, NO_NUMBER, Placed, parts_of
from spark_analytics.summing import summed
from spark_analytics.volumes import LEVEL_BITS, LEVEL_MASK, LINES_BITS, SUMMED, FileSums, LogFile

_MICRO = 10**6
_BAD = pa.array([LEVELS.index(level).as_py() for level in ("fatal", "error")], pa.int8())
_WARN = LEVELS.index("warn").as_py()
_NONE = LEVELS.index("none").as_py()
_WORST_FIRST = pa.array([schemas.LEVELS.index(level) for level in LEVELS.to_pylist()], pa.int64())

_PLACE = ("log", "hour", "level")
_KEY = ("place", "fingerprint")
_ADDED = ("lines", "unfinished", "bytes", "late_lines", "no_ts_lines", "continuation_lines")
_TIMES = (("first_ts", "min"), ("last_ts", "max"))
_HOUR_BITS = 30


def hours_of(placed: Placed, silent: Sequence[Silent], midnight_second: int) -> pa.Table:
    """The rows of table `hourly`, by log file, hour (none first) and level; in `log` is the place in `placed.logs`.

    `midnight_second` is the day's first; times are in seconds since 1970.
    """
    counted = _counted(placed.groups, midnight_second)
    number = {log: n for n, log in enumerate(placed.logs)}
    nothing = pa.Table.from_pylist([_of_none(number[one[:3]], one) for one in silent], counted.schema)
    sums = summed(_numbered(pa.concat_tables([counted, nothing])), _KEY, _ADDED, _TIMES)
    return _named(sums.take(pc.sort_indices(sums["place"])))


def _counted(groups: pa.Table, midnight_second: int) -> pa.Table:
    lines, is_dated, none = groups["lines"], groups["is_dated"], pa.scalar(0, pa.int64())
    is_late = pc.and_kleene(is_dated, pc.less(groups["hour"], midnight_second))
    return (
        groups.select([*_PLACE, "fingerprint", "lines", "unfinished", "bytes", "first_ts", "last_ts"])
        .append_column("late_lines", pc.if_else(is_late, lines, none))
        .append_column("no_ts_lines", pc.if_else(is_dated, none, lines))
        .append_column("continuation_lines", pc.if_else(groups["is_continuation"], lines, none))
    )


def _of_none(log: int, silent: Silent) -> dict[str, Any]:
    keys = {"log": log, "hour": silent.stored_hour, "level": _NONE, "fingerprint": 0}
    return keys | dict.fromkeys(_ADDED, 0) | {"bytes": silent.bytes}


def _numbered(counted: pa.Table) -> pa.Table:
    """With `_PLACE` as one number, in their order: it is grouped and sorted by in a fraction of the time."""
    return counted.drop_columns(list(_PLACE)).append_column("place", packed(counted, "level", LEVEL_BITS))


def _named(sums: pa.Table) -> pa.Table:
    """With that number as `_PLACE` again."""
    above = pc.shift_right(sums["place"], LEVEL_BITS)
    hour = pc.bit_wise_and(above, (1 << _HOUR_BITS) - 1)
    second = pc.multiply(pc.subtract(hour, 1), parse.HOUR_SECONDS)
    columns = {
        "log": pc.shift_right(above, _HOUR_BITS).cast(pa.int32()),
        "hour": pc.if_else(pc.equal(hour, 0), NO_NUMBER, second),
        "level": pc.bit_wise_and(sums["place"], LEVEL_MASK).cast(pa.int8()),
    }
    for name, column in columns.items():
        sums = sums.append_column(name, column)
    return sums.drop_columns(["place"])


def packed(table: pa.Table, name: str, bits: int) -> pa.ChunkedArray:
    """Columns `log`, `hour` and `name`, which takes `bits`, as one number in their order, no hour first."""
    hour = pc.fill_null(pc.add(pc.divide(table["hour"], parse.HOUR_SECONDS), 1), 0)
    above = pc.add(pc.shift_left(table["log"].cast(pa.int64()), _HOUR_BITS), hour)
    return pc.add(pc.shift_left(above, bits), table[name].cast(pa.int64()))


def rows_of(hours: pa.Table, logs: Sequence[LogFile]) -> pa.Table:
    """Table `hourly` as it is written."""
    named = {name: parts_of(hours["log"], logs, place) for place, name in enumerate(("partition", "host", "file"))}
    named |= {name: pc.multiply(hours[name], _MICRO) for name in ("hour", "first_ts", "last_ts")}
    named["level"] = pc.take(LEVELS, hours["level"])
    return pa.table({name: named[name] if name in named else hours[name] for name in schemas.HOURLY.names})


def sums_of_files(hours: pa.Table, logs: Sequence[LogFile]) -> list[FileSums]:
    """As `volumes.by_file`."""
    cells = _cells(hours)
    level, lines, none = hours["level"], hours["lines"], pa.scalar(0, pa.int64())
    ended = pc.subtract(lines, hours["unfinished"])
    table = (
        hours.append_column("err", pc.if_else(pc.is_in(level, _BAD), lines, none))
        .append_column("warn", pc.if_else(pc.equal(level, _WARN), lines, none))
        .set_column(hours.column_names.index("lines"), "lines", ended)
    )
    rows = summed(table, ["log"], SUMMED, _TIMES).to_pylist()
    return [_file_sums(logs[row["log"]], row, cells.get(row["log"], [])) for row in rows]


def _file_sums(log: LogFile, row: dict[str, Any], cells: Sequence[int]) -> FileSums:
    first, last = (None if row[name] is None else row[name] * _MICRO for name in ("first_ts", "last_ts"))
    sums = {name: row[name] for name in SUMMED}
    return FileSums(*log, **sums, first_us=first, last_us=last, cells=cells)


def _cells(hours: pa.Table) -> dict[int, list[int]]:
    """The cells of each log file that are of a known hour."""
    known = hours.filter(pc.is_valid(hours["hour"]))
    sums = summed(known, ["log", "hour", "level"], ["lines"])
    hour = pc.shift_left(pc.divide(sums["hour"], parse.HOUR_SECONDS), LEVEL_BITS)
    key = pc.shift_left(pc.add(hour, pc.take(_WORST_FIRST, sums["level"])), LINES_BITS)
    packed = pa.table({"log": sums["log"], "cell": pc.add(key, sums["lines"])})
    listed = packed.group_by("log", use_threads=False).aggregate([("cell", "list")])
    return dict(zip(listed["log"].to_pylist(), listed["cell_list"].to_pylist(), strict=True))
