"""Loads: what is read from the files and encoded ahead of the sending, in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from producer.cores import Spare
from producer.window import Entry

LOAD_BYTES = 4 * 1024 * 1024
"""Read and encoded in one go: each load wakes two threads, which costs as much as some hundred KiB of encoding."""
LOADS_AHEAD = 2
"""One is worked on, one is ready or next."""

Load = list[Entry]


class Loads:
    """The loads that are begun and not taken yet, oldest first. Owned by the pipeline.

    `fill` is called in a thread of its own, one call at a time; it is given a second thread while there is much to
    pack and a core to spare.
    """

    def __init__(self, fill: Callable[[Executor | None], Load], spare: Spare | None = None) -> None:
        self._fill = fill
        self._spare = spare or Spare()
        self._begun: deque[asyncio.Future[Load]] = deque()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._second = ThreadPoolExecutor(1, thread_name_prefix="packer")

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, *, is_busy: bool = False) -> None:
        """Fill one more load, behind those that are begun; `is_busy`: the last one was full."""
        second = self._second if is_busy and self._spare.is_there() else None
        self._begun.append(asyncio.get_running_loop().run_in_executor(self._reader, self._fill, second))

    async def next(self) -> Load:
        """The oldest load, as soon as it is full; there must be one. Raises what `fill` raised."""
        load = await self._begun[0]
        self._begun.popleft()
        return load

    def close(self) -> None:
        """Wait for the threads to end."""
        self._reader.shutdown(wait=True)
        self._second.shutdown(wait=True)


def is_full(load: Load) -> bool:
    """Whether there was so much to read that there may be as much again."""
    return sum(entry.piece.span.length for entry in load) >= LOAD_BYTES // 2
