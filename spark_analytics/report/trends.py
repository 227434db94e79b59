"""The trend of a finding: its number on the days before and on the day, which the tables of these days have. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from spark_analytics.metrics.sign_ins import FAILED
from spark_analytics.report.inputs import Evidence
from spark_analytics.report.model import Facts, Finding, Trend


def trend_of(finding: Finding, evidence: Evidence, facts: Facts) -> Trend | None:
    """The trend of a finding, None if its kind has none or the tables of the days before do not have it."""
    find = _TRENDS.get(finding.kind)
    found = find(finding, evidence, facts) if find and evidence.before else None
    return found if found and len(found.values) == len(evidence.before) + 1 else None


def _added(what: str, series: Iterable[Sequence[int]]) -> Trend | None:
    rows = list(series)
    return Trend(what=what, values=tuple(map(sum, zip(*rows, strict=True)))) if rows and all(map(len, rows)) else None


def _of_hosts(finding: Finding, evidence: Evidence, _facts: Facts) -> Trend | None:
    names = set(finding.hosts)
    return _added("lines", ((*one.lines_before, one.lines) for one in evidence.hosts if one.host in names))


def _of_day(_finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    return _added("lines", [(*facts.totals.lines_before, facts.totals.lines)])


def _of_event(finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    places = [place for event in facts.patterns.events if event.kind == finding.names[0] for place in event.places]
    subjects = finding.names[1:]  # of one place; a finding of many hosts has none
    mine = [place for place in places if place.host in finding.hosts and (not subjects or place.subject in subjects)]
    return _added("lines", ((*place.lines_before, place.lines) for place in mine if place.lines_before))


def _of_errors(finding: Finding, evidence: Evidence, facts: Facts) -> Trend | None:
    files = [log for log in evidence.files if f"{log.host} {log.file}" in finding.names]
    if len(files) != facts.errors.risen_count:
        return None  # the sentence names some of them only, whose sum is not that of all
    return _added("error lines", ((*log.errors_before, log.errors) for log in files))


def _of_pattern(finding: Finding, evidence: Evidence, _facts: Facts) -> Trend | None:
    rows = [row for row in evidence.patterns if row.pattern_id in finding.names and row.lines == finding.lines]
    return _added("lines", ((*row.lines_before, row.lines) for row in rows[:1]))


def _of_auth_kind(kind: str, what: str, facts: Facts) -> Trend | None:
    return _added(what, ((*one.before, one.times) for one in facts.auth.kinds if one.kind == kind))


def _of_risen_auth(finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    return _of_auth_kind(finding.names[0], f"{finding.names[0].replace('_', ' ')}s", facts)


def _of_failures(_finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    return _of_auth_kind(FAILED, "failed passwords", facts)


def _of_warnings(_finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    return _of_auth_kind("breakin_warning", "lines", facts)


def _of_web(finding: Finding, _evidence: Evidence, facts: Facts) -> Trend | None:
    statuses = facts.web.statuses if facts.web else ()
    days = [*zip(*(row.before for row in statuses), strict=True), tuple(row.requests for row in statuses)]
    failing = [row.status_class for row in statuses].index(finding.names[0])
    shares = tuple(day[failing] / sum(day) if sum(day) else 0.0 for day in days)
    return Trend(what="failed requests", values=shares, is_share=True)


_TRENDS: Mapping[str, Callable[[Finding, Evidence, Facts], Trend | None]] = {
    **dict.fromkeys(("silent", "new_host", "unusual_volume"), _of_hosts),
    **dict.fromkeys(("new_pattern", "surging_pattern", "back_pattern"), _of_pattern),
    **dict.fromkeys(("sign_in", "failed_passwords"), _of_failures),
    "auth": _of_risen_auth,
    "break_in": _of_warnings,
    "empty": _of_day,
    "error_rate": _of_errors,
    "event": _of_event,
    "web_errors": _of_web,
}
