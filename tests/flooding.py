"""What a client with the key of one host can take from a server: connections, subscriptions, unread answers, ids."""

import asyncio
import contextlib

from attacker import ANSWER_SECONDS, ATTACKER, closing, connect, settle
from edges import End
from nats.aio.client import Client

from partitioner.access.permissions import LIMITS, Role

LIMIT = LIMITS[Role.HOST]
TOO_MUCH_UNREAD = "MaxPending of 8388608 Exceeded"  # max_pending of the shipped configuration
TRIES = 20


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
    """Everything that one key can request at the same time; the number of its connections that the server took."""
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
