"""Where TLS certificates identify clients: each program works with its own, and each wrong one is refused."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from harness.fleet import Fleet
from harness.natsd import running

HOST, OTHER, STRANGER = "web1.example.net", "web2.example.net", "web9.example.net"
LINES = b"one\ntwo\n"
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


class Certified:
    """A server that maps certificates to users, and certificates of all kinds."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self.fleet = fleet
        self.directory = directory
        self.authority = trustme.CA()
        self.other_authority = trustme.CA()

    def issue(self, name: str, *, authority: trustme.CA | None = None, expired: bool = False) -> dict[str, str]:
        """The environment of a program with a certificate of `name`."""
        ends = {"not_before": LONG_AGO, "not_after": LONG_AGO + dt.timedelta(days=30)} if expired else {}
        made = (authority or self.authority).issue_cert(name, **ends)
        stem = self.directory / f"{name}-{authority is None}-{expired}"
        certificate, key = stem.with_suffix(".pem"), stem.with_suffix(".key")
        certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        key.write_bytes(made.private_key_pem.bytes())
        return {"NATS_CERTIFICATE": str(certificate), "NATS_KEY": str(key), "NATS_CA": str(self.ca())}

    def ca(self, authority: trustme.CA | None = None) -> Path:
        path = self.directory / f"ca-{authority is None}.pem"
        (authority or self.authority).cert_pem.write_to_path(str(path))
        return path

    def log(self, host: str) -> Path:
        return self.directory / f"{host}.log"

    def produce(self, host: str, **more: str) -> tuple[int, str]:
        log = self.log(host)
        log.write_bytes(LINES)
        done = self.fleet.run("produce", "--once", str(log), HOSTNAME=host, **{"NATS_TLS_FIRST": "true"} | more)
        return done.returncode, done.stderr


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    directory = tmp_path_factory.mktemp("certified")
    fleet = Fleet(directory, "nats://127.0.0.1:1", partitions=1)
    world = Certified(fleet, directory)
    place = {"SHIPPER_ACCESS": str(directory / "access")}
    fleet.must("hosts", "init", "--by", "certificates", **place)
    fleet.must("hosts", "add", HOST, OTHER, **place)
    server = world.authority.issue_cert("127.0.0.1", "localhost")
    server.private_key_pem.write_to_path(str(directory / "server.key"))
    server.cert_chain_pems[0].write_to_path(str(directory / "server.pem"))
    extra = f"""
        accounts {{ include "../access/accounts.conf" }}
        tls {{ cert_file: "{directory}/server.pem", key_file: "{directory}/server.key", ca_file: "{world.ca()}",
               verify_and_map: true, handshake_first: true }}
    """
    with running(directory / "natsd", extra=extra) as natsd, fleet:
        fleet.url = natsd.url.replace("nats://", "tls://")
        fleet.must("partition", "apply", "--partitions", "1", NATS_TLS_FIRST="true", **world.issue("partitioner"))
        yield world


def test_each_program_works_with_its_own_certificate(world: Certified) -> None:
    for host in (HOST, OTHER):
        code, said = world.produce(host, **world.issue(host))
        assert code == 0, said
    done = world.fleet.run("consume", "--drain", NATS_TLS_FIRST="true", **world.issue("collector"))
    assert done.returncode == 0, done.stderr
    assert [world.fleet.archived(host, world.log(host)) for host in (HOST, OTHER)] == [LINES, LINES]


def test_the_certificate_of_another_host_is_refused_with_the_right_that_is_missing(world: Certified) -> None:
    code, said = world.produce(OTHER, **world.issue(HOST))
    assert code == 1
    assert f'error: the server refuses this user the right to subscribe to "_INBOX_{OTHER}.>"' in said


def test_a_valid_certificate_of_a_host_that_was_not_added_is_refused(world: Certified) -> None:
    code, said = world.produce(STRANGER, **world.issue(STRANGER))
    assert code == 1
    assert "error: the NATS server refuses us" in said
    assert "fshipper hosts add" in said


def test_an_expired_certificate_is_called_expired(world: Certified) -> None:
    code, said = world.produce(HOST, **world.issue(HOST, expired=True))
    assert code == 1
    assert "NATS_CERTIFICATE" in said
    assert "expired" in said


def test_a_certificate_of_another_authority_is_called_so(world: Certified) -> None:
    code, said = world.produce(HOST, **world.issue(HOST, authority=world.other_authority))
    assert code == 1
    assert "NATS_CERTIFICATE" in said
    assert "authority" in said


def test_without_a_certificate_the_setting_is_named(world: Certified) -> None:
    code, said = world.produce(HOST, NATS_CA=str(world.ca()))
    assert code == 1
    assert "NATS_CERTIFICATE" in said


def test_a_server_that_another_authority_vouches_for_is_not_trusted(world: Certified) -> None:
    code, said = world.produce(HOST, **world.issue(HOST) | {"NATS_CA": str(world.ca(world.other_authority))})
    assert code == 1
    assert "we do not trust the server's certificate" in said
    assert "hint: set NATS_CA" in said


def test_a_client_that_does_not_begin_with_tls_gets_the_hint_which_setting_does(world: Certified) -> None:
    code, said = world.produce(HOST, **world.issue(HOST) | {"NATS_TLS_FIRST": "false"})
    assert code in {1, 69}
    assert "NATS_TLS_FIRST" in said
