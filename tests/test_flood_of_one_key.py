"""One key uses connections, subscriptions, unread answers and message ids without end: the server refuses the excess.

What it does not read is not kept for it, and the others are archived.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from attacker import ANSWER_SECONDS, ATTACKER, VICTIM, closing, connect, settle
from edges import End
from fleet import until
from nats.aio.client import Client
from ports import free_ports

from partitioner.access.permissions import LIMITS, Role
from partitioner.access.roster import AuthMethod

LIMIT = LIMITS[Role.HOST]
TOO_MUCH_UNREAD = "MaxPending of 8388608 Exceeded"  # max_pending of the shipped configuration
TRIES = 20
LINES = b"".join(b"line %d of a host\n" % number for number in range(20_000))


@pytest.fixture(params=AuthMethod)
def centre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[End]:
    end = End(tmp_path / "centre", "hub.conf", free_ports(3), request.param, trustme.CA())
    end.hosts("add", ATTACKER, VICTIM)
    end.configure(centre_port=1)
    end.start()
    try:
        end.wait_until_ready()
        with end.fleet:
            end.run("partition", "apply", "--partitions", "1")
            yield end
    finally:
        end.kill()


async def opened(end: End) -> list[Client]:
    """As many connections of the attacker as the server takes, of `TRIES`."""
    found = []
    for _ in range(TRIES):
        with contextlib.suppress(Exception):  # nats-py has no common class for a refused connection
            found.append(await connect(end, ATTACKER, end.options(ATTACKER)))
    return found


async def subscribe_once_too_often(client: Client) -> None:
    """The last one is refused, and nats-py ends the connection then."""
    for number in range(LIMIT.subscriptions or 0):
        await client.subscribe(f"_INBOX_{ATTACKER}.{number}")
    await settle(client)
    await client.subscribe(f"_INBOX_{ATTACKER}.more")
    async with asyncio.timeout(ANSWER_SECONDS):
        while not client.is_closed:
            await asyncio.sleep(0.02)
    assert "maximum subscriptions exceeded" in str(client.last_error)


async def flood(end: End) -> int:
    """Everything that one key can ask for at the same time; the number of its connections that the server took."""
    clients = await opened(end)
    async with closing(*clients):
        await subscribe_once_too_often(clients[0])
        stored = await clients[1].request(f"logs.p0.{ATTACKER}", bytes(500_000), timeout=ANSWER_SECONDS)
        assert b'"seq"' in stored.data
        identified = {"Nats-Msg-Id": "x" * 3500}
        for number in range(3000):
            await clients[1].publish(f"logs.beat.{ATTACKER}", b"{}", headers={**identified, "n": str(number)})
        await settle(clients[1])
        for client in clients[2:]:
            await client.subscribe(f"_INBOX_{ATTACKER}.>")
            await settle(client)
            client._transport._io_writer.transport.pause_reading()
            for _ in range(100):
                await client.publish(f"$JS.API.DIRECT.GET.LOGS_0.logs.p0.{ATTACKER}", reply=f"_INBOX_{ATTACKER}.x")
        async with asyncio.timeout(ANSWER_SECONDS):
            while end.log.count(TOO_MUCH_UNREAD) < len(clients) - 2:
                await asyncio.sleep(0.05)
    return len(clients)


def test_what_one_key_takes_is_bounded_and_the_others_are_archived(centre: End, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    collector = centre.fleet.start("consume", **centre.as_("collector"))
    producer = centre.fleet.start("produce", str(log), HOSTNAME=VICTIM, SHIPPER_LISTEN="", **centre.as_(VICTIM))
    until(lambda: centre.fleet.archived(VICTIM, log) == LINES, what=lambda: producer.log + collector.log)
    assert asyncio.run(flood(centre)) == LIMIT.connections
    with log.open("ab") as more:
        more.write(LINES)
    until(lambda: centre.fleet.archived(VICTIM, log) == 2 * LINES, what=lambda: producer.log + collector.log)
    for program in (producer, collector):
        assert program.stop() == 0
        assert "session_ended" not in program.log


def test_the_list_of_hosts_shows_what_each_may_use(centre: End) -> None:
    listed = centre.fleet.must("hosts", "list", SHIPPER_ACCESS=str(centre.keys))
    assert re.search(rf"host +{re.escape(VICTIM)} .*8 connections, 16 subscriptions each, 1.0 MiB a message\n", listed)
    assert re.search(r"collector +collector .*no limits\n", listed)
