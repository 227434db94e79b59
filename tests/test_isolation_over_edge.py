"""A host of a site, and the site's server itself, reach nothing of the centre or of other hosts but what is theirs."""

import asyncio
import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.attacker import (
    ANSWER_SECONDS,
    ATTACKER,
    SECRET,
    VICTIM,
    Ears,
    attack,
    attack_as_site,
    closing,
    connect,
    furnish,
    settle,
    ships,
    state,
)
from harness.edges import End, site
from harness.fleet import Fleet, until
from nats.aio.client import Client

from partitioner.access import store as places
from partitioner.access.permissions import Role
from partitioner.access.roster import AccountLayout, AuthMethod
from partitioner.access.store import AccessStore

NEIGHBOUR = "c.example.net"  # at the site
CENTRE_EARS = {
    VICTIM: (f"_INBOX_{VICTIM}.>", f"ctl.ask.{VICTIM}"),
    "collector": ("_INBOX_collector.>", "ctl.up.>"),
    "reader": ("_INBOX_reader.>",),
}


NAMED = ("--hosts", ATTACKER, "--hosts", NEIGHBOUR)


@pytest.fixture(
    params=itertools.product(AuthMethod, [(), NAMED]), ids=lambda param: f"{param[0]}-{'named' if param[1] else 'open'}"
)
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[End, End]]:
    trust, options = request.param
    hosts = (ATTACKER, NEIGHBOUR)
    with site(tmp_path, hosts=hosts, central=(VICTIM,), options=options, trust=trust) as (centre, edge, _):
        edge.run("partition", "edge", "100")
        yield centre, edge


def test_a_host_of_a_site_reaches_nothing_of_others(ends: tuple[End, End]) -> None:
    centre, edge = ends

    async def within() -> None:
        admin = await connect(centre, "partitioner", centre.options("partitioner"))
        victim, collector, reader = [await connect(centre, name, centre.options(name)) for name in CENTRE_EARS]
        at_site = await connect(edge, "partitioner", edge.options("partitioner"))
        thief = await connect(edge, ATTACKER, edge.options(ATTACKER))
        neighbour = await connect(edge, NEIGHBOUR, edge.options(NEIGHBOUR))
        async with closing(admin, victim, collector, reader, at_site, thief, neighbour):
            await furnish(admin, victim)
            ears = Ears()
            for client, subjects in zip((victim, collector, reader), CENTRE_EARS.values(), strict=True):
                await ears.listen(client, *subjects)
            await ears.listen(neighbour, f"_INBOX_{NEIGHBOUR}.>", f"ctl.down.{NEIGHBOUR}", f"ctl.ask.{NEIGHBOUR}")
            assert b'"seq"' in (await neighbour.request(f"logs.p100.{NEIGHBOUR}", SECRET, timeout=ANSWER_SECONDS)).data
            await neighbour.publish(f"logs.beat.{NEIGHBOUR}", b"lives")
            await arrival(admin, NEIGHBOUR, b"lives")
            ears.heard.clear()
            before = await state(admin), await state(at_site)
            heard = await attack(thief, partition=100)
            await thief.publish(f"logs.beat.{ATTACKER}", b"the end")
            await arrival(admin, ATTACKER, b"the end")  # after everything else that crosses the link
            assert (await state(admin), await state(at_site)) == before
            assert not ears.to_others()
            assert heard
            assert not [each for each in heard if SECRET in each]
            assert await ships(victim, VICTIM)

    asyncio.run(within())


async def arrival(admin: Client, host: str, beat: bytes) -> None:
    """Until the centre has this heartbeat of a host at the site."""
    last = f"$JS.API.DIRECT.GET.LOGS_BEATS.logs.beat.{host}"
    async with asyncio.timeout(ANSWER_SECONDS):
        while (await admin.request(last, timeout=ANSWER_SECONDS)).data != beat:
            await asyncio.sleep(0.05)


def test_the_server_of_a_site_speaks_and_hears_for_its_own_hosts_only(ends: tuple[End, End]) -> None:
    centre, _ = ends
    if centre.trust is AuthMethod.KEYS:  # what a server includes, as a client reads it
        seed = (centre.keys / "secrets" / "edge1.conf").read_text().split('"')[1]
        centre.secret("edge1").write_text(seed)

    async def within() -> None:
        admin = await connect(centre, "partitioner", centre.options("partitioner"))
        victim, collector, reader = [await connect(centre, name, centre.options(name)) for name in CENTRE_EARS]
        thief = await connect(centre, "edge1", centre.options("edge1"))
        async with closing(admin, victim, collector, reader, thief):
            await furnish(admin, victim)
            ears = Ears()
            for client, subjects in zip((victim, collector, reader), CENTRE_EARS.values(), strict=True):
                await ears.listen(client, *subjects)
            before = await state(admin)
            heard = await attack_as_site(thief)
            assert await state(admin) == before
            assert not ears.to_others()

            async def answer(message) -> None:
                await message.respond(b"the victim's own answer")

            await victim.subscribe(f"ctl.down.{VICTIM}", cb=answer)
            await settle(victim)
            for _ in range(20):  # else a client that answers first would be seen by luck only
                said = await collector.request(f"ctl.down.{VICTIM}", SECRET, timeout=ANSWER_SECONDS)
                assert said.data == b"the victim's own answer"
            assert not [each for each in heard if SECRET in each[1] or b"own answer" in each[1]]
            assert await ships(victim, VICTIM)

    asyncio.run(within())


def test_centre_and_site_are_migrated_one_after_the_other_and_sourcing_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_before(end: End, *arguments: str) -> None:
        place = AccessStore(end.keys, now=dt.datetime.now(dt.UTC))
        if arguments[0] == "init":
            end.keys.parent.mkdir(parents=True, exist_ok=True)
            place.make("logs", AuthMethod.KEYS)
        else:
            role = Role.EDGE if "--as" in arguments else Role.HOST
            place.add(arguments[1:2], role)

    def configure(end: End, *, centre_port: int) -> None:
        write(end, centre_port=centre_port)
        conf = end.directory / "nats-server.conf"
        users = 'LOGS { jetstream: enabled, include "fshipper/users.conf" }'
        conf.write_text(conf.read_text().replace('include "fshipper/accounts.conf"', users))

    async def publish(edge: End) -> None:
        client = await connect(edge, ATTACKER, edge.options(ATTACKER))
        async with closing(client):
            assert b'"seq"' in (await client.request(f"logs.p100.{ATTACKER}", b"a line", timeout=ANSWER_SECONDS)).data

    write, migrate = End.configure, End.hosts
    monkeypatch.setattr(places, "first_layout", lambda _: AccountLayout.FLAT)
    monkeypatch.setattr(End, "hosts", as_before)
    monkeypatch.setattr(End, "configure", configure)
    with site(tmp_path, hosts=(ATTACKER,), central=(VICTIM,)) as (centre, edge, _):
        edge.run("partition", "edge", "100")
        centre.run("partition", "apply", "--partitions", "1", "--edge", "edge1=100")
        asyncio.run(publish(edge))
        until(lambda: centre.messages("LOGS_100") == 1, within=60, what=lambda: centre.log[-2000:])
        for count, end in enumerate((centre, edge), start=2):
            migrate(end, "migrate", "--server-config", str(end.directory / "nats-server.conf"))
            for _ in range(2):
                end.reload()
            asyncio.run(publish(edge))
            until(lambda: centre.messages("LOGS_100") == count, within=60, what=lambda: centre.log[-2000:])  # noqa: B023


@pytest.mark.parametrize("trust", [AuthMethod.TOKENS, AuthMethod.CERTIFICATES])
def test_what_a_site_with_tokens_or_certificates_ships_is_archived(trust: AuthMethod, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\ntwo\n")
    with (
        site(tmp_path, hosts=(ATTACKER,), options=NAMED, trust=trust) as (centre, edge, _),
        Fleet(tmp_path, centre.url) as fleet,
    ):
        edge.run("partition", "edge", "100")
        centre.run("partition", "apply", "--partitions", "1", "--edge", "edge1=100")
        producer = fleet.start("produce", "--poll", "200ms", str(log), HOSTNAME=ATTACKER, **edge.as_(ATTACKER))
        collector = fleet.start("consume", **centre.as_("collector"))
        until(lambda: fleet.archived(ATTACKER, log) == log.read_bytes(), within=60, what=lambda: collector.log)
        audit = fleet.run("audit", "--hosts", **centre.as_("collector"))
        assert audit.returncode == 0, audit.stdout + audit.stderr
        for program in (producer, collector):
            assert program.stop() == 0
            assert "refused" not in program.log
