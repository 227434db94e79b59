"""Receipts for the producers: what the archive holds of their sources. The rate limit of their requests."""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from consumer.commit.store import PartitionStore
from consumer.model import ArchivedSource, PartitionOptions, SourceKey
from consumer.partition.pace import RequestedPace
from shipper import events
from shipper.control import MAX_SOURCES, Receipt, ReceiptsReply, ReceiptsRequest, as_many_as_fit
from shipper.ports import Inbox
from shipper.rate_limit import RateLimit
from shipper.subjects import control_down

HOSTS_PER_ROUND = 100
"""Maximum number of hosts that get receipts in one round: ten thousand would block the stream for seconds."""
AGAIN_SECONDS = 1.0
"""Seconds until the next round while more hosts wait for receipts."""


def receipts_reply(
    newest_first: Iterable[ArchivedSource], archive: str, through: int, *, left: int = -1, is_retired: bool = False
) -> ReceiptsReply:
    """The receipts of as many sources as fit, from the archive with the identity `archive`.

    Every message up to the sequence `through` (in the producer's stream) is applied; no hole is before it.
    """
    receipts = tuple(as_many_as_fit(map(_receipt, newest_first)))
    return ReceiptsReply(archive, through, receipts, left, is_retired)


def _receipt(known: ArchivedSource) -> Receipt:
    """One receipt. An archived copy that is not the host's file byte for byte has no sum that could prove it: -1.

    The sum that the host itself reported still identifies its file.
    """
    crc = -1 if known.crc is None else known.crc
    proven, reported = (crc, -1) if known.proven else (-1, crc)
    return Receipt(known.id, known.file, known.origin, known.watermark, proven, reported)


class ReceiptSender:
    """Sends receipts to the producers of one partition: unrequested after commits, and as replies."""

    def __init__(self, options: PartitionOptions, store: PartitionStore, pace: RequestedPace) -> None:
        self._options = options
        self._store = store
        self._pace = pace
        self.changed: dict[str, dict[SourceKey, None]] = {}  # by host: sources that changed since its last receipt
        self._had_more = False  # hosts than one round takes, when the last one began

    def interval(self) -> float:
        """Seconds between two rounds."""
        return min(self._options.receipt_every, AGAIN_SECONDS) if self._had_more else self._options.receipt_every

    def committed(self, sources: Iterable[SourceKey]) -> None:
        """More of these sources is archived: their hosts get receipts in one of the next rounds."""
        for source in sources:
            self.changed.setdefault(source.host, {})[source] = None

    async def send_round(self, inbox: Inbox) -> None:
        """Send receipts to the hosts that wait longest."""
        self._had_more = len(self.changed) > HOSTS_PER_ROUND
        await self.send_all(inbox, most=HOSTS_PER_ROUND)

    async def send_all(self, inbox: Inbox, *, most: int | None = None) -> None:
        """Send every receipt that is due, to at most `most` hosts."""
        for host in list(itertools.islice(self.changed, most)):
            left = list(self.changed.pop(host))
            while left:
                receipts = await self._of_sources(inbox, left[:MAX_SOURCES])
                message = replace(receipts, pace=round(1000 * self._pace.seconds))
                await inbox.tell(control_down(host), message.to_json())
                left = left[max(1, len(message.receipts)) :]

    async def reply(self, inbox: Inbox, host: str, request: ReceiptsRequest, *, left: int) -> ReceiptsReply:
        """What the archive holds of `host`: of the requested sources, or of the newest.

        `left`: the map version by which the host left the partition, determined before, so that the receipts are final.
        """
        if request.sources is not None:
            return await self._of_sources(inbox, [SourceKey(host, source) for source in request.sources], left=left)
        through = await self._through(inbox)
        known = await self._store.run(self._store.newest_sources, host, MAX_SOURCES)
        return receipts_reply(known, self._options.archive, through, left=left)

    async def _of_sources(self, inbox: Inbox, sources: list[SourceKey], *, left: int = -1) -> ReceiptsReply:
        through = await self._through(inbox)  # first: what is committed meanwhile is more than it promises
        known = await self._store.run(lambda: [self._store.source(source) for source in sources])
        return receipts_reply([each for each in known if each is not None], self._options.archive, through, left=left)

    async def _through(self, inbox: Inbox) -> int:
        return await inbox.at_origin(self._store.journal.position.resume - 1) or 0


PER_SECOND = 10.0
"""Points that a host regains per second. A request costs 1, and 1 more for every 100 sources that it names: a host may
request the receipts of 1,000 sources per second in each partition; the collector needs about 0.05 s for them."""
BURST = 1100.0
"""Maximum points of a host: the receipts of 100,000 sources. A producer requests each of its files once a session."""
SOURCES_PER_POINT = 100


class RequestLimit:
    """Rate limit of the requests of each host. Owned by a loop."""

    def __init__(self, partition: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._limit = RateLimit(per_second=PER_SECOND, burst=BURST, clock=clock)
        self.refused = 0  #: requests that were not answered

    def allows(self, host: str, request: ReceiptsRequest) -> bool:
        """Whether a request is answered. It costs its host points then."""
        about = MAX_SOURCES if request.sources is None else len(request.sources)
        is_allowed = self._limit.allows(host, 1 + about // SOURCES_PER_POINT)
        if not is_allowed:
            self.refuse(host, "requests too often")
        return is_allowed

    def refuse(self, host: str, reason: str) -> None:
        """Count and log a request that is not answered."""
        self.refused += 1
        events.question_refused(host=host, partition=self._partition, reason=reason)
