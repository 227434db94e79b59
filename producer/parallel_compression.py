"""A second thread that compresses while a core is free for it.

Measured alone on two cores, a producer reaches 101 % of the bare publish loop with it, and 86 % without (decision 060).
On busy cores it gains nothing: a file of 256 MB at a load of 24 on two cores takes 6.5 s (4.9 to 8.8) and 1.51 CPU s
with it, 7.4 s (6.2 to 7.8) and 1.47 CPU s without (medians and ranges of five alternating pairs). So it runs only while
there are free cores. The measure is the CPU time that this process uses plus the idle time of its cores. This sum does
not depend on the number of threads that compress, so the decision does not oscillate.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Container, Iterable
from concurrent.futures import Executor, wait
from typing import NamedTuple, TypeVar

BEGIN_CORES = 1.5
"""Free cores from which a second thread compresses. On two cores a producer measures 1.75, with a collector 1.2."""
STAY_CORES = 1.3
"""Free cores below which one thread compresses: on busy cores two threads use more CPU than they save time."""
SAMPLE_SECONDS = 0.2
"""Minimum interval between two samples, in seconds: the kernel counts in steps of 10 ms."""
STALE_SECONDS = 2.0
"""Maximum age of a sample, in seconds: the process was idle in between."""

STAT = "/proc/stat"
MOST_STAT_BYTES = 256 * 1024  # the lines of the cores come first
_IDLE, _WAITS_FOR_DISK = 4, 5  # words of a core's line, proc(5)


class Sample(NamedTuple):
    """CPU time up to a moment. All in seconds."""

    at: float  #: on the monotonic clock
    idle: float  #: of the cores that this process may use, together
    own: float  #: CPU of this process


def free_cores(before: Sample, after: Sample) -> float:
    """How many cores this process used or could have used between the samples."""
    return (after.idle - before.idle + after.own - before.own) / (after.at - before.at)


def is_spare(free: float, *, was_spare: bool) -> bool:
    """Whether a second thread may compress with so many free cores."""
    return free >= (STAY_CORES if was_spare else BEGIN_CORES)


def idle_ticks(stat: str, cores: Container[int]) -> int | None:
    """The idle time of these cores from the text of `/proc/stat`. None: it has none of them."""
    words = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    idle = [
        int(word[_IDLE]) + int(word[_WAITS_FOR_DISK])
        for word in words
        if word[0][3:].isdigit() and int(word[0][3:]) in cores and len(word) > _WAITS_FOR_DISK
    ]
    return sum(idle) if idle else None


def sampled(path: str = STAT) -> Sample | None:
    """The CPU time up to now. None: this system does not report it."""
    try:
        with open(path, encoding="ascii", errors="replace") as stat:
            ticks = idle_ticks(stat.read(MOST_STAT_BYTES), os.sched_getaffinity(0))
        second = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    return None if ticks is None else Sample(time.monotonic(), ticks / second, time.process_time())


class SpareCores:
    """Measures free cores. Queried before each batch while there is much to compress. Owned by `Batcher`."""

    def __init__(
        self, sample: Callable[[], Sample | None] = sampled, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sample = sample
        self._clock = clock
        self._before = sample()
        self._is_spare = False

    def is_there(self) -> bool:
        """Whether a core is free. False until two samples are there, and if the system does not report CPU time."""
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
    """Apply a function to each thing by two threads: `mine` in this one, `other` in `second`. Results in order.

    A thread that is free takes the next thing. Both are done when this returns, or raises what any of the three raised.
    """
    line, numbers, taking = iter(things), itertools.count(), threading.Lock()
    made: dict[int, Made] = {}

    def work(make: Callable[[Thing], Made]) -> None:
        while True:
            with taking:
                try:
                    thing = next(line)
                except StopIteration:
                    return
                number = next(numbers)
            made[number] = make(thing)
            del thing  # its memory is used for the next one

    helping = second.submit(work, other)
    try:
        work(mine)
    finally:
        wait([helping])
    helping.result()
    return [made[number] for number in range(len(made))]
