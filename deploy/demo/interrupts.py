"""Signals become an exception at the next nap, never inside a step: no child is started and then forgotten."""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from deploy.demo.errors import Interrupted

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NAP_SECONDS = 0.05
"""How long a signal may wait to be noticed."""


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP are kept until `check` or `nap` raises Interrupted.

    `meanwhile` is called at each of them, so that a clock on the screen goes on.
    """

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._meanwhile = meanwhile
        self._asked = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in HEARD:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted if somebody asked."""
        if self._asked:
            raise Interrupted(self._asked)
        self._meanwhile()

    def nap(self, seconds: float) -> None:
        """Sleep, or raise Interrupted."""
        until = time.monotonic() + seconds
        self.check()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, NAP_SECONDS))
            self.check()

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._asked = self._asked or number
