"""The fleet at one moment, as a value: hosts, partitions, dead letters, and which of them have problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.fleet.host_table import TROUBLED, HostState, HostStatus
from shipper.jetstream.stream_status import PartitionStatus
from shipper.units import format_duration

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
    unread: bool = False  #: messages wait and are not requested, as in the last snapshot

    @property
    def why(self) -> str:
        """The problem of the partition; empty: none."""
        if self.status.lag is None:
            return "it has no consumer: fshipper partition apply"
        if self.unread:
            waits = "message waits" if self.status.lag == 1 else "messages wait"
            unread = f"{self.status.lag} {waits}, and no collector reads them"
            return f"{unread}; {self._full}" if self._full else unread
        if self._full:
            return self._full
        if self.status.is_site_away:
            silent = self.status.site_silent
            return f"its site {self.status.site} was not reachable " + (
                f"for {format_duration(silent)}" if silent else "yet"
            )
        return ""

    @property
    def _full(self) -> str:
        """A warning that its stream is nearly full, with the host that has the most messages in it; may be empty."""
        if (self.status.percent_full or 0.0) < FULL_PERCENT:
            return ""
        top = self.status.top_host
        of_host = f", and {self.status.top_host_percent:.0f} % of its messages are of {top}" if top else ""
        return f"its stream is {self.status.percent_full:.0f} % full{of_host}"


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
        """Whether there is no problem."""
        return not (self.troubled_hosts or self.troubled_partitions or self.doubled)

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
    owners: Mapping[int, str],
    before: Fleet | None,
    at: float,
) -> tuple[Partition, ...]:
    """The partitions, from their streams, their hosts and the snapshot `before`."""
    floors = before.floors if before else {}
    rates: dict[int, list[float]] = {}
    for host in hosts:
        if host.partition is not None:
            rates.setdefault(host.partition, []).append(rate_of(host))
    told = []
    for status in found:
        ours = rates.get(status.partition, [])
        partition = Partition(
            status=status, collector=owners.get(status.partition, ""), hosts=len(ours), rate=sum(ours)
        )
        told.append(_compared(partition, floors.get(status.partition), at))
    return tuple(told)


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
