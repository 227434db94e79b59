"""What collectors tell each other in the bucket, as values: that one lives, and which partition it writes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_type_hints

from shipper.layout import NANOSECONDS
from shipper.partitioning import MAX_PARTITIONS

VERSION = 1
MAX_FORKED = 20
"""Hosts that a claim names because two producers continued one of their sources, at most."""
FORKED_SECONDS = 24 * 3600.0
"""For so long after the newest block of a fork its host is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A collector that lives, as it says itself."""

    name: str
    instance: str  #: one process from its start to its end
    host: str
    pid: int
    archive: str  #: identity of the archive that it writes
    lock: str  #: which lock on its name it holds, on which running kernel
    partitions: tuple[int, ...] = ()  #: the only ones that it takes; (): any
    refused: tuple[int, ...] = ()  #: that it cannot take here
    known: tuple[int, ...] = ()  #: all that there are, as far as it knows; in the bucket as spans
    left: bool = False  #: it ended by itself
    doubled: int = 0  #: bytes that its archive holds twice

    def takes(self, partition: int) -> bool:
        """Whether it may have `partition`."""
        return partition not in self.refused and (not self.partitions or partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who writes a partition, and how far: the entry is stored only over the one that its writer has seen."""

    owner: str  #: name of the collector
    instance: str
    host: str
    pid: int
    archive: str
    lock: str  #: which lock on the partition it holds, on which running kernel
    epoch: int = 0
    released: bool = False  #: the owner is done: files and journal are closed
    applied: int = 0  #: of the journal's position, as far as it is committed
    applied_ns: int = 0
    resume: int = 1
    plain_after_ns: int = 0
    created: str = ""
    directory: str = ""  #: where the archive is on the host of the collector; empty: an older version does not say
    past: str = ""  #: the newest day of which nothing can come any more, all of it sealed; "": none
    forked: str = ""  #: hosts of which two producers continued one source, the newest first: `host=seconds,...`

    def ended(self) -> "Claim":
        """The same, given back."""
        return replace(self, released=True)


def forked_text(hosts: Mapping[str, int]) -> str:
    """The newest of `hosts`, each with the time of its newest forked block (ns since 1970), as a claim holds them."""
    newest = sorted(hosts.items(), key=lambda each: -each[1])[:MAX_FORKED]
    return ",".join(f"{host}={at_ns // NANOSECONDS}" for host, at_ns in newest)


def forked_since(claim: Claim, since: float) -> Iterator[str]:
    """The hosts that a claim names with a time (seconds since 1970) of `since` or later."""
    for each in claim.forked.split(",")[:MAX_FORKED]:
        host, _, seconds = each.partition("=")
        if host and seconds.isdecimal() and int(seconds) >= since:
            yield host


def encode(value: Member | Claim) -> bytes:
    """`value` as the bucket holds it."""
    fields = {"v": VERSION, **asdict(value)}
    if isinstance(value, Member):
        fields["known"] = _spans(value.known)
    return json.dumps(fields, separators=(",", ":")).encode()


def to_member(content: bytes) -> Member | None:
    """The collector that an entry tells of; None: it tells of none (deleted by hand, or of another version)."""
    fields = _fields(content, Member)
    if fields is None:
        return None
    try:
        for name in ("partitions", "refused"):
            fields[name] = tuple(_partition(number) for number in fields.get(name, ()))
        spans = [(_partition(first), _partition(last)) for first, last in fields.get("known", ())]
    except (TypeError, ValueError):
        return None
    fields["known"] = tuple(
        sorted({number for first, last in spans[:MAX_PARTITIONS] for number in range(first, last + 1)})
    )
    return Member(**fields)


def to_claim(content: bytes) -> Claim | None:
    """The claim that an entry holds; None: it holds none."""
    fields = _fields(content, Claim)
    return None if fields is None else Claim(**fields)


def _fields(content: bytes, of: type[Member] | type[Claim]) -> dict[str, Any] | None:
    """The fields that this version knows; a newer one may say more."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("v") != VERSION:
        return None
    known = {name: found[name] for name in of.__slots__ if name in found}
    needed = {"instance", "host", "pid", "archive", "lock"}
    if isinstance(found.get("owner" if of is Claim else "name"), str) and needed <= known.keys():
        kinds = get_type_hints(of)
        if all(type(value) is kinds[name] for name, value in known.items() if kinds[name] in {str, int, bool}):
            return known
    return None


def _partition(number: Any) -> int:
    """A partition from the network. Raises ValueError: there can be none with this number."""
    if type(number) is not int or not 0 <= number < MAX_PARTITIONS:
        raise ValueError(number)
    return number


def _spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """`numbers` as runs, first and last: there may be thousands."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans
