"""Builds the facts of a report from its evidence. Pure."""

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from spark_analytics.report import completeness, content, hosts, verdict
from spark_analytics.report.inputs import Evidence
from spark_analytics.report.model import Auth, Facts, History, RowExample, Totals
from spark_analytics.report.number_format import count
from spark_analytics.tables.day_tables import RowKey

MIN_DAYS = 3
"""Days of history that a median needs before it is called usual."""


def facts(evidence: Evidence, top: int = 20) -> Facts:
    """The content of the day's report; lists have at most `top` entries."""
    past = history(evidence)
    whole = totals(evidence)
    seen = hosts.hosts(evidence, top, enough=past.enough)
    silent = [host.host for host in hosts.silent_hosts(evidence)] if past.enough else []
    account = completeness.completeness(evidence.account, silent, top)
    errors = content.errors(evidence, whole, top, enough=past.enough)
    patterns = content.patterns(evidence, top)
    auth = content.auth(evidence, top, enough=past.enough)
    web = content.web(evidence, top, enough=past.enough)
    spread = content.volume(evidence, whole)
    given = verdict.VerdictInput(
        account=evidence.account, history=past, totals=whole, completeness=account, hosts=seen, errors=errors,
        patterns=patterns, auth=auth, web=web, volume=spread,
    )  # fmt: skip
    return Facts(
        date=evidence.date,
        verdict=verdict.verdict(given),
        history=past,
        totals=whole,
        completeness=account,
        hosts=seen,
        errors=errors,
        patterns=patterns,
        auth=auth,
        web=web,
        volume=spread,
        run=evidence.run,
    )


def history(evidence: Evidence) -> History:
    """The baseline days, and whether there are enough of them."""
    days, wanted = len(evidence.before), evidence.wanted_days
    enough = days >= MIN_DAYS
    if enough:
        text = f"Compared with the median of {'the' if days == wanted else f'{days} of the'} {wanted} days before"
        weeks = len(evidence.weekdays.days)
        text += f", and with the same weekday of the {weeks} weeks before." if weeks else "."
    elif days:
        text = f"History is too short to compare: {count(days, 'day')} before, at least {MIN_DAYS} are needed."
    else:
        text = f"No day before is in the tables: nothing to compare with; at least {MIN_DAYS} days are needed."
    return History(days=evidence.before, wanted=wanted, enough=enough, text=text)


def _day_before(date: str) -> str:
    return (dt.date.fromisoformat(date) - dt.timedelta(days=1)).isoformat()


def totals(evidence: Evidence) -> Totals:
    """The sums over all hosts."""
    rows = evidence.hosts

    def before(name: str) -> tuple[int, ...]:
        return tuple(sum(getattr(row, name)[day] for row in rows) for day in range(len(evidence.before)))

    return Totals(
        **{
            name: sum(getattr(row, name) for row in rows)
            for name in ("lines", "bytes", "files", "errors", "warnings", "late_lines", "no_ts_lines")
        },
        bytes_stored=evidence.account.bytes_stored,
        partitions=len({row.partition for row in rows if row.lines}),
        hosts=len({row.host for row in rows if row.lines}),
        other_day_lines=sum(hour.lines for hour in evidence.hours if not hour.on_day),
        lines_before=before("lines_before"),
        bytes_before=before("bytes_before"),
        errors_before=before("errors_before"),
        weekdays=evidence.weekdays,
        has_yesterday=evidence.before[-1:] == (_day_before(evidence.date),),
        hosts_before=tuple(sum(1 for row in rows if row.lines_before[day]) for day in range(len(evidence.before))),
    )


# -- example lines -----------------------------------------------------------------------------------------------------

MAX_ROWS = 50
"""Maximum rows of one list that get example lines."""


def rows_of(facts: Facts) -> dict[RowKey, None]:
    """The rows that get example lines, each once."""
    return dict.fromkeys(_rows(facts))


def _rows(facts: Facts) -> Iterator[RowKey]:
    yield from _of_hosts(facts)
    for log in (*facts.errors.risen[:MAX_ROWS], *facts.errors.most[:MAX_ROWS]):
        yield RowKey("errors", (log.host, log.file))
    yield from _of_sign_ins(facts.auth)
    if facts.web:
        for entries in (facts.web.not_found, facts.web.failing, facts.web.slow, facts.web.clients_top):
            for one in entries[:MAX_ROWS]:
                yield RowKey(one.kind, (one.key,))


def _of_hosts(facts: Facts) -> Iterator[RowKey]:
    hosts = facts.hosts
    for days in (hosts.new, hosts.unusual, hosts.largest):
        for day in days[:MAX_ROWS]:
            yield RowKey("host", (day.host,))
    for name in (*(one.host for one in hosts.silent), *(one.host for one in facts.completeness.incomplete)):
        yield RowKey("host", (name,))


def _of_sign_ins(auth: Auth) -> Iterator[RowKey]:
    for entry in auth.after_failures[:MAX_ROWS]:
        yield RowKey("password", (entry.host, entry.user, entry.remote))
    for kind, tops in (("remote", auth.top_remotes), ("user", auth.top_users), ("host", auth.top_hosts)):
        for top in tops[:MAX_ROWS]:
            yield RowKey(f"failed_{kind}", (top.key,))


def with_lines(facts: Facts, lines: Mapping[RowKey, Sequence[str]]) -> Facts:
    """`facts` with `lines` as their examples."""
    made = tuple(RowExample(kind=key.kind, names=key.names, lines=tuple(found)) for key, found in lines.items())
    return dataclasses.replace(facts, examples=made)
