"""The report as values: what was counted, and the verdict on it. No Spark, no HTML."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_analytics.inventory import Day
from spark_analytics.wording import count, size


class State(enum.Enum):
    """What can be said of a day, worst first."""

    DAMAGED = "damaged"  #: the archive does not hold what its manifests list
    GAPS = "gaps"  #: bytes are known to be lost
    OPEN = "open"  #: the day is not closed yet
    COMPLETE = "complete"  #: everything is there


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a reader should know, and what kind of day it makes."""

    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing that a reader sees."""

    state: State
    headline: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class HostDay:
    """A host's day in one partition."""

    partition: int
    host: str
    files: int
    lines: int
    bytes: int
    errors: int  #: lines of level error and fatal
    warnings: int
    no_ts_lines: int


@dataclass(frozen=True, slots=True)
class FileDay:
    """A log file's day."""

    partition: int
    host: str
    file: str
    lines: int
    bytes: int
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True)
class PartitionDay:
    """A partition's day."""

    partition: int
    hosts: int
    lines: int
    bytes: int
    errors: int


@dataclass(frozen=True, slots=True)
class HourLevel:
    """Lines of one level in one hour of the day."""

    hour: int  #: 0 to 23, UTC
    on_day: bool  #: whether the event was on the reported day itself
    level: str
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class HostHour:
    """Lines of one host in one hour of the day."""

    partition: int
    host: str
    hour: int
    on_day: bool
    lines: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A log file whose account does not add up, or that has gaps."""

    partition: int
    host: str
    file: str
    status: str
    segments: int
    lines_manifest: int
    lines_counted: int
    bytes_manifest: int
    bytes_counted: int
    gap_bytes: int
    segments_missing: int
    segments_differing: int


@dataclass(frozen=True, slots=True)
class Audit:
    """Listed against counted, over the whole day."""

    files: int
    files_complete: int
    files_unregistered: int
    segments: int
    segments_missing: int
    segments_differing: int
    lines_manifest: int
    lines_counted: int
    bytes_manifest: int
    bytes_counted: int
    gap_bytes: int
    duplicates: int
    joins: int
    troubles: tuple[AuditRow, ...]  #: the worst, at most top N


@dataclass(frozen=True, slots=True)
class Totals:
    """The day in one row."""

    lines: int
    bytes: int
    bytes_stored: int
    partitions: int
    hosts: int
    files: int
    errors: int
    warnings: int
    no_ts_lines: int
    other_day_lines: int  #: lines whose event was on another day than they arrived on


@dataclass(frozen=True, slots=True)
class Run:
    """How the report came about."""

    archive: str
    out: str
    generated: str  #: RFC 3339
    seconds: float
    spark_version: str
    master: str
    manifests: tuple[str, ...]
    program_version: str


@dataclass(frozen=True, slots=True)
class Report:
    """A day's report. Lists are sorted by bytes and hold at most top N entries; `totals` has them all."""

    date: str
    verdict: Verdict
    totals: Totals
    levels: Mapping[str, int]
    partitions: tuple[PartitionDay, ...]
    hosts: tuple[HostDay, ...]
    files: tuple[FileDay, ...]
    hours: tuple[HourLevel, ...]
    host_hours: tuple[HostHour, ...]
    audit: Audit
    run: Run


def by_partition(hosts: Iterable[HostDay]) -> tuple[PartitionDay, ...]:
    """The sums of `hosts` for each partition, in the order of the partitions' numbers."""
    groups: dict[int, list[HostDay]] = {}
    for host in hosts:
        groups.setdefault(host.partition, []).append(host)
    return tuple(
        PartitionDay(
            partition=partition,
            hosts=len(group),
            lines=sum(host.lines for host in group),
            bytes=sum(host.bytes for host in group),
            errors=sum(host.errors for host in group),
        )
        for partition, group in sorted(groups.items())
    )


def totals(hosts: Sequence[HostDay], hours: Iterable[HourLevel], day: Day) -> Totals:
    """The sums over all of the day's hosts."""
    return Totals(
        lines=sum(host.lines for host in hosts),
        bytes=sum(host.bytes for host in hosts),
        bytes_stored=sum(segment.bytes_stored for segment in day.present),
        partitions=len({host.partition for host in hosts}),
        hosts=len({host.host for host in hosts}),
        files=sum(host.files for host in hosts),
        errors=sum(host.errors for host in hosts),
        warnings=sum(host.warnings for host in hosts),
        no_ts_lines=sum(host.no_ts_lines for host in hosts),
        other_day_lines=sum(hour.lines for hour in hours if not hour.on_day),
    )


def audit_of(rows: Iterable[Mapping[str, Any]], troubles: Iterable[AuditRow]) -> Audit:
    """The account of the day from one row of sums for each status."""
    sums: dict[str, int] = {}
    complete = 0
    for row in rows:
        complete += row["files"] if row["status"] == "complete" else 0
        for name in row:
            if name != "status":
                sums[name] = sums.get(name, 0) + row[name]
    names = {field.name for field in dataclasses.fields(Audit)} - {"files_complete", "troubles"}
    numbers = {name: sums.get(name, 0) for name in names}
    numbers["files"] -= numbers["files_unregistered"]
    return Audit(**numbers, files_complete=complete, troubles=tuple(troubles))


def verdict(audit: Audit, day: Day) -> Verdict:
    """What the account and the manifests say of the day, worst first."""
    order = list(State)
    findings = sorted(_findings(audit, day), key=lambda finding: order.index(finding.state))
    state = findings[0].state if findings else State.COMPLETE
    headlines = {
        State.DAMAGED: "The archive does not hold what its manifests list",
        State.GAPS: f"{count(audit.gap_bytes, 'byte')} known to be lost",
        State.OPEN: "Day not closed yet",
        State.COMPLETE: "Every line that was listed was counted",
    }
    return Verdict(state, headlines[state], tuple(findings))


def _findings(audit: Audit, day: Day) -> Iterable[Finding]:
    manifests = day.manifests
    # A segment gets its manifest line a moment after its name: until the day is closed, an unlisted file is no news.
    unlisted = State.DAMAGED if day.closed else State.OPEN
    texts = (
        (audit.segments_missing, State.DAMAGED, "{} listed but not on disk", "segment"),
        (audit.segments_differing, State.DAMAGED, "{} with other contents than listed", "segment"),
        (len(manifests.damaged), State.DAMAGED, "{} cannot be read", "manifest line"),
        (audit.files_unregistered, unlisted, "{} on disk that no manifest lists, not counted here", "sealed file"),
        (audit.gap_bytes, State.GAPS, "{} lost before the collector could have them, and recorded as gaps", "byte"),
        (len(manifests.open_collectors), State.OPEN, "{} not closed the day yet", "collector"),
        (day.open_files, State.OPEN, f"{{}} still open with {size(day.open_bytes)}, not counted here", "file"),
        (len(manifests.torn), State.OPEN, "{} cut off in the last line, which is ignored", "manifest"),
        (manifests.repeated, State.COMPLETE, "{} repeated for the same path; the last one holds", "manifest line"),
        (audit.duplicates, State.COMPLETE, "{} sent twice and dropped", "block"),
        (audit.joins, State.COMPLETE, "{} added by the collector between two unterminated sources", "newline"),
    )
    for number, state, text, noun in texts:
        if number:
            yield Finding(state, text.format(count(number, noun)))
