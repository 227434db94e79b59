"""A real nats-server that runs a configuration as it is shipped in deploy/nats, with paths and ports of the test."""

import contextlib
import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from harness.natsd import NatsServer
from harness.waiting import until


class ShippedServer(NatsServer):
    """Has its configuration, store and log in `directory`; `http` is its monitoring port."""

    READY_SECONDS = 30.0

    def __init__(self, directory: Path, name: str, port: int, http: int) -> None:
        super().__init__(directory, port=port)
        self.name = name
        self.http = http

    def write_configuration(self, shipped: Path, changes: dict[str, str]) -> None:
        """`shipped` with its store here and each key of `changes` replaced by its value, in their order."""
        text = shipped.read_text().replace("/var/lib/nats", str(self.store))
        ports = {"port: 4222": f"port: {self.port}", "127.0.0.1:8222": f"127.0.0.1:{self.http}"}
        for old, new in (ports | changes).items():
            text = text.replace(old, new)
        (self.directory / "nats-server.conf").write_text(text)

    def _configuration(self) -> str:
        return (self.directory / "nats-server.conf").read_text()

    def _wait_until_ready(self, _process: subprocess.Popen[bytes]) -> int:
        return self.port  # it may need others of its cluster: `wait_until_ready`

    def wait_until_ready(self) -> None:
        """Until it serves clients and has caught up with the others of its cluster."""
        until(self._is_healthy, within=self.READY_SECONDS, what=lambda: f"{self.name} is not ready\n{self.log[-3000:]}")

    def _is_healthy(self) -> bool:
        with contextlib.suppress(OSError):
            self.monitor("healthz")
            return True
        return False

    def monitor(self, what: str) -> dict[str, Any]:
        """Its status. Raises OSError: it is not there, or it is not healthy."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/{what}", timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
