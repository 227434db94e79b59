"""Which rows of the report get example lines, and the facts with these lines. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from spark_analytics.report.model import Auth, Facts, RowExample
from spark_analytics.tables.day_tables import RowKey

_T = TypeVar("_T")

MAX_ROWS = 50
"""Maximum rows of one list that get example lines."""


def rows_of(facts: Facts) -> dict[RowKey, None]:
    """The rows that get example lines, each once."""
    return dict.fromkeys(_rows(facts))


def _rows(facts: Facts) -> Iterator[RowKey]:
    yield from _of_hosts(facts)
    for log in (*_first(facts.errors.risen), *_first(facts.errors.most)):
        yield RowKey("errors", (log.host, log.file))
    yield from _of_sign_ins(facts.auth)
    if facts.web:
        for entries in (facts.web.not_found, facts.web.failing, facts.web.slow, facts.web.clients_top):
            for one in _first(entries):
                yield RowKey(one.kind, (one.key,))


def _of_hosts(facts: Facts) -> Iterator[RowKey]:
    hosts = facts.hosts
    for days in (hosts.new, hosts.unusual, hosts.largest):
        for day in _first(days):
            yield RowKey("host", (day.host,))
    for name in (*(one.host for one in hosts.silent), *(one.host for one in facts.completeness.incomplete)):
        yield RowKey("host", (name,))


def _of_sign_ins(auth: Auth) -> Iterator[RowKey]:
    for entry in _first(auth.after_failures):
        yield RowKey("password", (entry.host, entry.user, entry.remote))
    for kind, tops in (("remote", auth.top_remotes), ("user", auth.top_users), ("host", auth.top_hosts)):
        for top in _first(tops):
            yield RowKey(f"failed_{kind}", (top.key,))


def _first(rows: Sequence[_T]) -> Sequence[_T]:
    return rows[:MAX_ROWS]


def with_lines(facts: Facts, lines: Mapping[RowKey, Sequence[str]]) -> Facts:
    """`facts` with `lines` as their examples."""
    made = tuple(RowExample(kind=key.kind, names=key.names, lines=tuple(found)) for key, found in lines.items())
    return dataclasses.replace(facts, examples=made)


def lines_by_row(facts: Facts) -> dict[RowKey, tuple[str, ...]]:
    """The example lines of each row."""
    return {RowKey(one.kind, one.names): one.lines for one in facts.examples}
