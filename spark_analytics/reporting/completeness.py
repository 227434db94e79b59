"""Is it all there? The account of the manifests as facts, and a map of all hosts that fits on a first screen."""

from collections.abc import Iterable

from spark_analytics.reporting.evidence import Account, HostAudit
from spark_analytics.reporting.facts import TROUBLES, Completeness, HostCell, State, StatusCount

MOST_CELLS = 600
"""Squares of the map of hosts: what fits on a first screen. With more hosts a square stands for several."""

STATUSES = (*TROUBLES, "silent", "complete")
"""Every status of a host, worst first."""

_SUMS = (
    *("segments", "segments_read", "lines_manifest", "lines_counted", "bytes_manifest", "bytes_counted"),
    *("gap_bytes", "doubled_bytes", "doubled_lines", "duplicates", "joins", "offset_gap_bytes", "seq_missing"),
)


def completeness(account: Account, silent: Iterable[str], top: int) -> Completeness:
    """The account as facts; `silent` are hosts that the day should have had."""
    statuses = {audit.host: "complete" for audit in account.hosts}
    for audit in account.hosts:  # a host in two partitions is as bad as its worse half
        statuses[audit.host] = min(statuses[audit.host], audit.status, key=rank)
    statuses.update((host, "silent") for host in silent if host not in statuses)
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
    """0 for the worst; what nobody knows is as bad as can be."""
    return STATUSES.index(status) if status in STATUSES else -1


def _weight(audit: HostAudit) -> tuple[int, int]:
    lost = audit.lines_manifest - audit.lines_counted
    return rank(audit.status), -abs(lost)


def state(account: Account) -> State:
    """What can be said of the archive's day, whatever its lines say."""
    found = {kind_state(kind, account) for kind, number in account.trouble_counts.items() if number}
    if not account.closed or account.open_files or account.torn_manifests or account.open_collectors:
        found.add(State.OPEN)
    return next((each for each in State if each in found and each is not State.ATTENTION), State.COMPLETE)


def kind_state(kind: str, account: Account) -> State:
    """Until the day is closed an unlisted file is no news: it gets its manifest line a moment after its name."""
    if kind == "unregistered" and not account.closed:
        return State.OPEN
    return TROUBLES.get(kind, State.DAMAGED)


def by_status(statuses: Iterable[str]) -> tuple[StatusCount, ...]:
    """How many hosts have each status, worst first."""
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status] = counts.get(status, 0) + 1
    return tuple(StatusCount(status=status, hosts=counts[status]) for status in sorted(counts, key=rank))


def cells(statuses: dict[str, str]) -> tuple[HostCell, ...]:
    """Hosts in the order of their names, as many to a cell as it takes to have at most MOST_CELLS."""
    names = sorted(statuses)
    each = max(1, -(-len(names) // MOST_CELLS))
    return tuple(_cell(names[start : start + each], statuses) for start in range(0, len(names), each))


def _cell(names: list[str], statuses: dict[str, str]) -> HostCell:
    worst = min(names, key=lambda name: rank(statuses[name]))
    status = statuses[worst]
    return HostCell(status=status, hosts=len(names), worst="" if status == "complete" else worst)
