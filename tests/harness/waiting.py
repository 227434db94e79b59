"""Waiting for a condition: the one set of helpers. A failure names the condition and what is known about it.

A limit is a failure, not a pace: `within` is for an idle machine. At its end the wait measures how many times slower
this machine is now, and lasts so many times longer.
"""

import asyncio
import contextlib
import inspect
import subprocess
import time
from collections.abc import Callable

About = str | Callable[[], str]
"""What a failure says besides the condition; a function is called when the wait fails, so that it is current."""


SHOWN_CHARACTERS = 8000
"""Of a long text, such as a log, a failure shows the end."""

PROBE_SECONDS = 0.05
MOST_SLOWDOWN = 10.0


class Limit:
    """The end of a wait, which a busy machine reaches later."""

    def __init__(self, within: float) -> None:
        self.within = within
        self._began = time.monotonic()
        self._end = self._began + within

    def is_over(self) -> bool:
        if time.monotonic() < self._end:
            return False
        self._end = max(self._end, self._began + self.within * min(slowdown(), MOST_SLOWDOWN))
        return time.monotonic() >= self._end

    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())


def until(true: Callable[[], object], *, within: float = 30.0, what: About = "") -> None:
    """Wait for something that real processes do."""
    limit = Limit(within)
    while not true():
        assert not limit.is_over(), failure(true, within, what)
        time.sleep(0.02)


async def becomes(true: Callable[[], object], *, within: float = 15.0, what: About = "") -> None:
    """Wait for a result of something that runs on the event loop of the test."""
    limit = Limit(within)
    while not true():
        assert not limit.is_over(), failure(true, within, what)
        await asyncio.sleep(0.003)


def ended(process: "subprocess.Popen", *, within: float = 30.0, what: About = "") -> int:
    """Wait for the end of a process; its exit code. One that does not end is killed, and the test fails."""
    limit = Limit(within)
    while not limit.is_over():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(limit.seconds_left())
    process.kill()
    process.wait()
    raise AssertionError(f"{process.args} did not end in {within} s\n{_text(what)}")


def slowdown() -> float:
    """How many times longer than on an idle machine a piece of work takes now, at least 1: for bounds of time.

    Measured by a loop that uses 50 ms of CPU. Under load, and with one core for several processes, it takes longer.
    """
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < PROBE_SECONDS:
        pass
    return max(1.0, (time.monotonic() - began) / PROBE_SECONDS)


def failure(true: Callable[[], object], within: float, what: About = "") -> str:
    """The message of a failed wait: the source of its condition, and what is known now."""
    about = _text(what)
    return f"not in {within} s: {_source(true)}" + (f"\n{about}" if about else "")


def _text(what: About) -> str:
    return (what() if callable(what) else what)[-SHOWN_CHARACTERS:]


def _source(true: Callable[[], object]) -> str:
    try:
        return inspect.getsource(true).strip()
    except (OSError, TypeError):
        return str(true)
