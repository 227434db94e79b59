"""Blocks on their way: opened in the window, sent, and sent again by another session or behind a refusal."""

import time
from collections.abc import Awaitable, Callable

from producer.batch.batcher import Load
from producer.discovery.watcher import Wake
from producer.options import Task
from producer.session.inflight import MAX_ENTRIES, Entry, Window
from shipper.ports import Publisher

ALL_AT_ONCE = MAX_ENTRIES
ONE_AT_FIRST = 1
"""Behind a refusal: while a stream is full, the whole window would be refused each time."""


class Sending:
    """Sends what is in `window` on the subject of `task`. Owned by the pipeline."""

    def __init__(self, task: Task, window: Window, wake: Wake) -> None:
        self._task = task
        self._window = window
        self._wake = wake

    def open(self, load: Load) -> list[int]:
        """Put a load in flight; the tokens of its blocks."""
        return [self._window.open(entry, time.monotonic()) for entry in load]

    async def send(self, publisher: Publisher, tokens: list[int], load: Load) -> None:
        """Send a load that is in flight."""
        for token, entry in zip(tokens, load, strict=True):
            await self._publish(publisher, token, entry)

    async def send_again(self, publisher: Publisher, at_once: int, settle: Callable[[], Awaitable[None]]) -> None:
        """Send all that is in flight: `at_once` blocks, and twice as many whenever those are stored.

        `settle` takes the acks that came, and does what is due meanwhile. Raises SessionLost: an ack is late.
        """
        entries = list(self._window.again(time.monotonic()))
        while entries:
            while len(self._window) > len(entries):
                await self._wake.wait(self._task.poll)
                await settle()
                self._window.check_late(time.monotonic(), self._task.ack_timeout)
            for token, entry in entries[:at_once]:
                await self._publish(publisher, token, entry)
            entries, at_once = entries[at_once:], at_once * 2

    async def _publish(self, publisher: Publisher, token: int, entry: Entry) -> None:
        await publisher.publish(token, self._task.subject, entry.headers, entry.payload)
