"""Groups as columns: whose they are, when they happened, what `wc` would have counted. What `hourly` is in Spark."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.aggregate.port import Correction, Placing
from spark_analytics.lines import timestamps
from spark_analytics.lines.log_formats import NONE, SOME_YEAR
from spark_analytics.metrics.volumes import LogFile
from spark_analytics.tables import schemas

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_SECONDS = 24 * 3600
_SLACK_SECONDS = 47 * 3600
"""The latest time that a line can mean, from the day's first moment: a day's slack (`parse.meant`)."""

_KEPT = (
    "segment",
    "fingerprint",
    "text",
    "lines",
    "auth",
    "user",
    "remote",
    "attempts",
    "status",
    "path",
    "latency",
    "sent",
)
"""Columns of the scan that tables ask for as they are."""

_PIECE = 2**31 // 4096
"""Of a column of names in one piece: Arrow counts its bytes in 31 bits, and a path has 4,096."""

NO_NUMBER = pa.scalar(None, pa.int64())

LEVELS = pa.array(sorted(schemas.LEVELS))
"""The values of `level` in the order of their names."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Groups with what they are placed by; times are in seconds since 1970.

    `groups` are those of the scan (`scan.heard`) with `log`, the place in `logs`; `level`, its place in `LEVELS`;
    `hour` and `bytes` as they are meant; `is_dated`; `is_continuation`: without a time where other lines of the file
    have one; `unfinished`; `first_ts` and `last_ts`.
    """

    logs: Sequence[LogFile]  #: in their order
    groups: pa.Table


def parts_of(log: pa.ChunkedArray, logs: Sequence[LogFile], place: int) -> pa.ChunkedArray:
    """The part at `place` of each log file by its number: partition, host or file."""
    parts = pa.array([one[place] for one in logs], pa.string() if place else pa.int32())
    pieces = [chunk.slice(start, _PIECE) for chunk in log.chunks for start in range(0, len(chunk), _PIECE)]
    return pc.take(parts, pa.chunked_array(pieces, log.type))


def placed(groups: pa.Table, placing: Placing) -> Placed:
    """`groups` in their places."""
    logs = sorted({place[1:4] for place in placing.places} | {silent[:3] for silent in placing.silent})
    number = {log: n for n, log in enumerate(logs)}
    segment, day = groups["segment"], placing.day
    dated = meant(pc.multiply(groups["hour"], timestamps.HOUR_SECONDS), day)
    is_dated = pc.is_valid(dated)
    surplus, mark = _corrected(groups, placing.corrections)
    columns = {
        "log": _of_segment([number[place[1:4]] for place in placing.places], pa.int32(), segment),
        "hour": pc.coalesce(dated, _of_segment([p.stored_hour for p in placing.places], pa.int64(), segment)),
        "is_dated": is_dated,
        "is_continuation": pc.and_not(
            _of_segment([place.family != NONE for place in placing.places], pa.bool_(), segment), is_dated
        ),
        "level": pc.index_in(groups["level"], LEVELS).cast(pa.int8()),
        "bytes": pc.add(pc.subtract(groups["bytes"], surplus), mark),
        "unfinished": surplus,
        "first_ts": pc.if_else(is_dated, meant(groups["first_second"], day), NO_NUMBER),
        "last_ts": pc.if_else(is_dated, meant(groups["last_second"], day), NO_NUMBER),
    }
    kept = groups.select(_KEPT)
    for name, column in columns.items():
        kept = kept.append_column(name, column)
    return Placed(logs, kept)


def _of_segment(values: Sequence[Any], kind: pa.DataType, segment: pa.ChunkedArray) -> pa.ChunkedArray:
    """The value of each group's segment; `values` are those of the segments by their numbers."""
    return pc.take(pa.array(values, kind), segment)


def _corrected(groups: pa.Table, corrections: Sequence[Correction]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Lines (and bytes) that each group gives back, and bytes that it gets."""
    known = pa.Table.from_pylist([one._asdict() for one in corrections], _CORRECTIONS)
    place = pc.index_in(groups["segment"], known["segment"].combine_chunks())
    found = {name: pc.take(known[name], place) for name in known.column_names[1:]}
    gives = _is_at(groups["block_start"], groups["last_row"], found["end_block"], found["end_row"])
    gets = _is_at(groups["block_start"], groups["first_row"], found["head_block"], found["head_row"])
    return _where(gives, found["surplus"]), _where(gets, found["mark"])


_CORRECTIONS = pa.schema([(name, pa.int64() if name != "segment" else pa.int32()) for name in Correction._fields])


def _is_at(
    block: pa.ChunkedArray, row: pa.ChunkedArray, other_block: pa.ChunkedArray, other_row: pa.ChunkedArray
) -> pa.ChunkedArray:
    return pc.and_(pc.equal(block, other_block), pc.equal(row, other_row))


def _where(chosen: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """`values` where they are chosen, else 0; a null is not chosen."""
    return pc.if_else(pc.fill_null(chosen, False), values, pa.scalar(0, pa.int64()))


def meant(second: pa.ChunkedArray, day: dt.date) -> pa.ChunkedArray:
    """`parse.meant` of columns: the second that the scan gave, with its year; null where it cannot be meant."""
    latest = second_of(timestamps.midnight(day)) + _SLACK_SECONDS
    first, end = _new_year(SOME_YEAR), _new_year(SOME_YEAR + 1)
    known = pc.if_else(pc.greater_equal(second, 0), second, NO_NUMBER)
    is_yearless = pc.and_(pc.greater_equal(known, first), pc.less(known, end))
    if pc.any(is_yearless).as_py():
        number = pc.divide(pc.subtract(pc.if_else(is_yearless, known, NO_NUMBER), first), _DAY_SECONDS)
        this_year = pc.add(known, pc.take(_moves(day.year), number))
        last_year = pc.add(known, pc.take(_moves(day.year - 1), number))
        dated = pc.if_else(pc.less_equal(this_year, latest), this_year, last_year)
        known = pc.if_else(is_yearless, dated, known)
    return pc.if_else(pc.less_equal(known, latest), known, NO_NUMBER)


def second_of(time: dt.datetime) -> int:
    """Seconds since 1970."""
    return (time - _EPOCH) // dt.timedelta(seconds=1)


def _new_year(year: int) -> int:
    return second_of(dt.datetime(year, 1, 1, tzinfo=dt.UTC))


def _moves(year: int) -> pa.Array:
    """For each day of `SOME_YEAR` the seconds from there to the same day of `year`."""
    days = range(_new_year(SOME_YEAR), _new_year(SOME_YEAR + 1), _DAY_SECONDS)
    return pa.array([_moved(second, year) - second for second in days], pa.int64())


def _moved(second: int, year: int) -> int:
    """The same moment of `year`; 29 February is the 28th where there is none."""
    time = _EPOCH + dt.timedelta(seconds=second)
    try:
        return second_of(time.replace(year=year))
    except ValueError:
        return second_of(time.replace(year=year, day=28))
