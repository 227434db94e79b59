"""Rows of a day's tables as plain values: the input of its report. Without Spark."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = dict[str, Any]
"""A row of a table by the names of its columns."""


class RowKey(NamedTuple):
    """A row of a list of the report, by what its lines have in common."""

    kind: str  #: one of those in `sql/rows.sql`
    names: tuple[str, ...]  #: values of the columns of its kind


ROW_EXAMPLES = 3
"""Maximum number of example lines of a row."""


class HourCell(NamedTuple):
    """Lines of one level in one hour of one host."""

    partition: int
    host: str
    hour: dt.datetime
    level: str
    lines: int


class WebHourCount(NamedTuple):
    """Requests of one status class in one hour."""

    hour: dt.datetime
    status_class: str
    requests: int
    bytes: int


class WebSums(NamedTuple):
    """Values of the sketches of all requests of a day: distinct clients, and quantiles of the latency."""

    clients: int | None = None
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None


class AuthCount(NamedTuple):
    """Authentication events of one kind, user and address on one host in one hour, passwords in one second.

    Times are in seconds since 1970.
    """

    partition: int
    host: str
    auth: str  #: kind and method, as `accepted publickey`
    user: str
    remote: str
    lines: int
    attempts: int
    first_ts: int | None
    last_ts: int | None

    @property
    def kind(self) -> str:
        """The kind of event."""
        return self.auth.partition(" ")[0]

    @property
    def method(self) -> str:
        """The method of the sign-in; empty without one."""
        return self.auth.partition(" ")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTables:
    """The tables of a day that its report is made from, and those of the days before."""

    rows: Mapping[str, Sequence[Row]]  #: today's small tables by name
    before: Mapping[str, Mapping[str, Sequence[Row]]]  #: the same tables of the days before: by name, by date
    days_before: Sequence[str]  #: oldest first
    hours: Sequence[HourCell] = ()
    web: Sequence[WebHourCount] = ()
    web_sums: WebSums = field(default=WebSums())
    patterns_before: Sequence[Row] = ()  #: the last table `patterns` before today
    weekdays: Mapping[str, Sequence[Row]] = field(default_factory=dict)  #: `host_daily` of the same weekday, by date
