"""Retry policies as named data, and the one loop that waits between attempts. The only importer of tenacity."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from shipper.errors import Transient
from shipper.lifecycle import Stop

_T = TypeVar("_T")


class Backoff:
    """Full jitter below an exponential ceiling: `first` seconds, doubling, at most `cap`."""

    def __init__(self, first: float, cap: float) -> None:
        self._wait = tenacity.wait_random_exponential(multiplier=first, max=cap)

    def delay(self, attempt: int) -> float:
        """Seconds to wait behind failed attempt number `attempt`, from 1."""
        state = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
        state.attempt_number = min(attempt, 32)  # beyond it 2**n only costs time
        return self._wait(state)


SESSION = Backoff(first=0.1, cap=5.0)  #: a session with the server ended
FULL = Backoff(first=0.5, cap=15.0)  #: the stream has no room, or does not exist yet
ARCHIVE = Backoff(first=0.5, cap=5.0)  #: the archive cannot be written


async def until_done(work: Callable[[], Awaitable[_T]], *, policy: Backoff, stop: Stop, attempts: int) -> _T:
    """`work`'s result, tried again after `Transient` errors at most `attempts` times in all, or until `stop`."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await work()
        except Transient:
            if attempt >= attempts or stop.asked:
                raise
            await stop.nap(policy.delay(attempt))
