"""Three real nats-servers as one cluster on loopback, from the files in deploy/nats/cluster/.

with cluster(tmp_path) as nodes:
    nodes.url                 # all three, separated by commas
    nodes["nats1"].kill()     # SIGKILL; .start() again on the same port and store
"""

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from natsd import binary

SHIPPED = Path(__file__).resolve().parents[1] / "deploy" / "nats" / "cluster"
NAMES = ("nats1", "nats2", "nats3")
READY_SECONDS = 60.0


class Node:
    """One server of the cluster."""

    def __init__(self, directory: Path, name: str, ports: dict[str, int]) -> None:
        self.name = name
        self._ports = ports
        self._directory = directory / name
        self._directory.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._ports[self.name]}"

    @property
    def log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def configure(self) -> None:
        text = (SHIPPED / f"{self.name}.conf").read_text().replace("/var/lib/nats", str(self._directory / "store"))
        text = text.replace("port: 4222", f"port: {self._ports[self.name]}").replace("100GB", "20GB")
        text = text.replace("port: 6222", f"port: {self._ports[self.name + '-cluster']}")
        text = text.replace("127.0.0.1:8222", f"127.0.0.1:{self._ports[self.name + '-http']}")
        text = re.sub(
            r"(nats\d)\.example\.net:6222", lambda found: f"127.0.0.1:{self._ports[found[1] + '-cluster']}", text
        )
        text = re.sub(r"nats\d\.example\.net", "127.0.0.1", text)
        (self._directory / "nats-server.conf").write_text(text)

    def start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            command = [binary(), "-c", str(self._directory / "nats-server.conf")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def leads_all(self) -> bool:
        """Whether it is the leader of the cluster and hears every other node: before, streams find no place."""
        address = f"http://127.0.0.1:{self._ports[self.name + '-http']}/jsz"
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                meta = json.load(answer).get("meta_cluster", {})
        except OSError:
            return False
        others = [one for one in meta.get("replicas") or () if one.get("current") and not one.get("offline")]
        return meta.get("leader") == self.name and len(others) == len(NAMES) - 1

    def wait_until_ready(self) -> None:
        """Until it is part of the cluster and has caught up with the others."""
        address = f"http://127.0.0.1:{self._ports[self.name + '-http']}/healthz"
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=2):
                return
            assert time.monotonic() < deadline, f"{self.name} is not ready\n{self.log[-3000:]}"
            time.sleep(0.1)


class Nodes(dict[str, Node]):
    """All of them, by name."""

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.values())

    def wait_until_whole(self) -> None:
        """Until one of them leads all the others."""
        deadline = time.monotonic() + READY_SECONDS
        while not any(node.leads_all() for node in self.values()):
            assert time.monotonic() < deadline, "no node leads the others"
            time.sleep(0.1)


@contextlib.contextmanager
def cluster(directory: Path) -> Iterator[Nodes]:
    """A cluster that lives as long as the `with` block."""
    wanted = [name + end for name in NAMES for end in ("", "-cluster", "-http")]
    ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
    nodes = Nodes({name: Node(directory, name, ports) for name in NAMES})
    try:
        for node in nodes.values():
            node.configure()
            node.start()
        for node in nodes.values():
            node.wait_until_ready()
        nodes.wait_until_whole()
        yield nodes
    finally:
        for node in nodes.values():
            node.kill()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]
