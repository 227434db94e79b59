"""Messages of many streams as one sequence, by the time at which they were stored."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from shipper.errors import ShipperError
from shipper.jetstream.ordered import Arrived
from shipper.model import Delivery

HORIZON_SECONDS = 0.15
"""So long a message waits for an older one of another stream, once all streams are read to their end."""
PATIENCE_SECONDS = 3.0
"""So long it waits for a stream that has more to give and gives nothing."""


class Feed(Protocol):
    """A stream that is read."""

    trouble: ShipperError | None
    caught_up: bool

    @property
    def head(self) -> Arrived | None:
        """The oldest message that was not taken."""
        ...

    def take(self) -> Arrived:
        """Take the head."""
        ...


class Merge:
    """The oldest head first. The readers belong to the caller, who may add and remove some between two calls."""

    def __init__(
        self, feeds: Mapping[str, Feed], news: asyncio.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._feeds = feeds
        self._news = news
        self._clock = clock

    async def stored(self, ends: Mapping[str, int], until_ns: int | None) -> tuple[str, Delivery] | None:
        """The oldest message, and its stream, up to the sequences `ends`; None: there is no more. Takes nothing."""
        while True:
            self._news.clear()
            heads = self._heads()
            going = {name for name, feed in self._feeds.items() if name not in heads and not feed.caught_up}
            for name in [name for name, head in heads.items() if _is_behind(head.delivery, ends[name], until_ns)]:
                del heads[name]
            if not going:
                return _oldest(heads)
            await self._wait(PATIENCE_SECONDS)

    async def live(self, within: float) -> str | None:
        """The stream whose head is the oldest; None: nothing came within so many seconds. Takes nothing."""
        until = self._clock() + within
        while True:
            self._news.clear()
            heads = self._heads()
            left = until - self._clock()
            if oldest := _oldest(heads):
                wait = self._horizon(heads) - (self._clock() - heads[oldest[0]].at)
                if wait <= 0:
                    return oldest[0]
                left = wait
            elif left <= 0:
                return None
            await self._wait(left)

    def _horizon(self, heads: Mapping[str, Arrived]) -> float:
        silent = [feed for name, feed in self._feeds.items() if name not in heads]
        if not silent:
            return 0.0
        return HORIZON_SECONDS if all(feed.caught_up for feed in silent) else PATIENCE_SECONDS

    def _heads(self) -> dict[str, Arrived]:
        """Raises what ended a reader."""
        heads = {name: head for name, feed in self._feeds.items() if (head := feed.head) is not None}
        for name, feed in self._feeds.items():
            if feed.trouble is not None and name not in heads:
                raise feed.trouble
        return heads

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


def _is_behind(delivery: Delivery, end: int, until_ns: int | None) -> bool:
    return delivery.sequence > end or (until_ns is not None and delivery.time_ns >= until_ns)


def _oldest(heads: Mapping[str, Arrived]) -> tuple[str, Delivery] | None:
    found = min(heads, key=lambda name: (heads[name].delivery.time_ns, name), default=None)
    return None if found is None else (found, heads[found].delivery)
