"""How fast files are read: a bucket of bytes that fills at a rate and holds one second's worth."""

import math
import time
from collections.abc import Callable


class Pace:
    """At most `bytes_a_second` over all files in the long run; 0: as fast as it goes. Owned by the pipeline.

    Reading takes whole blocks, so the last one may take more than there is. That is owed and waited for: a burst is a
    second's worth, or one block where that is more.
    """

    def __init__(self, bytes_a_second: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_a_second or math.inf
        self._clock = clock
        self._left = float(self._rate)
        self._filled_at = clock()

    def budget(self, at_most: int) -> int:
        """How many bytes may be read now, at most `at_most`; 0: wait until `ready_at`."""
        self._fill()
        return int(max(0.0, min(at_most, self._left)))

    def spend(self, octets: int) -> None:
        """So many bytes of files were read."""
        if self._rate < math.inf:
            self._left -= octets

    @property
    def ready_at(self) -> float:
        """When there is something in the bucket, on the clock; now or before where there is."""
        self._fill()
        return self._filled_at + max(0.0, 1.0 - self._left) / self._rate

    def _fill(self) -> None:
        now = self._clock()
        if self._rate < math.inf:
            self._left = min(self._rate, self._left + (now - self._filled_at) * self._rate)
        self._filled_at = now
