"""Volumes by level, partition, host and hour, and skew."""

from collections.abc import Iterable

from spark_analytics.metrics.statistics import gini, ratio, skew
from spark_analytics.report.inputs import Evidence, HostSeries
from spark_analytics.report.model import HostHours, LevelHours, PartitionDay, Totals, Volume

HOURS = 24
LEVELS = ("fatal", "error", "warn", "notice", "info", "debug", "trace", "none")
"""Every level, worst first; `none` if the line has no level."""


def volume(evidence: Evidence, totals: Totals) -> Volume:
    """The day's volumes. If most lines are of other days (old files), the hours are hours of any day."""
    on_day = totals.other_day_lines * 2 <= totals.lines
    drawn = [hour for hour in evidence.hours if hour.on_day or not on_day]
    by_level = {level: [0] * HOURS for level in LEVELS}
    by_partition: dict[int, list[int]] = {}
    for entry in drawn:
        by_level[entry.level][entry.hour] += entry.lines
        by_partition.setdefault(entry.partition, [0] * HOURS)[entry.hour] += entry.lines
    days = partitions(evidence.hosts, by_partition)
    sizes = [day.bytes for day in days]
    return Volume(
        on_day=on_day,
        levels=tuple(
            LevelHours(level=level, lines=sum(hours), hours=tuple(hours))
            for level, hours in by_level.items()
            if any(hours)
        ),
        partitions=tuple(days),
        partition_skew=round(skew(sizes), 3) if sizes else 1.0,
        partition_gini=round(gini(sizes), 3),
        host_hours=tuple(_host_hours(evidence, on_day=on_day)),
    )


def partitions(hosts: Iterable[HostSeries], hours: dict[int, list[int]]) -> list[PartitionDay]:
    """Each partition's day, in the order of their numbers."""
    groups: dict[int, list[HostSeries]] = {}
    for host in hosts:
        if host.lines:
            groups.setdefault(host.partition, []).append(host)
    whole = sum(host.bytes for group in groups.values() for host in group)
    return [
        _partition(number, group, whole, len(groups), hours.get(number, [0] * HOURS))
        for number, group in sorted(groups.items())
    ]


def _partition(number: int, group: list[HostSeries], whole: int, partitions: int, hours: list[int]) -> PartitionDay:
    size = sum(host.bytes for host in group)
    largest = max(group, key=lambda host: (host.bytes, host.host))
    share = ratio(size, whole) or 0.0
    return PartitionDay(
        partition=number,
        hosts=len(group),
        lines=sum(host.lines for host in group),
        bytes=size,
        errors=sum(host.errors for host in group),
        share=share,
        skew=round(share * partitions, 3),
        top_host=largest.host,
        top_host_share=ratio(largest.bytes, size) or 0.0,
        hours=tuple(hours),
    )


def _host_hours(evidence: Evidence, *, on_day: bool) -> list[HostHours]:
    rows: dict[str, list[int]] = {}
    for entry in evidence.host_hours:
        row = rows.setdefault(entry.host, [0] * HOURS)
        if entry.on_day or not on_day:
            row[entry.hour] += entry.lines
    lines = {host.host: host.lines for host in evidence.hosts}
    made = [HostHours(host=host, lines=lines.get(host, 0), hours=tuple(hours)) for host, hours in rows.items()]
    return sorted(made, key=lambda row: (-row.lines, row.host))
