"""The right to write a partition, kept by renewing it: each renewal is stored only over the one before."""

import asyncio
from collections.abc import Callable

from consumer.cluster.membership import Claim, Registry, clock, to_claim
from shipper.errors import Fenced, SessionLost


class Lease:
    """One partition's lease, from a claim that succeeded to its release. Owned by the collector's loop."""

    def __init__(
        self, registry: Registry, partition: int, claim: Claim, revision: int, *, sent: float,
        clock: Callable[[], float] = clock,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._partition = partition
        self._key = registry.lease_key(partition)
        self._claim = claim
        self._revision = revision
        self._sent = sent  # when the newest renewal that succeeded was sent
        self._clock = clock
        self._turn = asyncio.Lock()
        self._taken: Claim | None = None
        self.now: Callable[[Claim], Claim] = lambda claim: claim  #: fills in how far the partition is
        self.confirm: Callable[[], None] = lambda: None  #: looks at the archive too; raises Fenced

    @property
    def claim(self) -> Claim:
        """What the bucket says since the newest renewal."""
        return self._claim

    @property
    def every(self) -> float:
        """Seconds between two renewals."""
        return self._registry.every

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have taken it yet: others wait for a whole lease from when they saw the renewal."""
        return self._clock() < self._sent + self._registry.lease - self._registry.every

    async def hold(self) -> None:
        """Return while the lease is sure; where it may have run out, ask."""
        self._check()
        if not self.is_sure:
            await self.prove()

    async def prove(self) -> None:
        """Return once a renewal succeeded that was sent after the call."""
        asked = self._clock()
        async with self._turn:
            if self._sent < asked:  # one that waited for its turn too may have done it meanwhile
                await self._renew(self.now(self._claim))

    async def release(self) -> None:
        """Say that everything is written and closed: whoever comes next need not wait."""
        async with self._turn:
            await self._renew(self._claim.ended())

    async def _renew(self, claim: Claim) -> None:
        self._check()
        for _ in range(2):
            sent = self._clock()
            revision = await self._registry.put(self._key, claim, expected=self._revision)
            if revision is not None:
                self._claim, self._revision, self._sent = claim, revision, sent
                return
            await self._find_out()
        raise SessionLost(f"the lease of partition {self._partition} changes all the time")

    async def _find_out(self) -> None:
        """The entry is not the one that was stored last. Raises Fenced: it is another collector's now.

        An answer may have been lost, and the server's store may be an older copy of itself: then it is ours still.
        """
        entry = await self._registry.read(self._key)
        found = to_claim(entry.value)
        if found is not None and found.instance != self._claim.instance:
            self._taken = found
        self._check()
        self.confirm()
        self._revision = entry.revision

    def _check(self) -> None:
        if self._taken is not None:
            by = f"{self._taken.owner} on {self._taken.host}"
            raise Fenced(f"partition {self._partition} was taken over by {by}")
