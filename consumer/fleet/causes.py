"""Why lines wait, or will: one sentence for each cause, whatever number of partitions and hosts it concerns. Pure.

A collector publishes what hinders it in its entry of the bucket, and the space on the disk of its archive. So a full
disk is reported as that, and "no collector reads them" only where none runs.
"""

import enum
import os
from collections.abc import Iterable
from dataclasses import dataclass
from errno import EACCES, EDQUOT, EIO, ENOSPC, EPERM, EROFS
from typing import NamedTuple

from consumer.cluster.membership import Claim, Member
from consumer.disk_space import Disk
from shipper.units import counted, format_bytes, format_duration

SILENT_SECONDS = 15.0
"""Minimum age of a collector's entry after which it gives no sign; a lease is 5 s by default."""
SILENT_LEASES = 2.0
"""And so many times its own lease."""


class Severity(enum.StrEnum):
    """How severe a cause is, in the words of the state of a host."""

    HALTED = "dead"  #: nothing moves until an operator acts
    SLOWED = "stuck"  #: something waits, or is about to
    NOTE = "note"  #: nothing waits


class Cause(NamedTuple):
    """One cause of trouble."""

    kind: str  #: disk, collector, partition
    what: str  #: the thing: "archive disk", "collector vm"; empty: the partition itself
    why: str  #: the sentence
    severity: Severity = Severity.HALTED


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSign:
    """What the collector of a partition published last."""

    name: str
    machine: str = ""
    archive: str = ""  #: identity of the archive
    directory: str = ""
    age: float = 0.0  #: seconds since it renewed its lease, by the server's clock
    lease: float = 0.0  #: seconds; 0: unknown
    is_released: bool = False
    trouble: str = ""  #: why it cannot write
    disk: Disk | None = None  #: of its archive

    @property
    def is_silent(self) -> bool:
        """Whether it neither renewed its lease for too long nor released it."""
        return not self.is_released and self.age > max(SILENT_SECONDS, SILENT_LEASES * self.lease)

    @property
    def is_hindered(self) -> bool:
        """Whether it lives and cannot write."""
        return bool(self.trouble) and not (self.is_released or self.is_silent)


def sign_of(claim: Claim, at_ns: int, now_ns: int, members: Iterable[Member]) -> CollectorSign:
    """The sign of the owner of a partition. `at_ns`: when the server stored its claim. `members`: those that live."""
    mine = [member for member in members if member.archive == claim.archive and member.disk_size]
    owner = next((member for member in mine if member.name == claim.owner), mine[0] if mine else None)
    return CollectorSign(
        name=claim.owner,
        machine=claim.host,
        archive=claim.archive,
        directory=claim.directory,
        age=max(0.0, (now_ns - at_ns) / 1e9),
        lease=float(claim.lease_seconds),
        is_released=claim.released,
        trouble=claim.trouble,
        disk=Disk(owner.disk_size, owner.disk_free) if owner else None,
    )


_DISK = {
    EDQUOT: "the quota of the archive disk is used up",
    EROFS: "archive disk is read-only",
    EIO: "archive disk has I/O errors",
}
"""Errors of a file system, and how they are reported; a full disk also names the free space."""


def hindrance(sign: CollectorSign) -> Cause:
    """Why a collector that is alive cannot write."""
    name, where = f"collector {sign.name}", f" (archive {sign.directory})" if sign.directory else ""
    disk_trouble = (
        _full(sign) if _says(sign, ENOSPC) else next((_DISK[each] for each in _DISK if _says(sign, each)), "")
    )
    if disk_trouble:
        return Cause("disk", "archive disk", f"{disk_trouble}; {name} waits{where}")
    if _says(sign, EACCES) or _says(sign, EPERM):
        return Cause("collector", name, f"{name} has no right to write the archive: {sign.trouble}{where}")
    if "sessions ended at message" in sign.trouble:
        return Cause("collector", name, f"{name} cannot read a message: {sign.trouble}")
    return Cause("collector", name, f"{name} cannot work: {sign.trouble}")


def _says(sign: CollectorSign, number: int) -> bool:
    return os.strerror(number).lower() in sign.trouble.lower()


def _full(sign: CollectorSign) -> str:
    if sign.disk is None:
        return "archive disk full"
    free = f"{format_bytes(sign.disk.free)} free"
    is_out_of_bytes = sign.disk.is_nearly_full
    return f"archive disk full: {free}" if is_out_of_bytes else f"archive disk full: no inodes or a reserve, {free}"


def unread(lag: int, sign: CollectorSign | None, *, are_known: bool) -> Cause:
    """Why `lag` messages wait that nothing requests. `are_known`: the entries of the collectors could be read."""
    wait = counted(lag, "message waits", "messages wait")
    if sign is None and not are_known:
        why = f"{wait} and nothing requests them; whether a collector runs is not known: its entries cannot be read"
        return Cause("collector", "collector", why)
    if sign is None:
        return Cause("collector", "collector", f"{wait}, and no collector reads them")
    name, ago = f"collector {sign.name}", format_duration(sign.age)
    if sign.is_released:
        return Cause("collector", name, f"{wait}, and no collector reads them: {sign.name} was stopped {ago} ago")
    if sign.is_silent:
        on = f" on {sign.machine}" if sign.machine else ""
        lost = f"no sign of {sign.name}{on} for {ago}: it was killed, hangs or is cut off from the server"
        return Cause("collector", name, f"{wait}, and no collector reads them: {lost}")
    return Cause("collector", name, f"{wait}, and {name} is alive and requests none")


def silent_note(sign: CollectorSign) -> str:
    """That a collector gives no sign, while nothing waits."""
    on = f" on {sign.machine}" if sign.machine else ""
    return (
        f"no sign of collector {sign.name}{on} for {format_duration(sign.age)}: nothing waits now, the next lines will"
    )


def disk_note(sign: CollectorSign, disk: Disk) -> str:
    """That a disk is nearly full, while the collector can write."""
    return f"archive disk nearly full: {format_bytes(disk.free)} of {format_bytes(disk.size)} free ({sign.directory})"
