"""Facts of a day: volumes and skew, patterns, authentication, access logs, and error rates."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from spark_analytics.metrics.sign_ins import ACCEPTED, FAILED_KEY
from spark_analytics.metrics.statistics import gini, grouped, median, ratio, skew
from spark_analytics.report import inputs as ev
from spark_analytics.report import model
from spark_analytics.report.zone_times import HOURS, Clock
from spark_analytics.tables.schemas import LEVELS


def volume(evidence: ev.Evidence, totals: model.Totals, top: int) -> model.Volume:
    """The day's volumes. If most lines are of other days (old files), the hours are hours of any day."""
    on_day = totals.other_day_lines * 2 <= totals.lines
    by_level = {level: [0] * HOURS for level in LEVELS}
    by_partition: dict[int, list[int]] = defaultdict(lambda: [0] * HOURS)
    for entry in evidence.hours:
        if entry.on_day or not on_day:
            by_level[entry.level][entry.hour] += entry.lines
            by_partition[entry.partition][entry.hour] += entry.lines
    days = partitions(evidence.hosts, by_partition)
    sizes = [day.bytes for day in days]
    return model.Volume(
        on_day=on_day,
        levels=tuple(
            model.LevelHours(level=level, lines=sum(hours), hours=tuple(hours))
            for level, hours in by_level.items()
            if any(hours)
        ),
        partitions=tuple(days),
        partition_skew=round(skew(sizes), 3) if sizes else 1.0,
        partition_gini=round(gini(sizes), 3),
        host_hours=tuple(_host_hours(evidence, on_day=on_day)),
        untimed=evidence.untimed[:top],
        untimed_count=len(evidence.untimed),
        untimed_lines=sum(one.lines for one in evidence.untimed),
        hours_at=Clock(evidence.date, evidence.run.timezone).hours(),
    )


def partitions(hosts: Iterable[ev.HostSeries], hours: Mapping[int, Sequence[int]]) -> list[model.PartitionDay]:
    """Each partition's day, in the order of their numbers."""
    groups = grouped((host for host in hosts if host.lines), lambda host: host.partition)
    whole = sum(host.bytes for group in groups.values() for host in group)
    made = []
    for number, group in sorted(groups.items()):
        size = sum(host.bytes for host in group)
        largest = max(group, key=lambda host: (host.bytes, host.host))
        share = ratio(size, whole) or 0.0
        made.append(
            model.PartitionDay(
                partition=number,
                hosts=len(group),
                lines=sum(host.lines for host in group),
                bytes=size,
                errors=sum(host.errors for host in group),
                share=share,
                skew=round(share * len(groups), 3),
                top_host=largest.host,
                top_host_share=ratio(largest.bytes, size) or 0.0,
                hours=tuple(hours.get(number, [0] * HOURS)),
            )
        )
    return made


def _host_hours(evidence: ev.Evidence, *, on_day: bool) -> list[model.HostHours]:
    rows: dict[str, list[int]] = {}
    for cell in evidence.host_hours:
        row = rows.setdefault(cell.host, [0] * HOURS)
        if not on_day or cell.hour.date().isoformat() == evidence.date:
            row[cell.hour.hour] += cell.lines
    lines = {host.host: host.lines for host in evidence.hosts}
    made = [model.HostHours(host=host, lines=lines.get(host, 0), hours=tuple(hours)) for host, hours in rows.items()]
    return sorted(made, key=lambda row: (-row.lines, row.host))


# -- patterns, authentication, access logs -----------------------------------------------------------------------------

MIN_TIMES = 20
MIN_RISE = 2.0
"""A kind of authentication event has risen from `MIN_TIMES` on, above all days before, and `MIN_RISE` medians."""

MIN_FAILURES = 5
"""Minimum failed passwords before an accepted one of the same user and address: a person mistypes a few times."""

NOT_COMPARED = frozenset({ACCEPTED, FAILED_KEY})
"""Kinds of authentication events whose number alone is no finding: a client tries several keys before one fits."""

BAD_LEVELS = frozenset({"fatal", "error", "warn"})


def patterns(evidence: ev.Evidence, top: int) -> model.Patterns:
    """Sorts new and returned patterns by level, and surging ones by steepness, with those that are gone or noisiest."""
    rows, sums = evidence.patterns, evidence.pattern_sums
    new = [row for row in rows if row.is_new]
    back = [row for row in rows if row.last_seen]
    surging = [row for row in rows if not row.is_new and not row.last_seen and (row.surge or 0) >= 1]
    return model.Patterns(
        distinct=sums.patterns,
        new=tuple(sorted(new, key=_by_badness)[:top]),
        new_count=max(sums.new, len(new)),
        new_bad_count=max(sums.new_bad, sum(row.level in BAD_LEVELS for row in new)),
        surging=tuple(sorted(surging, key=lambda row: (-(row.surge or 0), row.pattern_id))[:top]),
        surging_count=max(sums.surging, len(surging)),
        surging_bad_count=max(sums.surging_bad, sum(row.level in BAD_LEVELS for row in surging)),
        back=tuple(sorted(back, key=_by_badness)[:top]),
        back_count=max(sums.back, len(back)),
        gone=evidence.gone[:top],
        gone_count=max(sums.gone, len(evidence.gone)),
        events=evidence.known_events,
        noisiest=tuple(sorted(rows, key=lambda row: (-row.lines, row.pattern_id))[:top]),
    )


def _by_badness(row: ev.PatternCount) -> tuple[int, int, str]:
    level = LEVELS.index(row.level) if row.level in LEVELS else len(LEVELS)
    return level, -row.lines, row.pattern_id


def auth(evidence: ev.Evidence, top: int, *, enough: bool) -> model.Auth:
    """Sign-ins by method, what rose, the top addresses, users and hosts, and passwords accepted after failures."""
    after = [entry for entry in evidence.password_sign_ins if entry.failed >= MIN_FAILURES]

    def tops(what: str) -> tuple[ev.AuthTop, ...]:
        rows = [row for row in evidence.auth_tops if row.what == what and row.failed]
        return tuple(sorted(rows, key=lambda row: (-row.failed, row.key))[:top])

    return model.Auth(
        kinds=tuple(_change(kind, enough=enough) for kind in evidence.auth_kinds if kind.times or any(kind.before)),
        remotes=evidence.auth_remotes,
        top_remotes=tops("remote"),
        top_users=tops("user"),
        top_hosts=tops("host"),
        methods=evidence.sign_in_methods,
        after_failures=tuple(after[:top]),
        after_failures_count=len(after),
    )


def _change(kind: ev.AuthKind, *, enough: bool) -> model.AuthChange:
    usual = median(kind.before) if enough else None
    is_high = usual is not None and kind.times >= max(MIN_TIMES, MIN_RISE * usual)
    above_all = kind.times > max(kind.before, default=0)
    return model.AuthChange(
        kind=kind.kind,
        times=kind.times,
        median=usual,
        risen=is_high and above_all and kind.kind not in NOT_COMPARED,
        before=kind.before,
    )


def web(evidence: ev.Evidence, top: int, *, enough: bool) -> model.Web | None:
    """Access logs by status class, latency, and failing paths. Hours are of the day, unless most are of other days."""
    if not evidence.web_classes:
        return None
    requests = sum(row.requests for row in evidence.web_classes)
    of_day = [row for row in evidence.web_hours if row.hour.date().isoformat() == evidence.date]
    is_most = 2 * sum(row.requests for row in of_day) >= sum(row.requests for row in evidence.web_hours)
    hours: dict[str, list[int]] = defaultdict(lambda: [0] * HOURS)
    for row in of_day if is_most else evidence.web_hours:
        hours[row.status_class][row.hour.hour] += row.requests

    def tops(kind: str) -> tuple[ev.WebTop, ...]:
        rows = [row for row in evidence.web_tops if row.kind == kind]
        return tuple(sorted(rows, key=lambda row: (-row.times, row.key))[:top])

    return model.Web(
        requests=requests,
        bytes=sum(row.bytes or 0 for row in evidence.web_hours),
        **evidence.web_sums._asdict(),
        statuses=tuple(
            model.WebStatus(
                status_class=row.status_class,
                requests=row.requests,
                share=ratio(row.requests, requests) or 0.0,
                median=median(row.before) if enough else None,
                before=row.before,
                hours=tuple(hours[row.status_class]),
            )
            for row in sorted(evidence.web_classes, key=lambda row: row.status_class)
        ),
        codes=tops("status"),
        not_found=tops("path404"),
        failing=tops("path5xx"),
        slow=tops("slowpath"),
        clients_top=tops("client"),
    )


# -- error rates -------------------------------------------------------------------------------------------------------

MIN_ERRORS, MIN_LINES = 5, 100
"""Minimum error lines and lines of a rise: 1 of 3 lines proves nothing."""

MIN_RATE_RISE = 1.5
"""Minimum factor of a rise: by chance some of many log files are above all days before, most of them by little."""

MIN_DAYS = 3
"""Minimum days of history before a median is called usual."""


def errors(evidence: ev.Evidence, totals: model.Totals, top: int, *, enough: bool) -> model.Errors:
    """The rate of the day, and the log files whose rate rose, most error lines above the usual number first."""
    series = [rate_of(log) for log in evidence.files]
    risen = [rate for rate in series if enough and has_risen(rate)]
    risen.sort(key=lambda rate: ((rate.median_rate or 0.0) * rate.lines - rate.errors, rate.host, rate.file))
    most = sorted((rate for rate in series if rate.errors), key=lambda rate: (-rate.errors, rate.host, rate.file))
    # The rate of each day that has lines: a silent day has no rate.
    days = zip(totals.errors_before, totals.lines_before, strict=True)
    before = tuple(hit / line for hit, line in days if line)
    return model.Errors(
        lines=totals.lines,
        errors=totals.errors,
        rate=_share(totals.errors, totals.lines),
        median_rate=median(before) if enough else None,
        rates_before=before,
        warning_rate=_share(totals.warnings, totals.lines),
        risen=tuple(risen[:top]),
        risen_count=len(risen),
        chance=evidence.rate_chance,
        most=tuple(most[:top]),
    )


def rate_of(log: ev.FileSeries) -> model.RateChange:
    """A log file's rate today, and those of the days before."""
    rate = _share(log.errors, log.lines)
    usual = log.median_rate if log.baseline_days >= MIN_DAYS else None
    before = log.rates_before if usual is not None else ()
    return model.RateChange(
        **{name: getattr(log, name) for name in ("partition", "host", "file", "lines", "errors")},
        rate=rate,
        lowest=min(before, default=None),
        highest=max(before, default=None),
        median_rate=usual,
        factor=ratio(rate, usual),
    )


def has_risen(rate: model.RateChange) -> bool:
    """Whether the rate is above all days before, by a factor that matters, in enough lines."""
    usual = rate.median_rate
    if usual is None or rate.errors < MIN_ERRORS or rate.lines < MIN_LINES:
        return False
    return rate.rate >= MIN_RATE_RISE * usual and rate.rate > (usual if rate.highest is None else rate.highest)


def _share(part: int, whole: int) -> float:
    """Share of `whole`, at most 1: a last line without a newline is an error but not a line."""
    return min(part, whole) / whole if whole else 0.0
