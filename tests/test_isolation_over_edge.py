"""A host of a site, and the site's server itself, reach nothing of the centre or of other hosts but what is theirs."""

import asyncio
import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacker import (
    ATTACKER,
    SECRET,
    VICTIM,
    Ears,
    attack,
    attack_as_site,
    closing,
    connect,
    furnish,
    ships,
    state,
)
from edges import End, site
from fleet import until

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


@pytest.fixture(params=[(), ("--hosts", ATTACKER, "--hosts", NEIGHBOUR)], ids=["open", "named"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[End, End]]:
    with site(tmp_path, hosts=(ATTACKER, NEIGHBOUR), central=(VICTIM,), options=request.param) as (centre, edge, _):
        edge.run("partition", "edge", "100")
        yield centre, edge


def test_a_host_of_a_site_reaches_nothing_of_others(ends: tuple[End, End]) -> None:
    centre, edge = ends

    async def within() -> None:
        admin = await connect(centre, "partitioner", key(centre, "partitioner"))
        victim, collector, reader = [await connect(centre, name, key(centre, name)) for name in CENTRE_EARS]
        at_site = await connect(edge, "partitioner", key(edge, "partitioner"))
        thief = await connect(edge, ATTACKER, key(edge, ATTACKER))
        neighbour = await connect(edge, NEIGHBOUR, key(edge, NEIGHBOUR))
        async with closing(admin, victim, collector, reader, at_site, thief, neighbour):
            await furnish(admin, victim)
            ears = Ears()
            for client, subjects in zip((victim, collector, reader), CENTRE_EARS.values(), strict=True):
                await ears.listen(client, *subjects)
            await ears.listen(neighbour, f"_INBOX_{NEIGHBOUR}.>", f"ctl.down.{NEIGHBOUR}", f"ctl.ask.{NEIGHBOUR}")
            assert b'"seq"' in (await neighbour.request(f"logs.p100.{NEIGHBOUR}", SECRET, timeout=5)).data
            await neighbour.publish(f"logs.beat.{NEIGHBOUR}", b"lives")
            while f"logs.beat.{NEIGHBOUR}" not in str(await state(admin)):
                await asyncio.sleep(0.05)
            ears.heard.clear()
            before = await state(admin), await state(at_site)
            heard = await attack(thief, partition=100)
            assert (await state(admin), await state(at_site)) == before
            assert not ears.to_others()
            assert heard
            assert not [each for each in heard if SECRET in each]
            assert await ships(victim, VICTIM)

    asyncio.run(within())


def test_the_server_of_a_site_speaks_and_hears_for_its_own_hosts_only(ends: tuple[End, End]) -> None:
    centre, _ = ends
    seed = (centre.keys / "secrets" / "edge1.conf").read_text().split('"')[1]
    (centre.directory / "edge1.nk").write_text(seed)

    async def within() -> None:
        admin = await connect(centre, "partitioner", key(centre, "partitioner"))
        victim, collector, reader = [await connect(centre, name, key(centre, name)) for name in CENTRE_EARS]
        thief = await connect(centre, "edge1", {"nkeys_seed": str(centre.directory / "edge1.nk")})
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
            await victim.flush(5)
            await victim.flush(5)  # nats-py writes the first PING ahead of what it has buffered
            for _ in range(20):  # else somebody who may answer first would be seen by luck only
                said = await collector.request(f"ctl.down.{VICTIM}", SECRET, timeout=5)
                assert said.data == b"the victim's own answer"
            assert not [each for each in heard if SECRET in each[1] or b"own answer" in each[1]]
            assert await ships(victim, VICTIM)

    asyncio.run(within())


def key(end: End, name: str) -> dict[str, str]:
    return {"nkeys_seed": str(end.secret(name))}


def test_centre_and_site_are_migrated_one_after_the_other_and_sourcing_goes_on(
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
        client = await connect(edge, ATTACKER, key(edge, ATTACKER))
        async with closing(client):
            assert b'"seq"' in (await client.request(f"logs.p100.{ATTACKER}", b"a line", timeout=5)).data

    write, migrate = End.configure, End.hosts
    monkeypatch.setattr(places, "first_layout", lambda _: AccountLayout.FLAT)
    monkeypatch.setattr(End, "hosts", as_before)
    monkeypatch.setattr(End, "configure", configure)
    with site(tmp_path, hosts=(ATTACKER,), central=(VICTIM,)) as (centre, edge, _):
        edge.run("partition", "edge", "100")
        centre.run("partition", "apply", "--partitions", "1", "--edge", "edge1=100")
        asyncio.run(publish(edge))
        until(lambda: centre.messages("LOGS_100") == 1, within=60, what=centre.log[-2000:])
        for count, end in enumerate((centre, edge), start=2):
            migrate(end, "migrate", "--server-config", str(end.directory / "nats-server.conf"))
            for _ in range(2):
                end.reload()
            asyncio.run(publish(edge))
            until(lambda: centre.messages("LOGS_100") == count, within=60, what=centre.log[-2000:])  # noqa: B023
