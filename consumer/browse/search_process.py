"""One search: a process in a group of its own, with limits, which ends when its client is gone."""

import collections
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

NICE = 10
MEMORY_BYTES = 4 * 1024**3
"""Address space of each process of a search, in bytes."""
WAITING_LINES = 2_000
"""Lines that wait for a slow client. A search pauses when there are more; of a live tail further lines are dropped."""
WAITING_BYTES = 8 * 1024 * 1024
LONGEST_ERROR = 4_096
GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of one line of a process's output; the rest of a longer one is dropped."""


class ProcessLimits(NamedTuple):
    """What one search may use."""

    seconds: float | None  #: of wall time; None: it runs until the client leaves
    cpu_seconds: int
    read_bytes: int | None  #: of the archive, on disk; None: no limit
    output_bytes: int | None  #: of JSON that the client is sent; None: no limit


class SearchProcess:
    """A running `fshipper` command whose standard output is JSON lines. `is_live`: never wait for the reader."""

    def __init__(self, arguments: Sequence[str], limits: ProcessLimits, *, is_live: bool) -> None:
        self.dropped = 0  #: lines of a live tail that the client did not read in time
        self._is_live = is_live
        self._changed = threading.Condition()
        self._lines: collections.deque[bytes] = collections.deque()
        self._bytes = 0
        self._ended = self._closed = False
        self._ending = threading.Lock()
        self._error = b""
        self._process = subprocess.Popen(
            [str(Path(sys.executable).with_name("fshipper")), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            close_fds=True,
        )
        self._limit(limits)
        self._threads = [
            threading.Thread(target=target, args=(stream,), daemon=True)
            for target, stream in ((self._read, self._process.stdout), (self._keep_error, self._process.stderr))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    def next_line(self, timeout: float) -> bytes | None:
        """The next line; empty: the process has ended; None: there was none in `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._ended, timeout)
            if not self._lines:
                return b"" if self._ended else None
            line = self._lines.popleft()
            self._bytes -= len(line)
            self._changed.notify_all()
            return line

    def end(self) -> int:
        """Its exit code, after the output was read; what still runs of its group is ended."""
        with self._changed:
            self._closed = True
            self._lines.clear()
            self._changed.notify_all()
        with self._ending:
            if self._process.returncode is None:
                self._end_group()
        for thread in self._threads:
            thread.join(GRACE_SECONDS)
        return self._process.returncode

    def _end_group(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while not self._is_zombie() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._signal(signal.SIGKILL)  # before its id is free again; children that outlive it, too
        self._process.wait()

    @property
    def complaint(self) -> str:
        """What it wrote to standard error, at most the last 4 KiB."""
        return self._error.decode("utf-8", "replace")

    def _limit(self, limits: ProcessLimits) -> None:
        """From outside: code between fork and exec must not run in a program with threads."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.pid, NICE)
            for name, value in (
                (resource.RLIMIT_CPU, limits.cpu_seconds),
                (resource.RLIMIT_AS, MEMORY_BYTES),
                (resource.RLIMIT_CORE, 0),
            ):
                resource.prlimit(self.pid, name, (value, value))

    def _is_zombie(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)

    def _read(self, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while line := stream.readline(LONGEST_LINE):
                if not self._put(line):
                    break
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, line: bytes) -> bool:
        """Whether further lines are wanted."""
        with self._changed:
            if self._is_live and self._is_full():
                self.dropped += 1
                return not self._closed
            self._changed.wait_for(lambda: self._closed or not self._is_full())
            if not self._closed:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()
            return not self._closed

    def _is_full(self) -> bool:
        return len(self._lines) >= WAITING_LINES or self._bytes >= WAITING_BYTES

    def _keep_error(self, stream: IO[bytes]) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while piece := stream.readline(LONGEST_LINE):
                self._error = (self._error + piece)[-LONGEST_ERROR:]


def json_lines(process: SearchProcess, *, beat_seconds: float, deadline: float) -> Iterator[dict[str, Any] | None]:
    """The objects that the process writes; None each `beat_seconds` without one. Ends at `deadline` (monotonic)."""
    while (left := deadline - time.monotonic()) > 0:
        line = process.next_line(min(beat_seconds, left))
        if line == b"":
            return
        if line is None:
            yield None
            continue
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found
