"""Volumes of log files, hosts and partitions: tables `file_daily`, `host_daily`, `partition_daily`. Pure.

They are made of `FileSums`, the sums of table `hourly` by log file.
"""

import datetime as dt
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_analytics.lines import timestamps
from spark_analytics.metrics import statistics
from spark_analytics.metrics.sign_ins import instant
from spark_analytics.metrics.statistics import grouped
from spark_analytics.tables.day_tables import HourCell, Row
from spark_analytics.tables.schemas import FILE

SILENT_HOURS = 6
"""Hours without lines at the end of the day after which a host counts as silent."""

SUMMED = ("lines", "bytes", "err", "warn", "late_lines", "no_ts_lines", "continuation_lines")
"""The columns that are added up over log files."""

LogFile = tuple[int, str, str]
History = Mapping[str, Sequence[Row]]
"""Rows of a table on the days before, by date."""


class FileSums(NamedTuple):
    """The day of a log file: sums of table `hourly`. Times are in seconds since 1970."""

    partition: int
    host: str
    file: str
    lines: int
    bytes: int
    err: int
    warn: int
    late_lines: int
    no_ts_lines: int
    continuation_lines: int
    active_hours: int
    first_ts: int | None
    last_ts: int | None

    @property
    def key(self) -> LogFile:
        """(partition, host, file)."""
        return self.partition, self.host, self.file


# -- log files and hosts -----------------------------------------------------------------------------------------------


def file_daily(files: Sequence[FileSums], arrivals: Mapping[LogFile, dt.datetime], before: History) -> list[Row]:
    """Table `file_daily`; `before` are its days before."""
    known = _by_key(before, FILE)
    return [
        {
            **dict(zip(FILE, one.key, strict=True)),
            **_sums([one]),
            "active_hours": one.active_hours,
            "last_arrival": arrivals.get(one.key),
            **_compared(one.lines, one.err, known.get(one.key, ()), len(before)),
        }
        for one in sorted(files, key=lambda one: one.key)
    ]


def host_daily(
    files: Sequence[FileSums],
    cells: Iterable[HourCell],
    arrivals: Mapping[LogFile, dt.datetime],
    before: History,
    day: dt.date,
) -> list[Row]:
    """Table `host_daily`, with hosts that wrote on a day of `before` and not today; `cells` are lines by hour."""
    known = _by_key(before, ("partition", "host"))
    hours = grouped(cells, lambda cell: (cell.partition, cell.host))
    by_host = grouped(files, lambda one: (one.partition, one.host))
    sizes: Counter[int] = Counter()
    for one in files:
        sizes[one.partition] += one.bytes
    newest: dict[tuple[int, str], dt.datetime] = {}
    for (partition, name, _), time in arrivals.items():
        newest[partition, name] = max(newest.get((partition, name), time), time)
    spoken = {host for host, rows in known.items() if any(row["lines"] for row in rows)}
    made = []
    for host in sorted(by_host.keys() | spoken):
        group, past = by_host.get(host, []), known.get(host, ())
        sums = _sums(group)
        compared = _compared(sums["lines"], sums["err"], past, len(before))
        usual = compared["median7_lines"]
        last = newest.get(host) or max((row["last_arrival"] for row in past if row["last_arrival"]), default=None)
        midnight = timestamps.midnight(day + dt.timedelta(days=1))
        silent = bool(usual and last and midnight - last > dt.timedelta(hours=SILENT_HOURS))
        size = sizes[host[0]]
        made.append(
            {
                "partition": host[0],
                "host": host[1],
                "files": len(group),
                **sums,
                "active_hours": len({cell.hour for cell in hours.get(host, ())}),
                "last_arrival": last,
                "share_of_partition": sums["bytes"] / size if size else 0.0,
                **compared,
                "delta_vs_median7": sums["lines"] / usual - 1 if usual else None,
                "silent_since": last if silent else None,
                "is_new": not past if before else None,
            }
        )
    return made


def _sums(files: Sequence[FileSums]) -> Row:
    return {
        **{name: sum(getattr(one, name) for one in files) for name in SUMMED},
        "first_ts": instant(min((one.first_ts for one in files if one.first_ts is not None), default=None)),
        "last_ts": instant(max((one.last_ts for one in files if one.last_ts is not None), default=None)),
    }


def _compared(lines: int, errors: int, known: Sequence[Row], days: int) -> Row:
    errors = min(errors, lines)  # a last line without a newline is an error but not a line
    low, high = statistics.wilson(errors, lines) if lines else (None, None)
    return {
        "baseline_days": days,
        "median7_lines": statistics.median_over_days([row["lines"] for row in known], days),
        "err_rate": statistics.ratio(errors, lines),
        "err_rate_low": low,
        "err_rate_high": high,
        "median7_err_rate": statistics.median_rate((row["err"], row["lines"]) for row in known),
    }


def _by_key(before: History, key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    return grouped((row for rows in before.values() for row in rows), operator.itemgetter(*key))


# -- partitions --------------------------------------------------------------------------------------------------------


def partition_daily(
    hosts: Sequence[Row], cells_today: Iterable[HourCell], sequences: Mapping[int, tuple[int, int, int]]
) -> list[Row]:
    """Table `partition_daily` of table `host_daily`; `sequences` has (first, last, missing) of each stream."""
    by_partition = grouped((host for host in hosts if host["files"]), operator.itemgetter("partition"))
    hours: dict[int, Counter[dt.datetime]] = defaultdict(Counter)
    for cell in cells_today:
        hours[cell.partition][cell.hour] += cell.lines
    whole = sum(host["bytes"] for host in hosts)
    made = []
    for partition, group in sorted(by_partition.items()):
        size = sum(host["bytes"] for host in group)
        top = max(group, key=lambda host: (host["bytes"], host["host"]))
        share = size / whole if whole else 0.0
        first, last, missing = sequences.get(partition, (None, None, None))
        made.append(
            {
                "partition": partition,
                "hosts": len(group),
                "lines": sum(host["lines"] for host in group),
                "bytes": size,
                "max_hour_lines": max(hours[partition].values(), default=0),
                "share": share,
                "skew": share * len(by_partition),
                "gini": statistics.gini([host["bytes"] for host in group]),
                "top_host": top["host"],
                "top_host_share": top["share_of_partition"],
                "seq_first": first,
                "seq_last": last,
                "seq_missing": missing,
            }
        )
    return made
