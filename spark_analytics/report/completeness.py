"""Completeness of a day: the `Account` of table `audit` and the inventory, and its facts. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_analytics.archive.inventory import Day
from spark_analytics.report.inputs import Account, HostAudit, Trouble
from spark_analytics.report.model import TROUBLES, Completeness, HostCell, State, StatusCount

MAX_CELLS = 600
"""Maximum squares of the map of hosts, which fit on one screen. With more hosts a square is several of them."""

STATUSES = (*TROUBLES, "silent", "complete")
"""Every status of a host, worst first."""

_SUMS = (
    *("segments", "segments_read", "lines_manifest", "lines_counted", "bytes_manifest", "bytes_counted"),
    *("gap_bytes", "doubled_bytes", "doubled_lines", "duplicates", "joins", "offset_gap_bytes", "seq_missing"),
)


def completeness(account: Account, silent: Iterable[str], top: int) -> Completeness:
    """The account as facts; `silent` are hosts that usually write and did not."""
    statuses = {audit.host: "complete" for audit in account.hosts}
    for audit in account.hosts:  # a host in two partitions is as bad as its worse half
        statuses[audit.host] = min(statuses[audit.host], audit.status, key=rank)
    statuses.update((host, "silent") for host in silent if statuses.get(host, "complete") == "complete")
    incomplete = sorted(
        (audit for audit in account.hosts if audit.status != "complete"),
        key=lambda audit: (*_weight(audit), audit.host),
    )
    troubles = sorted(account.troubles, key=lambda trouble: (rank(trouble.kind), trouble.host, trouble.path))
    return Completeness(
        state=state(account),
        **{name: getattr(account, name) for name in _SUMS},
        hosts=len(statuses),
        by_status=by_status(statuses.values()),
        cells=cells(statuses),
        incomplete=tuple(incomplete[:top]),
        incomplete_hosts=len(incomplete),
        troubles=tuple(troubles[:top]),
        trouble_count=max(sum(account.trouble_counts.values()), len(troubles)),
    )


def rank(status: str) -> int:
    """0 for the worst status; -1 for an unknown one."""
    return STATUSES.index(status) if status in STATUSES else -1


def _weight(audit: HostAudit) -> tuple[int, int]:
    lost = audit.lines_manifest - audit.lines_counted
    return rank(audit.status), -abs(lost)


def state(account: Account) -> State:
    """The state of the archive's day, independent of the content of its lines."""
    found = {kind_state(kind, account) for kind, number in account.trouble_counts.items() if number}
    if not account.closed or account.open_files or account.torn_manifests or account.open_collectors:
        found.add(State.OPEN)
    return next((each for each in State if each in found and each is not State.ATTENTION), State.COMPLETE)


def kind_state(kind: str, account: Account) -> State:
    """The state that a kind of trouble causes. On an open day an unlisted file may get its manifest line later."""
    if kind == "unregistered" and not account.closed:
        return State.OPEN
    return TROUBLES.get(kind, State.DAMAGED)


def by_status(statuses: Iterable[str]) -> tuple[StatusCount, ...]:
    """Number of hosts with each status, worst first."""
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status] = counts.get(status, 0) + 1
    return tuple(StatusCount(status=status, hosts=counts[status]) for status in sorted(counts, key=rank))


def cells(statuses: dict[str, str]) -> tuple[HostCell, ...]:
    """Hosts sorted by name, in at most `MAX_CELLS` cells."""
    names = sorted(statuses)
    each = max(1, -(-len(names) // MAX_CELLS))
    return tuple(_cell(names[start : start + each], statuses) for start in range(0, len(names), each))


def _cell(names: list[str], statuses: dict[str, str]) -> HostCell:
    worst = min(names, key=lambda name: rank(statuses[name]))
    status = statuses[worst]
    return HostCell(status=status, hosts=len(names), worst="" if status == "complete" else worst)


MAX_TROUBLES = 1000
"""Maximum number of troubles in troubles.csv; table `audit` has all of them."""


class AuditRow(NamedTuple):
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


def account(rows: Sequence[AuditRow], day: Day, seq_missing: int) -> Account:
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
        troubles=tuple(_troubles(rows, day)[:MAX_TROUBLES]),
    )


def _counts(rows: Sequence[AuditRow], day: Day) -> dict[str, int]:
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


def _troubles(rows: Iterable[AuditRow], day: Day) -> list[Trouble]:
    """Every trouble, the worst kind first: a log file that has several is named for each of them."""
    found = [_trouble(row, kind) for row in rows for kind in _kinds(row)]
    for line in day.manifests.damaged:
        where, _, reason = line.partition(": ")
        found.append(Trouble(kind="unreadable", partition=-1, host="", file="", path=where, detail=reason))
    return sorted(found, key=lambda trouble: (rank(trouble.kind), trouble.host, trouble.file))


def _kinds(row: AuditRow) -> list[str]:
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


def _trouble(row: AuditRow, kind: str) -> Trouble:
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


def _hosts(rows: Iterable[AuditRow]) -> list[HostAudit]:
    groups: dict[tuple[int, str], list[AuditRow]] = {}
    for row in rows:
        groups.setdefault((row.partition, row.host), []).append(row)
    return [_host(partition, host, group) for (partition, host), group in sorted(groups.items())]


def _host(partition: int, host: str, group: Sequence[AuditRow]) -> HostAudit:
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
