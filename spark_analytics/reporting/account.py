"""The day's account: the rows of table `audit` and what the inventory knows, as `evidence.Account`. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_analytics.inventory import Day
from spark_analytics.reporting.completeness import rank
from spark_analytics.reporting.evidence import Account, HostAudit, Trouble

MOST_TROUBLES = 1000
"""Troubles that are named one by one, in troubles.csv; table `audit` has them all."""


class Audited(NamedTuple):
    """The columns of table `audit` that a report needs, a log file each."""

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
    offset_gap_bytes: int
    doubled_bytes: int
    doubled_lines: int
    duplicates: int
    joins: int
    segments_missing: int
    segments_truncated: int
    segments_differing: int
    files_unregistered: int
    example: str


def account(rows: Sequence[Audited], day: Day, seq_missing: int) -> Account:
    """The whole day: sums, hosts, and each trouble by its kind."""
    manifests = day.manifests

    def whole(name: str) -> int:
        return sum(getattr(row, name) for row in rows)

    segments = whole("segments")
    return Account(
        closed=day.closed,
        open_collectors=manifests.open_collectors,
        torn_manifests=manifests.torn,
        removed_hosts=day.removed_hosts,
        open_files=day.open_files,
        open_bytes=day.open_bytes,
        repeated_lines=manifests.repeated,
        segments=segments,
        segments_read=segments - whole("segments_missing") - whole("segments_truncated"),
        **{name: whole(name) for name in ("lines_manifest", "lines_counted", "bytes_manifest", "bytes_counted")},
        bytes_stored=sum(segment.bytes_stored for segment in day.present),
        **{name: whole(name) for name in ("gap_bytes", "doubled_bytes", "doubled_lines", "duplicates")},
        **{name: whole(name) for name in ("joins", "offset_gap_bytes")},
        seq_missing=seq_missing,
        hosts=tuple(_hosts(rows)),
        trouble_counts=_counts(rows, day),
        troubles=tuple(_troubles(rows, day)[:MOST_TROUBLES]),
    )


def _counts(rows: Sequence[Audited], day: Day) -> dict[str, int]:
    return {
        "missing": sum(row.segments_missing for row in rows),
        "truncated": sum(row.segments_truncated for row in rows),
        "differs": sum(row.segments_differing for row in rows),
        "unreadable": len(day.manifests.damaged),
        "unregistered": sum(row.files_unregistered for row in rows),
        "offset_gap": sum(1 for row in rows if row.offset_gap_bytes),
        "gap": sum(1 for row in rows if row.gap_bytes),
        "doubled": sum(1 for row in rows if row.doubled_bytes),
    }


def _troubles(rows: Iterable[Audited], day: Day) -> list[Trouble]:
    """Every trouble, the worst kind first: a log file that has several is named for each of them."""
    found = [_trouble(row, kind) for row in rows for kind in _kinds(row)]
    for line in day.manifests.damaged:
        where, _, reason = line.partition(": ")
        found.append(Trouble(kind="unreadable", partition=-1, host="", file="", path=where, detail=reason))
    return sorted(found, key=lambda trouble: (rank(trouble.kind), trouble.host, trouble.file))


def _kinds(row: Audited) -> list[str]:
    numbers = (
        ("missing", row.segments_missing),
        ("truncated", row.segments_truncated),
        ("differs", row.segments_differing),
        ("unregistered", row.files_unregistered),
        ("offset_gap", row.offset_gap_bytes),
        ("gap", row.gap_bytes),
        ("doubled", row.doubled_bytes),
    )
    return [kind for kind, number in numbers if number]


def _trouble(row: Audited, kind: str) -> Trouble:
    """`example` is of the worst kind; of the others the log file is named."""
    lost = {"gap": row.gap_bytes, "offset_gap": row.offset_gap_bytes, "doubled": row.doubled_bytes}.get(kind)
    return Trouble(
        kind=kind,
        partition=row.partition,
        host=row.host,
        file=row.file,
        path=row.example if kind == row.status and lost is None else "",
        lines_manifest=row.lines_manifest,
        lines_counted=row.lines_counted,
        bytes_manifest=row.bytes_manifest,
        bytes_counted=row.bytes_counted,
        detail="" if lost is None else f"{lost:,} bytes",
    )


def _hosts(rows: Iterable[Audited]) -> list[HostAudit]:
    groups: dict[tuple[int, str], list[Audited]] = {}
    for row in rows:
        groups.setdefault((row.partition, row.host), []).append(row)
    return [_host(partition, host, group) for (partition, host), group in sorted(groups.items())]


def _host(partition: int, host: str, group: Sequence[Audited]) -> HostAudit:
    return HostAudit(
        partition=partition,
        host=host,
        segments=sum(row.segments for row in group),
        lines_manifest=sum(row.lines_manifest for row in group),
        lines_counted=sum(row.lines_counted for row in group),
        bytes_manifest=sum(row.bytes_manifest for row in group),
        bytes_counted=sum(row.bytes_counted for row in group),
        gap_bytes=sum(row.gap_bytes for row in group),
        status=min((row.status for row in group), key=rank),
    )
