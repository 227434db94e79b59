"""Work that is repeated every few seconds: between the steps of another loop, or in a task of its own."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Reply = TypeVar("Reply")


@dataclass(slots=True)
class Periodic:
    """Work that is repeated `every` seconds while it `is_wanted`. The interval begins when the work begins.

    By default the work has a part in every turn of its loop. `next_at`: the monotonic time at which a loop that sleeps
    must have its next turn; infinite: this work wakes no loop. `cancel`: drops what the work left pending.
    """

    name: str
    work: Callable[..., Awaitable[Any]]
    every: Callable[[], float] = lambda: 0.0
    is_wanted: Callable[[], bool] = lambda: True
    next_at: Callable[[], float] = lambda: math.inf
    cancel: Callable[[], None] = lambda: None
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


class PeriodicRequest(Generic[Reply]):
    """A request that is sent from time to time while its loop goes on; one at a time.

    `rouse` is called when the reply has arrived, so that the loop has its next turn.
    """

    def __init__(self, rouse: Callable[[], None], *, due_at: float = -math.inf) -> None:
        self.due_at = due_at  #: when the next request is sent, on the clock of the caller
        self._rouse = rouse
        self._pending: asyncio.Task[Reply] | None = None

    def next_at(self) -> float:
        """When the loop must have its next turn: to send a request, or as soon as the reply is there."""
        if self._pending is None:
            return self.due_at
        return -math.inf if self._pending.done() else math.inf

    def is_due(self, now: float) -> bool:
        """Whether a request is to be sent."""
        return self._pending is None and now >= self.due_at

    def send(self, request: Coroutine[Any, Any, Reply]) -> None:
        """Send a request; none is pending."""
        self._pending = asyncio.ensure_future(request)
        self._pending.add_done_callback(lambda _: self._rouse())

    def take(self) -> Reply | None:
        """The reply, once it is there."""
        if self._pending is None or not self._pending.done():
            return None
        done, self._pending = self._pending, None
        return None if done.cancelled() else done.result()

    def cancel(self) -> None:
        """Drop the pending request: its session has ended."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
