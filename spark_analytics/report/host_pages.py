"""The pages of hosts that have a finding: which hosts, under which file names, with which facts. Pure."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from spark_analytics.report.content import rate_of
from spark_analytics.report.hosts import host_day
from spark_analytics.report.inputs import Evidence, HostAudit, PasswordSignIn, Trouble
from spark_analytics.report.model import Facts, HostDay, RateChange
from spark_analytics.report.number_format import clean, clock, count, rounded, times

MAX_PAGES = 60
"""Maximum pages of one day; others are in hosts.csv."""

MAX_ROWS = 50
"""Maximum rows of a list on such a page."""

MAX_FILE_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPage:
    """What the page of one host shows."""

    reasons: tuple[str, ...]  #: why it has a page
    hours: tuple[int, ...]  #: lines by hour; empty for hosts that are not among the largest
    day: HostDay
    accounts: tuple[HostAudit, ...]  #: one for each partition
    troubles: tuple[Trouble, ...]
    files: tuple[RateChange, ...]  #: its log files with error lines
    sign_ins: tuple[PasswordSignIn, ...]


def file_name(host: str) -> str:
    """The file of a host's page: a name that no host can choose to leave the directory or to meet another's."""
    plain = _UNSAFE.sub("_", host)[:MAX_FILE_NAME]
    if plain == host and not host.startswith("."):
        return f"{plain}.html"
    return f"{plain.lstrip('.')}-{hashlib.sha256(host.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}.html"


def reasons(facts: Facts) -> Mapping[str, list[str]]:
    """Why each host has a page, the most important hosts first."""
    found: dict[str, list[str]] = defaultdict(list)
    for audit in facts.completeness.incomplete:
        found[audit.host].append(f"archive: {audit.status.replace('_', ' ')}")
    for silent in facts.hosts.silent:
        since = f"silent since {clock(silent.last_arrival)}" if silent.lines else "silent all day"
        found[silent.host].append(f"{since}, usually {rounded(silent.median_lines)} lines")
    for sign_in in facts.auth.after_failures:
        text = f"password accepted for {clean(sign_in.user, 80)} after {count(sign_in.failed, 'failure')}"
        found[sign_in.host].append(text)
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
                accounts=tuple(one for one in evidence.account.hosts if one.host == host),
                troubles=tuple(one for one in evidence.account.troubles if one.host == host)[:MAX_ROWS],
                files=tuple(sorted(files, key=lambda rate: (-rate.errors, rate.file))[:MAX_ROWS]),
                sign_ins=tuple(one for one in evidence.password_sign_ins if one.host == host)[:MAX_ROWS],
            )
        )
    return made
