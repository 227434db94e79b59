"""Groups as columns get their log file and hour, and bytes as `wc` counts them: the first step of the Arrow adapter."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shipper.line_times import NONE, PLACEHOLDER_YEAR
from spark_analytics.aggregate.port import Assignment, Correction
from spark_analytics.lines import timestamps
from spark_analytics.metrics.volumes import LogFile
from spark_analytics.tables import schemas

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_SECONDS = 24 * 3600
_SLACK_SECONDS = 47 * 3600
"""Seconds from the start of the day to the latest valid time of a line: a day of slack (`timestamps.resolve_year`)."""

_KEPT = (
    "segment",
    "block_start",
    "first_row",
    "fingerprint",
    "text",
    "lines",
    "auth",
    "user",
    "remote",
    "attempts",
    "login_second",
    "status",
    "path",
    "latency",
    "sent",
)
"""Columns of the scan that are kept unchanged."""

_CHUNK_ROWS = 2**31 // 4096
"""Maximum rows of a column of names in one chunk: Arrow counts its bytes in 31 bits, and a path has up to 4,096."""

NULL_INT = pa.scalar(None, pa.int64())

LEVELS = pa.array(sorted(schemas.LEVELS))
"""The values of `level`, sorted by name."""


@dataclass(frozen=True, slots=True)
class AssignedGroups:
    """Groups with their log file and hour; times are in seconds since 1970.

    `groups` are those of the scan (`line_scan.classify_groups`) with `log`, the index in `logs`; `level`, the index in
    `LEVELS`; `hour` with the year resolved; `bytes` as `wc` counts them; `is_dated`; `is_continuation`: without a time
    in a file whose other lines have one; `unfinished`; `first_ts` and `last_ts`.
    """

    logs: Sequence[LogFile]  #: sorted
    groups: pa.Table


def file_column(log: pa.ChunkedArray, logs: Sequence[LogFile], part: int) -> pa.ChunkedArray:
    """One part of each log file by the file's index: 0 is the partition, 1 the host, 2 the file."""
    parts = pa.array([one[part] for one in logs], pa.string() if part else pa.int32())
    chunks = [chunk.slice(start, _CHUNK_ROWS) for chunk in log.chunks for start in range(0, len(chunk), _CHUNK_ROWS)]
    return pc.take(parts, pa.chunked_array(chunks, log.type))


def assign(groups: pa.Table, assignment: Assignment) -> AssignedGroups:
    """`groups` with their log files and hours."""
    origins, day = assignment.origins, assignment.day
    logs = sorted({origin[1:4] for origin in origins} | {empty[:3] for empty in assignment.empty})
    number = {log: n for n, log in enumerate(logs)}
    segment = groups["segment"]
    dated = resolve_year(pc.multiply(groups["hour"], timestamps.HOUR_SECONDS), day)
    is_dated = pc.is_valid(dated)
    unterminated, bom_bytes = _corrections(groups, assignment.corrections)
    columns = {
        "log": _of_segment([number[origin[1:4]] for origin in origins], pa.int32(), segment),
        "hour": pc.coalesce(dated, _of_segment([origin.stored_hour for origin in origins], pa.int64(), segment)),
        "is_dated": is_dated,
        "is_continuation": pc.and_not(
            _of_segment([origin.family != NONE for origin in origins], pa.bool_(), segment), is_dated
        ),
        "level": pc.index_in(groups["level"], LEVELS).cast(pa.int8()),
        "bytes": pc.add(pc.subtract(groups["bytes"], unterminated), bom_bytes),
        "unfinished": unterminated,
        "first_ts": pc.if_else(is_dated, resolve_year(groups["first_second"], day), NULL_INT),
        "last_ts": pc.if_else(is_dated, resolve_year(groups["last_second"], day), NULL_INT),
    }
    kept = groups.select(_KEPT)
    for name, column in columns.items():
        kept = kept.append_column(name, column)
    return AssignedGroups(logs, kept)


def _of_segment(values: Sequence[Any], kind: pa.DataType, segment: pa.ChunkedArray) -> pa.ChunkedArray:
    """The value of each group's segment; `values` are those of the segments by their numbers."""
    return pc.take(pa.array(values, kind), segment)


def _corrections(groups: pa.Table, corrections: Sequence[Correction]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Unterminated lines of each group (a line has a byte too many), and bytes of a byte order mark that it lacks."""
    known = pa.Table.from_pylist([one._asdict() for one in corrections], _CORRECTIONS)
    index = pc.index_in(groups["segment"], known["segment"].combine_chunks())
    found = {name: pc.take(known[name], index) for name in known.column_names[1:]}
    has_last_row = _is_at(groups["block_start"], groups["last_row"], found["end_block"], found["end_row"])
    has_first_row = _is_at(groups["block_start"], groups["first_row"], found["head_block"], found["head_row"])
    return _where(has_last_row, found["unterminated"]), _where(has_first_row, found["bom_bytes"])


_CORRECTIONS = pa.schema([(name, pa.int64() if name != "segment" else pa.int32()) for name in Correction._fields])


def _is_at(
    block: pa.ChunkedArray, row: pa.ChunkedArray, other_block: pa.ChunkedArray, other_row: pa.ChunkedArray
) -> pa.ChunkedArray:
    return pc.and_(pc.equal(block, other_block), pc.equal(row, other_row))


def _where(condition: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """`values` where `condition` is true, 0 where it is false or null."""
    return pc.if_else(pc.fill_null(condition, False), values, pa.scalar(0, pa.int64()))


def resolve_year(second: pa.ChunkedArray, day: dt.date) -> pa.ChunkedArray:
    """`timestamps.resolve_year` for columns: the second with its year; null where the time is not valid."""
    latest = seconds_of(timestamps.midnight(day)) + _SLACK_SECONDS
    first, end = _new_year(PLACEHOLDER_YEAR), _new_year(PLACEHOLDER_YEAR + 1)
    known = pc.if_else(pc.greater_equal(second, 0), second, NULL_INT)
    is_yearless = pc.and_(pc.greater_equal(known, first), pc.less(known, end))
    if pc.any(is_yearless).as_py():
        number = pc.divide(pc.subtract(pc.if_else(is_yearless, known, NULL_INT), first), _DAY_SECONDS)
        this_year = pc.add(known, pc.take(_shifts(day.year), number))
        last_year = pc.add(known, pc.take(_shifts(day.year - 1), number))
        dated = pc.if_else(pc.less_equal(this_year, latest), this_year, last_year)
        known = pc.if_else(is_yearless, dated, known)
    return pc.if_else(pc.less_equal(known, latest), known, NULL_INT)


def seconds_of(time: dt.datetime) -> int:
    """Seconds since 1970."""
    return (time - _EPOCH) // dt.timedelta(seconds=1)


def _new_year(year: int) -> int:
    return seconds_of(dt.datetime(year, 1, 1, tzinfo=dt.UTC))


def _shifts(year: int) -> pa.Array:
    """For each day of `PLACEHOLDER_YEAR` the seconds from there to the same day of `year`."""
    days = range(_new_year(PLACEHOLDER_YEAR), _new_year(PLACEHOLDER_YEAR + 1), _DAY_SECONDS)
    return pa.array([_in_year(second, year) - second for second in days], pa.int64())


def _in_year(second: int, year: int) -> int:
    """The same moment of `year`; 29 February is the 28th in a year without one."""
    time = _EPOCH + dt.timedelta(seconds=second)
    try:
        return seconds_of(time.replace(year=year))
    except ValueError:
        return seconds_of(time.replace(year=year, day=28))
