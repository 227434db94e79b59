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
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from consumer.model import Position
from shipper.errors import Transient
from shipper.json_codec import MAX_COUNT, count, items, object_in, strict, written
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


_partition = count(most=MAX_PARTITIONS - 1)
_span = items(_partition)


def _text(value: Any) -> str:
    """A text that can be written and shown: JSON has half characters."""
    if not isinstance(value, str) or _HALF_CHARACTER.search(value):
        raise ValueError("no text")
    return value


def _numbers_in(spans: Any) -> tuple[int, ...]:
    """The numbers in runs, each with its first and its last."""
    runs = [(first, last) for first, last in map(_span, spans)]
    numbers, after = list[int](), 0  # spans may overlap: each number is taken once, whatever their number
    for first, last in sorted(runs[:MAX_PARTITIONS]):
        numbers += range(max(first, after), last + 1)
        after = max(after, last + 1)
    return tuple(numbers)


_Number = Annotated[int, count(least=-MAX_COUNT)]
_Text = Annotated[str, _text]
_Partitions = Annotated[tuple[int, ...], items(_partition)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A live collector, according to its own entry."""

    name: _Text
    instance: _Text  #: one process from its start to its end
    host: _Text
    pid: _Number
    archive: _Text  #: identity of the archive that it writes
    lock: _Text  #: identity of the lock on its name, and of the running kernel
    partitions: _Partitions = ()  #: the only ones that it takes; (): any
    refused: _Partitions = ()  #: partitions that it cannot take
    known: Annotated[tuple[int, ...], _numbers_in] = ()  #: all partitions that it knows; in the bucket as spans
    left: bool = False  #: it ended cleanly
    doubled: _Number = 0  #: bytes that its archive holds twice
    disk_size: _Number = 0  #: bytes of the file system of its archive; 0: unknown
    disk_free: _Number = 0  #: bytes of it that the collector may still write
    lease_seconds: _Number = 0  #: it renews its entries several times within this time; 0: written by an older version

    def takes(self, partition: int) -> bool:
        """Whether it may have `partition`."""
        return partition not in self.refused and (not self.partitions or partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The owner of a partition, and its position. The entry replaces only the one that its writer has read."""

    owner: _Text  #: name of the collector
    instance: _Text
    host: _Text
    pid: _Number
    archive: _Text
    lock: _Text  #: identity of the lock on the partition, and of the running kernel
    epoch: _Number = 0
    released: bool = False  #: the owner is done: files and journal are closed
    applied: _Number = 0  #: of the journal's position, as far as it is committed
    applied_ns: _Number = 0
    resume: _Number = 1
    plain_after_ns: _Number = 0
    created: _Text = ""
    directory: _Text = ""  #: where the archive is on the host of the collector; empty: written by an older version
    past: _Text = ""  #: the newest complete day: all sealed, and the stream can deliver nothing more for it; "": none
    forked: _Text = ""  #: hosts of which two producers continued one source, the newest first: `host=seconds,...`
    trouble: _Text = ""  #: why its owner cannot write at the moment; empty: it can, or an older version wrote it
    lease_seconds: _Number = 0  #: as in `Member`

    @property
    def position(self) -> Position:
        """The position in the stream."""
        return Position(**{name: getattr(self, name) for name in Position.__slots__})

    def ended(self) -> "Claim":
        """The claim, marked as released."""
        return replace(self, released=True)


_K = TypeVar("_K", Member, Claim)


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
    fields = {"v": VERSION, **written(value)}
    if isinstance(value, Member):
        fields["known"] = _spans(value.known)
    return json.dumps(fields, separators=(",", ":")).encode()


def to_member(content: bytes) -> Member | None:
    """The collector in an entry. None means that there is none (deleted manually, or of another version)."""
    return _entry(Member, content)


def to_claim(content: bytes) -> Claim | None:
    """The claim in an entry. None means that there is none."""
    return _entry(Claim, content)


def _entry(kind: type[_K], content: bytes) -> _K | None:
    try:
        return strict(kind, object_in(content, version=VERSION))
    except ValueError:
        return None


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

    @classmethod
    async def open(cls) -> Bucket:
        """Return a bucket."""
        return cls()

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


RENEWALS = 5  # in the time of a lease
FORGET_SECONDS = 3600.0


class Membership:
    """The bucket of the collectors. Owned by the collector's loop.

    Every method that sends a request raises `Transient`, or what opening raises; the next call opens a new session.
    """

    def __init__(self, open_bucket: Callable[[], Awaitable[Bucket]], *, prefix: str, lease: float) -> None:
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
        """Store `value`. Returns its revision, or None if the entry has another one than `expected`."""
        async with self._session() as bucket:
            return await bucket.put(key, encode(value), expected=expected)

    async def read(self, key: str) -> Entry:
        """The entry of `key` as it is now. Revision 0 means that there is none."""
        async with self._session() as bucket:
            return (await bucket.entries([key])).get(key, Entry(0, b""))

    async def close(self) -> None:
        """End the session. The next call begins another."""
        if self._bucket is not None:
            await self._drop(self._bucket)

    def claim(self, partition: int) -> tuple[Claim | None, int]:
        """The claim of `partition` at the last read, and its revision. None means that there is none."""
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
        """The bucket. A session in which a request fails is ended."""
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
