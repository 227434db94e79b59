"""Whether the machine has a core to spare for a second thread that packs.

What counts is what this process may take: the time of its cores that it uses already, and the time that nobody uses.
That is the same whether one thread packs or two, so the answer does not turn itself over.

The same work on each of many things, by two threads, in the order of the things.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Container, Iterable
from concurrent.futures import Executor, wait
from typing import Generic, NamedTuple, TypeVar

BEGIN_CORES = 1.5
"""From here on a second thread packs. A lone producer finds about 1.75 on two cores, beside a collector 1.2."""
STAY_CORES = 1.3
"""Below it one packs again: on full cores two cost more CPU than they save time."""
SAMPLE_SECONDS = 0.2
"""So far apart, at least: the kernel counts in steps of 10 ms."""
STALE_SECONDS = 2.0
"""A sample says nothing of a time that long ago: something rested meanwhile."""

STAT = "/proc/stat"
MOST_STAT_BYTES = 256 * 1024  # the lines of the cores come first
_IDLE, _WAITS_FOR_DISK = 4, 5  # words of a core's line, proc(5)


class Sample(NamedTuple):
    """What was used up to a moment. All in seconds."""

    at: float  #: on the monotonic clock
    idle: float  #: of the cores that this process may use, together
    own: float  #: CPU of this process


def free_cores(before: Sample, after: Sample) -> float:
    """How many cores this process used or might have used between two samples, `after` being the later one."""
    return (after.idle - before.idle + after.own - before.own) / (after.at - before.at)


def is_spare(free: float, *, was_spare: bool) -> bool:
    """Whether a second thread may pack where so many cores are free for the process."""
    return free >= (STAY_CORES if was_spare else BEGIN_CORES)


def idle_ticks(stat: str, cores: Container[int]) -> int | None:
    """The idle time of these cores as `/proc/stat` has it; None where it says nothing of any of them."""
    words = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    idle = [
        int(word[_IDLE]) + int(word[_WAITS_FOR_DISK])
        for word in words
        if word[0][3:].isdigit() and int(word[0][3:]) in cores and len(word) > _WAITS_FOR_DISK
    ]
    return sum(idle) if idle else None


def sampled(path: str = STAT) -> Sample | None:
    """What was used up to now; None: this system does not tell."""
    try:
        with open(path, encoding="ascii", errors="replace") as stat:
            ticks = idle_ticks(stat.read(MOST_STAT_BYTES), os.sched_getaffinity(0))
        second = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    return None if ticks is None else Sample(time.monotonic(), ticks / second, time.process_time())


class Spare:
    """The answer, asked for before each load while there is much to pack. Owned by `Loads`."""

    def __init__(
        self, sample: Callable[[], Sample | None] = sampled, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sample = sample
        self._clock = clock
        self._before = sample()
        self._is_spare = False

    def is_there(self) -> bool:
        """Whether there is a core to spare; no until the cores were watched for a while, and where nobody tells."""
        if self._before is None:
            return False
        elapsed = self._clock() - self._before.at
        if elapsed >= SAMPLE_SECONDS and (after := self._sample()) is not None:
            free = free_cores(self._before, after)
            self._is_spare = elapsed < STALE_SECONDS and is_spare(free, was_spare=self._is_spare)
            self._before = after
        return self._is_spare


Thing = TypeVar("Thing")
Made = TypeVar("Made")


def in_order(
    things: Iterable[Thing], mine: Callable[[Thing], Made], other: Callable[[Thing], Made], second: Executor
) -> list[Made]:
    """What `mine` made here, and `other` in a thread of `second`, of each of the things, in their order.

    Whoever is free takes the next thing, one at a time, and works on it at once. When this returns or raises, both
    are done. Raises what any of the three raised.
    """
    line: _Line[Thing, Made] = _Line(things)
    helping = second.submit(line.work, other)
    try:
        line.work(mine)
    finally:
        wait([helping])
    helping.result()
    return line.made


class _Line(Generic[Thing, Made]):
    """Things to work on, and what was made of them."""

    def __init__(self, things: Iterable[Thing]) -> None:
        self._things = iter(things)
        self._numbers = itertools.count()
        self._taking = threading.Lock()
        self._made: dict[int, Made] = {}

    @property
    def made(self) -> list[Made]:
        return [self._made[number] for number in range(len(self._made))]

    def work(self, make: Callable[[Thing], Made]) -> None:
        """Take one after the other until there is none."""
        while True:
            with self._taking:
                try:
                    thing = next(self._things)
                except StopIteration:
                    return
                number = next(self._numbers)
            self._made[number] = make(thing)
            del thing  # its memory is used for the next one
