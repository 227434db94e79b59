"""The same work on each of many things, by two threads, in the order of the things."""

import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, wait
from typing import Generic, TypeVar

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
