"""Facts of line content: patterns, authentication, access logs."""

from collections.abc import Iterable

from spark_analytics.metrics.sign_ins import ACCEPTED, FAILED_KEY
from spark_analytics.metrics.statistics import median, ratio
from spark_analytics.report.inputs import AuthKind, AuthTop, Evidence, PatternCount, WebClass, WebTop
from spark_analytics.report.model import Auth, AuthChange, Patterns, Web, WebStatus
from spark_analytics.report.volume import HOURS, LEVELS

MIN_TIMES = 20
MIN_RISE = 2.0
"""A kind of authentication event has risen from `MIN_TIMES` on, above all days before, and `MIN_RISE` medians."""

MIN_FAILURES = 5
"""Minimum failed passwords before an accepted one of the same user and address; a person mistypes a few times."""

NOT_COMPARED = frozenset({ACCEPTED, FAILED_KEY})
"""Kinds of authentication events whose number alone is no finding: a client tries several keys before one fits."""

BAD_LEVELS = frozenset({"fatal", "error", "warn"})


def patterns(evidence: Evidence, top: int) -> Patterns:
    """New and returned ones, the worst level first; surging ones, the steepest first; gone ones; the noisiest."""
    rows, sums = evidence.patterns, evidence.pattern_sums
    new = [row for row in rows if row.is_new]
    back = [row for row in rows if row.last_seen]
    surging = [row for row in rows if not row.is_new and (row.surge or 0) >= 1]
    return Patterns(
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


def _by_badness(row: PatternCount) -> tuple[int, int, str]:
    level = LEVELS.index(row.level) if row.level in LEVELS else len(LEVELS)
    return level, -row.lines, row.pattern_id


def auth(evidence: Evidence, top: int, *, enough: bool) -> Auth:
    """Sign-ins by method, what rose, the top addresses, users and hosts, and passwords accepted after failures."""
    tops = evidence.auth_tops
    after = [entry for entry in evidence.password_sign_ins if entry.failed >= MIN_FAILURES]
    remotes = _tops(tops, "remote")
    return Auth(
        kinds=tuple(_change(kind, enough=enough) for kind in evidence.auth_kinds if kind.times or any(kind.before)),
        remotes=evidence.auth_remotes,
        top_remotes=tuple(remotes[:top]),
        top_users=tuple(_tops(tops, "user")[:top]),
        top_hosts=tuple(_tops(tops, "host")[:top]),
        methods=evidence.sign_in_methods,
        after_failures=tuple(after[:top]),
        after_failures_count=len(after),
    )


def _tops(tops: Iterable[AuthTop], what: str) -> list[AuthTop]:
    return sorted((e for e in tops if e.what == what and e.failed), key=lambda entry: (-entry.failed, entry.key))


def _change(kind: AuthKind, *, enough: bool) -> AuthChange:
    usual = median(kind.before) if enough else None
    above_all = kind.times > max(kind.before, default=0)
    return AuthChange(
        kind=kind.kind,
        times=kind.times,
        median=usual,
        risen=usual is not None
        and kind.times >= max(MIN_TIMES, MIN_RISE * usual)
        and above_all
        and kind.kind not in NOT_COMPARED,
        before=kind.before,
    )


def web(evidence: Evidence, top: int, *, enough: bool) -> Web | None:
    """Access logs by status class, latency, and failing paths."""
    if not evidence.web_classes:
        return None
    requests = sum(row.requests for row in evidence.web_classes)
    hours = _web_hours(evidence)
    sums = evidence.web_sums

    def tops(kind: str) -> tuple[WebTop, ...]:
        rows = [row for row in evidence.web_tops if row.kind == kind]
        return tuple(sorted(rows, key=lambda row: (-row.times, row.key))[:top])

    return Web(
        requests=requests,
        bytes=sum(row.bytes for row in evidence.web_hours),
        clients=sums.clients,
        latency_p50_ms=sums.latency_p50_ms,
        latency_p95_ms=sums.latency_p95_ms,
        latency_p99_ms=sums.latency_p99_ms,
        statuses=tuple(
            _status(row, requests, hours.get(row.status_class, [0] * HOURS), enough=enough)
            for row in sorted(evidence.web_classes, key=lambda row: row.status_class)
        ),
        codes=tops("status"),
        not_found=tops("path404"),
        failing=tops("path5xx"),
        slow=tops("slowpath"),
        clients_top=tops("client"),
    )


def _web_hours(evidence: Evidence) -> dict[str, list[int]]:
    """Requests by status class and hour; of the day itself, unless most are of other days."""
    on_day = sum(row.requests for row in evidence.web_hours if row.on_day) * 2 >= sum(
        row.requests for row in evidence.web_hours
    )
    hours: dict[str, list[int]] = {}
    for row in evidence.web_hours:
        if row.on_day or not on_day:
            hours.setdefault(row.status_class, [0] * HOURS)[row.hour] += row.requests
    return hours


def _status(row: WebClass, requests: int, hours: list[int], *, enough: bool) -> WebStatus:
    return WebStatus(
        status_class=row.status_class,
        requests=row.requests,
        share=ratio(row.requests, requests) or 0.0,
        median=median(row.before) if enough else None,
        before=row.before,
        hours=tuple(hours),
    )
