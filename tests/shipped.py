"""A real nats-server that runs a configuration as it is shipped in deploy/nats, with paths and ports of the test."""

import contextlib
import json
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from natsd import binary


class ShippedServer:
    """Has its configuration, store and log in `directory`; `http` is its monitoring port."""

    READY_SECONDS = 30.0

    def __init__(self, directory: Path, name: str, port: int, http: int) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.name = name
        self.port = port
        self._http = http
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def write_configuration(self, shipped: Path, changes: dict[str, str]) -> None:
        """`shipped` with its store here and each key of `changes` replaced by its value, in their order."""
        text = shipped.read_text().replace("/var/lib/nats", str(self.directory / "store"))
        ports = {"port: 4222": f"port: {self.port}", "127.0.0.1:8222": f"127.0.0.1:{self._http}"}
        for old, new in (ports | changes).items():
            text = text.replace(old, new)
        (self.directory / "nats-server.conf").write_text(text)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            command = [binary(), "-c", str(self.directory / "nats-server.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def reload(self) -> None:
        """SIGHUP: read the configuration again; returns when it counts."""
        assert self._process is not None, "the server does not run"
        said = self.log.count("Reloaded server")
        self._process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + self.READY_SECONDS
        while self.log.count("Reloaded server") == said:
            assert time.monotonic() < deadline, self.log[-3000:]
            time.sleep(0.02)

    def wait_until_ready(self) -> None:
        """Until it serves clients and has caught up with the others of its cluster."""
        deadline = time.monotonic() + self.READY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                self.monitor("healthz")
                return
            assert time.monotonic() < deadline, f"{self.name} is not ready\n{self.log[-3000:]}"
            time.sleep(0.05)

    def monitor(self, what: str) -> dict[str, Any]:
        """Its status. Raises OSError: it is not there, or it is not healthy."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/{what}", timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
