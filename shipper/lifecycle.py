"""A program's lifetime: start, serve until a stop is requested, drain within a deadline; a second signal ends it.

The service manager is notified of the status meanwhile, and that the program makes progress.
"""

import asyncio
import contextlib
import ctypes
import math
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable

from shipper import events

EXIT_FORCED = 130
NOTIFY_SECONDS = 0.2
"""Time limit of a notification to systemd, in seconds; after it the notification is dropped."""


class Stop:
    """The one way to request that a program stops, and the one place where it sleeps.

    Owned by the event loop; `request` may be called from signal handlers of that loop.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._requested_at = 0.0
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._event.is_set()

    def request(self) -> None:
        """Request a stop; a second request changes nothing."""
        if not self.requested:
            self._requested_at = time.monotonic()
            self._event.set()
            for callback in self._callbacks:
                callback()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a stop is requested, to end another kind of sleep."""
        self._callbacks.append(callback)

    @property
    def seconds_since_request(self) -> float:
        """Seconds since the stop was requested; 0: it was not."""
        return time.monotonic() - self._requested_at if self.requested else 0.0

    async def wait(self) -> None:
        """Return when a stop is requested."""
        await self._event.wait()

    async def nap(self, seconds: float) -> None:
        """Sleep `seconds`, or until a stop is requested."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


def stop_on_signals(stop: Stop, *, reload: Callable[[], None] | None = None) -> None:
    """SIGTERM and SIGINT request a stop, a second one ends the process immediately, SIGHUP calls `reload`."""

    def on_signal() -> None:
        if stop.requested:
            os._exit(EXIT_FORCED)  # the promise holds through kill -9, so it holds here too
        notify("STOPPING=1")
        stop.request()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, reload or (lambda: None))


def notify_reloading() -> None:
    """Notify systemd (Type=notify-reload) of a SIGHUP; `READY=1` must follow in every case."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")


def notify(state: str) -> None:
    """Notify systemd of `state` (`READY=1`, `STATUS=...`, see sd_notify(3)); without systemd nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link, contextlib.suppress(OSError):
        link.settimeout(NOTIFY_SECONDS)
        link.connect("\0" + address[1:] if address.startswith("@") else address)
        link.send(state.encode())


# -- progress ----------------------------------------------------------------------------------------------------------
#
# `WATCHDOG=1` is sent from the event loop, so one that hangs sends none; and only while every pulse turns in time, so a
# loop that waits for something that never comes sends none either. Waiting for a server that is away is no hanging: the
# loop that waits iterates, and announces how long it will sleep.

STATUS_SECONDS = 2.0
LEAST_PATIENCE_SECONDS = 3.0
"""What a turn may take however short the watchdog's time is: requests to a server that hangs have their time-outs."""
PINGS = 4  # in the watchdog's time


class Pulse:
    """The progress of one loop. Owned by the loop; the watchdog only reads it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._due = math.inf  # nothing is expected of a loop that did not begin

    def turn(self, *, rest: float = 0.0) -> None:
        """The loop turns; it is going to sleep `rest` seconds at most before it does again."""
        self._due = time.monotonic() + rest

    def sign(self) -> None:
        """Work was done outside the loop, or in it: its time starts again from now."""
        self._due = max(self._due, time.monotonic())

    def end(self) -> None:
        """The loop is over: nothing is expected any more."""
        self._due = math.inf

    @property
    def overdue(self) -> float:
        """Seconds since it should have turned again; 0 while there is time."""
        return max(0.0, time.monotonic() - self._due)


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
    watchdog = _watchdog_seconds()
    patience = max(watchdog / 2, LEAST_PATIENCE_SECONDS)
    last = ""
    while True:
        late = [pulse for pulse in pulses() if pulse.overdue > patience] if watchdog else []
        stuck = "; ".join(f"{pulse.name} has not gone on for {pulse.overdue:.0f} s" for pulse in late)
        text = stuck or " ".join(status().split())
        news = ["WATCHDOG=1"] * bool(watchdog and not late) + [f"STATUS={text}"] * (text != last)
        if news:
            notify("\n".join(news))
        for pulse in late:
            events.progress_stopped(what=pulse.name, seconds=pulse.overdue)
        last = text
        await asyncio.sleep(min(STATUS_SECONDS, watchdog / PINGS) if watchdog else STATUS_SECONDS)


def _watchdog_seconds() -> float:
    """Interval in which the service manager requires a notification, in seconds; 0: there is no watchdog."""
    if os.environ.get("WATCHDOG_PID") not in {None, "", str(os.getpid())}:
        return 0.0
    try:
        return max(0.0, int(os.environ.get("WATCHDOG_USEC", "")) / 1e6)
    except ValueError:
        return 0.0


# -- memory and scheduling of the process ------------------------------------------------------------------------------

KEPT_BYTES = 8 * 1024 * 1024
"""Free at the end of a heap; more goes back to the system."""
MAPPED_BYTES = 4 * 1024 * 1024
"""What is smaller comes from a heap. Blocks, and what they are packed into, are."""
_TRIM_THRESHOLD, _MAP_THRESHOLD = -1, -3  # of glibc's mallopt(3)


def keep_freed_memory() -> None:
    """Use the memory of one block for the next. Where the C library is another one nothing changes.

    The C library would return much of it to the system, and request it again immediately. Then each block may touch
    pages that are new to the process: measured, a third of a second a GiB and more.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MAP_THRESHOLD, MAPPED_BYTES)


def give_way() -> None:
    """Do not preempt other processes at each wake-up: SCHED_BATCH, see sched(7). A policy that was set before is kept.

    The share of the cores stays the same, with fewer context switches. Call it before threads start.
    Measured: 2 % fewer CPU seconds a GiB from end to end.
    """
    with contextlib.suppress(OSError, AttributeError):  # a container may forbid it, another system lacks it
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
