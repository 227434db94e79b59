"""How a host leaves a partition: the move marker, the final receipts, and what each source takes to the next partition.

    marker -> PubAck -> the collector journals it -> its receipts are final

The old partition drops every message of this host that is stored after the marker, for example from a connection that
is still open. So the receipts that follow name all that the old partition will ever archive of this host, and the new
partition continues after those bytes. Every step can be repeated: after a kill the checkpoint still has the state
"leaving", and the next process starts again with the marker.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from producer import receipts
from producer.model import Place, Source
from shipper import codec, events
from shipper.control import Receipt, ReceiptsReply
from shipper.errors import SessionLost
from shipper.model import Handoff
from shipper.ports import Publisher
from shipper.subjects import log_subject

ASK_AGAIN_SECONDS = 0.25
MARK_AGAIN_SECONDS = 10.0
"""Interval between two markers: a collector with another archive may have taken over without reading the first."""
MARKER = 0
"""Token of the marker: no block has it."""


class Departure:
    """One attempt, in one session, to leave `place`."""

    def __init__(self, publisher: Publisher, prefix: str, host: str, place: Place, *, ack_timeout: float) -> None:
        self._publisher = publisher
        self._subject = log_subject(prefix, place.partition, host)
        self._host = host
        self._place = place
        self._ack_timeout = ack_timeout
        self._news = asyncio.Event()
        publisher.on_news(self._news.set)

    async def last_receipts(self, asked: Callable[[], Sequence[str]]) -> ReceiptsReply:
        """The final receipts of the old partition for the sources of `asked`; waits for them without limit.

        Raises SessionLost, StreamFull; StreamMissing: the stream is closed, and its collector has not finished it.
        """
        marked_at: float | None = None
        while True:
            told = await self._ask(asked())
            if told is not None and (told.is_retired or told.left >= self._place.leaving):
                return told
            if marked_at is None or time.monotonic() - marked_at >= MARK_AGAIN_SECONDS:
                await self._mark()
                marked_at = time.monotonic()
            else:
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _ask(self, sources: Sequence[str]) -> ReceiptsReply | None:
        place = self._place
        return await receipts.ask(self._publisher, self._host, place.partition, sources, leaving=place.leaving)

    async def _mark(self) -> None:
        """Publish the marker; returns when it is stored."""
        self._publisher.acknowledged()
        await self._publisher.publish(MARKER, self._subject, codec.move_marker(self._place.leaving), b"")
        try:
            async with asyncio.timeout(self._ack_timeout):
                while not self._publisher.acknowledged():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise SessionLost(f"no ack for the move marker in {self._ack_timeout:.0f} s") from None
        events.move_marked(subject=self._subject, version=self._place.leaving)


NAMELESS = "_"
"""Identity of an archive that did not report one."""


def asked_for(known: Iterable[Source]) -> list[str]:
    """The sources for which the collector must report its watermark: an older process may have sent more."""
    return [each.id for each in known if not each.ended_at or each.archived < each.offset]


def handed_off(known: Iterable[Source], told: ReceiptsReply, asked: Collection[str]) -> list[Source]:
    """The sources as they are in the next partition.

    `told` was sent after the move marker, so it is final: the old partition archives nothing more of this host. If a
    source was `asked` for and the archive does not know it, everything that no other archive has is sent again.
    """
    receipts = {receipt.source: receipt for receipt in told.receipts}
    return [_one(source, told, receipts, is_asked=source.id in asked) for source in known]


def _one(source: Source, told: ReceiptsReply, receipts: Mapping[str, Receipt], *, is_asked: bool) -> Source:
    found = list(_candidates(source, told, receipts.get(source.id), is_asked=is_asked))
    if not found:
        return source.back_to(source.origin) if source.ring else source
    return source.handed_off(max(found, key=lambda each: (each.offset, each.crc is not None)))


def _candidates(source: Source, told: ReceiptsReply, receipt: Receipt | None, *, is_asked: bool) -> Iterator[Handoff]:
    """What archives have of a source: by this partition's collector, by earlier receipts, by earlier moves."""
    if receipt is not None and receipt.origin == source.origin:
        yield Handoff(receipt.watermark, _sum(source, receipt), told.archive or NAMELESS)
    for each in source.archives:
        if not (is_asked and each.archive == told.archive) and each.offset > source.origin:
            crc = source.crc if each.offset == source.offset else None
            yield Handoff(each.offset, crc, each.archive or NAMELESS)
    if source.handoff is not None:
        yield source.handoff


def _sum(source: Source, receipt: Receipt) -> int | None:
    """The sum in the receipt; None if it is missing or contradicts the file: the next block contains it."""
    is_proven = receipt.crc >= 0 and not source.contradicts(receipt.watermark, receipt.crc)
    return receipt.crc if is_proven else None
