"""Loads: what is read from the files and encoded ahead of the sending, in order."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from producer.window import Entry

LOAD_BYTES = 4 * 1024 * 1024
"""Read and encoded in one go: each load wakes two threads, which costs as much as some hundred KiB of encoding."""
LOADS_AHEAD = 2
"""One is worked on, one is ready or next."""

Load = list[Entry]


class Loads:
    """The loads that are begun and not taken yet, oldest first. Owned by the pipeline.

    `fill` is called in a thread of its own, one call at a time. One and no more: a second one that encodes makes a lone
    producer a fifth faster, but costs all programs of a busy machine more than it brings (measured on two cores).
    """

    def __init__(self, fill: Callable[[], Load]) -> None:
        self._fill = fill
        self._begun: deque[asyncio.Future[Load]] = deque()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self) -> None:
        """Fill one more load, behind those that are begun."""
        self._begun.append(asyncio.get_running_loop().run_in_executor(self._reader, self._fill))

    async def next(self) -> Load:
        """The oldest load, as soon as it is full; there must be one. Raises what `fill` raised."""
        load = await self._begun[0]
        self._begun.popleft()
        return load

    def close(self) -> None:
        """Wait for the thread to end."""
        self._reader.shutdown(wait=True)


def is_full(load: Load) -> bool:
    """Whether there was so much to read that there may be as much again."""
    return sum(entry.piece.span.length for entry in load) >= LOAD_BYTES // 2
