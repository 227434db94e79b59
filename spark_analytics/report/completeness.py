"""Completeness of a day: the `Account` of table `audit` and the inventory, and its facts. Pure."""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence

from spark_analytics.archive.inventory import Day
from spark_analytics.metrics.statistics import grouped
from spark_analytics.report.inputs import Account, HostAudit, Trouble
from spark_analytics.report.model import TROUBLES, Completeness, HostCell, State, StatusCount
from spark_analytics.tables.day_tables import Row

MAX_CELLS = 600
"""Maximum squares of the map of hosts, which fit on one screen. With more hosts a square is several of them."""

STATUSES = (*TROUBLES, "silent", "complete")
"""Every status of a host, worst first."""

_MANIFEST_SUMS = ("lines_manifest", "lines_counted", "bytes_manifest", "bytes_counted")
_AUDIT_SUMS = (
    *_MANIFEST_SUMS,
    *("segments", "gap_bytes", "doubled_bytes", "doubled_lines", "duplicates", "joins", "offset_gap_bytes"),
)
"""Columns of table `audit` that are added up over log files."""


def completeness(account: Account, silent: Iterable[str], top: int) -> Completeness:
    """Makes facts of the account and of `silent`, the hosts that usually write and did not."""
    statuses = {audit.host: "complete" for audit in account.hosts}
    for audit in account.hosts:  # a host in two partitions is as bad as its worse half
        statuses[audit.host] = min(statuses[audit.host], audit.status, key=rank)
    statuses.update((host, "silent") for host in silent if statuses.get(host, "complete") == "complete")
    counts = Counter(statuses.values())
    incomplete = sorted(
        (audit for audit in account.hosts if audit.status != "complete"),
        key=lambda audit: (rank(audit.status), -abs(audit.lines_manifest - audit.lines_counted), audit.host),
    )
    troubles = sorted(account.troubles, key=lambda trouble: (rank(trouble.kind), trouble.host, trouble.path))
    return Completeness(
        state=state(account),
        **{name: getattr(account, name) for name in (*_AUDIT_SUMS, "segments_read", "seq_missing")},
        hosts=len(statuses),
        by_status=tuple(StatusCount(status=status, hosts=counts[status]) for status in sorted(counts, key=rank)),
        cells=cells(statuses),
        incomplete=tuple(incomplete[:top]),
        incomplete_hosts=len(incomplete),
        troubles=tuple(troubles[:top]),
        trouble_count=max(sum(account.trouble_counts.values()), len(troubles)),
    )


def rank(status: str) -> int:
    """0 for the worst status, -1 for an unknown one."""
    return STATUSES.index(status) if status in STATUSES else -1


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


def cells(statuses: dict[str, str]) -> tuple[HostCell, ...]:
    """Hosts sorted by name, in at most `MAX_CELLS` cells."""
    names, made = sorted(statuses), []
    each = max(1, -(-len(names) // MAX_CELLS))
    for start in range(0, len(names), each):
        hosts = names[start : start + each]
        worst = min(hosts, key=lambda name: rank(statuses[name]))
        status = statuses[worst]
        made.append(HostCell(status=status, hosts=len(hosts), worst="" if status == "complete" else worst))
    return tuple(made)


# -- table `audit` -----------------------------------------------------------------------------------------------------

MAX_TROUBLES = 1000
"""Maximum number of troubles in troubles.csv, while table `audit` has all of them."""

_NUMBERED = {
    "missing": "segments_missing",
    "truncated": "segments_truncated",
    "differs": "segments_differing",
    "unregistered": "files_unregistered",
}
_LOST = {"offset_gap": "offset_gap_bytes", "gap": "gap_bytes", "doubled": "doubled_bytes"}
"""The column of each kind of trouble: of a number of segments or files, and of bytes of a log file."""


def account(rows: Sequence[Row], day: Day, seq_missing: int) -> Account:
    """The whole day, from table `audit`: sums, hosts, and each trouble by its kind."""
    sums = {name: sum(row[name] for row in rows) for name in _AUDIT_SUMS}
    counts = {kind: sum(row[column] for row in rows) for kind, column in _NUMBERED.items()}
    counts |= {kind: sum(1 for row in rows if row[column]) for kind, column in _LOST.items()}
    hosts = [
        HostAudit(
            partition=partition,
            host=host,
            **{name: sum(row[name] for row in group) for name in (*_MANIFEST_SUMS, "segments", "gap_bytes")},
            status=min((row["status"] for row in group), key=rank),
        )
        for (partition, host), group in sorted(grouped(rows, operator.itemgetter("partition", "host")).items())
    ]
    manifests = day.manifests
    return Account(
        closed=day.closed,
        open_collectors=manifests.open_collectors,
        torn_manifests=manifests.torn,
        removed_hosts=day.removed_hosts,
        left_out_hosts=day.left_out_hosts,
        open_files=day.open_files,
        open_bytes=day.open_bytes,
        repeated_lines=manifests.repeated,
        **sums,
        segments_read=sums["segments"] - counts["missing"] - counts["truncated"],
        bytes_stored=sum(segment.bytes_stored for segment in day.present),
        seq_missing=seq_missing,
        hosts=tuple(hosts),
        trouble_counts={**counts, "unreadable": len(manifests.damaged)},
        troubles=tuple(_troubles(rows, day)[:MAX_TROUBLES]),
    )


def _troubles(rows: Iterable[Row], day: Day) -> list[Trouble]:
    """Every trouble, the worst kind first: a log file that has several is named for each of them."""
    kinds = {**_NUMBERED, **_LOST}
    found = [_trouble(row, kind) for row in rows for kind, column in kinds.items() if row[column]]
    for line in day.manifests.damaged:
        where, _, reason = line.partition(": ")
        found.append(Trouble(kind="unreadable", partition=-1, host="", file="", path=where, detail=reason))
    return sorted(found, key=lambda trouble: (rank(trouble.kind), trouble.host, trouble.file))


def _trouble(row: Row, kind: str) -> Trouble:
    """Describes a trouble: the worst kind with its `example`, the others with the log file."""
    lost = row[_LOST[kind]] if kind in _LOST else None
    return Trouble(
        kind=kind,
        partition=row["partition"],
        host=row["host"],
        file=row["file"],
        path=row["example"] if kind == row["status"] and lost is None else "",
        **{name: row[name] for name in _MANIFEST_SUMS},
        detail="" if lost is None else f"{lost:,} bytes",
    )
