"""The centre and an edge site: two real nats-servers, from deploy/nats/edge/ and keys of `fshipper hosts`.

with site(tmp_path, hosts=("web1.example.net",)) as (centre, edge, wire):
    centre.run("partition", "apply", ...)    # with the partitioner's key of the centre
    edge.as_("web1.example.net")             # the environment of a program at the site
    edge.kill(); edge.start()                # SIGKILL; the same port and store again
    wire.cut()                               # the link between them; it comes up again by itself
"""

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.wires import Wire
from cluster import free_ports
from fleet import Fleet
from shipped import ShippedServer

SHIPPED = Path(__file__).resolve().parents[1] / "deploy" / "nats" / "edge"
READY_SECONDS = 30.0


class End(ShippedServer):
    """One end of the leaf link: a server with a roster of its own, and the programs that reach it."""

    def __init__(self, directory: Path, configuration: str, ports: Sequence[int]) -> None:
        port, http, self.leaf_port = ports
        super().__init__(directory, configuration, port, http)
        self.keys = directory / "fshipper"
        self.fleet = Fleet(directory, self.url)
        self.hosts("init")

    def hosts(self, *arguments: str) -> None:
        self.fleet.must("hosts", *arguments, SHIPPER_ACCESS=str(self.keys))

    def secret(self, name: str) -> Path:
        return self.keys / "secrets" / f"{name}.nk"

    def as_(self, name: str) -> dict[str, str]:
        """The environment of a program that reaches this end with the key of `name`."""
        return {"NATS_URL": self.url, "NATS_NKEY": str(self.secret(name))}

    def run(self, *arguments: str) -> str:
        """A command of the partitioner here; its standard output."""
        return self.fleet.must(*arguments, **self.as_("partitioner"))

    def configure(self, *, centre_port: int) -> None:
        """`centre_port`: where the centre is reached; it tells nobody another way there, which would miss the wire."""
        changes = {
            "port: 7422": f"port: {self.leaf_port}, no_advertise: true",
            "0.0.0.0": "127.0.0.1",
            "logs.example.net:7422": f"127.0.0.1:{centre_port}",
        }
        self.write_configuration(SHIPPED / self.name, changes)

    @property
    def links(self) -> int:
        """How many leaf links are up."""
        return int(self.monitor("leafz")["leafnodes"])

    @property
    def links_ever(self) -> int:
        """How many links came up since the beginning."""
        return self.log.count("Leafnode connection created")

    def stream(self, name: str) -> dict:
        """What the server says of a stream; {}: there is none."""
        details = self.monitor("jsz?streams=true&config=true").get("account_details") or [{}]
        return next((each for each in details[0].get("stream_detail") or [] if each["name"] == name), {})

    def messages(self, name: str) -> int:
        return self.stream(name)["state"]["messages"]


@contextlib.contextmanager
def site(
    directory: Path, *, hosts: Sequence[str], central: Sequence[str] = (), options: Sequence[str] = ()
) -> Iterator[tuple[End, End, Wire]]:
    """The centre, a site and their link, which is up; no streams. `hosts` are at the site, `central` in the centre.

    `options`: of `fshipper hosts add edge1`.
    """
    ports = free_ports(6)
    centre = End(directory / "centre", "hub.conf", ports[:3])
    edge = End(directory / "edge", "leaf.conf", ports[3:])
    wire = Wire(centre.leaf_port, "edge")
    centre.hosts("add", "edge1", "--as", "edge", *options)
    for end, names in ((edge, hosts), (centre, central)):
        if names:
            end.hosts("add", *names)
        end.configure(centre_port=wire.port)
    shutil.copy(centre.keys / "secrets" / "edge1.conf", edge.keys / "link.conf")
    try:
        for end in (centre, edge):
            end.start()
            end.wait_until_ready()
        deadline = time.monotonic() + READY_SECONDS
        while not centre.links:
            assert time.monotonic() < deadline, f"no link\n{centre.log[-2000:]}\n{edge.log[-2000:]}"
            time.sleep(0.05)
        yield centre, edge, wire
    finally:
        wire.close()
        for end in (centre, edge):
            end.kill()
