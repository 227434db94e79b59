"""Waiting for something that may take long: the files are looked at beside it, so that none is renamed out of sight."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from shipper.errors import SessionLost, ShipperError
from shipper.lifecycle import Stop
from shipper.ports import Publisher
from shipper.watchdog import Pulse

_T = TypeVar("_T")
Look = Callable[[Publisher | None], Awaitable[None]]


class Beside:
    """Waits, and has `look` called every `poll` seconds meanwhile. Owned by the pipeline."""

    def __init__(self, poll: float, stop: Stop, pulse: Pulse, look: Look) -> None:
        self._poll = poll
        self._stop = stop
        self._pulse = pulse
        self._look = look

    async def done(self, work: Coroutine[Any, Any, _T], *, before: str) -> _T:
        """The result of `work`. Raises SessionLost: asked to stop `before` that."""
        working = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({working}, timeout=self._poll))[0]:
                if self._stop.asked:
                    raise SessionLost(f"asked to stop before {before}")
                await self._look(None)
        finally:
            working.cancel()
        return working.result()

    async def begun(self, session: Awaitable[Publisher]) -> Publisher:
        """A new session: a server that hangs may take its time to be given up."""
        beginning = asyncio.ensure_future(session)
        try:
            while not (await asyncio.wait({beginning}, timeout=self.nap()))[0]:
                await self._look(None)
        except BaseException:
            beginning.cancel()
            with contextlib.suppress(ShipperError, asyncio.CancelledError):
                await (await beginning).close()
            raise
        return beginning.result()

    async def pause(
        self, seconds: float, publisher: Publisher | None = None, *, unless: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait `seconds`, unless somebody asks to stop or `unless` becomes true. With a session, it is looked after."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not (self._stop.asked or unless()):
            await self._stop.nap(self.nap(left))
            await self._look(publisher)

    def nap(self, at_most: float = math.inf) -> float:
        """Seconds to sleep until files are looked at again; the pulse is told."""
        seconds = min(at_most, self._poll)
        self._pulse.turn(rest=seconds)
        return seconds
