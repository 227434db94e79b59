"""The last words in an old partition, and the wait until its collector has archived all that came before them.

    marker -> PubAck -> the collector journals it -> its receipts are final

Behind the marker the old partition drops whatever else was on its way, from connections that nobody has any more. So
what the receipts say then is all that it will ever have of this host, and the new partition goes on just behind it.
All of it may be done again: a kill in between leaves a checkpoint that says "leaving", and the next process repeats it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from producer import receipts
from producer.moving.place import Place
from producer.receipts import Told
from shipper import codec, events
from shipper.errors import SessionLost
from shipper.ports import Publisher
from shipper.subjects import log_subject

ASK_AGAIN_SECONDS = 0.25
MARK_AGAIN_SECONDS = 10.0
"""A collector with another archive may have taken over, and not have read the marker."""
MARKER = 0
"""Its token: no block has it."""


class Leaving:
    """One attempt, in one session, to leave `place`."""

    def __init__(self, publisher: Publisher, prefix: str, host: str, place: Place, *, ack_timeout: float) -> None:
        self._publisher = publisher
        self._subject = log_subject(prefix, place.partition, host)
        self._host = host
        self._place = place
        self._ack_timeout = ack_timeout
        self._news = asyncio.Event()
        publisher.on_news(self._news.set)

    async def last_receipts(self, asked: Callable[[], Sequence[str]]) -> Told:
        """What the old partition has archived of the sources `asked` for, for good; waits as long as that takes.

        Raises SessionLost, StreamFull; StreamMissing: the stream is closed, and its collector is not done with it.
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

    async def _ask(self, sources: Sequence[str]) -> Told | None:
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
