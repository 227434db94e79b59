"""Runs the periodic tasks of a producer between the steps of its main loop, and while it waits for something."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from producer.discovery.watcher import Wake
from shipper.errors import SessionLost, ShipperError
from shipper.lifecycle import Pulse, Stop
from shipper.periodic import Periodic
from shipper.ports import Publisher

_T = TypeVar("_T")
MIN_SLEEP_SECONDS = 0.001
ROTATION_SECONDS = 0.02
"""Delay after a notification of new or renamed files, so that one scan finds all of a rotation."""


class Scheduler:
    """Runs the tasks of a pipeline in their order, also while something else is waited for. Owned by the pipeline.

    Every `poll` seconds at the latest, so that no file is renamed unnoticed. `pulse` receives the time of the next
    iteration.
    """

    def __init__(
        self,
        tasks: Sequence[Periodic],
        stop: Stop,
        wake: Wake,
        pulse: Pulse,
        poll: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tasks = tasks
        self.stop = stop  #: the request to stop the program
        self._wake = wake
        self.pulse = pulse  #: the progress of the main loop
        self._poll = poll
        self._clock = clock
        stop.on_request(wake.rouse)

    @property
    def next_at(self) -> float:
        """Monotonic time at which the first task is due."""
        return min((task.next_at() for task in self._tasks), default=math.inf)

    @property
    def must_pause_reading(self) -> bool:
        """Whether a task is due: tasks run only while no thread reads files."""
        return self.next_at <= self._clock()

    async def run_due(self, session: Publisher | None = None) -> None:
        """Run the tasks that are due, while no thread reads files. `session`: None while there is none to use."""
        self.pulse.turn()
        for task in self._tasks:
            await task.run_if_due(session)

    def session_ended(self) -> None:
        """Cancel the requests that tasks sent in the session."""
        for task in self._tasks:
            task.cancel()

    # -- waiting ----------------------------------------------------------------------------------------------------

    def rouse(self) -> None:
        """End the sleep of the main loop: there is news."""
        self._wake.rouse()

    async def sleep(self, until: float, *, is_idle: bool) -> None:
        """Sleep until there is news, at most `until` (monotonic). `is_idle`: a file that changes now is read next."""
        await self._wake.wait(self._nap(max(MIN_SLEEP_SECONDS, min(until, self.next_at) - self._clock())))
        if self._wake.names_changed and is_idle:
            await asyncio.sleep(ROTATION_SECONDS)

    async def run_until(self, work: Coroutine[Any, Any, _T], *, before: str) -> _T:
        """The result of `work`. Tasks run meanwhile. Raises SessionLost: a stop was requested `before` that."""
        working = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({working}, timeout=self._poll))[0]:
                if self.stop.requested:
                    raise SessionLost(f"a stop was requested before {before}")
                await self.run_while_waiting()
        finally:
            working.cancel()
        return working.result()

    async def connected(self, connecting: Awaitable[Publisher]) -> Publisher:
        """The new session. Tasks run meanwhile. Does not end at a stop: a server that hangs has its own time limit."""
        beginning = asyncio.ensure_future(connecting)
        try:
            while not (await asyncio.wait({beginning}, timeout=self._nap()))[0]:
                await self.run_while_waiting()
        except BaseException:
            beginning.cancel()
            with contextlib.suppress(ShipperError, asyncio.CancelledError):
                await (await beginning).close()
            raise
        return beginning.result()

    async def pause(self, seconds: float, session: Publisher | None = None) -> None:
        """Wait `seconds`, or until a stop is requested. Tasks run meanwhile."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0 and not self.stop.requested:
            await self.stop.nap(self._nap(left))
            await self.run_while_waiting(session)

    async def run_while_waiting(self, session: Publisher | None = None) -> None:
        """Run the tasks that are due. The next call follows within the poll interval."""
        await self.run_due(session)
        self.pulse.turn(rest=self._poll)

    def _nap(self, at_most: float = math.inf) -> float:
        """Seconds to sleep. The watchdog expects the next iteration after them."""
        seconds = min(at_most, self._poll)
        self.pulse.turn(rest=seconds)
        return seconds
