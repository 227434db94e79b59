"""Processes that are killed at a chosen step: a system call that changes the disk, or a statement of the journal.

with Lives() as lives:
    for place in lives.every_step(work, prepared):     # killed at its first step, its second, ...; `work` takes a path
        work(place)                                    # the next start
        assert ...

A process that has imported everything forks the lives: one takes some milliseconds. SIGKILL ends it where it is.
"""

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from consumer.archive.journal import Journal

CALLS = ("fsync", "fdatasync", "ftruncate", "write", "writev", "pwrite", "pwritev")
EVENTS = frozenset({"open", "os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate"})
MOST_STEPS = 2000
Work = Callable[[Path], None]


class Lives:
    """Gives lives to functions of test modules, one at a time."""

    def __enter__(self) -> "Lives":
        self._parent = subprocess.Popen(
            [sys.executable, __file__, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate("")

    def dies(self, step: int, work: Work, place: Path) -> bool:
        """Do `work` in `place`, killed at its `step`th step; False: it came to its end before."""
        asked = {"step": step, "module": work.__module__, "work": work.__name__, "place": str(place)}
        self._parent.stdin.write(json.dumps(asked) + "\n")
        self._parent.stdin.flush()
        status = int(self._parent.stdout.readline())
        assert status in {0, -signal.SIGKILL}, f"it failed by itself: {status}"
        return status != 0

    def every_step(self, work: Work, prepared: Callable[[], Path]) -> Iterator[Path]:
        """Kill `work` at each of its steps, each time in a new place; yields what the kill left."""
        for step in range(1, MOST_STEPS):
            place = prepared()
            if not self.dies(step, work, place):
                return
            yield place
        raise AssertionError("it never ends")

    def many(self, work: Work, place: Path, *, seed: int, most: int) -> int:
        """Kill `work` at a random step, again and again on what is left, until it lives; how often it died."""
        steps, deaths = random.Random(seed), 0
        while self.dies(steps.randint(1, most), work, place):
            deaths += 1
        return deaths


class Places:
    """Copies of one place, each in a new directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.first = directory / "first"
        self._copies = 0

    def copy(self) -> Path:
        self._copies += 1
        return Path(shutil.copytree(self.first, self._directory / str(self._copies), symlinks=True))


class _Death:
    """Counts the steps of this process, and kills it at one."""

    def __init__(self, step: int) -> None:
        self._left = step

    def come_nearer(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and not (event == "open" and _only_reads(arguments)):
            self.come_nearer()

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.come_nearer()
            return call(*arguments, **named)

        return counted


def _only_reads(arguments: tuple[Any, ...]) -> bool:
    return not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)


def _live(step: int, work: Work, place: Path) -> None:
    death = _Death(step)
    for name in CALLS:
        setattr(os, name, death.before(getattr(os, name)))
    open_journal = Journal._open

    def opened(journal: Journal) -> None:
        open_journal(journal)
        journal._database.set_trace_callback(lambda _statement: death.come_nearer())

    Journal._open = opened
    sys.addaudithook(death.hear)
    work(place)


def _serve() -> None:
    sys.path[:] = [*sys.argv[1:], *sys.path]
    for line in sys.stdin:
        asked = json.loads(line)
        work = getattr(importlib.import_module(asked["module"]), asked["work"])
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            status = 1
            with contextlib.suppress(SystemExit):
                _live(asked["step"], work, Path(asked["place"]))
                status = 0
            os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
