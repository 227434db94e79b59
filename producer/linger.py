"""How long lines are collected before they are read: long while only the archive waits, short while a reader follows.

Each block costs the producer, the server and the collector about the same, however few lines it has. So the collector
may request a longer delay in its receipts, and lines wait for the ack of what was sent before them: a server that is
slow gets fewer blocks. `producer.max_delay` is the maximum of both.
"""

import time
from collections.abc import Callable

from shipper.control import FOLLOW_SECONDS, USUAL_DELAY_SECONDS

FOLLOWED_SECONDS = 0.05
"""Maximum delay of a line while a reader follows the host, or while the program drains."""
PACE_SECONDS = 300.0
"""Time for which the pace of a collector counts: one of thousands of hosts gets receipts about once a minute."""
MAX_PAUSE_SECONDS = 0.1
"""Maximum time between two reads of notifications: new files must be found soon, whatever the delay of lines is."""
LONG_SECONDS = 0.5
"""Delay from which on writes after the first one are not notified."""
LOOK_SECONDS = 0.125
"""Minimum time between two checks of how much was written: a file may fill many blocks within the delay."""


class Linger:
    """The maximum delay of a line at this moment. Owned by the event loop."""

    def __init__(
        self,
        max_delay: float,
        *,
        rouse: Callable[[], None],
        is_in_flight: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_delay = max_delay
        self._rouse = rouse  # so that what is being collected is read
        self._is_in_flight = is_in_flight  # whether an ack is due: when it comes, the loop has a turn
        self._clock = clock
        self._followed_until = float("-inf")
        self._pace = 0.0
        self._paced_until = float("-inf")

    def follow(self) -> None:
        """A reader follows the host: send lines early for `FOLLOW_SECONDS`."""
        is_new = not self._is_followed
        self._followed_until = self._clock() + FOLLOW_SECONDS
        if is_new:
            self._rouse()

    def pace(self, seconds: float) -> None:
        """The collector requests to collect lines so long; 0: as long as usual."""
        self._pace, self._paced_until = seconds, self._clock() + PACE_SECONDS

    def drain(self) -> None:
        """Collect no longer than necessary from now on: a stop was requested."""
        self._max_delay = min(self._max_delay, FOLLOWED_SECONDS)

    @property
    def delay(self) -> float:
        """Maximum seconds from a write to its read now, however slow the server is."""
        if self._is_followed:
            return min(self._max_delay, FOLLOWED_SECONDS)
        pace = self._pace if self._clock() < self._paced_until else 0.0
        return min(self._max_delay, max(USUAL_DELAY_SECONDS, pace))

    @property
    def pause(self) -> float:
        """Seconds between two reads of notifications, while some come: part of the delay."""
        return min(MAX_PAUSE_SECONDS, self.delay / 2)

    @property
    def wait(self) -> float:
        """Seconds from the first notification of a write to the read: the rest of the delay."""
        delay = self._max_delay if self._is_in_flight() and not self._is_followed else self.delay
        return delay - self.pause

    @property
    def is_long(self) -> bool:
        """Whether a notification of each write would cost more than a check of the files of a directory."""
        return self.delay >= LONG_SECONDS

    @property
    def _is_followed(self) -> bool:
        return self._clock() < self._followed_until


class Collecting:
    """The lines that are being collected: since when, and when they are read at the latest. Owned by the scans."""

    def __init__(self, linger: Linger, block_bytes: int) -> None:
        self._linger = linger
        self._block_bytes = block_bytes
        self._since: float | None = None
        self._look_at = 0.0
        self._fill_seconds = 0.0  # in which a block is full, at the rate of the last check

    def next_at(self) -> float:
        """When `is_due` must be called next, once something is to be read."""
        return float("-inf") if self._since is None else min(self._since + self._linger.wait, self._look_at)

    def is_due(self, now: float, written_bytes: Callable[[], int]) -> bool:
        """Whether to read what was written: the oldest of it waited long enough, or it fills a block."""
        if self._since is None:
            self._since, self._look_at = now, now + max(LOOK_SECONDS, self._fill_seconds)
        is_old = now >= self._since + self._linger.wait
        if not is_old and now < self._look_at:
            return False
        written, waited = written_bytes(), now - self._since
        self._fill_seconds = waited * self._block_bytes / max(1, written)
        self._look_at = now + max(LOOK_SECONDS, self._fill_seconds - waited)
        return is_old or written >= self._block_bytes

    def end(self) -> None:
        """Everything that was to be read is read now."""
        self._since = None
