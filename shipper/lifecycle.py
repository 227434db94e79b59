"""A program's lifetime: start, serve until a stop is requested, drain within a deadline; a second signal ends it."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

EXIT_FORCED = 130
NOTIFY_SECONDS = 0.2
"""Time limit of a notification to systemd, in seconds; after it the notification is dropped."""


class Stop:
    """The one way to request that a program stops, and the one place where it sleeps.

    Owned by the event loop; `ask` may be called from signal handlers of that loop.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._asked_at = 0.0
        self._told: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether a stop was requested."""
        return self._event.is_set()

    def ask(self) -> None:
        """Request a stop; a second request changes nothing."""
        if not self.asked:
            self._asked_at = time.monotonic()
            self._event.set()
            for tell in self._told:
                tell()

    def on_ask(self, tell: Callable[[], None]) -> None:
        """Call `tell` when a stop is requested, to end another kind of sleep."""
        self._told.append(tell)

    @property
    def asked_for(self) -> float:
        """Seconds since the stop was requested; 0: it was not."""
        return time.monotonic() - self._asked_at if self.asked else 0.0

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

    def asked() -> None:
        if stop.asked:
            os._exit(EXIT_FORCED)  # the promise holds through kill -9, so it holds here too
        notify("STOPPING=1")
        stop.ask()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
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
