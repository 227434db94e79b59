"""The CPU time that patterns may take for one block, and the files whose next block took more.

A block over budget is never shipped unedited. Its file is held back: the source stays at its offset, it is tried again
with back-off, and the other files are read on. A reload makes a new budget, and tries a corrected pattern immediately.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from shipper import events

DEFAULT_SECONDS = 10.0
"""CPU seconds per block. The three ready patterns take 0.08 s for 512 KiB of log lines, and 2 s for 512 KiB of nothing
but short numbers, which is their worst (measured)."""
RETRY_SECONDS = 60.0
"""Until the block of a file that is held back is tried again; doubled each time."""
MAX_RETRY_SECONDS = 3600.0
CHECK_EVERY = 64
"""Matches between two reads of the CPU clock, which cost 0.3 µs each."""

Each = TypeVar("Each")


class OverBudget(Exception):  # noqa: N818 - it says what the block is
    """The patterns took too long for a block, or could not be run on it."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A file whose next block is over budget."""

    file: str
    offset: int
    tries: int
    since: float  #: monotonic
    again_at: float  #: monotonic


class Budget:
    """What the patterns may take for a block. Used by the reading thread; `held_back` may be read by any."""

    def __init__(self, seconds: float = DEFAULT_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._held: dict[str, HeldBack] = {}
        self._is_ending = False
        self._is_over = False
        self._ends_at = 0.0

    def begin(self) -> None:
        """The patterns begin with another block. Raises OverBudget: the program ends, and a block took too long."""
        if self._is_over:
            raise OverBudget("the program ends")
        self._until = time.thread_time() + self.seconds

    @property
    def left(self) -> float:
        """CPU seconds that are left for the block."""
        return max(0.0, self._until - time.thread_time())

    def spend(self, seconds: float) -> None:
        """Another process took so much CPU time for the block."""
        self._until -= seconds

    def check(self) -> None:
        """Raises OverBudget: the patterns took more than they may for a block."""
        if time.thread_time() > self._until:
            raise OverBudget(f"the patterns take more than {self.seconds:g} s of CPU time for one block")

    def checked(self, each: Iterable[Each]) -> Iterator[Each]:
        """`each`, as long as there is time for it. Raises OverBudget."""
        for number, one in enumerate(each, start=1):
            if number % CHECK_EVERY == 0:
                self.check()
            yield one
        self.check()

    def start(self) -> None:
        """A pipeline begins, perhaps after another one: what is held back is tried immediately."""
        self._is_ending = self._is_over = False
        now = self._clock()
        self._held = {source: replace(held, again_at=now) for source, held in self._held.items()}
        events.files_held_back(files=len(self._held))

    def end_soon(self) -> None:
        """The program must end: it waits for one block that is over budget at most."""
        self._ends_at = self._clock() + self.seconds
        self._is_ending = True

    def not_after(self, until: float) -> float:
        """`until`, a monotonic time, or when a program that must end waits no longer for a block."""
        return min(until, self._ends_at) if self._is_ending else until

    # -- files that are held back -------------------------------------------------------------------------------

    @property
    def held_back(self) -> list[HeldBack]:
        """The files whose next block is over budget."""
        return list(self._held.values())

    def must_wait(self, source: str) -> bool:
        """Whether a source is not to be read now."""
        held = self._held.get(source)
        return self._is_over or (held is not None and (self._is_ending or self._clock() < held.again_at))

    def hold(self, source: str, file: str, offset: int, error: OverBudget) -> None:
        """The block of a source that begins at `offset` is over budget."""
        if self._is_over:
            return
        self._is_over = self._is_ending
        before, now = self._held.get(source), self._clock()
        tries = before.tries + 1 if before else 1
        delay = min(RETRY_SECONDS * 2 ** min(tries - 1, 10), MAX_RETRY_SECONDS)
        self._held[source] = HeldBack(file, offset, tries, before.since if before else now, now + delay)
        events.block_over_budget(file=file, offset=offset, error=str(error), retry_in=delay, files=len(self._held))

    def passed(self, source: str) -> None:
        """A block of a source was edited."""
        held = self._held.pop(source, None) if self._held else None
        if held:
            events.block_within_budget(file=held.file, offset=held.offset, files=len(self._held))
