"""What `fshipper hosts` writes, and what it refuses to write."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import trustme
from harness.fleet import Fleet
from harness.natsd import binary

from partitioner.access.permissions import Role, rights

SECURE = Path(__file__).resolve().parents[2] / "deploy" / "nats" / "secure"
HOST = "web1.example.net"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, "nats://127.0.0.1:1")


def hosts(fleet: Fleet, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return fleet.run("hosts", *arguments, SHIPPER_ACCESS=str(fleet.directory / "fshipper"))


@pytest.mark.parametrize(("by", "file"), [("keys", "keys"), ("tokens", "tokens"), ("certificates", "certificates")])
def test_the_shipped_configuration_is_valid_together_with_the_generated_one(fleet: Fleet, by: str, file: str) -> None:
    assert hosts(fleet, "init", "--by", by).returncode == 0
    assert hosts(fleet, "add", HOST).returncode == 0
    text = (SECURE / f"{file}.conf").read_text()
    configuration = fleet.directory / "nats-server.conf"
    configuration.write_text(without_tls(text).replace("/var/lib/nats", str(fleet.directory / "store")))
    done = subprocess.run([binary(), "-t", "-c", str(configuration)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("by", ["keys", "tokens", "certificates"])
def test_the_server_of_a_site_gets_a_key_and_may_say_no_line(fleet: Fleet, by: str) -> None:
    hosts(fleet, "init", "--by", by)
    assert hosts(fleet, "add", "edge1", "--as", "edge").returncode == 0
    (entry,) = [each for each in json.loads(hosts(fleet, "list", "--json").stdout) if each["name"] == "edge1"]
    assert entry["role"] == "edge"
    secret = {"keys": "edge1.conf", "tokens": "edge1.creds"}.get(by)
    assert secret is None or (fleet.directory / "fshipper" / "secrets" / secret).stat().st_mode & 0o777 == 0o600
    assert not any(
        subject.startswith(("logs.*", "logs.p", "logs.>"))
        for subject in rights(Role.EDGE, "edge1", prefix="logs").publish
    )
    assert hosts(fleet, "add", "me", "--as", "collector").returncode == 64
    assert hosts(fleet, "revoke", "edge1", "--yes").returncode == 0
    assert secret is None or not (fleet.directory / "fshipper" / "secrets" / secret).exists()


def test_a_roster_from_before_there_were_sites_takes_one(fleet: Fleet) -> None:
    hosts(fleet, "init", "--by", "tokens")
    (fleet.directory / "fshipper" / "keys" / "sign-edge.nk").unlink()
    assert hosts(fleet, "add", HOST).returncode == 0
    assert hosts(fleet, "add", "edge1", "--as", "edge").returncode == 0
    assert (fleet.directory / "fshipper" / "secrets" / "edge1.creds").exists()


def without_tls(text: str) -> str:
    """Without the block that names files which only a real server has."""
    return text.partition("\ntls {")[0]


NO_HOST = ("web 1", "*.example.net", ">", "", "logs.>", 'x", ">')
PROGRAMS = ("fshipper-partition", "collector", "partitioner", "reader", "monitor", "Collector.")
REFUSED = [
    ((), ("init",), "has a roster already"),
    (("web1",), ("add", HOST), "one could read the answers to the other"),
    ((HOST,), ("add", "web1"), "one could read the answers to the other"),
    ((HOST,), ("add", HOST), "is in the roster already"),
    *(((), ("add", name), "host") for name in NO_HOST),
    *(
        ((), ("add", name, "--as", role), "cannot be the name of|is in the roster already|is taken")
        for name in PROGRAMS
        for role in ("host", "edge")
    ),
]
"""The hosts that are known, the command, and why it is refused."""


@pytest.mark.parametrize(("known", "command", "why"), REFUSED)
def test_what_is_refused_changes_nothing(
    fleet: Fleet, known: tuple[str, ...], command: tuple[str, ...], why: str
) -> None:
    hosts(
        fleet, "init", "--by", "certificates" if "--as" in command else "keys"
    )  # there the name alone is the identity
    for name in known:
        hosts(fleet, "add", name)
    before = contents(fleet)
    done = hosts(fleet, *command)
    assert done.returncode in {64, 78}
    assert re.search(why, done.stderr), done.stderr
    assert contents(fleet) == before


def test_the_list_is_for_programs_too(fleet: Fleet) -> None:
    hosts(fleet, "init")
    added = json.loads(hosts(fleet, "add", HOST, "--json").stdout)
    assert [each["name"] for each in added] == [HOST]
    assert Path(added[0]["secret"]).read_bytes().startswith(b"SU")
    listed = {each["name"]: each for each in json.loads(hosts(fleet, "list", "--json").stdout)}
    assert sorted(listed) == ["collector", "partitioner", "reader", HOST]
    assert listed[HOST]["role"] == "host"
    assert listed[HOST]["public_key"].startswith("U")


def test_a_revocation_without_a_terminal_wants_a_yes(fleet: Fleet) -> None:
    hosts(fleet, "init")
    hosts(fleet, "add", HOST)
    done = hosts(fleet, "revoke", HOST)
    assert done.returncode == 64
    assert "--yes" in done.stderr
    assert hosts(fleet, "revoke", HOST, "--yes").returncode == 0
    assert HOST not in (fleet.directory / "fshipper" / "users.conf").read_text()
    assert hosts(fleet, "add", HOST).returncode == 0


def test_a_directory_without_a_roster_gets_the_hint_how_to_begin(fleet: Fleet) -> None:
    done = hosts(fleet, "list")
    assert done.returncode == 64
    assert "fshipper hosts init" in done.stderr


def test_a_damaged_roster_is_not_written_over(fleet: Fleet) -> None:
    hosts(fleet, "init")
    roster = fleet.directory / "fshipper" / "roster.json"
    roster.write_text("{")
    done = hosts(fleet, "add", HOST)
    assert done.returncode == 78
    assert "is no roster" in done.stderr
    assert roster.read_text() == "{"


def contents(fleet: Fleet) -> dict[str, bytes]:
    place = fleet.directory / "fshipper"
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != ".lock"}


def test_the_hosts_of_a_site_belong_to_no_other(fleet: Fleet) -> None:
    hosts(fleet, "init")
    assert hosts(fleet, "add", HOST).returncode == 0
    for pattern in ("*.example.net", HOST):
        done = hosts(fleet, "add", "edge1", "--as", "edge", "--hosts", pattern)
        assert done.returncode == 64
        assert HOST in done.stderr
    assert hosts(fleet, "add", "edge1", "--as", "edge", "--hosts", "*.ship.example.net").returncode == 0
    assert hosts(fleet, "add", "edge2", "--as", "edge", "--hosts", "web1.*.example.net").returncode in {64, 78}
    done = hosts(fleet, "add", "web9.ship.example.net")
    assert done.returncode == 64
    assert "edge1" in done.stderr
    assert hosts(fleet, "add", "web9.example.net", "--hosts", "x").returncode == 64
    text = (fleet.directory / "fshipper" / "accounts.conf").read_text()
    assert '"ctl.down.*.ship.example.net"' in text


def test_a_site_without_named_hosts_is_warned_of(fleet: Fleet) -> None:
    hosts(fleet, "init")
    done = hosts(fleet, "add", "edge1", "--as", "edge")
    assert done.returncode == 0
    assert "--hosts" in done.stderr
    assert hosts(fleet, "add", "ship.example.net", "--as", "edge").returncode == 64  # that is no JetStream domain
    assert hosts(fleet, "add", "ship.example.net", "--as", "edge", "--domain", "SHIP").returncode == 0


@pytest.mark.parametrize("by", ["keys", "tokens", "certificates"])
def test_a_site_has_a_domain_of_its_own(fleet: Fleet, by: str) -> None:
    hosts(fleet, "init", "--by", by)
    (fleet.directory / "nats-server.conf").write_text('jetstream {\n  # domain: "old"\n  domain: "core"  # ours\n}\n')
    for domain in ("hub", "core", "a.b", "a b", "*", ">", " "):
        done = hosts(fleet, "add", "edge1", "--as", "edge", "--domain", domain)
        assert done.returncode == 64
        assert f"{domain} cannot be the JetStream domain of a site" in done.stderr.replace("'", "")
    assert hosts(fleet, "add", "hub", "--as", "edge").returncode == 64
    assert hosts(fleet, "add", "edge1", "--as", "edge", "--domain", "old").returncode == 0
    done = hosts(fleet, "add", "edge2", "--as", "edge", "--domain", "old")
    assert done.returncode == 64
    assert "it is the domain of the site edge1" in done.stderr
    assert hosts(fleet, "add", "edge1", "--as", "edge", "--domain", "SHIP").returncode == 64  # it has its key


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--listen", "10.0.0.5:4222"), "--tls-cert"),
        (("--listen", "0.0.0.0:4222"), "--tls-cert"),
        (("--listen", "10.0.0.5:4222", "--tls-cert", "/x.pem"), "belong together"),
        (("--listen", "10.0.0.5"), "ADDRESS:PORT"),
        (("--listen", "10.0.0.5:99999"), "ADDRESS:PORT"),
        (("--tls-cert", "/x.pem"), "--listen"),
        (("--listen", "10.0.0.5:1", "--by", "certificates", "--tls-cert", "/x", "--tls-key", "/y"), "--tls-ca"),
    ],
)
def test_a_server_is_not_opened_without_tls(fleet: Fleet, options: tuple[str, ...], said: str) -> None:
    done = hosts(fleet, "init", *options)
    assert done.returncode == 64
    assert said in done.stderr
    assert not (fleet.directory / "fshipper").exists()


@pytest.mark.parametrize("by", ["keys", "tokens", "certificates"])
def test_the_generated_server_file_is_valid_and_listens_at_the_given_address(fleet: Fleet, by: str) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    for name, blob in (
        ("pem", issued.cert_chain_pems[0]),
        ("key", issued.private_key_pem),
        ("ca", authority.cert_pem),
    ):
        blob.write_to_path(str(fleet.directory / f"server.{name}"))
    tls = [
        f"--tls-{what}={fleet.directory}/server.{name}"
        for what, name in (("cert", "pem"), ("key", "key"), ("ca", "ca"))
    ]
    done = hosts(fleet, "init", "--by", by, "--listen", "10.0.0.5:4333", *tls)
    assert done.returncode == 0, done.stderr
    conf = fleet.directory / "fshipper" / "nats-server.conf"
    text = conf.read_text()
    assert 'host: "10.0.0.5"' in text
    assert "\ntls {" in text
    for limit in ("max_payload", "max_pending", "max_connections", "max_buffered_size", "max_buffered_msgs"):
        assert f"{limit}: " in text
    conf.write_text(text.replace("/var/lib/nats", str(fleet.directory / "store")))
    done = subprocess.run([binary(), "-t", "-c", str(conf)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_shipped_configuration_with_keys_listens_for_everybody() -> None:
    for path in (*SECURE.glob("*.conf"), *(SECURE.parent / "edge").glob("*.conf")):
        text = path.read_text()
        assert "0.0.0.0" not in text, path
        assert "users.conf" not in text, path
    assert all("\ntls {" in path.read_text() for path in SECURE.glob("*.conf"))
