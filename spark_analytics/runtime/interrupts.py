"""Ends `fshipper report` on a signal: within 2 s, with a consistent day, and with every process that it started.

A thread ends the process, because the main thread may be in a call into Java or Arrow that handles no signal. It waits
until an `uninterrupted` section is completed, calls what was registered with `called_at_end`, kills all descendants,
removes what was registered with `removed_at_end` and ends the process: with 130 after SIGINT, else by the signal itself
(143 in a shell after SIGTERM), which systemd counts as a clean stop. There is no `spark.stop()`: it takes seconds.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType

from shipper.errors import EXIT_INTERRUPTED

UNINTERRUPTED_SECONDS = 0.6
"""Maximum time that a signal waits for an `uninterrupted` section. All times here must be less than 2 s together."""
CALL_SECONDS = 0.3
"""Maximum time for what is registered with `called_at_end`: it calls Java, which may not answer."""
KILL_SECONDS = 0.7
"""Maximum time to wait for killed descendants; the kernel returns their memory first."""
WAKE_SECONDS = 0.02
"""Interval of the signals that end a wait for input."""
REMOVE_SECONDS = 0.3
"""Maximum time to remove files; the next run removes the rest."""

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAKE = signal.SIGURG
"""Interrupts a system call of the main thread; its handler does nothing."""
_MARK = b"\0"
"""Not the number of a signal: the thread has taken every signal before it."""


class _Ending:
    """What is needed to end this process. Outside `ending` nothing of it has an effect."""

    def __init__(self) -> None:
        self._is_active = False
        self._requested = False
        self._in_section = False
        self._outside_section = threading.Event()
        self._outside_section.set()
        self._calls: list[Callable[[], object]] = []
        self._removals: list[Callable[[], object]] = []
        self._instead: Callable[[], bool] | None = None
        self._raises = False
        self._settled = threading.Event()
        self._not_mine: frozenset[int] = frozenset()
        self._written: socket.socket | None = None

    def is_active(self) -> bool:
        """Whether signals end this process as described above, so that other handlers must not be installed."""
        return self._is_active

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Until the block ends, SIGINT, SIGTERM and SIGHUP (unless ignored, as by nohup) end the process as above.

        Outside the main thread, and inside another such block, nothing changes.
        """
        if self._is_active or threading.current_thread() is not threading.main_thread():
            yield
            return
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        children = (pid for pid, parent in _parents().items() if parent == os.getpid())
        self._not_mine = frozenset(children)  # of the shell that became this process by exec
        received, self._written = socket.socketpair()
        self._written.setblocking(False)
        threading.Thread(target=self._run, args=(received,), name="ending", daemon=True).start()
        self._is_active = True
        # the interpreter writes the number of each signal there as soon as it is delivered
        wakeup = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        numbers = [n for n in _ENDED_BY if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in numbers}
        before[_WAKE] = signal.signal(_WAKE, lambda *_: None)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            self._is_active = False
            self._written.close()  # the thread ends

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """The handler, in the main thread. Outside an `uninterrupted` section that thread does nothing more."""
        if number == signal.SIGINT and self._instead:
            if self._raises:
                raise KeyboardInterrupt
            return
        self._requested = True
        if not self._in_section:
            _park()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """A section of the main thread, normally some ms, that a signal does not cut: the process ends after it."""
        self._outside_section.clear()  # first: a signal in between only costs the time that it waits for this section
        self._in_section = True
        try:
            yield
        finally:
            self._outside_section.set()
            self._in_section = False
            if self._requested:
                _park()

    @contextlib.contextmanager
    def on_interrupt(self, call: Callable[[], bool]) -> Iterator[None]:
        """Within the block SIGINT does not end the process: another thread runs `call`, which returns if it acted."""
        self._instead = call
        try:
            yield
        finally:
            self._instead = None

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within the block, and within `on_interrupt`, SIGINT raises KeyboardInterrupt in the main thread."""
        self._raises = True
        try:
            yield
        finally:
            self._raises = False
            self._settle()

    def _settle(self) -> None:
        """Wait until the thread has taken all signals before this: `_instead` must not meet them in what follows."""
        self._settled.clear()
        with contextlib.suppress(BlockingIOError):
            if self._is_active and self._written:
                self._written.send(_MARK)
                self._settled.wait(CALL_SECONDS)

    @contextlib.contextmanager
    def called_at_end(self, call: Callable[[], object]) -> Iterator[None]:
        """If a signal ends the process within the block, `call` runs first, in another thread; Java still answers."""
        with _listed(self._calls, call):
            yield

    @contextlib.contextmanager
    def removed_at_end(self, path: object, *, unless: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """If a signal ends the process within the block, a file or directory is removed last, if not `unless`.

        A `path` on a store is left to the next run.
        """

        def remove() -> None:
            if not isinstance(path, Path) or unless():
                return
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

        with _listed(self._removals, remove):
            yield

    def _run(self, received: socket.socket) -> None:
        with received:
            while numbers := received.recv(1):
                if numbers == _MARK:
                    self._settled.set()
                elif numbers[0] == signal.SIGINT and self._instead:
                    if not self._instead():
                        self._wake_main_thread()
                elif numbers[0] in _ENDED_BY:
                    self._end(numbers[0])

    def _wake_main_thread(self) -> None:
        """End a wait for input that began after the signal and before its handler ran: readline would not notice it."""
        while self._raises:
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)
            time.sleep(WAKE_SECONDS)

    def _end(self, number: int) -> None:
        self._outside_section.wait(UNINTERRUPTED_SECONDS)
        _call_all(self._calls, CALL_SECONDS)
        with contextlib.suppress(OSError):  # other threads may complain that Java is gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        kill_descendants(KILL_SECONDS, but=self._not_mine)
        _call_all(self._removals, REMOVE_SECONDS)
        if number == signal.SIGINT:
            os._exit(EXIT_INTERRUPTED)
        _die_by(number)


@contextlib.contextmanager
def _listed(calls: list[Callable[[], object]], call: Callable[[], object]) -> Iterator[None]:
    calls.append(call)
    try:
        yield
    finally:
        calls.remove(call)


def _call_all(calls: list[Callable[[], object]], seconds: float) -> None:
    def each() -> None:
        for call in reversed([*calls]):
            with contextlib.suppress(Exception):
                call()

    caller = threading.Thread(target=each, daemon=True)
    caller.start()
    caller.join(seconds)


def kill_descendants(seconds: float, *, but: Collection[int] = ()) -> None:
    """Kills every process that this one started, and what those started, and waits for them at most `seconds`.

    All of them are killed in each round: on a busy core a process may take longer than `seconds` to end, and what it
    started must not outlive this process. This process is their subreaper (prctl(2)): a process whose parent has ended
    becomes its child, so the loop ends when it has no descendants but `but` and those below them.
    """
    until = time.monotonic() + seconds
    while found := _descendants(but):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= until:
            break
        time.sleep(0.005)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _descendants(but: Collection[int]) -> list[int]:
    """The processes below this one, apart from `but` and those below them; a parent before its children."""
    parents = _parents()
    found = [os.getpid()]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one and pid not in but]
    return found[1:]


def _parents() -> dict[int, int]:
    """The parent of each process of this machine."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                status = Path(entry.path, "stat").read_bytes()
                found[int(entry.name)] = int(status[status.rindex(b")") + 2 :].split()[1])
    return found


def _park() -> None:
    while True:
        time.sleep(60)


def _die_by(number: int) -> None:
    """As `signal.signal` may be used in the main thread only, this goes to the C library."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
        libc.signal(number, None)  # SIG_DFL
        os.kill(os.getpid(), number)
        time.sleep(0.2)
    os._exit(128 + number)


_OF_PROCESS = _Ending()  # signal handlers are the process's, so its methods are the functions of this module
ending, is_active = _OF_PROCESS.ending, _OF_PROCESS.is_active
uninterrupted, interruptible = _OF_PROCESS.uninterrupted, _OF_PROCESS.interruptible
on_interrupt = _OF_PROCESS.on_interrupt
called_at_end, removed_at_end = _OF_PROCESS.called_at_end, _OF_PROCESS.removed_at_end
