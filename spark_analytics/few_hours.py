"""Table `hourly` and its sums by log file, of groups as values."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spark_analytics import parse, schemas
from spark_analytics.counts import Placing
from spark_analytics.placing import Placed, second_of
from spark_analytics.volumes import FileSums, LogFile, packed

_MICRO = 10**6
_BAD = ("fatal", "error")


class Hour(NamedTuple):
    """A row of table `hourly`; times are in seconds since 1970."""

    file: LogFile
    hour: int | None
    level: str
    fingerprint: int
    lines: int
    unfinished: int
    bytes: int
    first_ts: int | None
    last_ts: int | None
    late_lines: int
    no_ts_lines: int
    continuation_lines: int

    @property
    def row(self) -> tuple[Any, ...]:
        """The values of the table's columns; times as microseconds."""
        return (
            *self.file,
            _micros(self.hour),
            self.level,
            self.fingerprint,
            self.lines,
            self.unfinished,
            self.bytes,
            _micros(self.first_ts),
            _micros(self.last_ts),
            self.late_lines,
            self.no_ts_lines,
            self.continuation_lines,
        )


def hours_of(groups: Iterable[Placed], placing: Placing) -> list[Hour]:
    """Table `hourly`, by log file, hour (none first) and level."""
    midnight = second_of(parse.midnight(placing.day))
    of_key: dict[tuple[Any, ...], list[Hour]] = defaultdict(list)
    for one in (*(_of_none(silent) for silent in placing.silent), *(_alone(placed, midnight) for placed in groups)):
        of_key[one[:4]].append(one)
    made = [hours[0] if len(hours) == 1 else _together(hours) for hours in of_key.values()]
    return sorted(made, key=lambda one: (one.file, one.hour is not None, one.hour or 0, one.level))


def _alone(placed: Placed, midnight: int) -> Hour:
    group = placed.group
    lines, is_dated = group.lines, placed.is_dated
    return Hour(
        placed.file,
        placed.hour,
        group.level,
        group.fingerprint,
        lines,
        placed.unfinished,
        placed.bytes,
        placed.first_ts,
        placed.last_ts,
        lines if is_dated and placed.hour is not None and placed.hour < midnight else 0,
        0 if is_dated else lines,
        0 if is_dated or placed.is_timeless else lines,
    )


def _of_none(silent: Sequence[Any]) -> Hour:
    *file, hour, size = silent
    return Hour(tuple(file), hour, "none", 0, 0, 0, size, None, None, 0, 0, 0)


def _together(hours: Sequence[Hour]) -> Hour:
    first, last = _span(hours)
    return Hour(
        *hours[0][:4],
        lines=sum(one.lines for one in hours),
        unfinished=sum(one.unfinished for one in hours),
        bytes=sum(one.bytes for one in hours),
        first_ts=first,
        last_ts=last,
        late_lines=sum(one.late_lines for one in hours),
        no_ts_lines=sum(one.no_ts_lines for one in hours),
        continuation_lines=sum(one.continuation_lines for one in hours),
    )


def _span(hours: Sequence[Hour]) -> tuple[int | None, int | None]:
    firsts = (one.first_ts for one in hours if one.first_ts is not None)
    lasts = (one.last_ts for one in hours if one.last_ts is not None)
    return min(firsts, default=None), max(lasts, default=None)


def sums_of_files(hours: Iterable[Hour]) -> list[FileSums]:
    """As `volumes.by_file`."""
    of_file: dict[LogFile, list[Hour]] = defaultdict(list)
    for one in hours:
        of_file[one.file].append(one)
    return [_file_sums(file, found) for file, found in of_file.items()]


def _file_sums(file: LogFile, hours: Sequence[Hour]) -> FileSums:
    cells, by_level = Counter[tuple[int, str]](), Counter[str]()
    for one in hours:
        by_level[one.level] += one.lines
        if one.hour is not None:
            cells[one.hour // parse.HOUR_SECONDS, one.level] += one.lines
    first, last = _span(hours)
    return FileSums(
        *file,
        lines=sum(one.lines - one.unfinished for one in hours),
        bytes=sum(one.bytes for one in hours),
        err=sum(by_level[level] for level in _BAD),
        warn=by_level["warn"],
        late_lines=sum(one.late_lines for one in hours),
        no_ts_lines=sum(one.no_ts_lines for one in hours),
        continuation_lines=sum(one.continuation_lines for one in hours),
        first_us=_micros(first),
        last_us=_micros(last),
        cells=[packed(hour, schemas.LEVELS.index(level), lines) for (hour, level), lines in cells.items()],
    )


def _micros(second: int | None) -> int | None:
    return None if second is None else second * _MICRO
