"""With the key of one host nothing of another host or of the operators is written, read, changed or stopped.

The same attack against the layout before accounts succeeds at each point, so it can.
"""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from harness.attacker import (
    ANSWER_SECONDS,
    ATTACKER,
    SECRET,
    VICTIM,
    Ears,
    attack,
    attack_as_monitor,
    closing,
    connect,
    furnish,
    settle,
    ships,
    state,
    targets,
    tls_of,
)
from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running
from nats.aio.client import Client

from partitioner.access import store as places
from partitioner.access.permissions import Role
from partitioner.access.roster import AccountLayout, AuthMethod
from partitioner.access.store import AccessStore

MODES = list(AuthMethod)
EARS = {
    VICTIM: (f"_INBOX_{VICTIM}.>", f"ctl.down.{VICTIM}", f"ctl.ask.{VICTIM}"),
    "collector": ("_INBOX_collector.>", "ctl.up.>"),
    "partitioner": ("_INBOX_partitioner.heard.>", "ctl.up.>"),
    "reader": ("_INBOX_reader.>",),
}


MONITOR = "alice"


class World:
    """A server with the files of `fshipper hosts`, and who is known there."""

    def __init__(self, directory: Path, trust: AuthMethod, layout: AccountLayout) -> None:
        self.trust = trust
        self.layout = layout
        self.directory = directory
        self.authority = trustme.CA() if trust is AuthMethod.CERTIFICATES else None
        self.place = AccessStore(directory / "access", now=dt.datetime.now(dt.UTC))
        self.place.make("logs", trust)
        self.place.add([ATTACKER, VICTIM])
        if layout is not AccountLayout.FLAT:
            self.place.add([MONITOR], Role.MONITOR)

    @property
    def configuration(self) -> str:
        if self.trust is AuthMethod.TOKENS:
            return 'include "../access/operator.conf"'
        if self.layout is AccountLayout.FLAT:
            accounts = 'accounts { LOGS { jetstream: enabled, include "../access/users.conf" } }'
        else:
            accounts = 'accounts { include "../access/accounts.conf" }'
        return accounts + (self._tls() if self.authority else "")

    def _tls(self) -> str:
        server = self.authority.issue_cert("127.0.0.1", "localhost")
        for name, blob in (("key", server.private_key_pem), ("pem", server.cert_chain_pems[0])):
            blob.write_to_path(str(self.directory / f"server.{name}"))
        self.authority.cert_pem.write_to_path(str(self.directory / "ca.pem"))
        return (
            f'\ntls {{ cert_file: "{self.directory}/server.pem", key_file: "{self.directory}/server.key", '
            f'ca_file: "{self.directory}/ca.pem", verify_and_map: true, handshake_first: true }}'
        )

    def options(self, name: str) -> dict[str, Any]:
        """How a client is known as `name`."""
        if self.authority:
            return tls_of(self.directory, self.authority, name)
        stem = self.directory / "access" / "secrets" / name
        if self.trust is AuthMethod.TOKENS:
            return {"user_credentials": f"{stem}.creds"}
        return {"nkeys_seed": f"{stem}.nk"}


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    trust, layout = request.param
    if layout is AccountLayout.FLAT:
        monkeypatch.setattr(places, "first_layout", lambda _: AccountLayout.FLAT)
    return World(tmp_path, trust, layout)


@pytest.fixture
def server(world: World, tmp_path: Path) -> Iterator[NatsServer]:
    with running(tmp_path / "natsd", extra=world.configuration) as found:
        yield found


Attack = Callable[[Client], Awaitable[list[bytes]]]


class Seen(NamedTuple):
    """What became of an attack."""

    before: dict[str, Any]
    after: dict[str, Any]
    by_others: list[tuple[str, str, bytes]]
    by_attacker: list[bytes]
    others_go_on: bool


async def attacked(world: World, server: NatsServer, who: str, how: Attack) -> Seen:
    admin = await connect(server, "partitioner", world.options("partitioner"))
    thief = await connect(server, who, world.options(who), inbox="monitor" if who == MONITOR else who)
    others = {name: await connect(server, name, world.options(name)) for name in EARS}
    async with closing(admin, thief, *others.values()):
        ears = Ears()
        await furnish(admin, others[VICTIM])
        for name, subjects in EARS.items():
            await ears.listen(others[name], *subjects)
        before = await state(admin)
        heard = await how(thief)
        after, by_others = await state(admin), ears.to_others()
        connected = all(each.is_connected for each in others.values())
        return Seen(before, after, by_others, heard, connected and await ships(others[VICTIM], VICTIM))


@pytest.mark.parametrize("world", [(each, AccountLayout.ISOLATED) for each in MODES], indirect=True, ids=MODES)
def test_the_key_of_one_host_reaches_nothing_of_another(world: World, server: NatsServer) -> None:
    seen = asyncio.run(attacked(world, server, ATTACKER, attack))
    assert seen.after == seen.before
    assert not seen.by_others
    assert seen.by_attacker, "not even its own answers came"
    assert not [each for each in seen.by_attacker if SECRET in each]
    assert seen.others_go_on


@pytest.mark.parametrize("world", [(AuthMethod.TOKENS, AccountLayout.ISOLATED)], indirect=True)
def test_a_host_that_is_added_without_a_reload_reaches_nothing_either(world: World, server: NatsServer) -> None:
    world.place.revoke([ATTACKER])
    world.place.add([ATTACKER])  # it has one of the accounts that the server has for any host now
    seen = asyncio.run(attacked(world, server, ATTACKER, attack))
    assert seen.after == seen.before
    assert not seen.by_others
    assert not [each for each in seen.by_attacker if SECRET in each]
    assert seen.others_go_on


@pytest.mark.parametrize("world", [(AuthMethod.KEYS, AccountLayout.ISOLATED)], indirect=True)
def test_under_attack_the_archive_of_another_host_is_whole(world: World, server: NatsServer, tmp_path: Path) -> None:
    log, lines = tmp_path / "app.log", b"one\ntwo\n"
    log.write_bytes(lines)

    def as_(name: str) -> dict[str, str]:
        return {"NATS_NKEY": world.options(name)["nkeys_seed"]}

    async def under_attack() -> None:
        thief = await connect(server, ATTACKER, world.options(ATTACKER))
        async with closing(thief):
            await attack(thief)

    with Fleet(tmp_path, server.url, partitions=2) as fleet:
        fleet.must("partition", "apply", "--partitions", "2", **as_("partitioner"))
        collector = fleet.start("consume", **as_("collector"))
        producer = fleet.start("produce", "--poll", "200ms", str(log), HOSTNAME=VICTIM, **as_(VICTIM))
        until(lambda: fleet.archived(VICTIM, log) == lines, what=lambda: producer.log)
        asyncio.run(under_attack())
        with log.open("ab") as more:
            more.write(lines)
        until(lambda: fleet.archived(VICTIM, log) == lines * 2, what=lambda: producer.log)
        assert producer.log.count("session_begun") == 1, producer.log
        assert not {"bytes_not_arrived", "server_lost_data", "move_marked"} & set(producer.log.split())
        audit = fleet.run("audit", "--hosts", **as_("collector"))
        assert audit.returncode == 0, audit.stdout + audit.stderr
        hosts = {path.name for path in fleet.archive.glob("date=*/partition=*/host=*")}
        assert hosts <= {f"host={VICTIM}", f"host={ATTACKER}"}
        files = {path.name for path in fleet.archive.glob(f"date=*/partition=*/host={VICTIM}/*")}
        assert len(files) == 1, files
        assert collector.stop() == 0


@pytest.mark.parametrize("world", [(each, AccountLayout.ISOLATED) for each in MODES], indirect=True, ids=MODES)
def test_a_monitor_reads_and_changes_nothing(world: World, server: NatsServer) -> None:
    seen = asyncio.run(attacked(world, server, MONITOR, attack_as_monitor))
    assert seen.after == seen.before
    assert not seen.by_others
    assert [each for each in seen.by_attacker if SECRET in each]  # it may read
    assert seen.others_go_on


@pytest.mark.parametrize("world", [(each, AccountLayout.FLAT) for each in MODES], indirect=True, ids=MODES)
def test_in_one_account_the_same_attack_succeeds(world: World, server: NatsServer) -> None:
    async def within() -> tuple[dict, dict, Ears]:
        admin = await connect(server, "partitioner", world.options("partitioner"))
        thief = await connect(server, ATTACKER, world.options(ATTACKER))
        victim = await connect(server, VICTIM, world.options(VICTIM))
        async with closing(admin, thief, victim):
            await furnish(admin, victim)
            ears = Ears()
            await ears.listen(victim, *EARS[VICTIM])
            before = await state(admin)
            own = f"logs.p1.{ATTACKER}"
            steal = b'{"stream_name":"LOGS_0","config":{"deliver_subject":"_INBOX_%s.s","ack_policy":"none"}}'
            for payload, target in (
                (b"forged", f"logs.p0.{VICTIM}"),
                (b"forged map", "$KV.fshipper.map.logs"),
                (steal % ATTACKER.encode(), "$JS.API.CONSUMER.CREATE.LOGS_0"),
                (b'{"v":1,"ask":"resend"}', f"ctl.down.{VICTIM}"),
                (b"", "$JS.API.STREAM.DELETE.DLQ"),
            ):
                await thief.request(own, payload, timeout=ANSWER_SECONDS)
                await thief.publish(f"$JS.API.DIRECT.GET.LOGS_1.{own}", b"", reply=target)
                await settle(thief)
                await asyncio.sleep(0.1)
            return before, await state(admin), ears

    before, after, ears = asyncio.run(within())
    assert after["LOGS_0"][2][f"logs.p0.{VICTIM}"] == before["LOGS_0"][2][f"logs.p0.{VICTIM}"] + 1  # forged
    assert after["LOGS_0"][3][f"logs.p0.{VICTIM}"] == b"forged"
    assert after["KV_fshipper"][3]["$KV.fshipper.map.logs"] == b"forged map"
    assert "DLQ" not in after["streams"]
    assert [
        each for each in after["LOGS_0"][4] if "_INBOX_" in str(each)
    ]  # a consumer that delivers lines to the thief
    assert ears.to_others()  # sent the victim a message in the collector's name


def test_the_list_of_targets_has_the_apis_of_server_and_programs() -> None:
    found = set(targets())
    assert {"$JS.API.STREAM.PURGE.LOGS_0", "$JS.API.CONSUMER.RESET.LOGS_0.collector", f"logs.p0.{VICTIM}"} <= found
    assert len(found) > 300
