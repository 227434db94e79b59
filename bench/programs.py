"""The programs that are measured: started, watched while they run (CPU, most memory), ended, and killed at the end."""

import argparse
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.fleet import FSHIPPER, Fleet
from harness.natsd import NatsServer, running
from machine import cpu_seconds, peak_mib, tree_cpu_s

HOST = "bench1.example.net"
HERE = Path(__file__).resolve().parent
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 900.0
SHOWN_BYTES = 2000
SYNC = "FSHIPPER_BENCH_SYNC"
"""Variable with the sync setting of the servers: `always`, as `fshipper server` and deploy/nats set it, or e.g. 2m.
Cases that run another script pass it on."""
OTHER_TREE = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
"""To measure the programs of another tree."""


class FailedError(Exception):
    """A number of a failed run, or of a wrong result, is no number."""


@dataclass(frozen=True)
class Used:
    """What a program took, from its start to its end."""

    seconds: float
    cpu_s: float  #: of itself and its children
    peak_mib: float  #: VmHWM of the largest of itself and its children


class Program:
    """One process. A thread reads how much memory it has had: when it is over, the kernel no longer reports it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = " ".join(Path(part).name for part in command[:3])
        self.log = log
        self.began = time.monotonic()
        self.pid = _spawned(command, environment, log)
        self.used: Used | None = None
        self._peak_mib = self._tree_cpu_s = 0.0
        self._over = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    @property
    def cpu_s(self) -> float:
        """So far."""
        return self.used.cpu_s if self.used else cpu_seconds(self.pid)

    @property
    def tree_cpu_s(self) -> float:
        """Of itself and its children, so far."""
        return self.used.cpu_s if self.used else tree_cpu_s(self.pid)

    @property
    def peak_mib(self) -> float:
        """So far."""
        self._peak_mib = max(self._peak_mib, peak_mib(self.pid) if not self.used else 0.0)
        return self._peak_mib

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return not self.used and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def end(self, within: float = PATIENCE_SECONDS) -> Used:
        """Wait for its end.

        Raises:
            FailedError: it failed, or did not end in time.
        """
        descriptor = os.pidfd_open(self.pid)
        try:
            ready, _, _ = select.select([descriptor], [], [], within)
        finally:
            os.close(descriptor)
        if not ready:
            raise FailedError(f"{self.name} did not end within {within:.0f} s\n{self.said()}")
        if code := self._reaped():
            raise FailedError(f"{self.name} ended with {code}\n{self.said()}")
        assert self.used
        return self.used

    def stop(self, within: float = 60.0) -> Used:
        """SIGTERM, and wait."""
        os.kill(self.pid, signal.SIGTERM)
        return self.end(within)

    def kill(self) -> None:
        """SIGKILL, where it still runs."""
        if not self.used:
            os.kill(self.pid, signal.SIGKILL)
            self._reaped()

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-SHOWN_BYTES:]

    def _reaped(self) -> int:
        _, status, usage = os.wait4(self.pid, 0)
        seconds = time.monotonic() - self.began
        self._over.set()
        waited_for = usage.ru_utime + usage.ru_stime
        self.used = Used(seconds, max(waited_for, self._tree_cpu_s), self._peak_mib)
        return os.waitstatus_to_exitcode(status)

    def _look(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self._peak_mib = max(self._peak_mib, peak_mib(self.pid))
            self._tree_cpu_s = max(self._tree_cpu_s, tree_cpu_s(self.pid))


def _spawned(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        to = [(os.POSIX_SPAWN_DUP2, descriptor, 1), (os.POSIX_SPAWN_DUP2, descriptor, 2)]
        return os.posix_spawn(command[0], list(command), dict(environment), file_actions=to)
    finally:
        os.close(descriptor)


class Stage:
    """A server, an archive and the programs on it; all that still runs when it is left is killed."""

    def __init__(self, server: NatsServer, fleet: Fleet) -> None:
        self.server = server
        self.fleet = fleet
        self.programs: list[Program] = []

    def produce(self, *arguments: str | Path, host: str = HOST, **environment: str) -> Program:
        """A producer of its own state, whatever its host."""
        return self._start([FSHIPPER, "produce", *map(str, arguments)], HOSTNAME=host, **environment)

    def consume(self, *arguments: str) -> Program:
        return self._start([FSHIPPER, "consume", *arguments])

    def follow(self) -> Program:
        """A reader that follows the lines of all hosts."""
        return self._start([FSHIPPER, "tail", "-f", "--raw"])

    def loop(self, script: str, *arguments: object) -> Program:
        """A bare loop of this folder, with the address of the server."""
        return self._start([sys.executable, str(HERE / script), self.server.url, *map(str, arguments)])

    def server_cpu_s(self) -> float:
        """CPU seconds of the server so far."""
        return cpu_seconds(self.server.pid)

    def _start(self, command: list[str], **environment: str) -> Program:
        log = self.fleet.directory / f"program-{len(self.programs)}.log"
        chosen = self.fleet.environment(**OTHER_TREE, SHIPPER_MAX_DELAY=None, **environment)
        program = Program(command, chosen, log)
        self.programs.append(program)
        return program


def server_sync() -> str:
    """When the servers that are measured sync: `always`, or an interval."""
    return os.environ.get(SYNC) or "always"


def with_sync(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add `--sync`, which sets the variable."""

    def chosen(word: str) -> str:
        os.environ[SYNC] = word
        return word

    parser.add_argument("--sync", type=chosen, default=server_sync(), help="when the server syncs: always, or e.g. 2m")
    return parser


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[NatsServer]:
    """A fresh server that syncs as `server_sync`; its configuration needs quotes, or 2m are 2,000,000 s."""
    with running(directory, sync=f'"{server_sync()}"') as server:
        yield server


@contextlib.contextmanager
def stage(directory: Path, *, partitions: int = 1) -> Iterator[Stage]:
    """A fresh server with its streams."""
    with serving(directory / "natsd") as server:
        fleet = Fleet(directory, server.url, partitions=partitions)
        fleet.apply()
        found = Stage(server, fleet)
        try:
            yield found
        finally:
            for program in found.programs:
                program.kill()
