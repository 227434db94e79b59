"""Worker processes that scan files, and their hits in the order of stored time.

Each worker takes one file at a time and sends its hits through a pipe, which blocks while the other end is not read. A
hit is given out once no file that is still to be read can hold an earlier one. Workers end with this process: an end of
a pipe that is closed ends them, and so does SIGTERM.
"""

import contextlib
import heapq
import multiprocessing
import os
import resource
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, cast

from consumer.archive.event_times import TimeOrigin
from consumer.archive.parts import Part
from consumer.archive.segment_io import BROKEN
from consumer.archive.segment_reader import RemovedError
from consumer.read.counting import Values
from consumer.read.file_search import FileSearch, Found, Hit
from consumer.read.neighbours import Neighbours
from consumer.read.search_request import Request
from shipper.layout import NANOSECONDS

NICE = 10
MAX_MEMORY_BYTES = 512 * 1024 * 1024
"""Address space that a worker may use beyond that of this process: a limit for faults, not a budget."""
BATCH_HITS = 500
REPORT_SECONDS = 0.1
WAIT_SECONDS = 0.25
ENDING_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_NO_BOUND = -(1 << 64)
MAX_ATTEMPTS = 2
"""A file is read again once by another worker after its worker was killed."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Hits that wait for earlier ones; beyond it the oldest of them are given out before all files are read up to there."""


class Unreadable(NamedTuple):
    """A file that could not be read."""

    path: str
    error: str


@dataclass(slots=True)
class Totals:
    """What was read so far."""

    hits: int = 0
    bytes_read: int = 0
    bytes_total: int = 0
    is_truncated: bool = False
    is_approximate: bool = False  #: too many hits waited, or one came too late: their order is not exact
    origins: Counter[TimeOrigin] = field(default_factory=Counter)  #: of the times of hits
    by_part: dict[int, Found] = field(default_factory=dict)
    values: Values = field(default_factory=Values)  #: of all parts


class _Progress(NamedTuple):
    """What a worker sends: hits, and how far it is."""

    number: int
    hits: list[Hit]
    complete_ns: int
    bytes_read: int


class _Done(NamedTuple):
    number: int
    found: Found | None
    error: str


@dataclass(slots=True)
class _Task:
    bound: int  #: hits before it, in the order of the output, have arrived
    bytes_read: int = 0
    hits_received: int = 0
    attempts: int = 1


@dataclass(slots=True, eq=False)
class _Worker:
    process: Any
    connection: Connection
    task: int | None = None


class Search:
    """One search over some parts. Use it as a context manager: its end ends every worker."""

    def __init__(self, request: Request, parts: Sequence[Part], *, jobs: int, neighbours: Neighbours) -> None:
        self.totals = Totals(bytes_total=sum(part.stored for part in parts))
        self.unreadable: list[Unreadable] = []
        self.parts = parts
        self._request = request
        self._neighbours = neighbours
        self._order = deque(sorted(range(len(parts)), key=lambda number: (self._bound(number), parts[number].path)))
        self._running: dict[int, _Task] = {}
        self._held: list[tuple[int, int, int, Hit]] = []
        self._held_bytes = 0
        self._given_out: tuple[int, int, int] | None = None  # the place of the last hit
        self._jobs = max(1, min(jobs, len(parts)))
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Search":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()

    def hits(self, idle: Callable[[], None]) -> Iterator[Hit]:
        """Hits in order. Calls `idle` now and then. Afterwards `totals` and `unreadable` are complete.

        At the limit the search ends. Files that are being read are read on until one more hit is found, so that only
        files which no worker has begun leave it open whether there are more.
        """
        while self._order or self._running:
            for message in self._messages():
                if isinstance(message, _Done):
                    self._finish(message)
                else:
                    self._hold(message)
            idle()
            yield from self._due()
            if self._is_full and not self._request.bucket_ns and (self._held or self._order):
                break
        yield from self._due()
        self.totals.is_truncated |= bool(self._held or self._order)

    @property
    def _is_full(self) -> bool:
        return bool(self._request.limit) and self.totals.hits >= self._request.limit

    # -- workers ------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        number = self._order.popleft()
        self._running[number] = _Task(self._bound(number))
        return number

    def _assign(self) -> None:
        while len(self._workers) < self._jobs and len(self._workers) < len(self._order) + len(self._running):
            self._start()
        for worker in self._workers:
            if worker.task is None and self._order:
                self._send(worker, self._next())

    def _send(self, worker: _Worker, number: int) -> None:
        worker.task = number
        with contextlib.suppress(OSError):  # it died: noticed when its pipe is read
            worker.connection.send((number, self.parts[number], self._running[number].hits_received))

    def _start(self) -> _Worker:
        """A new worker. Signals wait meanwhile: Python drops an exception that is raised in its callbacks of a fork."""
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        others = [worker.connection for worker in self._workers]
        process = context.Process(
            target=_work, args=(theirs, [ours, *others], self._request, self._neighbours), daemon=True
        )
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        try:
            process.start()
            worker = _Worker(process, ours)
            self._workers.append(worker)
            theirs.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return worker

    def _messages(self) -> Iterator[_Progress | _Done]:
        """Give files to workers that have none, and wait for what workers send."""
        self._assign()
        by_connection = {worker.connection: worker for worker in self._workers if worker.task is not None}
        for ready in wait(list(by_connection), WAIT_SECONDS):
            worker = by_connection[cast("Connection", ready)]
            try:
                message = worker.connection.recv()
            except (EOFError, OSError):
                yield from self._replace(worker)
                continue
            if isinstance(message, _Done):
                worker.task = None
            yield message

    def _replace(self, worker: _Worker) -> Iterator[_Done]:
        """A worker was killed, for example for lack of memory: a new one reads its file again, but only once."""
        number = worker.task
        worker.process.join()
        self._workers.remove(worker)
        worker.connection.close()
        if number is None:
            return
        task = self._running[number]
        if task.attempts >= MAX_ATTEMPTS:
            code = worker.process.exitcode
            ending = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            error = f"{task.attempts} worker processes ended while they read it, the last one with {ending}"
            yield _Done(number, None, error)
            return
        task.attempts += 1
        self._send(self._start(), number)

    def _finish(self, done: _Done) -> None:
        task = self._running.pop(done.number)
        if done.error:
            self.unreadable.append(Unreadable(self.parts[done.number].path, done.error))
        if done.found is not None:
            self.totals.values.merge(done.found.values)
            self.totals.by_part[done.number] = replace(done.found, values=Values())  # all of them would fill memory
            self.totals.bytes_read += max(0, done.found.bytes_read - task.bytes_read)
            self.totals.origins.update(done.found.origins)
            if self._request.counts_only:
                self.totals.hits += done.found.hits

    # -- order --------------------------------------------------------------------------------------------------

    def _bound(self, number: int) -> int:
        """No hit of a part is before it, in the order of the output, as far as is known of its lines."""
        part, request = self.parts[number], self._request
        if request.newest_first:
            return -part.last_ns - request.allowance(part).ahead_ns
        return part.first_ns - part.first_ns % NANOSECONDS - request.allowance(part).late_ns

    def _hold(self, progress: _Progress) -> None:
        task = self._running[progress.number]
        self.totals.bytes_read += max(0, progress.bytes_read - task.bytes_read)
        task.bytes_read = max(task.bytes_read, progress.bytes_read)
        task.hits_received += len(progress.hits)
        if not self._request.newest_first:
            task.bound = max(task.bound, progress.complete_ns)
        for hit in progress.hits:
            heapq.heappush(self._held, (*hit.order(newest_first=self._request.newest_first), hit))
            self._held_bytes += _size(hit)
        left = self._request.limit - self.totals.hits
        if self._request.limit and len(self._held) > 2 * max(left, BATCH_HITS):
            self._held = heapq.nsmallest(left, self._held)
            self._held_bytes = sum(_size(held[-1]) for held in self._held)
            self.totals.is_truncated = True

    def _due(self) -> Iterator[Hit]:
        bounds = [task.bound for task in self._running.values()]
        if self._order:
            bounds.append(self._bound(self._order[0]))
        bound = min(bounds, default=None)
        while self._held and not self._is_full:
            is_due = bound is None or self._held[0][0] < bound
            if not is_due and self._held_bytes <= MAX_HELD_BYTES:
                return
            self.totals.is_approximate |= not is_due
            hit = heapq.heappop(self._held)[-1]
            self._held_bytes -= _size(hit)
            place = hit.order(newest_first=self._request.newest_first)
            self.totals.is_approximate |= self._given_out is not None and place < self._given_out
            self._given_out = place
            self.totals.hits += 1
            yield hit


def _size(hit: Hit) -> int:
    return 200 + len(hit.line) + sum(100 + len(each.line) for each in (*hit.before, *hit.after))


def _work(connection: Connection, inherited: list[Connection], request: Request, neighbours: Neighbours) -> None:
    """A worker: takes files until its pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends it
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
    for other in inherited:
        other.close()
    with contextlib.suppress(OSError, ValueError):
        os.nice(NICE)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])  # of address space
        most = pages * resource.getpagesize() + MAX_MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, part, known_hits = connection.recv()
            connection.send(_scanned(connection, request, neighbours, number, part, known_hits))
    os._exit(0)


def _scanned(
    connection: Connection, request: Request, neighbours: Neighbours, number: int, part: Part, known_hits: int
) -> _Done:
    """Search one part. Its first `known_hits` hits were sent by a worker before this one."""
    reported, surplus = time.monotonic(), known_hits
    pending = list[Hit]()

    def report(hits: list[Hit], complete_ns: int, bytes_read: int) -> None:
        nonlocal reported, pending, surplus
        pending += hits[surplus:]
        surplus = max(0, surplus - len(hits))
        now = time.monotonic()
        if len(pending) >= BATCH_HITS or now - reported > REPORT_SECONDS or complete_ns >= part.last_ns:
            for start in range(0, len(pending) or 1, BATCH_HITS):
                batch = pending[start : start + BATCH_HITS]
                is_last = start + BATCH_HITS >= len(pending)
                until = complete_ns if is_last else _NO_BOUND if request.is_by_event else batch[-1].time_ns
                connection.send(_Progress(number, batch, until, bytes_read))
            reported, pending = now, []

    try:
        return _Done(number, FileSearch(request, part, number, report, neighbours).run(), "")
    except RemovedError:
        return _Done(number, Found(path=part.path), "")
    except (BrokenPipeError, ConnectionResetError):
        raise
    except MemoryError:
        return _Done(number, None, "it needs more memory than a worker may use")
    except (OSError, *BROKEN) as error:
        return _Done(number, None, getattr(error, "strerror", None) or str(error))
