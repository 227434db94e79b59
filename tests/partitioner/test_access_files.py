"""What `fshipper hosts` writes, and what it refuses to write."""

import json
import subprocess
from pathlib import Path

import pytest
from fleet import Fleet
from natsd import binary

from partitioner.access.rights import Role, rights

SECURE = Path(__file__).resolve().parents[2] / "deploy" / "nats" / "secure"
HOST = "web1.example.net"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, "nats://127.0.0.1:1")


def hosts(fleet: Fleet, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return fleet.run("hosts", *arguments, SHIPPER_ACCESS=str(fleet.directory / "fshipper"))


@pytest.mark.parametrize(("by", "file"), [("keys", "keys"), ("tokens", "tokens"), ("certificates", "certificates")])
def test_the_shipped_configuration_is_sound_beside_the_generated_one(fleet: Fleet, by: str, file: str) -> None:
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


def test_a_second_init_changes_nothing(fleet: Fleet) -> None:
    hosts(fleet, "init")
    before = contents(fleet)
    done = hosts(fleet, "init")
    assert done.returncode == 64
    assert "has a roster already" in done.stderr
    assert contents(fleet) == before


@pytest.mark.parametrize(("known", "new"), [("web1", HOST), (HOST, "web1")])
def test_a_host_that_would_hear_the_answers_to_another_is_refused(fleet: Fleet, known: str, new: str) -> None:
    hosts(fleet, "init")
    hosts(fleet, "add", known)
    before = contents(fleet)
    done = hosts(fleet, "add", new)
    assert done.returncode == 64
    assert "one could read the answers to the other" in done.stderr
    assert contents(fleet) == before


@pytest.mark.parametrize("name", ["web 1", "*.example.net", ">", "", "logs.>", 'x", ">'])
def test_a_name_that_is_no_host_is_refused(fleet: Fleet, name: str) -> None:
    hosts(fleet, "init")
    before = contents(fleet)
    done = hosts(fleet, "add", name)
    assert done.returncode in {64, 78}
    assert contents(fleet) == before


def test_adding_twice_keeps_the_first_key(fleet: Fleet) -> None:
    hosts(fleet, "init")
    hosts(fleet, "add", HOST)
    before = contents(fleet)
    assert hosts(fleet, "add", HOST).returncode == 64
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


def test_a_directory_without_a_roster_is_told_how_to_begin(fleet: Fleet) -> None:
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
