"""Hosts of a day: silent, new, and with an unusual volume."""

import datetime as dt
from collections.abc import Sequence

from spark_analytics.metrics.statistics import gini, median, ratio, robust_z
from spark_analytics.report.inputs import Evidence, HostSeries
from spark_analytics.report.model import HostDay, Hosts, SilentHost

QUIET_HOURS = 6.0
"""Hours without lines after which a steady host counts as silent, although it wrote today."""

STEADY_HOURS = 20
"""Median active hours per day of a steady host; a nightly batch host has fewer."""

UNUSUAL_Z = 3.5
UNUSUAL_FACTOR = 3.0
UNUSUAL_LINES = 1000
"""Minimum z score, factor and lines of an unusual volume."""


def hosts(evidence: Evidence, top: int, *, enough: bool) -> Hosts:
    """The day's hosts; without `enough` history none is silent or unusual."""
    whole = sum(host.bytes for host in evidence.hosts)
    days = [host_day(host, whole, enough=enough) for host in evidence.hosts if host.lines]
    silent = silent_hosts(evidence) if enough else []
    quiet = {host.host for host in silent}
    new = [day for day, fresh in _with_newness(evidence, days) if fresh]
    fresh = {day.host for day in new}
    unusual = [day for day in days if is_unusual(day) and day.host not in quiet | fresh]
    return Hosts(
        silent=tuple(silent[:top]),
        silent_count=len(silent),
        new=tuple(sorted(new, key=lambda day: (-day.bytes, day.host))[:top]),
        new_count=len(new),
        unusual=tuple(sorted(unusual, key=lambda day: (-abs(day.lines - (day.median_lines or 0)), day.host))[:top]),
        unusual_count=len(unusual),
        largest=tuple(sorted(days, key=lambda day: (-day.bytes, day.host))[:top]),
        gini=round(gini(day.bytes for day in days), 3),
    )


def _with_newness(evidence: Evidence, days: Sequence[HostDay]) -> list[tuple[HostDay, bool]]:
    return [(day, bool(evidence.before) and not any(day.lines_before)) for day in days]


def host_day(host: HostSeries, whole_bytes: int, *, enough: bool) -> HostDay:
    """A host's day against its own median."""
    usual = median(host.lines_before) if enough else None
    return HostDay(
        partition=host.partition,
        host=host.host,
        files=host.files,
        lines=host.lines,
        bytes=host.bytes,
        errors=host.errors,
        warnings=host.warnings,
        share_of_bytes=ratio(host.bytes, whole_bytes) or 0.0,
        median_lines=usual,
        factor=ratio(host.lines, usual),
        z=round(robust_z(host.lines, host.lines_before), 1) if usual else None,
        lines_before=host.lines_before,
        weekday_median=median(host.lines_weekdays),
    )


def is_unusual(day: HostDay) -> bool:
    """Whether the volume is unusual: far from the days before, and from the same weekday of the weeks before."""
    if day.factor is None or day.z is None or max(day.lines, day.median_lines or 0) < UNUSUAL_LINES:
        return False
    if abs(day.z) < UNUSUAL_Z or _is_near(day.lines, day.median_lines):
        return False
    return day.weekday_median is None or not _is_near(day.lines, day.weekday_median)


def _is_near(lines: int, usual: float | None) -> bool:
    """Whether `lines` are within the factor of what is usual."""
    return bool(usual) and 1 / UNUSUAL_FACTOR < lines / (usual or 1) < UNUSUAL_FACTOR


def silent_hosts(evidence: Evidence) -> list[SilentHost]:
    """Hosts that usually write and wrote nothing, or stopped; those that usually write most first."""
    end = end_of_day(evidence)
    found = [silent for host in evidence.hosts if (silent := _silent(host, evidence.date, end))]
    return sorted(found, key=lambda host: (host.lines > 0, -host.median_lines, host.host))


def _silent(host: HostSeries, date: str, end: dt.datetime) -> SilentHost | None:
    usual = median(host.lines_before)
    if not usual:
        return None
    quiet = _quiet_hours(host, date, end)
    if host.lines and (quiet is None or quiet < QUIET_HOURS or not _is_steady(host)):
        return None
    return SilentHost(
        partition=host.partition,
        host=host.host,
        lines=host.lines,
        median_lines=usual,
        last_arrival=host.last_arrival if host.lines else None,
        quiet_hours=None if quiet is None or not host.lines else round(quiet, 1),
    )


def _quiet_hours(host: HostSeries, date: str, end: dt.datetime) -> float | None:
    """Hours from the host's last line to the end of the day; None if its last line is of another day."""
    if not host.last_arrival or not host.last_arrival.startswith(date):
        return None
    return (end - _instant(host.last_arrival)).total_seconds() / 3600


def _is_steady(host: HostSeries) -> bool:
    return (median(host.active_hours_before) or 0) >= STEADY_HOURS


def end_of_day(evidence: Evidence) -> dt.datetime:
    """The day's end; of a day that is not closed, the newest time that any host wrote on it."""
    whole = dt.datetime.fromisoformat(evidence.date).replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
    if evidence.account.closed:
        return whole
    times = [
        host.last_arrival
        for host in evidence.hosts
        if host.last_arrival and host.last_arrival.startswith(evidence.date)
    ]
    return max(map(_instant, times), default=whole)


def _instant(time: str) -> dt.datetime:
    read = dt.datetime.fromisoformat(time)
    return read if read.tzinfo else read.replace(tzinfo=dt.UTC)
