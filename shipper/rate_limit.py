"""A rate limit by name, with bounded memory: a token bucket for each name."""

import time
from collections import OrderedDict
from collections.abc import Callable

MAX_NAMES = 20_000
"""Maximum names in memory; the one with the oldest request is dropped first, and has all its points again."""


class RateLimit:
    """Each name has at most `burst` points and regains `per_second` of them. Owned by one loop."""

    def __init__(self, *, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._points: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by name: points, and when

    def allows(self, name: str, cost: float = 1.0) -> bool:
        """Whether `name` has `cost` points; they are spent then."""
        now = self._clock()
        points, when = self._points.pop(name, (self._burst, now))
        points = min(self._burst, points + (now - when) * self._per_second)
        is_allowed = points >= cost
        self._points[name] = (points - cost if is_allowed else points, now)
        if len(self._points) > MAX_NAMES:
            self._points.popitem(last=False)
        return is_allowed
