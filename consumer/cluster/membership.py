"""Entries of collectors in the bucket, as values: which collectors live, and which partitions they write.

`Membership` reads and writes the bucket, over sessions that are replaced when they fail. A collector without
permission for the bucket gets a bucket that has no other members and accepts everything.

Expiry is the time for which an entry was seen unchanged. Clocks of different machines are never compared.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, get_type_hints

from consumer.model import Position
from shipper.errors import Transient
from shipper.layout import NANOSECONDS
from shipper.model import Entry
from shipper.partition_map import MAX_PARTITIONS, decode
from shipper.ports import Bucket
from shipper.subjects import lease_key, map_key, member_key, members_of

VERSION = 1
_SECONDS = re.compile(r"[0-9]{1,19}")
_HALF_CHARACTER = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Surrogates other than those of `os.fsdecode`, which has them for bytes that are no UTF-8."""
MAX_TROUBLE = 240
"""Maximum characters of the trouble in a claim."""
MAX_FORKED = 20
"""Maximum hosts in a claim of which two producers continued one source."""
FORKED_SECONDS = 24 * 3600.0
"""Seconds after the newest block of a fork for which its host is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A live collector, according to its own entry."""

    name: str
    instance: str  #: one process from its start to its end
    host: str
    pid: int
    archive: str  #: identity of the archive that it writes
    lock: str  #: identity of the lock on its name, and of the running kernel
    partitions: tuple[int, ...] = ()  #: the only ones that it takes; (): any
    refused: tuple[int, ...] = ()  #: partitions that it cannot take
    known: tuple[int, ...] = ()  #: all partitions that it knows; in the bucket as spans
    left: bool = False  #: it ended cleanly
    doubled: int = 0  #: bytes that its archive holds twice
    disk_size: int = 0  #: bytes of the file system of its archive; 0: unknown
    disk_free: int = 0  #: bytes of it that the collector may still write
    lease_seconds: int = 0  #: it renews its entries several times within this time; 0: written by an older version

    def takes(self, partition: int) -> bool:
        """Whether it may have `partition`."""
        return partition not in self.refused and (not self.partitions or partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The owner of a partition, and its position. The entry replaces only the one that its writer has read."""

    owner: str  #: name of the collector
    instance: str
    host: str
    pid: int
    archive: str
    lock: str  #: identity of the lock on the partition, and of the running kernel
    epoch: int = 0
    released: bool = False  #: the owner is done: files and journal are closed
    applied: int = 0  #: of the journal's position, as far as it is committed
    applied_ns: int = 0
    resume: int = 1
    plain_after_ns: int = 0
    created: str = ""
    directory: str = ""  #: where the archive is on the host of the collector; empty: written by an older version
    past: str = ""  #: the newest complete day: all sealed, and the stream can deliver nothing more for it; "": none
    forked: str = ""  #: hosts of which two producers continued one source, the newest first: `host=seconds,...`
    trouble: str = ""  #: why its owner cannot write at the moment; empty: it can, or an older version wrote it
    lease_seconds: int = 0  #: as in `Member`

    @property
    def position(self) -> Position:
        """The position in the stream."""
        return Position(**{name: getattr(self, name) for name in Position.__slots__})

    def ended(self) -> "Claim":
        """The claim, marked as released."""
        return replace(self, released=True)


def forked_text(hosts: Mapping[str, int]) -> str:
    """The newest of `hosts`, each with the time of its newest forked block (ns since 1970), as a claim holds them."""
    newest = sorted(hosts.items(), key=lambda each: -each[1])[:MAX_FORKED]
    return ",".join(f"{host}={at_ns // NANOSECONDS}" for host, at_ns in newest)


def forked_since(claim: Claim, since: float) -> Iterator[str]:
    """The hosts that a claim names with a time (seconds since 1970) of `since` or later."""
    for each in claim.forked.split(",")[:MAX_FORKED]:
        host, _, seconds = each.partition("=")
        if host and _SECONDS.fullmatch(seconds) and int(seconds) >= since:
            yield host


def encode(value: Member | Claim) -> bytes:
    """`value` as the bucket holds it."""
    fields = {"v": VERSION, **asdict(value)}
    if isinstance(value, Member):
        fields["known"] = _spans(value.known)
    return json.dumps(fields, separators=(",", ":")).encode()


def to_member(content: bytes) -> Member | None:
    """The collector in an entry; None: there is none (deleted manually, or of another version)."""
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
    """The claim in an entry; None: there is none."""
    fields = _fields(content, Claim)
    return None if fields is None else Claim(**fields)


def _fields(content: bytes, of: type[Member] | type[Claim]) -> dict[str, Any] | None:
    """The fields that this version knows; a newer version may write more."""
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
        plain = {name: value for name, value in known.items() if kinds[name] in {str, int, bool}}
        if all(type(value) is kinds[name] and _fits(value) for name, value in plain.items()):
            return known
    return None


def _fits(value: str | int) -> bool:
    """Whether a number has 64 bits, and a text can be written and shown: JSON has larger ones, and half characters."""
    return abs(value) < 1 << 63 if isinstance(value, int) else not _HALF_CHARACTER.search(value)


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


class LocalBucket:
    """A bucket without other members: only the locks on this machine decide."""

    async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Nothing."""
        del keys
        return {}

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int | None:
        """A revision, always."""
        del key, value
        return (expected or 0) + 1

    async def forget(self, key: str) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def clock() -> float:
    """Seconds of a clock that continues during a suspend, so that leases expire during it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class _Observation:
    revision: int
    still: float = 0.0
    changed: bool = False  # since it was seen first


class ChangeClock:
    """Measures how long entries did not change. Only time in which the bucket was read counts."""

    def __init__(self, *, every: float, clock: Callable[[], float] = clock) -> None:
        self._longest = 2 * every
        self._clock = clock
        self._polled: float | None = None
        self._seen: dict[str, _Observation] = {}

    def observe(self, entries: Mapping[str, Entry]) -> None:
        """Record the current entries of the bucket."""
        now = self._clock()
        passed = 0.0 if self._polled is None else min(now - self._polled, self._longest)
        self._polled = now
        revisions = dict.fromkeys(self._seen, 0) | {key: entry.revision for key, entry in entries.items()}
        for key, revision in revisions.items():
            seen = self._seen.get(key)
            same = seen is not None and seen.revision == revision
            changed = _Observation(revision, changed=seen is not None)
            self._seen[key] = replace(seen, still=seen.still + passed) if seen and same else changed

    def still(self, key: str) -> float:
        """Seconds for which the entry of `key`, or its absence, has not changed."""
        seen = self._seen.get(key)
        return seen.still if seen else 0.0

    def changed(self, key: str) -> bool:
        """Whether the entry changed since it was seen first."""
        return key in self._seen and self._seen[key].changed

    def knew(self, key: str) -> bool:
        """Whether there ever was an entry."""
        return key in self._seen

    def forget(self) -> None:
        """The session ended: an entry may not have changed only because the server was not reachable."""
        self._polled = None
        self._seen = {key: _Observation(seen.revision) for key, seen in self._seen.items()}


OpenBucket = Callable[[], Awaitable[Bucket]]
RENEWALS = 5  # in the time of a lease
FORGET_SECONDS = 3600.0


class Membership:
    """The bucket of the collectors. Owned by the collector's loop.

    Every method that sends a request raises `Transient`, or what opening raises; the next call opens a new session.
    """

    def __init__(self, open_bucket: OpenBucket, *, prefix: str, lease: float) -> None:
        self.lease = lease
        self.every = lease / RENEWALS
        self._open_bucket = open_bucket
        self._prefix = prefix
        self._bucket: Bucket | None = None
        self._opening = asyncio.Lock()
        self._watch = ChangeClock(every=self.every)
        self._entries: Mapping[str, Entry] = MappingProxyType({})

    async def read_all(self, partitions: Iterable[int]) -> None:
        """Read the entries: the members, and the owners of `partitions`."""
        keys = [members_of(self._prefix), map_key(self._prefix)]
        keys += [lease_key(self._prefix, number) for number in partitions]
        async with self._session() as bucket:
            self._entries = await bucket.entries(keys)
        self._watch.observe(self._entries)

    async def put(self, key: str, value: Member | Claim, *, expected: int | None = None) -> int | None:
        """Store `value`; its revision, or None: the entry has another revision than `expected`."""
        async with self._session() as bucket:
            return await bucket.put(key, encode(value), expected=expected)

    async def read(self, key: str) -> Entry:
        """The entry of `key` as it is now; revision 0: there is none."""
        async with self._session() as bucket:
            return (await bucket.entries([key])).get(key, Entry(0, b""))

    async def close(self) -> None:
        """End the session; the next call begins another."""
        if self._bucket is not None:
            await self._drop(self._bucket)

    def claim(self, partition: int) -> tuple[Claim | None, int]:
        """The claim of `partition` at the last read, and its revision; None: there is none."""
        entry = self._entries.get(lease_key(self._prefix, partition), Entry(0, b""))
        return to_claim(entry.value), entry.revision

    def expired(self, partition: int) -> bool:
        """Whether the entry of `partition` did not change for the time of a lease, or never existed."""
        key = lease_key(self._prefix, partition)
        return not self._watch.knew(key) or self._watch.still(key) >= self.lease

    def renewed(self, partition: int) -> bool:
        """Whether the owner of `partition` was seen to renew its claim."""
        return self._watch.changed(lease_key(self._prefix, partition))

    def silent(self, partition: int) -> float:
        """Seconds for which the entry of `partition` was seen unchanged."""
        return self._watch.still(lease_key(self._prefix, partition))

    def is_unused(self, partition: int) -> bool:
        """Whether a partition map exists, and it assigns no host to this partition."""
        entry = self._entries.get(map_key(self._prefix))
        known = decode(entry.value) if entry else None
        return known is not None and partition not in known.used

    def members(self) -> list[Member]:
        """The collectors whose entry changed within the time of a lease, and that did not leave."""
        found = [
            to_member(entry.value)
            for key, entry in self._entries.items()
            if key.startswith("member.") and self._watch.still(key) < self.lease
        ]
        return [member for member in found if member is not None and not member.left]

    def key_of(self, member: Member) -> str:
        """The key of the entry of `member`."""
        return member_key(self._prefix, member.archive, member.name)

    def lease_key(self, partition: int) -> str:
        """The key of the claim of `partition`."""
        return lease_key(self._prefix, partition)

    async def forget_dead(self) -> None:
        """Remove entries of collectors that did not change for an hour: names may be new at every start."""
        async with self._session() as bucket:
            members = [key for key in self._entries if key.startswith("member.")]
        for key in members:
            if self._watch.still(key) >= FORGET_SECONDS:
                await bucket.forget(key)  # after the block: without the right to forget, the session goes on

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Bucket]:
        """The bucket; a session in which a request fails is ended."""
        async with self._opening:  # many leases may be renewed at the same time
            if self._bucket is None:
                self._bucket = await self._open_bucket()
            bucket = self._bucket
        try:
            yield bucket
        except Transient:
            await self._drop(bucket)
            raise

    async def _drop(self, bucket: Bucket) -> None:
        if self._bucket is bucket:
            self._bucket = None
            self._watch.forget()
            await bucket.close()
