"""Patterns that only `re` can run, in a process of their own: in a thread nothing can interrupt them.

The process has a CPU timer that ends it when a block is over budget; it ends, too, when its standard input does.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from typing import IO

from producer.transform.line_filter import Pattern, Range
from producer.transform.time_budget import Budget, OverBudget

_JOB = struct.Struct("<IBdI")
"""Number of the pattern, the operation, CPU seconds, bytes of text."""
_COUNT = struct.Struct("<I")
_SPENT = struct.Struct("<d")
LINES, MATCHES, IS_LINE = range(3)
WALL_TIMES = 10.0
"""The process is killed, too, when it takes so many times the budget on the clock: it is stopped, or gets no CPU."""
WALL_LEAST_SECONDS = 10.0
POLL_SECONDS = 0.1
"""Seconds between two checks whether the program must end."""
TRIES = 2
"""Another process may have ended it, so a block is given to a second process before its file is held back."""


class Matcher:
    """The process for the patterns of one configuration, started when it is needed. One caller at a time."""

    def __init__(self, texts: tuple[str, ...], budget: Budget) -> None:
        self._texts = texts
        self._budget = budget
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, number: int, what: int, data: bytes) -> list[Range]:
        """What the pattern finds. Raises OverBudget."""
        for _ in range(TRIES):
            self._budget.check()
            with contextlib.suppress(OSError, EOFError):
                return self._asked(number, what, data)
            if self.close() == -signal.SIGPROF:
                most = f"{self._budget.seconds:g} s of CPU time"
                raise OverBudget(f"pattern {self._texts[number]!r} takes more than {most} for one block")
        raise OverBudget(f"the process for pattern {self._texts[number]!r} cannot be started, or ends immediately")

    def _asked(self, number: int, what: int, data: bytes) -> list[Range]:
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes")
        seconds = max(0.001, self._budget.left)
        process.stdin.write(_JOB.pack(number, what, seconds, len(data)))
        process.stdin.write(data)
        process.stdin.flush()
        until = time.monotonic() + max(WALL_LEAST_SECONDS, WALL_TIMES * seconds)
        (count,) = _COUNT.unpack(self._read(process.stdout, _COUNT.size, until))
        edges = array("I")
        edges.frombytes(self._read(process.stdout, count * edges.itemsize, until))
        (spent,) = _SPENT.unpack(self._read(process.stdout, _SPENT.size, until))
        self._budget.spend(spent)
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            environment = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "producer.transform.regex_process"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd="/",
            )  # fmt: skip
            texts = json.dumps(self._texts).encode()
            if self._process.stdin is not None:
                self._process.stdin.write(_COUNT.pack(len(texts)) + texts)
        return self._process

    def _read(self, pipe: IO[bytes], size: int, until: float) -> bytes:
        """`size` bytes. Raises EOFError: the process ended. OverBudget: it does not answer in time."""
        found = bytearray()
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while len(found) < size:
            if not poll.poll(POLL_SECONDS * 1000):
                until = self._budget.not_after(until)
                if time.monotonic() < until:
                    continue
                self.close()
                raise OverBudget("the process for patterns does not answer in time")
            octets = os.read(pipe.fileno(), size - len(found))
            if not octets:
                raise EOFError
            found += octets
        return bytes(found)

    def close(self) -> int:
        """End the process; another one is started when it is needed. How it ended; it is killed where it has not."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            return process.wait(0.2)  # its pipes are closed, so it is about to end by itself, unless it is at work
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait()

    def __del__(self) -> None:
        self.close()


class Apart:
    """One of the patterns of a `Matcher`; the same questions as to a `Pattern`."""

    def __init__(self, matcher: Matcher, number: int) -> None:
        self._matcher = matcher
        self._number = number

    def matches_line(self, data: bytes, begin: int, end: int) -> bool:
        """Whether it matches in the line `begin` to `end`, which has no newline."""
        return bool(self._matcher.ask(self._number, IS_LINE, data[begin:end]))

    def lines(self, data: bytes) -> Iterator[Range]:
        """The lines in which it matches, in order, with their newlines."""
        return iter(self._matcher.ask(self._number, LINES, data))

    def matches(self, data: bytes) -> Iterator[Range]:
        """What it matches, in order; never nothing, never a line's end."""
        return iter(self._matcher.ask(self._number, MATCHES, data))


def _found(pattern: Pattern, what: int, data: bytes) -> list[Range]:
    if what == IS_LINE:
        return [(0, len(data))] if pattern.matches_line(data, 0, len(data)) else []
    return list(pattern.lines(data) if what == LINES else pattern.matches(data))


def main() -> None:
    """Answer questions until standard input ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # meant for the producer
        signal.signal(number, signal.SIG_IGN)
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    patterns = [Pattern.of_re(text) for text in json.loads(asked.read(*_COUNT.unpack(asked.read(_COUNT.size))))]
    while len(head := asked.read(_JOB.size)) == _JOB.size:
        number, what, seconds, length = _JOB.unpack(head)
        data, before = asked.read(length), time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        edges = array("I", [edge for span in _found(patterns[number], what, data) for edge in span])
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(_COUNT.pack(len(edges)) + edges.tobytes() + _SPENT.pack(time.process_time() - before))
        answers.flush()


if __name__ == "__main__":
    main()
