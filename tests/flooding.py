"""What a client with the key of one host can take from a server."""

import asyncio
import contextlib

import zstandard
from attacker import ANSWER_SECONDS, ATTACKER, closing, connect, settle
from edges import End
from nats.aio.client import Client

from partitioner.access.permissions import LIMITS, Role
from shipper.heartbeat import MAX_BYTES

LIMIT = LIMITS[Role.HOST]
TOO_MUCH_UNREAD = "MaxPending of 4194304 Exceeded"  # max_pending of the shipped configuration
TRIES = 20
UNREAD = 800  # requests of one kind by one connection: what the server reads together
TEXT_BYTES = 20_000_000  # in some 600 bytes
REQUESTS = (
    (f"$JS.API.DIRECT.GET.LOGS_0.logs.p0.{ATTACKER}", b""),
    (f"$JS.API.DIRECT.GET.LOGS_BEATS.logs.beat.{ATTACKER}", b""),
    ("$JS.API.DIRECT.GET.KV_fshipper.$KV.fshipper.map.logs", b""),
    (f"ctl.up.{ATTACKER}", b'{"v":1,"ask":"receipts","partition":0}'),
)


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
    """Everything that one key can request at the same time; the number of its connections that the server took.

    Identifiers, messages that become dead letters, text in few bytes, requests to the collector, and answers that are
    not read: of every request that a host may send.
    """
    clients = await opened(end)
    async with closing(*clients):
        await subscribe_once_too_often(clients[0])
        await publish_much(clients[1])
        for client in clients[1:]:
            await client.subscribe(f"_INBOX_{ATTACKER}.>")
            await settle(client)
            client._transport._io_writer.transport.pause_reading()
            for subject, payload in REQUESTS:
                for _ in range(UNREAD):
                    await client.publish(subject, payload, reply=f"_INBOX_{ATTACKER}.x")
        async with asyncio.timeout(ANSWER_SECONDS):
            while end.log.count(TOO_MUCH_UNREAD) < len(clients) - 1:
                await asyncio.sleep(0.05)
    return len(clients)


async def publish_much(client: Client) -> None:
    """Messages of every kind, the largest that the streams take last: these are what is read again and again."""
    own, text = f"logs.p0.{ATTACKER}", zstandard.compress(bytes(TEXT_BYTES))
    for number in range(3000):
        await client.publish(f"logs.beat.{ATTACKER}", b"{}", headers={"Nats-Msg-Id": f"{number:0>3500}"})
        await client.publish(own, b"?", headers={"Log-Id": f"{number}", "Log-Span": "none"})
        await client.publish(f"ctl.up.{ATTACKER}", b"[" * 1000)
        if number % 100 == 0:
            await client.publish(own, text, headers={"Log-Encoding": "zstd"})
            await client.flush(round(ANSWER_SECONDS))
    for subject, size in ((own, 500_000), (f"logs.beat.{ATTACKER}", MAX_BYTES)):
        stored = await client.request(subject, bytes(size), timeout=ANSWER_SECONDS)
        assert b'"seq"' in stored.data
