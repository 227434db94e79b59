"""Builds the facts of a report from its evidence. Pure."""

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence

from spark_analytics.report import completeness, content, hosts
from spark_analytics.report import verdict as judge
from spark_analytics.report.inputs import Evidence, RedactedRule
from spark_analytics.report.model import Facts, History, Redacted, RowExample, State, Totals, Verdict
from spark_analytics.report.number_format import count
from spark_analytics.tables.day_tables import RowKey

_NOT_JUDGED = Verdict(state=State.COMPLETE, headline="", findings=())


def facts(evidence: Evidence, top: int = 20) -> Facts:
    """Builds the content of the day's report, whose lists have at most `top` entries."""
    past, whole = history(evidence), totals(evidence)
    silent = hosts.silent_hosts(evidence) if past.enough else []
    made = Facts(
        date=evidence.date,
        verdict=_NOT_JUDGED,
        history=past,
        totals=whole,
        completeness=completeness.completeness(evidence.account, [host.host for host in silent], top),
        hosts=hosts.hosts(evidence, silent, top, enough=past.enough),
        errors=content.errors(evidence, whole, top, enough=past.enough),
        patterns=content.patterns(evidence, top),
        auth=content.auth(evidence, top, enough=past.enough),
        web=content.web(evidence, top, enough=past.enough),
        volume=content.volume(evidence, whole, top),
        run=evidence.run,
        redacted=redacted(evidence.redacted, top),
    )
    return dataclasses.replace(made, verdict=judge.verdict(evidence, made))


def redacted(rules: Sequence[RedactedRule], top: int) -> Redacted | None:
    """Adds up what the hosts redacted, None if nothing."""
    if not rules:
        return None
    return Redacted(
        places=sum(each.places for each in rules),
        hosts=len({each.host for each in rules}),
        rules=len({each.rule for each in rules}),
        most=tuple(rules[:top]),
        most_count=len(rules),
    )


def history(evidence: Evidence) -> History:
    """The baseline days, and whether there are enough of them."""
    days, wanted = len(evidence.before), evidence.wanted_days
    enough = days >= content.MIN_DAYS
    if enough:
        text = f"Compared with the median of {'the' if days == wanted else f'{days} of the'} {wanted} days before"
        weeks = len(evidence.weekdays.days)
        text += f", and with the same weekday of the {weeks} weeks before." if weeks else "."
    elif days:
        text = f"History is too short to compare: {count(days, 'day')} before, at least {content.MIN_DAYS} are needed."
    else:
        text = f"No day before is in the tables: nothing to compare with; at least {content.MIN_DAYS} days are needed."
    return History(days=evidence.before, wanted=wanted, enough=enough, text=text)


def totals(evidence: Evidence) -> Totals:
    """The sums over all hosts."""
    rows, days = evidence.hosts, range(len(evidence.before))
    sums = ("lines", "bytes", "files", "errors", "warnings", "late_lines", "no_ts_lines")
    yesterday = dt.date.fromisoformat(evidence.date) - dt.timedelta(days=1)
    return Totals(
        **{name: sum(getattr(row, name) for row in rows) for name in sums},
        bytes_stored=evidence.account.bytes_stored,
        partitions=len({row.partition for row in rows if row.lines}),
        hosts=len({row.host for row in rows if row.lines}),
        other_day_lines=sum(hour.lines for hour in evidence.hours if not hour.on_day),
        lines_before=tuple(sum(row.lines_before[day] for row in rows) for day in days),
        bytes_before=tuple(sum(row.bytes_before[day] for row in rows) for day in days),
        errors_before=tuple(sum(row.errors_before[day] for row in rows) for day in days),
        weekdays=evidence.weekdays,
        has_yesterday=evidence.before[-1:] == (yesterday.isoformat(),),
        hosts_before=tuple(sum(1 for row in rows if row.lines_before[day]) for day in days),
    )


# -- example lines -----------------------------------------------------------------------------------------------------

MAX_ROWS = 50
"""Maximum rows of one list that get example lines."""


def rows_of(facts: Facts) -> dict[RowKey, None]:
    """The rows that get example lines, each once."""
    hosts, errors, auth = facts.hosts, facts.errors, facts.auth
    rows = [
        RowKey("host", (day.host,)) for days in (hosts.new, hosts.unusual, hosts.largest) for day in days[:MAX_ROWS]
    ]
    rows += [RowKey("host", (one.host,)) for one in hosts.silent]
    rows += [RowKey("host", (one.host,)) for one in facts.completeness.incomplete]
    rows += [RowKey("errors", (log.host, log.file)) for logs in (errors.risen, errors.most) for log in logs[:MAX_ROWS]]
    rows += [RowKey("password", (one.host, one.user, one.remote)) for one in auth.after_failures[:MAX_ROWS]]
    for tops in (auth.top_remotes, auth.top_users, auth.top_hosts):
        rows += [RowKey(f"failed_{top.what}", (top.key,)) for top in tops[:MAX_ROWS]]
    if web := facts.web:
        for entries in (web.not_found, web.failing, web.slow, web.clients_top):
            rows += [RowKey(one.kind, (one.key,)) for one in entries[:MAX_ROWS]]
    return dict.fromkeys(rows)


def with_lines(facts: Facts, lines: Mapping[RowKey, Sequence[str]]) -> Facts:
    """`facts` with `lines` as their examples."""
    made = tuple(RowExample(kind=key.kind, names=key.names, lines=tuple(found)) for key, found in lines.items())
    return dataclasses.replace(facts, examples=made)
