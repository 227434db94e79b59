"""The centre and an edge site: two real nats-servers with TLS, from deploy/nats/edge/ and keys of `fshipper hosts`.

with site(tmp_path, hosts=("web1.example.net",)) as (centre, edge, wire):
    centre.run("partition", "apply", ...)    # with the partitioner's key of the centre
    edge.as_("web1.example.net")             # the environment of a program at the site
    edge.options("web1.example.net")         # the same for a client of nats-py
    edge.kill(); edge.start()                # SIGKILL; the same port and store again
    wire.cut()                               # the link between them; it comes up again by itself
"""

import contextlib
import re
import shutil
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import trustme
from chaos.wires import Wire

from harness.fleet import Fleet
from harness.ports import free_ports
from harness.shipped import ShippedServer
from harness.waiting import until
from partitioner.access.roster import AuthMethod
from partitioner.access.store import OPERATOR_FILE

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "nats" / "edge"
READY_SECONDS = 30.0


class End(ShippedServer):
    """One end of the leaf link: a server with a roster of its own, and the programs that reach it."""

    def __init__(
        self, directory: Path, configuration: str, ports: Sequence[int], trust: AuthMethod, authority: trustme.CA
    ) -> None:
        port, http, self.leaf_port = ports
        super().__init__(directory, configuration, port, http)
        self.keys = directory / "fshipper"
        self.trust = trust
        self._authority = authority
        self.ca = directory / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.fleet = Fleet(directory, self.url)
        self.hosts("init", "--by", trust)

    def hosts(self, *arguments: str) -> None:
        self.fleet.must("hosts", *arguments, SHIPPER_ACCESS=str(self.keys))

    def secret(self, name: str) -> Path:
        """The key, the token, or the certificate with its key."""
        if self.trust is AuthMethod.CERTIFICATES:
            return self.certificate(name, name)
        return self.keys / "secrets" / f"{name}.{'creds' if self.trust is AuthMethod.TOKENS else 'nk'}"

    def certificate(self, stem: str, *names: str) -> Path:
        """A file with a certificate of `names` and its key."""
        path = self.directory / f"{stem}.pem"
        if not path.exists():
            self._authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def as_(self, name: str) -> dict[str, str]:
        """The environment of a program that reaches this end with the secret of `name`."""
        secret = str(self.secret(name))
        own = {
            AuthMethod.KEYS: {"NATS_NKEY": secret},
            AuthMethod.TOKENS: {"NATS_CREDS": secret},
            AuthMethod.CERTIFICATES: {"NATS_CERTIFICATE": secret, "NATS_KEY": secret},
        }
        return {"NATS_URL": self.url, "NATS_CA": str(self.ca), **own[self.trust]}

    def options(self, name: str) -> dict[str, Any]:
        """The options of a client that reaches this end with the secret of `name`."""
        context = ssl.create_default_context(cafile=str(self.ca))
        secret = str(self.secret(name))
        if self.trust is AuthMethod.CERTIFICATES:
            context.load_cert_chain(secret)
            return {"tls": context}
        return {"tls": context, "user_credentials" if self.trust is AuthMethod.TOKENS else "nkeys_seed": secret}

    def run(self, *arguments: str) -> str:
        """A command of the partitioner here; its standard output."""
        return self.fleet.must(*arguments, **self.as_("partitioner"))

    def configure(self, *, centre_port: int) -> None:
        """`centre_port`: where the centre is reached; it announces no other address, which would bypass the wire."""
        own = self.certificate("server", "127.0.0.1", "localhost")
        changes = {
            "port: 7422": f"port: {self.leaf_port}, no_advertise: true",
            "logs.example.net:7422": f"127.0.0.1:{centre_port}",
            "/etc/nats/server.pem": str(own),
            "/etc/nats/server-key.pem": str(own),
            "/etc/nats/ca.pem": str(self.ca),
        }
        if self.trust is AuthMethod.TOKENS:
            operator = self.keys / OPERATOR_FILE
            account = re.search(r"^# .*: (A[A-Z0-9]{55})$", operator.read_text(), re.MULTILINE)
            assert account, operator.read_text()[:500]
            changes |= {
                'accounts {\n  include "fshipper/accounts.conf"\n}': f'include "fshipper/{OPERATOR_FILE}"',
                "account: LOGS": f"account: {account[1]}",
                'include "fshipper/link.conf"': f'credentials: "{self.keys}/link.creds"',
            }
        if self.trust is AuthMethod.CERTIFICATES:
            link = self.certificate("link", "edge1")
            changes |= {
                f'key_file:  "{own}"': f'key_file: "{own}", ca_file: "{self.ca}", verify_and_map: true',
                'include "fshipper/link.conf"': "",
                "# cert_file:": "cert_file:",
                "# key_file:": "key_file:",
                "/etc/nats/edge1.pem": str(link),
                "/etc/nats/edge1-key.pem": str(link),
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
        """The state of a stream on the server; {}: there is none."""
        details = self.monitor("jsz?streams=true&config=true").get("account_details") or [{}]
        return next((each for each in details[0].get("stream_detail") or [] if each["name"] == name), {})

    def messages(self, name: str) -> int:
        return self.stream(name)["state"]["messages"]


@contextlib.contextmanager
def site(
    directory: Path, *, hosts: Sequence[str], central: Sequence[str] = (), options: Sequence[str] = (),
    trust: AuthMethod = AuthMethod.KEYS,
) -> Iterator[tuple[End, End, Wire]]:  # fmt: skip
    """The centre, a site and their link, which is up; no streams. `hosts` are at the site, `central` in the centre.

    `options`: of `fshipper hosts add edge1`. `trust`: of both ends, each with a roster of its own.
    """
    ports, authority = free_ports(6), trustme.CA()
    centre = End(directory / "centre", "hub.conf", ports[:3], trust, authority)
    edge = End(directory / "edge", "leaf.conf", ports[3:], trust, authority)
    wire = Wire(centre.leaf_port, "edge")
    centre.hosts("add", "edge1", "--as", "edge", *options)
    for end, names in ((edge, hosts), (centre, central)):
        if names:
            end.hosts("add", *names)
        end.configure(centre_port=wire.port)
    for brought in centre.keys.glob("secrets/edge1.*"):
        shutil.copy(brought, edge.keys / f"link{brought.suffix}")
    try:
        for end in (centre, edge):
            end.start()
            end.wait_until_ready()
        until(
            lambda: centre.links,
            within=READY_SECONDS,
            what=lambda: f"no link\n{centre.log[-2000:]}\n{edge.log[-2000:]}",
        )
        yield centre, edge, wire
    finally:
        wire.close()
        for end in (centre, edge):
            end.kill()
