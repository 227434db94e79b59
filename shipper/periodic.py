"""Work that is repeated every few seconds: between the steps of another loop, or in a task of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Periodic:
    """Work that is repeated `every` seconds while it `is_wanted`. The interval begins when the work begins."""

    name: str
    work: Callable[..., Awaitable[Any]]
    every: Callable[[], float]
    is_wanted: Callable[[], bool] = lambda: True
    begun_at: float = float("-inf")

    def is_due(self) -> bool:
        """Whether the interval since the work last began is over."""
        return time.monotonic() >= self.begun_at + self.every()

    async def run_if_due(self, *arguments: Any) -> None:
        """Do the work if it is wanted and due. Raises what the work raises."""
        if self.is_wanted() and self.is_due():
            self.begun_at = time.monotonic()
            await self.work(*arguments)

    async def repeat(self) -> None:
        """Do the work again and again, with `every` seconds of rest after it, until the task is cancelled."""
        while True:
            await self.work()
            await asyncio.sleep(self.every())
