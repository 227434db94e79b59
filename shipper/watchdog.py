"""Notifications to the service manager while a program runs: its status, and that it makes progress.

`WATCHDOG=1` is sent from the event loop, so one that hangs sends none; and only while every pulse turns in time, so a
loop that waits for something that never comes sends none either. Waiting for a server that is away is no hanging: the
loop that waits iterates, and announces how long it will sleep.
"""

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from shipper import events
from shipper.lifecycle import notify

STATUS_SECONDS = 2.0
LEAST_PATIENCE_SECONDS = 3.0
"""What a turn may take however short the watchdog's time is: requests to a server that hangs have their time-outs."""
PINGS = 4  # in the watchdog's time


class Pulse:
    """The progress of one loop. Owned by the loop; the watchdog only reads it."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self._due = math.inf  # nothing is expected of a loop that did not begin

    def turn(self, *, rest: float = 0.0) -> None:
        """The loop turns; it is going to sleep `rest` seconds at most before it does again."""
        self._due = self._clock() + rest

    def sign(self) -> None:
        """Work was done outside the loop, or in it: its time starts again from now."""
        self._due = max(self._due, self._clock())

    def end(self) -> None:
        """The loop is over: nothing is expected any more."""
        self._due = math.inf

    @property
    def overdue(self) -> float:
        """Seconds since it should have turned again; 0 while there is time."""
        return max(0.0, self._clock() - self._due)


@contextlib.asynccontextmanager
async def supervised(pulses: Callable[[], Iterable[Pulse]], status: Callable[[], str]) -> AsyncIterator[None]:
    """Notify systemd of `status` and of progress as long as the block lasts."""
    telling = asyncio.create_task(_tell(pulses, status)) if os.environ.get("NOTIFY_SOCKET") else None
    try:
        yield
    finally:
        if telling is not None:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling


async def _tell(pulses: Callable[[], Iterable[Pulse]], status: Callable[[], str]) -> None:
    watchdog = watchdog_seconds(os.environ, os.getpid())
    patience = max(watchdog / 2, LEAST_PATIENCE_SECONDS)
    said = ""
    while True:
        late = [pulse for pulse in pulses() if pulse.overdue > patience] if watchdog else []
        text = stuck(late) or " ".join(status().split())
        news = ["WATCHDOG=1"] * bool(watchdog and not late) + [f"STATUS={text}"] * (text != said)
        if news:
            notify("\n".join(news))
        for pulse in late:
            events.progress_stopped(what=pulse.name, seconds=pulse.overdue)
        said = text
        await asyncio.sleep(min(STATUS_SECONDS, watchdog / PINGS) if watchdog else STATUS_SECONDS)


def stuck(late: Iterable[Pulse]) -> str:
    """What does not go on, for people; empty: all does."""
    return "; ".join(f"{pulse.name} has not gone on for {pulse.overdue:.0f} s" for pulse in late)


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float:
    """Interval in which the service manager requires a notification, in seconds; 0: there is no watchdog."""
    asked_of = environment.get("WATCHDOG_PID", "")
    if asked_of and asked_of != str(pid):
        return 0.0
    try:
        return max(0.0, int(environment.get("WATCHDOG_USEC", "")) / 1e6)
    except ValueError:
        return 0.0
