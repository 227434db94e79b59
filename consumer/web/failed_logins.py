"""Logins that failed, by address and by name: the next attempt has to wait, longer with each failure."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

FREE_FAILURES = 5
"""Failures before an address has to wait."""
FREE_FAILURES_OF_NAME = 50
"""Failures before a name has to wait, whatever address they come from: fewer would let others lock it."""
LONGEST_WAIT_SECONDS = 900.0
FORGET_SECONDS = 3600.0
"""Time after the last failure at which all of them are forgotten."""
MOST_KEYS = 10_000


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0  #: by the monotonic clock


class FailedLogins:
    """How long each key, `address ...` or `name ...`, has to wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[str, _Failures] = {}  # the latest one last

    def seconds_left(self, keys: Iterable[str]) -> float:
        """The longest wait of the keys; 0: none."""
        now = time.monotonic()
        with self._lock:
            return max((self._wait(key, now) for key in keys), default=0.0)

    def add(self, keys: Iterable[str]) -> None:
        """A login with these keys has failed."""
        now = time.monotonic()
        with self._lock:
            for key in keys:
                failures = self._failures.pop(key, _Failures())
                if now - failures.last > FORGET_SECONDS:
                    failures.count = 0
                failures.count, failures.last = failures.count + 1, now
                self._failures[key] = failures
            while len(self._failures) > MOST_KEYS:
                del self._failures[next(iter(self._failures))]

    def forget(self, keys: Iterable[str]) -> None:
        """A login with these keys has succeeded."""
        with self._lock:
            for key in keys:
                self._failures.pop(key, None)

    def _wait(self, key: str, now: float) -> float:
        failures = self._failures.get(key)
        if failures is None:
            return 0.0
        over = failures.count - (FREE_FAILURES if key.startswith("address ") else FREE_FAILURES_OF_NAME)
        seconds = min(LONGEST_WAIT_SECONDS, 2.0 ** min(over, 20)) if over >= 0 else 0.0
        return max(0.0, failures.last + seconds - now)
