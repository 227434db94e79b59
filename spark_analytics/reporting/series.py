"""Rows of several days as one value for each host: today's numbers beside those of the days before. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_analytics.reporting.evidence import HostSeries


class HostRow(NamedTuple):
    """A row of table `host_daily`, of any day."""

    date: str
    partition: int
    host: str
    files: int
    lines: int
    bytes: int
    err: int
    warn: int
    late_lines: int
    no_ts_lines: int
    active_hours: int
    last_arrival: str | None


_NOTHING = HostRow("", -1, "", 0, 0, 0, 0, 0, 0, 0, 0, None)


def host_series(rows: Iterable[HostRow], date: str, before: Sequence[str]) -> tuple[HostSeries, ...]:
    """One value for each host that wrote on `date` or on a day `before`, in the order of their names."""
    by_host: dict[str, dict[str, HostRow]] = {}
    for row in rows:
        days = by_host.setdefault(row.host, {})
        days[row.date] = _joined(days[row.date], row) if row.date in days else row
    return tuple(_series(host, days, date, before) for host, days in sorted(by_host.items()))


def _joined(one: HostRow, other: HostRow) -> HostRow:
    """A host that moved to another partition has two rows a day: the larger one says where it is."""
    larger, smaller = (one, other) if one.bytes >= other.bytes else (other, one)
    return larger._replace(
        files=one.files + other.files,
        lines=one.lines + other.lines,
        bytes=one.bytes + other.bytes,
        err=one.err + other.err,
        warn=one.warn + other.warn,
        late_lines=one.late_lines + other.late_lines,
        no_ts_lines=one.no_ts_lines + other.no_ts_lines,
        active_hours=max(one.active_hours, other.active_hours),
        last_arrival=max(larger.last_arrival or "", smaller.last_arrival or "") or None,
    )


def _series(host: str, days: dict[str, HostRow], date: str, before: Sequence[str]) -> HostSeries:
    past = [days.get(day, _NOTHING) for day in before]
    known = [row for row in past if row.lines]
    today = days.get(date, _NOTHING)
    return HostSeries(
        partition=today.partition if date in days else (known[-1] if known else _NOTHING).partition,
        host=host,
        files=today.files,
        lines=today.lines,
        bytes=today.bytes,
        errors=today.err,
        warnings=today.warn,
        late_lines=today.late_lines,
        no_ts_lines=today.no_ts_lines,
        active_hours=today.active_hours,
        last_arrival=today.last_arrival,
        lines_before=tuple(row.lines for row in past),
        bytes_before=tuple(row.bytes for row in past),
        errors_before=tuple(row.err for row in past),
        warnings_before=tuple(row.warn for row in past),
        active_hours_before=tuple(row.active_hours for row in past),
    )
