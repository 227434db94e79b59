"""What a client with the key of one host can take from a server."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import trustme
import zstandard
from nats.aio.client import Client

from harness.attacker import ANSWER_SECONDS, ATTACKER, VICTIM, closing, connect, settle
from harness.edges import End
from harness.ports import free_ports
from partitioner.access.permissions import LIMITS, Role
from partitioner.access.roster import AuthMethod
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
LARGE_BYTES = 1_000_000  # of one message; `max_msg_size` of the streams is 1 MiB
LARGE = 150  # of them by one connection: as many bytes as wait in nats-server's own limit, 128 MiB


@contextlib.contextmanager
def attacked(directory: Path, trust: AuthMethod) -> Iterator[End]:
    """A server with the shipped configuration, one partition, and the accounts of the attacker and another host."""
    end = End(directory / "centre", "hub.conf", free_ports(3), trust, trustme.CA())
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
    """Everything that one key can request at the same time; the number of its connections that the server took.

    Identifiers, messages that become dead letters, text in few bytes, requests to the collector, and answers that are
    not read: of every request that a host may send.
    """
    clients = await opened(end)
    async with closing(*clients):
        await subscribe_once_too_often(clients[0])
        await publish_much(clients[1])
        await publish_largest(clients[1])
        await leave_unread(end, clients[1:])
    return len(clients)


async def leave_unread(end: End, clients: list[Client]) -> None:
    """Send every request that a host may send, and read no answer, until the server ends the connections."""
    for client in clients:
        await client.subscribe(f"_INBOX_{ATTACKER}.>")
        await settle(client)
    for client in clients:
        client._transport._io_writer.transport.pause_reading()
        for subject, payload in REQUESTS:
            for _ in range(UNREAD):
                await client.publish(subject, payload, reply=f"_INBOX_{ATTACKER}.x")
    async with asyncio.timeout(ANSWER_SECONDS):
        while end.log.count(TOO_MUCH_UNREAD) < len(clients):
            await asyncio.sleep(0.05)


async def publish_much(client: Client) -> None:
    """Small messages of every kind that a host may send, without a pause."""
    own, text = f"logs.p0.{ATTACKER}", zstandard.compress(bytes(TEXT_BYTES))
    for number in range(3000):
        await client.publish(f"logs.beat.{ATTACKER}", b"{}", headers={"Nats-Msg-Id": f"{number:0>3500}"})
        await client.publish(own, b"?", headers={"Log-Id": f"{number}", "Log-Span": "none"})
        await client.publish(f"ctl.up.{ATTACKER}", b"[" * 1000)
        if number % 100 == 0:
            await client.publish(own, text, headers={"Log-Encoding": "zstd"})
            await client.flush(round(ANSWER_SECONDS))


async def publish_largest(client: Client) -> None:
    """The newest message of each kind, which is what can be read again and again: as large as the stream takes it."""
    own = f"logs.p0.{ATTACKER}"
    for subject, size in ((own, 500_000), (f"logs.beat.{ATTACKER}", MAX_BYTES)):
        stored = await client.request(subject, bytes(size), timeout=ANSWER_SECONDS)
        assert b'"seq"' in stored.data


async def publish_large(end: End) -> None:
    """Large messages by all connections of the attacker, faster than the server stores them."""
    clients = await opened(end)

    async def publish(client: Client) -> None:
        for number in range(LARGE):
            await client.publish(f"logs.p0.{ATTACKER}", bytes(LARGE_BYTES))
            if number % 10 == 0:
                await client.flush(round(ANSWER_SECONDS))

    async with closing(*clients):
        await asyncio.gather(*map(publish, clients))
        for client in clients:
            await settle(client)


async def read_nothing(end: End) -> None:
    """Requests by all connections of the attacker, whose answers it does not read."""
    clients = await opened(end)
    async with closing(*clients):
        await publish_largest(clients[0])
        await leave_unread(end, clients)
