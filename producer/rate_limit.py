"""The rate limit of a producer: how many bytes may be read from files now."""

import math
import time
from collections.abc import Callable


class RateLimit:
    """At most `bytes_a_second` over all files on average. 0: no limit. Owned by `Batcher`.

    Whole blocks are read, so the last one may exceed the budget. The excess is subtracted from the next budget. A burst
    is the bytes of one second, or one block if that is more.
    """

    def __init__(self, bytes_a_second: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_a_second or math.inf
        self._clock = clock
        self._left = float(self._rate)
        self._filled_at = clock()

    def budget(self, at_most: int) -> int:
        """How many bytes may be read now, at most `at_most`. 0: wait until `ready_at`."""
        self._fill()
        return int(max(0.0, min(at_most, self._left)))

    def spend(self, octets: int) -> None:
        """Subtract bytes that were read."""
        if self._rate < math.inf:
            self._left -= octets

    @property
    def ready_at(self) -> float:
        """Time on the clock at which the budget is positive. Now or earlier if it is."""
        self._fill()
        return self._filled_at + max(0.0, 1.0 - self._left) / self._rate

    def _fill(self) -> None:
        now = self._clock()
        if self._rate < math.inf:
            self._left = min(self._rate, self._left + (now - self._filled_at) * self._rate)
        self._filled_at = now
