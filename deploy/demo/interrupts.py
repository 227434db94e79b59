"""Signals become an exception at the next nap, never inside a step: no child is started and then forgotten.

When to kill whom: seeded, every victim once a round, so that the same seed is the same demo.
"""

import random
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple, Self

from deploy.demo.workspace import Interrupted

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NAP_SECONDS = 0.05
"""How long a signal may wait to be noticed."""


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP are kept until `check` or `nap` raises Interrupted.

    `meanwhile` is called at each of them, so that a clock on the screen keeps running.
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
        """Raise Interrupted if a signal arrived."""
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


MIN_ROUNDS = 2
ROUND_SECONDS = 12.0
QUIET = 0.08
"""Part of the flow without kills at either end, so that one sees it run first, and no kill comes too late."""


class ScheduledKill(NamedTuple):
    """`victim` dies `at` seconds after the flow began."""

    at: float
    victim: str


def planned(victims: Sequence[str], seconds: float, seed: int) -> list[ScheduledKill]:
    """Kills for a flow of `seconds`, in order of time: each victim at least twice, in another order each round."""
    chance = random.Random(seed)  # noqa: S311 - seeded, to be the same again
    rounds = max(MIN_ROUNDS, int(seconds / ROUND_SECONDS))
    order = [victim for _ in range(rounds) for victim in chance.sample(victims, len(victims))]
    first, slot = seconds * QUIET, seconds * (1 - 2 * QUIET) / len(order)
    return [ScheduledKill(first + (number + chance.random()) * slot, victim) for number, victim in enumerate(order)]
