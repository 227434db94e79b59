"""Hosts of a day: silent, new, and with an unusual volume, and the facts of the pages of single hosts. Pure."""

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_analytics.metrics import events
from spark_analytics.metrics.statistics import gini, median, ratio, robust_z
from spark_analytics.report.content import rate_of
from spark_analytics.report.inputs import Evidence, HostAudit, HostSeries, PasswordSignIn, Trouble
from spark_analytics.report.model import Facts, HostDay, Hosts, RateChange, SilentHost
from spark_analytics.report.number_format import clean, count, rounded, times

QUIET_HOURS = 6.0
"""Hours without lines after which a steady host counts as silent, although it wrote today."""

STEADY_HOURS = 20
"""Minimum median of active hours per day of a steady host. A nightly batch host has fewer."""

UNUSUAL_Z = 3.5
UNUSUAL_FACTOR = 3.0
UNUSUAL_LINES = 1000
"""Minimum z score, factor and lines of an unusual volume."""


def hosts(evidence: Evidence, silent: Sequence[SilentHost], top: int, *, enough: bool) -> Hosts:
    """Sorts the day's hosts, of which none is unusual without `enough` history."""
    whole = sum(host.bytes for host in evidence.hosts)
    days = [host_day(host, whole, enough=enough) for host in evidence.hosts if host.lines]
    largest = sorted(days, key=lambda day: (-day.bytes, day.host))
    new = [day for day in largest if evidence.before and not any(day.lines_before)]
    explained = {one.host for one in silent} | {day.host for day in new}
    unusual = [day for day in days if is_unusual(day) and day.host not in explained]
    return Hosts(
        silent=tuple(silent[:top]),
        silent_count=len(silent),
        new=tuple(new[:top]),
        new_count=len(new),
        unusual=tuple(sorted(unusual, key=lambda day: (-abs(day.lines - (day.median_lines or 0)), day.host))[:top]),
        unusual_count=len(unusual),
        largest=tuple(largest[:top]),
        gini=round(gini(day.bytes for day in days), 3),
    )


def host_day(host: HostSeries, whole_bytes: int, *, enough: bool) -> HostDay:
    """A host's day against its own median."""
    usual = median(host.lines_before) if enough else None
    same = ("partition", "host", "files", "lines", "bytes", "errors", "warnings", "lines_before")
    return HostDay(
        **{name: getattr(host, name) for name in same},
        share_of_bytes=ratio(host.bytes, whole_bytes) or 0.0,
        median_lines=usual,
        factor=ratio(host.lines, usual),
        z=round(robust_z(host.lines, host.lines_before), 1) if usual else None,
        weekday_median=median(host.lines_weekdays),
    )


def is_unusual(day: HostDay) -> bool:
    """Whether the volume is unusual: far from the days before, and from the same weekday of the weeks before."""
    if day.factor is None or day.z is None or max(day.lines, day.median_lines or 0) < UNUSUAL_LINES:
        return False
    factors = [day.lines / usual for usual in (day.median_lines, day.weekday_median) if usual]
    return abs(day.z) >= UNUSUAL_Z and not any(1 / UNUSUAL_FACTOR < factor < UNUSUAL_FACTOR for factor in factors)


def silent_hosts(evidence: Evidence) -> list[SilentHost]:
    """Finds hosts that usually write and wrote nothing, or stopped, those that usually write most first."""
    end = end_of_day(evidence)
    left_out = set(evidence.account.left_out_hosts)  # they wrote, and were not read
    hosts = [host for host in evidence.hosts if host.host not in left_out]
    found = [silent for host in hosts if (silent := _silent(host, evidence.date, end))]
    return sorted(found, key=lambda host: (host.lines > 0, -host.median_lines, host.host))


def _silent(host: HostSeries, date: str, end: dt.datetime) -> SilentHost | None:
    usual = median(host.lines_before)
    if not usual:
        return None
    last, quiet = host.last_arrival, None
    if last and last.startswith(date):
        quiet = (end - dt.datetime.fromisoformat(last)).total_seconds() / 3600
    is_steady = (median(host.active_hours_before) or 0) >= STEADY_HOURS
    if host.lines and (quiet is None or quiet < QUIET_HOURS or not is_steady):
        return None
    return SilentHost(
        partition=host.partition,
        host=host.host,
        lines=host.lines,
        median_lines=usual,
        last_arrival=last if host.lines else None,
        quiet_hours=None if quiet is None or not host.lines else round(quiet, 1),
    )


def end_of_day(evidence: Evidence) -> dt.datetime:
    """The day's end or, of a day that is not closed, the newest time that any host wrote on it."""
    whole = dt.datetime.fromisoformat(evidence.date).replace(tzinfo=dt.UTC) + dt.timedelta(days=1)
    if evidence.account.closed:
        return whole
    times = (host.last_arrival for host in evidence.hosts)
    return max((dt.datetime.fromisoformat(t) for t in times if t and t.startswith(evidence.date)), default=whole)


# -- pages of hosts that have a finding --------------------------------------------------------------------------------

MAX_PAGES = 60
"""Maximum pages of one day. Others are in hosts.csv."""

MAX_ROWS = 50
"""Maximum rows of a list on such a page."""


@dataclass(frozen=True, slots=True)
class HostDate:
    """A host's lines on one day."""

    date: str
    lines: int
    errors: int
    warnings: int

    @property
    def others(self) -> int:
        """Lines of other levels; a last line without a newline has a level and is no line."""
        return max(0, self.lines - self.errors - self.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPage:
    """What the page of one host shows."""

    reasons: tuple[str, ...]  #: why it has a page
    hours: tuple[int, ...]  #: lines by hour; empty for hosts that are not among the largest
    day: HostDay
    week: tuple[HostDate, ...]  #: the days before, oldest first, and the day
    accounts: tuple[HostAudit, ...]  #: one for each partition
    troubles: tuple[Trouble, ...]
    files: tuple[RateChange, ...]  #: its log files with error lines
    sign_ins: tuple[PasswordSignIn, ...]


def reasons(facts: Facts) -> Mapping[str, list[str]]:
    """Why each host has a page, the most important hosts first."""
    found: dict[str, list[str]] = defaultdict(list)
    for audit in facts.completeness.incomplete:
        found[audit.host].append(f"archive: {audit.status.replace('_', ' ')}")
    for silent in facts.hosts.silent:
        since = f"silent since {facts.clock(silent.last_arrival)}" if silent.lines else "silent all day"
        found[silent.host].append(f"{since}, usually {rounded(silent.median_lines)} lines")
    for sign_in in facts.auth.after_failures:
        text = f"password accepted for {clean(sign_in.user, 80)} after {count(sign_in.failed, 'failure')}"
        found[sign_in.host].append(text)
    for event in facts.patterns.events:
        for place in event.places:
            found[place.host].append(
                f"{events.named(event.kind, clean(place.subject, 60))}, {count(place.lines, 'line')}"
            )
    for rate in facts.errors.risen:
        found[rate.host].append(f"error rate above all days before in {clean(rate.file, 120)}")
    for new in facts.hosts.new:
        found[new.host].append("not seen before")
    for far in facts.hosts.unusual:
        found[far.host].append(f"{times(far.factor)} its usual lines")
    return dict(list(found.items())[:MAX_PAGES])


def host_pages(facts: Facts, evidence: Evidence) -> list[HostPage]:
    """The pages of the day."""
    why = reasons(facts)
    whole = sum(host.bytes for host in evidence.hosts)
    hours = {row.host: row.hours for row in facts.volume.host_hours}
    series = {host.host: host for host in evidence.hosts if host.host in why}
    made = []
    for host, texts in why.items():
        if host not in series:
            continue
        files = [rate_of(log) for log in evidence.files if log.host == host]
        made.append(
            HostPage(
                reasons=tuple(texts),
                hours=hours.get(host, ()),
                day=host_day(series[host], whole, enough=facts.history.enough),
                week=_week(series[host], evidence),
                accounts=tuple(one for one in evidence.account.hosts if one.host == host),
                troubles=tuple(one for one in evidence.account.troubles if one.host == host)[:MAX_ROWS],
                files=tuple(sorted(files, key=lambda rate: (-rate.errors, rate.file))[:MAX_ROWS]),
                sign_ins=tuple(one for one in evidence.password_sign_ins if one.host == host)[:MAX_ROWS],
            )
        )
    return made


def _week(host: HostSeries, evidence: Evidence) -> tuple[HostDate, ...]:
    before = zip(evidence.before, host.lines_before, host.errors_before, host.warnings_before, strict=True)
    days = [HostDate(*day) for day in before]
    return (*days, HostDate(evidence.date, host.lines, host.errors, host.warnings))
