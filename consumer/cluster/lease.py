"""Leases: the right to write a partition, kept by renewing it. A renewal replaces only the previous renewal."""

import asyncio
from collections.abc import Callable

from consumer.cluster.membership import Claim, Membership, clock, to_claim
from shipper.errors import Fenced, SessionLost


class Lease:
    """One partition's lease, from a claim that succeeded to its release. Owned by the collector's loop."""

    def __init__(self, membership: Membership, partition: int, claim: Claim, revision: int, *, sent: float) -> None:
        self._membership = membership
        self._partition = partition
        self._key = membership.lease_key(partition)
        self._claim = claim
        self._revision = revision
        self._sent = sent  # when the newest renewal that succeeded was sent
        self._turn = asyncio.Lock()
        self._taken: Claim | None = None
        self.every = membership.every  #: seconds between two renewals
        self.now: Callable[[Claim], Claim] = lambda claim: claim  #: adds the current position to a claim
        self.confirm: Callable[[], None] = lambda: None  #: checks the archive too; raises Fenced

    @property
    def is_sure(self) -> bool:
        """Whether no other collector can have taken it: others wait for the lease time after they saw a renewal."""
        return clock() < self._sent + self._membership.lease - self.every

    async def hold(self) -> None:
        """Return while the lease is sure. If it may have expired, renew it first."""
        self._check()
        if not self.is_sure:
            await self.prove()

    async def prove(self) -> None:
        """Return once a renewal succeeded that was sent after the call."""
        called_at = clock()
        async with self._turn:
            if self._sent < called_at:  # another waiting call may have renewed it
                await self._renew(self.now(self._claim))

    async def release(self) -> None:
        """Mark the lease as released: everything is written and closed, so the next owner need not wait."""
        async with self._turn:
            await self._renew(self._claim.ended())

    async def _renew(self, claim: Claim) -> None:
        """Store `claim`. An entry that is not the last stored one may still be from this collector.

        That is so if only a reply was lost, or the server was restored from a backup.
        """
        self._check()
        for _ in range(2):
            sent = clock()
            revision = await self._membership.put(self._key, claim, expected=self._revision)
            if revision is not None:
                self._claim, self._revision, self._sent = claim, revision, sent
                return
            entry = await self._membership.read(self._key)
            found = to_claim(entry.value)
            if found is not None and found.instance != self._claim.instance:
                self._taken = found
            self._check()
            self.confirm()
            self._revision = entry.revision
        raise SessionLost(f"the lease of partition {self._partition} changes at every attempt")

    def _check(self) -> None:
        if self._taken is not None:
            by = f"{self._taken.owner} on {self._taken.host}"
            raise Fenced(f"partition {self._partition} was taken over by {by}")
