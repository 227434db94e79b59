"""What a day's small tables say, as plain values: what the report is made from. No Spark."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = dict[str, Any]
"""A row of a table by the names of its columns (`schemas`)."""


class Cell(NamedTuple):
    """Lines of one level in one hour of one host."""

    partition: int
    host: str
    hour: dt.datetime
    level: str
    lines: int


class Web(NamedTuple):
    """Requests of one status class in one hour."""

    hour: dt.datetime
    status_class: str
    requests: int
    bytes: int


class WebSums(NamedTuple):
    """What sketches say of all requests of a day: distinct clients, quantiles of the milliseconds they took."""

    clients: int | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A day, and the days before it that have tables."""

    rows: Mapping[str, Sequence[Row]]  #: today's small tables by name
    before: Mapping[str, Mapping[str, Sequence[Row]]]  #: the same tables of the days before: by name, by date
    days_before: Sequence[str]  #: oldest first
    hours: Sequence[Cell] = ()
    web: Sequence[Web] = ()
    web_sums: WebSums = field(default=WebSums())
