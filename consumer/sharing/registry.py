"""What the collectors of the same streams say, read again and again over sessions that are replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType

from consumer.sharing.entries import Claim, Member, encode, to_claim, to_member
from consumer.sharing.watch import Watch
from shipper.bucket import lease_key, map_key, member_key, members_of
from shipper.errors import Transient
from shipper.model import Entry
from shipper.partition_map import decode
from shipper.ports import Bucket

OpenBucket = Callable[[], Awaitable[Bucket]]
RENEWALS = 5  # in the time of a lease
FORGET_SECONDS = 3600.0


class Registry:
    """The bucket of the collectors. Owned by the collector's loop.

    Every method that asks the server raises `Transient`, or what opening raises; the next call opens a new session.
    """

    def __init__(self, open_bucket: OpenBucket, *, prefix: str, lease: float) -> None:
        self.lease = lease
        self.every = lease / RENEWALS
        self._open_bucket = open_bucket
        self._prefix = prefix
        self._bucket: Bucket | None = None
        self._opening = asyncio.Lock()
        self._watch = Watch(every=self.every)
        self._entries: Mapping[str, Entry] = MappingProxyType({})

    async def look(self, partitions: Iterable[int]) -> None:
        """Read what is there now: the members, and who has which of `partitions`."""
        bucket = await self._session()
        keys = [members_of(self._prefix), map_key(self._prefix)]
        keys += [lease_key(self._prefix, number) for number in partitions]
        try:
            self._entries = await bucket.entries(keys)
        except Transient:
            await self.close()
            raise
        self._watch.look(self._entries)

    async def put(self, key: str, value: Member | Claim, *, expected: int | None = None) -> int | None:
        """Store `value`; its revision, or None: the entry has another revision than `expected`."""
        bucket = await self._session()
        try:
            return await bucket.put(key, encode(value), expected=expected)
        except Transient:
            await self._drop(bucket)
            raise

    async def read(self, key: str) -> Entry:
        """The entry of `key` as it is now; revision 0: there is none."""
        bucket = await self._session()
        try:
            return (await bucket.entries([key])).get(key, Entry(0, b""))
        except Transient:
            await self._drop(bucket)
            raise

    async def close(self) -> None:
        """End the session; the next call begins another."""
        if self._bucket is not None:
            await self._drop(self._bucket)

    def claim(self, partition: int) -> tuple[Claim | None, int]:
        """Who had `partition` at the last look, and the revision of that entry; None: nobody said so."""
        entry = self._entries.get(lease_key(self._prefix, partition), Entry(0, b""))
        return to_claim(entry.value), entry.revision

    def expired(self, partition: int) -> bool:
        """Whether the entry of `partition` did not change for the time of a lease, or never was there."""
        key = lease_key(self._prefix, partition)
        return not self._watch.knew(key) or self._watch.still(key) >= self.lease

    def renewed(self, partition: int) -> bool:
        """Whether whoever has `partition` was seen to renew its claim."""
        return self._watch.changed(lease_key(self._prefix, partition))

    def silent(self, partition: int) -> float:
        """Seconds for which the entry of `partition` did not change, as far as was looked."""
        return self._watch.still(lease_key(self._prefix, partition))

    def is_unused(self, partition: int) -> bool:
        """Whether there is a map of the partitions, and it sends no host to this one."""
        entry = self._entries.get(map_key(self._prefix))
        known = decode(entry.value) if entry else None
        return known is not None and partition not in known.used

    def members(self) -> list[Member]:
        """The collectors that said something within the time of a lease, and did not leave."""
        found = [
            to_member(entry.value)
            for key, entry in self._entries.items()
            if key.startswith("member.") and self._watch.still(key) < self.lease
        ]
        return [member for member in found if member is not None and not member.left]

    def key_of(self, member: Member) -> str:
        """Where `member` says that it lives."""
        return member_key(self._prefix, member.archive, member.name)

    def lease_key(self, partition: int) -> str:
        """Where it says who has `partition`."""
        return lease_key(self._prefix, partition)

    async def forget_dead(self) -> None:
        """Remove the entries of collectors that were silent for an hour: names may be new at every start."""
        bucket = await self._session()
        for key in self._entries:
            if key.startswith("member.") and self._watch.still(key) >= FORGET_SECONDS:
                await bucket.forget(key)

    async def _session(self) -> Bucket:
        async with self._opening:  # many leases may be renewed at the same time
            if self._bucket is None:
                self._bucket = await self._open_bucket()
            return self._bucket

    async def _drop(self, bucket: Bucket) -> None:
        if self._bucket is bucket:
            self._bucket = None
            self._watch.forget()
            await bucket.close()
