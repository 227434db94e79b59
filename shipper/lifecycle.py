"""A program's lifetime: start, serve until asked to stop, drain within a deadline; a second signal ends at once."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable

EXIT_FORCED = 130
NOTIFY_SECONDS = 0.2
"""Who does not take what it is told in this time does not hear it: the work goes before."""


class Stop:
    """The one way to ask a program to end, and the one place where it sleeps.

    Owned by the event loop; `ask` may be called from signal handlers of that loop.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._asked_at = 0.0
        self._told: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether somebody asked to stop."""
        return self._event.is_set()

    def ask(self) -> None:
        """Ask to stop; asking twice changes nothing."""
        if not self.asked:
            self._asked_at = time.monotonic()
            self._event.set()
            for tell in self._told:
                tell()

    def on_ask(self, tell: Callable[[], None]) -> None:
        """Call `tell` when somebody asks to stop, to end a sleep of another kind."""
        self._told.append(tell)

    @property
    def asked_for(self) -> float:
        """Seconds since somebody asked to stop; 0 when nobody did."""
        return time.monotonic() - self._asked_at if self.asked else 0.0

    async def wait(self) -> None:
        """Return when somebody asked."""
        await self._event.wait()

    async def nap(self, seconds: float) -> None:
        """Sleep `seconds`, or until somebody asks to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


def stop_on_signals(stop: Stop, *, reload: Callable[[], None] | None = None) -> None:
    """SIGTERM and SIGINT ask to stop, a second one ends the process at once, SIGHUP calls `reload`."""

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
    """Tell systemd (Type=notify-reload) that SIGHUP was heard; `READY=1` must follow, whatever comes of it."""
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")


def notify(state: str) -> None:
    """Tell systemd `state` (`READY=1`, `STATUS=...`, see sd_notify(3)); nothing happens where it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link, contextlib.suppress(OSError):
        link.settimeout(NOTIFY_SECONDS)
        link.connect("\0" + address[1:] if address.startswith("@") else address)
        link.send(state.encode())
