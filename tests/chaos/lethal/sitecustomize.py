"""Death at a chosen call: a program that is started with this on its path ends, or hangs, or fails there.

CHAOS_CALL=os.fdatasync:7:before:kill    at the 7th call of os.fdatasync, before it is made
CHAOS_CALL=commit:3:after:kill           after the 3rd transaction of a SQLite database
CHAOS_CALL=os.fdatasync:2:before:fail    the 2nd call and every one in the next second fails with EIO

The file that CHAOS_NOTE names records which database's transaction it was.
"""

import errno
import itertools
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAILING_SECONDS = 1.0
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class DeletionOutcome:
    """Counts the calls and strikes at the one that was chosen; in every thread, since each may make it."""

    def __init__(self, chosen: str) -> None:
        self.call, number, self._when, self._what = chosen.split(":")
        self._chosen = int(number)
        self._numbers = itertools.count(1)
        self._fails_until = 0.0

    def around(self, work: Callable[..., Any], note: str = "") -> Callable[..., Any]:
        """`work`, which may be the call; `note` describes the call."""

        def called(*arguments: Any, **named: Any) -> Any:
            number = next(self._numbers)  # its own, whatever other threads do: it must strike once
            if self._when == "before":
                self._strike(number, note)
            result = work(*arguments, **named)
            if self._when == "after":
                self._strike(number, note)
            return result

        return called

    def _strike(self, number: int, note: str) -> None:
        if self._what == "fail":
            if number == self._chosen:
                self._fails_until = time.monotonic() + FAILING_SECONDS
            if time.monotonic() < self._fails_until:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        elif number == self._chosen:
            Path(os.environ["CHAOS_NOTE"]).write_text(note)
            os.kill(os.getpid(), SIGNALS[self._what])


def _arm(fate: DeletionOutcome) -> None:
    if fate.call.startswith("os."):
        name = fate.call.removeprefix("os.")
        setattr(os, name, fate.around(getattr(os, name)))
        return

    class Mortal(sqlite3.Connection):
        before = 0

        def __enter__(self) -> Any:
            self.before = self.total_changes
            return super().__enter__()

        def __exit__(self, *error: Any) -> Any:
            if self.before == self.total_changes or error[0] is not None:
                return super().__exit__(*error)  # it writes nothing: what was written last is an older promise
            return fate.around(super().__exit__, self.execute("PRAGMA database_list").fetchone()[2])(*error)

    connect = sqlite3.connect
    sqlite3.connect = lambda *arguments, **named: connect(*arguments, factory=Mortal, **named)


if "CHAOS_CALL" in os.environ:
    _arm(DeletionOutcome(os.environ["CHAOS_CALL"]))
