"""The fleet at one moment, as a value: hosts, partitions, dead letters, and which of them have problems."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from consumer.fleet.causes import Cause, CollectorSign, Severity, disk_note, hindrance, silent_note, unread
from consumer.fleet.host_table import TROUBLED, HostState, HostStatus
from shipper.jetstream.durability import Durability
from shipper.jetstream.stream_status import PartitionStatus
from shipper.units import counted, format_duration

FULL_PERCENT = 90.0
"""Fill level of a partition's stream in percent that is a problem: producers will wait. Above 70 collectors purge."""
LEAST_SECONDS = 0.5
"""Minimum seconds between two snapshots from which a rate is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition at one moment."""

    status: PartitionStatus
    collector: str = ""  #: the collector that claims it
    hosts: int = 0
    rate: float = 0.0  #: bytes of lines per second that its hosts report
    read_rate: float | None = None  #: messages per second that were archived since the last snapshot
    takes_no_more: bool = False  #: hosts report that its stream is full
    unread: bool = False  #: messages wait and are not requested, as in the last snapshot
    sign: CollectorSign | None = None  #: what its collector published last; None: nothing is known
    signs_known: bool = True  #: the entries of the collectors could be read

    @property
    def cause(self) -> Cause | None:
        """The problem of the partition. None means that there is none."""
        status = self.status
        if status.lag is None:
            return Cause("partition", "", "it has no consumer: fshipper partition apply")
        found = None
        if self.sign is not None and self.sign.is_hindered:
            found = hindrance(self.sign)
        elif self.unread:
            found = unread(status.lag, self.sign, are_known=self.signs_known)
        if found is not None:
            return found._replace(why=f"{found.why}; {self._full}") if self._full else found
        if self._full:
            return Cause("partition", "", self._full, Severity.SLOWED)
        if status.is_site_away:
            silent = f"for {format_duration(status.site_silent)}" if status.site_silent else "yet"
            return Cause("partition", "", f"its site {status.site} was not reachable {silent}", Severity.SLOWED)
        return None

    @property
    def why(self) -> str:
        """The problem of the partition as a sentence. Empty means that there is none."""
        return self.cause.why if self.cause else ""

    @property
    def _full(self) -> str:
        """A warning that its stream is nearly full, with the host that has the most messages in it. It may be empty."""
        full, top = self.status.percent_full or 0.0, self.status.top_host
        if full < FULL_PERCENT and not self.takes_no_more:
            return ""
        refuses = " and takes no more" if self.takes_no_more else ""
        of_host = f", and {self.status.top_host_percent:.0f} % of its messages are of {top}" if top else ""
        return f"its stream is {full:.0f} % full{refuses}{of_host}"


class Verdict(enum.StrEnum):
    """The state of the fleet in one word."""

    HALTED = "dead"  #: something does not move until an operator acts
    SLOWED = "stuck"  #: something is slow or waits
    UNKNOWN = "unknown"  #: no problem is known, and of some hosts nothing is known
    EMPTY = "empty"  #: no host runs: there is none, or all ended
    WELL = "well"  #: every host is known, and there is no problem


class Problem(NamedTuple):
    """One problem: the partitions and hosts that wait for one cause are in one."""

    kind: str  #: host, disk, collector, partition, duplicates
    what: str
    why: str
    state: str  #: the severity in the words of the state of a host


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The whole fleet at one moment."""

    at: float  #: seconds since 1970, by the server's clock
    hosts: tuple[HostStatus, ...] = ()
    partitions: tuple[Partition, ...] = ()
    dead_letters: int | None = None
    dead_letters_full: float | None = None
    advisories: int | None = None
    doubled: int = 0  #: bytes that archives hold twice, as their collectors report
    durability: Durability | None = None  #: of the streams; None: not read
    notes: tuple[str, ...] = ()  #: what could not be read, and why
    floors: Mapping[int, tuple[float, int]] = field(default_factory=dict)  #: by partition: when, and its ack floor

    @property
    def troubled_hosts(self) -> list[HostStatus]:
        """Those with a problem."""
        return [host for host in self.hosts if host.state in TROUBLED]

    @property
    def troubled_partitions(self) -> list[Partition]:
        """Those with a problem."""
        return [partition for partition in self.partitions if partition.why]

    @property
    def is_well(self) -> bool:
        """Whether no problem is known. Hosts of which nothing is known are not one."""
        return not (self.troubled_hosts or self.troubled_partitions or self.doubled)

    @property
    def unknown_hosts(self) -> int:
        """The number of hosts of which it is not known whether lines wait there."""
        return sum(host.state is HostState.UNKNOWN for host in self.hosts)

    @property
    def verdict(self) -> Verdict:
        """The worst that is known, and not well where something is not known."""
        states = {each.state for each in self.problems}
        if states & {HostState.DEAD, HostState.SHARED, Severity.HALTED}:
            return Verdict.HALTED
        if states:
            return Verdict.SLOWED
        if self.unknown_hosts:
            return Verdict.UNKNOWN
        runs = any(host.state is not HostState.ENDED for host in self.hosts)
        return Verdict.WELL if runs else Verdict.EMPTY

    @property
    def problems(self) -> list[Problem]:
        """Each problem once, those of the partitions first."""
        halted = {each.status.partition for each in self.partitions if each.cause and each.status.lag}
        waiting = [host for host in self.troubled_hosts if _finds_its_stream_full(host) and host.partition in halted]
        by_cause: dict[tuple[object, ...], list[Partition]] = {}
        for each in self.troubled_partitions:
            by_cause.setdefault(_cause_of(each), []).append(each)
        found = [_problem(each, waiting) for each in by_cause.values()]
        found.sort(key=lambda each: list(Severity).index(Severity(each.state)))
        if self.doubled:
            why = f"{self.doubled:,} bytes are in it twice: fshipper audit --repair-duplicates"
            found.append(Problem("duplicates", "archive", why, Severity.SLOWED))
        found += [
            Problem("host", host.name, host.why, host.state) for host in self.troubled_hosts if host not in waiting
        ]
        return found

    @property
    def warnings(self) -> list[str]:
        """What halts nothing yet: collectors without a sign, disks that are nearly full."""
        signs = [each.sign for each in self.partitions if each.sign is not None and each.cause is None]
        silent = {each.name: silent_note(each) for each in signs if each.is_silent}
        disks = {
            each.archive: disk_note(each, each.disk)
            for each in signs
            if each.disk is not None and each.disk.is_nearly_full and not (each.is_silent or each.is_released)
        }
        return [*silent.values(), *disks.values()]

    @property
    def rate(self) -> float:
        """Bytes of lines per second that all hosts report."""
        return sum(rate_of(host) for host in self.hosts)

    @property
    def lag(self) -> int:
        """Messages that are not safe in an archive yet."""
        return sum(partition.status.lag or 0 for partition in self.partitions)


def rate_of(host: HostStatus) -> float:
    """The rate of a host, if its heartbeat is recent."""
    return (
        host.beat.rate if host.beat and host.state in {HostState.SHIPPING, HostState.QUIET, HostState.SHARED} else 0.0
    )


def partitions_of(
    found: Sequence[PartitionStatus],
    hosts: Sequence[HostStatus],
    signs: Mapping[int, CollectorSign] | None,
    before: Fleet | None,
    at: float,
) -> tuple[Partition, ...]:
    """The partitions, from their streams, their hosts, the collectors (None: unknown) and the snapshot `before`."""
    floors = before.floors if before else {}
    rates: dict[int, list[float]] = {}
    for host in hosts:
        if host.partition is not None:
            rates.setdefault(host.partition, []).append(rate_of(host))
    refusing = {host.partition for host in hosts if _finds_its_stream_full(host)}
    compared = []
    for status in found:
        ours = rates.get(status.partition, [])
        sign = (signs or {}).get(status.partition)
        partition = Partition(
            status=status,
            collector=sign.name if sign is not None and not sign.is_released else "",
            hosts=len(ours),
            rate=sum(ours),
            takes_no_more=status.partition in refusing,
            sign=sign,
            signs_known=signs is not None,
        )
        compared.append(_compared(partition, floors.get(status.partition), at))
    return tuple(compared)


def floors_of(partitions: Sequence[Partition], before: Fleet | None, at: float) -> dict[int, tuple[float, int]]:
    """The ack floors to compare the next snapshot with. Two snapshots within a short time give no rate."""
    floors = before.floors if before else {}
    return {
        each.status.partition: old
        if (old := floors.get(each.status.partition)) is not None and at - old[0] < LEAST_SECONDS
        else (at, each.status.ack_floor or 0)
        for each in partitions
    }


def _compared(partition: Partition, before: tuple[float, int] | None, at: float) -> Partition:
    status = partition.status
    if before is None or status.ack_floor is None or at - before[0] < LEAST_SECONDS:
        return partition
    moved = max(0, status.ack_floor - before[1])
    unread = bool(status.lag) and not status.waiting and not moved
    return replace(partition, read_rate=moved / (at - before[0]), unread=unread)


NAMED_PARTITIONS = 8
FULL_TEXTS = ("is full", "maximum bytes exceeded", "maximum messages exceeded")
"""How the heartbeat of a host reports that its stream takes no more: text of the server, and of producers."""


def _cause_of(partition: Partition) -> tuple[object, ...]:
    """The same for partitions that wait for the same."""
    cause, sign = partition.cause, partition.sign
    assert cause is not None  # noqa: S101 - the caller has only such
    if cause.kind == "disk" and sign is not None:
        return cause.kind, sign.archive  # the error names another file for each partition
    if cause.kind == "partition" or sign is None:
        return cause.kind, cause.why if cause.kind == "partition" else ""
    return cause.kind, sign.name, sign.trouble, sign.is_released, sign.is_silent


def _problem(partitions: Sequence[Partition], waiting: Sequence[HostStatus]) -> Problem:
    """The problem of partitions that wait for the same, and of the hosts that wait for it."""
    first = max(partitions, key=lambda each: each.status.percent_full or 0.0)
    lag = sum(each.status.lag or 0 for each in partitions)
    whole = replace(first, status=replace(first.status, lag=None if first.status.lag is None else lag))
    cause, numbers = whole.cause, {each.status.partition for each in partitions}
    assert cause is not None  # noqa: S101 - only partitions with a cause are in a group
    why = cause.why
    if first.sign is not None and first.sign.is_hindered and lag:
        why += f"; {counted(lag, 'message waits', 'messages wait')}"
    if hosts := sum(host.partition in numbers for host in waiting):
        why += f"; {counted(hosts, 'host waits', 'hosts wait')}"
    return Problem(cause.kind, cause.what or _named(sorted(numbers)), why, cause.severity)


def _named(partitions: Sequence[int]) -> str:
    shown = ", ".join(map(str, partitions[:NAMED_PARTITIONS]))
    more = f" and {len(partitions) - NAMED_PARTITIONS} more" if len(partitions) > NAMED_PARTITIONS else ""
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{more}"


def _finds_its_stream_full(host: HostStatus) -> bool:
    beat = host.beat
    is_full = beat is not None and not beat.unreadable and any(text in beat.trouble for text in FULL_TEXTS)
    return host.state is HostState.STUCK and is_full
