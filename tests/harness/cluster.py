"""Three real nats-servers as one cluster on loopback, from the files in deploy/nats/cluster/.

with cluster(tmp_path) as nodes:
    nodes.url                 # all three, separated by commas
    nodes["nats1"].kill()     # SIGKILL; .start() again on the same port and store
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness.ports import free_ports
from harness.shipped import ShippedServer
from harness.waiting import until

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "nats" / "cluster"
NAMES = ("nats1", "nats2", "nats3")
READY_SECONDS = 60.0


class Node(ShippedServer):
    """One server of the cluster."""

    READY_SECONDS = READY_SECONDS

    def __init__(self, directory: Path, name: str, ports: dict[str, int], extra: str) -> None:
        super().__init__(directory / name, name, ports[name], ports[name + "-http"])
        self._extra = extra
        self._ports = ports

    def configure(self) -> None:
        routes = {f"{name}.example.net:6222": f"127.0.0.1:{self._ports[name + '-cluster']}" for name in NAMES}
        others = {f"{name}.example.net": "127.0.0.1" for name in NAMES}
        own = {"100GB": "20GB", "port: 6222": f"port: {self._ports[self.name + '-cluster']}"}
        self.write_configuration(SHIPPED / f"{self.name}.conf", own | routes | others)
        with (self.directory / "nats-server.conf").open("a") as more:
            more.write(self._extra)

    def leads_all(self) -> bool:
        """Whether it is the leader of the cluster and reaches every other node: before, streams cannot be placed."""
        try:
            meta = self.monitor("jsz").get("meta_cluster", {})
        except OSError:
            return False
        others = [one for one in meta.get("replicas") or () if one.get("current") and not one.get("offline")]
        return meta.get("leader") == self.name and len(others) == len(NAMES) - 1


class Nodes(dict[str, Node]):
    """All of them, by name."""

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.values())

    def wait_until_whole(self) -> None:
        """Until one of them leads all the others."""
        until(lambda: any(node.leads_all() for node in self.values()), within=READY_SECONDS, what="no node leads")


@contextlib.contextmanager
def cluster(directory: Path, *, extra: str = "") -> Iterator[Nodes]:
    """A cluster that lives as long as the `with` block; `extra` is more of each node's configuration."""
    wanted = [name + end for name in NAMES for end in ("", "-cluster", "-http")]
    ports = dict(zip(wanted, free_ports(len(wanted)), strict=True))
    nodes = Nodes({name: Node(directory, name, ports, extra) for name in NAMES})
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
