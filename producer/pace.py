"""How long lines are collected before they are read: long while only the archive waits, short while somebody follows.

Each block costs the producer, the server and the collector about the same, however few lines it has.
"""

import time
from collections.abc import Callable

from producer.discovery.watcher import PAUSE_SECONDS
from shipper.control import FOLLOW_SECONDS

FOLLOWED_SECONDS = 0.05
"""Maximum delay of a line while somebody follows the host, or while the program drains."""
FIRST_LOOK_SECONDS = 0.125
"""Time after the first line at which it is checked whether a whole block was written. Each further wait is longer."""


class Pace:
    """The maximum delay of a line at this moment. Owned by the event loop."""

    def __init__(
        self, max_delay: float, *, rouse: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_delay = max_delay
        self._rouse = rouse  # so that what is being collected is read
        self._clock = clock
        self._followed_until = float("-inf")

    def follow(self) -> None:
        """Somebody follows the host: send lines early for `FOLLOW_SECONDS`."""
        is_new = self._clock() >= self._followed_until
        self._followed_until = self._clock() + FOLLOW_SECONDS
        if is_new:
            self._rouse()

    def drain(self) -> None:
        """Collect no longer than necessary from now on: a stop was requested."""
        self._max_delay = min(self._max_delay, FOLLOWED_SECONDS)

    @property
    def delay(self) -> float:
        """Seconds from the first notification of a write to the read. The notification itself may be late."""
        is_followed = self._clock() < self._followed_until
        delay = min(self._max_delay, FOLLOWED_SECONDS) if is_followed else self._max_delay
        return max(0.0, delay - PAUSE_SECONDS)


class Collecting:
    """The lines that are being collected: since when, and when they are read at the latest. Owned by the scans."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._since: float | None = None
        self._look_at = 0.0

    def next_at(self) -> float:
        """When `is_due` must be called next, once something is to be read."""
        return float("-inf") if self._since is None else min(self._since + self._pace.delay, self._look_at)

    def is_due(self, now: float, is_block_there: Callable[[], bool]) -> bool:
        """Whether it is time to read what is to be read: the oldest of it waited long enough, or it fills a block."""
        if self._since is None:
            self._since, self._look_at = now, now + FIRST_LOOK_SECONDS
        if now >= self._since + self._pace.delay:
            return True
        if now < self._look_at:
            return False
        self._look_at = now + (now - self._since)
        return is_block_there()

    def end(self) -> None:
        """Everything that was to be read is read now."""
        self._since = None
