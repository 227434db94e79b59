"""With the files that `fshipper hosts` writes, a real server lets each program do its work, and nothing else."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import nats
import nats.errors
import pytest
from fleet import Fleet, until
from natsd import NatsServer, running

HOST, OTHER = "web1.example.net", "web2.example.net"
LINES = b"one\ntwo\nthree\n"


class Secured:
    """A server under generated rights, the fleet that uses it, and the place with the secrets."""

    def __init__(self, fleet: Fleet, server: NatsServer, place: Path, suffix: str) -> None:
        self.fleet = fleet
        self.server = server
        self.place = place
        self._suffix = suffix

    def secret(self, name: str) -> Path:
        return self.place / "secrets" / f"{name}.{self._suffix}"

    def as_(self, name: str) -> dict[str, str]:
        """The environment of a program that has the key of `name`."""
        return {"NATS_CREDS" if self._suffix == "creds" else "NATS_NKEY": str(self.secret(name))}

    def hosts(self, *arguments: str) -> str:
        return self.fleet.must("hosts", *arguments, SHIPPER_ACCESS=str(self.place))

    async def connect(self, name: str) -> nats.NATS:
        """A plain client with the key of `name`, and its inbox."""
        option = "user_credentials" if self._suffix == "creds" else "nkeys_seed"
        violations: list[str] = []

        async def heard(error: Exception) -> None:
            violations.append(str(error))

        client = await nats.connect(
            self.server.url, allow_reconnect=False, error_cb=heard, inbox_prefix=f"_INBOX_{name}",
            **{option: str(self.secret(name))},
        )  # fmt: skip
        client.violations = violations
        return client


def secured(tmp_path: Path, *, tokens: bool) -> Iterator[Secured]:
    place = tmp_path / "access"
    fleet = Fleet(tmp_path, "nats://127.0.0.1:1", partitions=2)
    fleet.must("hosts", "init", *(["--tokens"] if tokens else []), SHIPPER_ACCESS=str(place))
    fleet.must("hosts", "add", HOST, OTHER, SHIPPER_ACCESS=str(place))
    extra = f'accounts {{ LOGS {{ jetstream: enabled, include "../access/users.conf" }} }}'
    if tokens:
        extra = f'include "../access/operator.conf"'
    with running(tmp_path / "natsd", extra=extra) as server, fleet:
        fleet.url = server.url
        yield Secured(fleet, server, place, "creds" if tokens else "nk")


@pytest.fixture
def by_list(tmp_path: Path) -> Iterator[Secured]:
    yield from secured(tmp_path, tokens=False)


@pytest.fixture(params=["list", "tokens"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    yield from secured(tmp_path, tokens=request.param == "tokens")


def apply(world: Secured) -> None:
    world.fleet.must("partition", "apply", "--partitions", "2", **world.as_("partitioner"))


def test_every_program_does_its_work_with_its_own_key(world: Secured, tmp_path: Path) -> None:
    apply(world)
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    for host in (HOST, OTHER):
        done = world.fleet.run("produce", "--once", str(log), HOSTNAME=host, **world.as_(host))
        assert done.returncode == 0, done.stderr
        assert "violation" not in done.stderr.lower()
    done = world.fleet.run("consume", "--drain", **world.as_("collector"))
    assert done.returncode == 0, done.stderr
    assert "violation" not in done.stderr.lower()
    assert world.fleet.archived(HOST, log) == world.fleet.archived(OTHER, log) == LINES
    assert json.loads(world.fleet.must("partition", "status", "--json", **world.as_("partitioner")))
