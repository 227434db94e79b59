"""What the scan counted where that is little: values of the driver, and sums in dictionaries.

A day of some megabytes yields some thousand groups, and one of gigabytes seldom more than some hundred thousand. To
plan a query of Spark costs more than to add these up; only sketches of requests are Spark's own (`sketches`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_analytics import access, counts, parquet, schemas, sketches
from spark_analytics.counts import Asked, Placing
from spark_analytics.few_hours import Hour, hours_of, sums_of_files
from spark_analytics.few_patterns import most_frequent, seen
from spark_analytics.given import Row, WebSums
from spark_analytics.locations import Location
from spark_analytics.mining import Seen
from spark_analytics.placing import Group, Placed, placed
from spark_analytics.settle import Counted
from spark_analytics.tables import SMALL, Tables
from spark_analytics.volumes import FileSums

_NOT_FOUND, _FIRST_BROKEN = 404, 500


def taken(frame: DataFrame) -> list[Group] | None:
    """The rows of a frame of groups, or None where they are more than `MOST_FEW`: then the rest is not computed."""
    rows = frame.select(*counts.COLUMNS).limit(counts.MOST_FEW + 1).collect()
    return None if len(rows) > counts.MOST_FEW else [Group(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Few:
    """`counts.Counts` as values."""

    spark: SparkSession
    groups: Sequence[Group]
    tables: Tables
    date: str

    def by_segment(self) -> list[Counted]:
        """One for each segment that has a row."""
        of_segment: dict[int, list[Group]] = defaultdict(list)
        for group in self.groups:
            of_segment[group.segment].append(group)
        return [
            Counted(
                segment,
                sum(group.lines for group in groups),
                sum(group.bytes for group in groups),
                min((group.block_start, group.first_row) for group in groups),
                max((group.block_start, group.last_row) for group in groups),
            )
            for segment, groups in of_segment.items()
        ]

    def placed(self, placing: Placing) -> "FewGroups":
        """The same by log file and hour, with bytes as `wc` counts them."""
        return FewGroups(self.spark, list(placed(self.groups, placing)), placing, self.tables.staging(self.date))


@dataclass(frozen=True)
class FewGroups:
    """`counts.Groups` as values; `staging` is where the day's tables are made."""

    spark: SparkSession
    groups: Sequence[Placed]
    placing: Placing
    staging: Location

    @cached_property
    def _hours(self) -> list[Hour]:
        return hours_of(self.groups, self.placing)

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        self._write("hourly", [hour.row for hour in self._hours])

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        return sums_of_files(self._hours)

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return most_frequent(placed.group for placed in self.groups)

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[Seen]:
        """One for each pattern and level."""
        return seen(self._hours, {row["fingerprint"]: row["pattern_id"] for row in fingerprints})

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        wanted, sums = frozenset(fingerprints), Counter[tuple[int, int]]()
        for group, *_ in self.groups:
            if group.fingerprint in wanted and group.text is not None:
                sums[group.fingerprint, group.segment] += group.lines
        ascending = sorted(sums.items(), key=lambda entry: (entry[1], -entry[0][1]))
        return {fingerprint: segment for (fingerprint, segment), _ in ascending}

    def accounts(self) -> list[Row]:
        """Table `auth_daily`."""
        lines, attempts = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
        for group, (partition, host, _), *_ in self.groups:
            if group.auth is not None:
                key = (partition, host, group.auth, group.user, group.remote)
                lines[key] += group.lines
                attempts[key] += group.lines * (group.attempts or 0)
        names = schemas.AUTH_DAILY.names
        return [dict(zip(names, (*key, n, attempts[key]), strict=True)) for key, n in lines.items()]

    def write_requests(self) -> Asked:
        """Stages table `access_hourly`."""
        asked = [placed for placed in self.groups if placed.group.status is not None]
        if not asked:
            self._write("access_hourly", [])
            return Asked([], [], WebSums())
        sums = _sums_of_requests(asked)
        keys = {key: number for number, key in enumerate(sums)}
        sketched, web_sums = sketches.sketched(
            self.spark,
            [
                (keys[*one.file, one.hour, one.group.status], one.group.remote, one.group.latency, one.group.lines)
                for one in asked
            ],
            self.staging / "requests",
        )
        rows = [_access_row(key, *sums[key], *sketched[number]) for key, number in keys.items()]
        self._write("access_hourly", sorted(rows, key=_in_order))
        return Asked(_keys(asked), counts.hours_of(_by_hour(sums)), web_sums)

    def _write(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        parquet.write(self.staging / name / SMALL, schemas.TABLES[name], rows)


_Log = tuple[Any, ...]
"""(partition, host, file, hour, status)."""


def _sums_of_requests(asked: Iterable[Placed]) -> dict[_Log, tuple[int, int]]:
    """Requests and bytes sent."""
    sums: dict[_Log, tuple[int, int]] = {}
    for one in asked:
        key = (*one.file, one.hour, one.group.status)
        requests, sent = sums.get(key, (0, 0))
        sums[key] = requests + one.group.lines, sent + (one.group.sent or 0)
    return sums


def _access_row(key: _Log, requests: int, sent: int, clients: bytes, latency: bytes | None) -> tuple[Any, ...]:
    *file, hour, status = key
    time = None if hour is None else hour * 10**6
    return (*file, time, status, _class_of(status), requests, sent, latency, clients)


def _class_of(status: int) -> str:
    return f"{str(status)[0]}xx"


def _in_order(row: Sequence[Any]) -> tuple[Any, ...]:
    """By log file, hour (none first) and status."""
    partition, host, file, hour, status, *_ = row
    return partition, host, file, hour is not None, hour or 0, status


def _by_hour(sums: dict[_Log, tuple[int, int]]) -> list[tuple[int | None, str, int, int]]:
    made: dict[tuple[int | None, str], tuple[int, int]] = {}
    for (*_, hour, status), (requests, sent) in sums.items():
        key = (hour, _class_of(status))
        before = made.get(key, (0, 0))
        made[key] = before[0] + requests, before[1] + sent
    return [(*key, *made[key]) for key in sorted(made, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))]


def _keys(asked: Iterable[Placed]) -> list[tuple[str, str, int]]:
    """As `access.keys`."""
    sums = Counter[tuple[str, str]]()
    for one in asked:
        for kind, key in _entries(one.group):
            if key is not None:
                sums[kind, key] += one.group.lines
    ordered = sorted(sums.items(), key=lambda entry: (-entry[1], entry[0]))[: access.MOST_KEYS]
    return [(kind, key, n) for (kind, key), n in ordered]


def _entries(group: Group) -> Iterable[tuple[str, str | None]]:
    status = group.status or 0
    yield "client", group.remote
    yield "status", str(status)
    if status == _NOT_FOUND:
        yield "path404", group.path
    if status >= _FIRST_BROKEN:
        yield "path5xx", group.path
    if group.latency is not None and access.is_slow(group.latency):
        yield "slowpath", group.path
