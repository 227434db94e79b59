"""The aggregation port: groups that the scan made, aggregated into the tables of a day. It has two adapters.

`arrow` aggregates in the driver and serves days whose groups fit into memory; `spark` aggregates with Spark queries and
has no limit. Both give the same tables (`tests/spark/test_aggregate.py`). On a small day the Arrow adapter is done
before Spark has planned its first query. What both know of the tables (keys, sums, conditions) is defined here.

Several groups may have equal keys: consumers of groups add their sums.
"""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from spark_analytics.metrics import sign_ins, web_requests
from spark_analytics.metrics.pattern_tables import PatternLines, PatternPlace
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import FileSums
from spark_analytics.tables.day_tables import ROW_KINDS, AuthCount, Row, RowKey, WebHourCount, WebSums

ERROR_LEVELS = ("fatal", "error")

HOURLY_SUMS = ("lines", "unfinished", "bytes", "late_lines", "no_ts_lines", "continuation_lines")
"""The columns of table `hourly` that are added up."""

TIMES = (("first_ts", "min"), ("last_ts", "max"))
"""The columns of times, and how they are aggregated."""

AUTH_KEY = ("partition", "host", "auth", "user", "remote", "hour", "login_second")
"""What authentication events are counted by."""

AUTH_KINDS = {
    "password": (sign_ins.FAILED, sign_ins.ODD_NAME, sign_ins.ACCEPTED),
    "failed_remote": (sign_ins.FAILED,),
    "failed_user": (sign_ins.FAILED,),
    "failed_host": (sign_ins.FAILED,),
}
"""Kinds of authentication events that a row of that kind (`ROW_KINDS`) is of."""

_ANY = 2**31 - 1


class RequestKind(NamedTuple):
    """Requests of a kind are counted by a key, and have a number in a range."""

    key: str  #: column
    number: str  #: column
    least: int
    most: int


REQUEST_KINDS = {
    "client": RequestKind("remote", "status", 0, _ANY),
    "status": RequestKind("status", "status", 0, _ANY),
    "path404": RequestKind("path", "status", web_requests.NOT_FOUND, web_requests.NOT_FOUND),
    "path5xx": RequestKind("path", "status", web_requests.FIRST_SERVER_ERROR, _ANY),
    "slowpath": RequestKind("path", "latency", web_requests.SLOW_STEP, _ANY),
}
"""The kinds of table `access_top`."""


class Correction(NamedTuple):
    """A segment whose last row has no newline, or whose first row had a byte order mark before it (`reconcile`)."""

    segment: int
    end_block: int
    end_row: int
    unterminated: int
    head_block: int
    head_row: int
    bom_bytes: int


class SegmentOrigin(NamedTuple):
    """A segment by its number in this run: its log file, the family of its time stamps, when JetStream stored it."""

    segment: int
    partition: int
    host: str
    file: str
    family: str
    stored_hour: int | None  #: in seconds since 1970


class EmptySegment(NamedTuple):
    """A listed segment without a row. `bytes` are those of a byte order mark that is its whole content."""

    partition: int
    host: str
    file: str
    stored_hour: int | None
    bytes: int


class LinePlace(NamedTuple):
    """Where a line is: the `row`-th line, from 0, of a block of a segment; later blocks begin after a newline."""

    row: int
    segment: int
    block_start: int  #: byte of the stored file


@dataclass(frozen=True, slots=True)
class Assignment:
    """How groups of segments become groups of log files and hours."""

    day: dt.date
    origins: Sequence[SegmentOrigin]
    corrections: Sequence[Correction]
    empty: Sequence[EmptySegment]


class WebAggregates(NamedTuple):
    """Requests to web servers, aggregated."""

    keys: Sequence[tuple[str, str, int]]  #: (kind, key, n), most first, at most `MAX_KEYS`: for table `access_top`
    hours: Sequence[WebHourCount]
    sums: WebSums


class SegmentGroups(Protocol):
    """The groups of the scan, by segment."""

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""

    def assign(self, assignment: Assignment) -> "FileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""


class FileGroups(Protocol):
    """The groups of the scan, by log file and hour."""

    def write_hourly(self) -> None:
        """Stages table `hourly`. Must be called first: other tables may be made of it."""

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`, in any order."""

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines, most lines first, at most `MAX_DISTINCT`."""

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:
        """One for each pattern and level, in any order; `fingerprints` is that table, which must be staged.

        Continuation lines have no pattern.
        """

    def places_of(self, fingerprints: Collection[int]) -> list[PatternPlace]:
        """One for each of `fingerprints`, level and log file, in any order."""

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines, the first of several."""

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of at most `ROW_EXAMPLES` lines of each of `wanted`, of the most frequent kinds of lines.

        Each is the line with the lowest number in its block: it is found without reading much.
        """

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, accepted and failed passwords by second, in any order."""

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""


def values_by_kind(wanted: Iterable[RowKey]) -> dict[str, dict[str, set[str]]]:
    """For each kind of `wanted` the columns of its names, with their values."""
    found: dict[str, dict[str, set[str]]] = {}
    for kind, names in wanted:
        for column, name in zip(ROW_KINDS[kind][0], names, strict=True):
            found.setdefault(kind, {}).setdefault(column, set()).add(name)
    return found


def web_hours(rows: Iterable[Sequence[Any]]) -> list[WebHourCount]:
    """(second, status class, requests, bytes) as values in order, without those of an unknown hour."""
    return sorted(
        WebHourCount(dt.datetime.fromtimestamp(second, tz=dt.UTC), *others)
        for second, *others in rows
        if second is not None
    )
