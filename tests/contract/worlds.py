"""The two worlds that each contract test runs in: a bus in memory, and a real nats-server.

Both have one partition, LOGS_0 on `logs.p0.>` with the consumer `collector`, and the dead letters; the streams are
the template's that ships with the partitioner.
"""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

from harness.natsd import NatsServer, running

from partitioner.topology import shipped_template, wanted
from shipper.errors import SessionLost
from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.jetstream.publisher import JetStreamPublisher
from shipper.jetstream.pull_consumer import JetStreamInbox
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR, DEAD_LETTERS
from shipper.testing import Bus, MemoryInbox, MemoryPublisher

STREAM = "LOGS_0"
WEB1 = "logs.p0.web1"
WEB2 = "logs.p0.web2"
DLQ_SUBJECT = "dlq.LOGS_0.web1"
KIB = 1024
MIB = 1024 * KIB
PATIENCE = 15.0
"""Seconds after which a session that should have said something hangs."""


class MemoryWorld:
    """Sessions with a bus in memory."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.bus.add_stream(STREAM, "logs.p0.>")
        self.bus.add_stream(DEAD_LETTERS, "dlq.>")
        self.bus.add_stream("LOGS_BEATS", "logs.beat.>")

    async def open_publisher(self):
        return MemoryPublisher(self.bus, STREAM)

    async def open_inbox(self, batch_bytes=0):
        return MemoryInbox(self.bus, STREAM)

    async def put(self, *payloads, subject=WEB1, headers=None):
        for payload in payloads:
            self.bus.store(subject, headers or {}, payload)

    async def limit(self, max_bytes):
        self.bus.stream(STREAM).max_bytes = max_bytes

    async def delete_message(self, sequence):
        self.bus.stream(STREAM).delete(sequence)

    async def remove_stream(self, name=STREAM):
        self.bus.remove_stream(name)

    async def recreate_stream(self):
        self.bus.stream(STREAM).recreate()

    async def ack_floor(self):
        return self.bus.stream(STREAM).ack_floor

    async def last_sequence(self, stream):
        return self.bus.stream(stream).last_sequence

    async def dead_letters(self):
        return [message.payload for message in self.bus.stream(DEAD_LETTERS)]

    async def publish_what_is_refused(self, session, token):
        self.bus.acks.refuse(1, SessionLost("wrong last sequence"))
        await session.publish(token, WEB1, {}, b"refused")

    @contextlib.asynccontextmanager
    async def losing_one_ack(self):
        self.bus.acks.drop(1)
        yield

    def die(self):
        self.bus.go_down()


class ServerWorld:
    """Sessions with a real nats-server."""

    def __init__(self, natsd: NatsServer) -> None:
        self.natsd = natsd
        self.settings = NatsSettings(url=natsd.url)
        asyncio.run(self._create())

    async def _create(self):
        async with administration(self.settings) as admin:
            for each in wanted(shipped_template(), subject="logs", partitions=1):
                await admin.create_stream(each.stream)
                for consumer in each.consumers:
                    await admin.create_consumer(each.name, consumer)

    async def open_publisher(self):
        return await JetStreamPublisher.begin(self.settings, stream=STREAM, host="web1", block_bytes=512 * 1024)

    async def open_inbox(self, batch_bytes=4 * 1024 * 1024):
        return await JetStreamInbox.open(
            self.settings, stream=STREAM, consumer=COLLECTOR, name="test", batch_bytes=batch_bytes
        )

    @contextlib.asynccontextmanager
    async def _client(self):
        connection = await connect(self.settings, name="test", inbox="_INBOX_test")
        try:
            yield connection.client
        finally:
            await connection.close()

    async def put(self, *payloads, subject=WEB1, headers=None):
        async with self._client() as client:
            for payload in payloads[:-1]:
                await client.publish(subject, payload, headers=headers)
            answer = await client.request(subject, payloads[-1], headers=headers, timeout=PATIENCE)
            assert b'"seq"' in answer.data, answer.data

    async def limit(self, max_bytes):
        async with administration(self.settings) as admin:
            config = (await admin.stream(STREAM))["config"]
            await admin.update_stream(config | {"max_bytes": max_bytes})

    async def delete_message(self, sequence):
        async with self._client() as client:
            body = json.dumps({"seq": sequence}).encode()
            answer = await client.request(f"$JS.API.STREAM.MSG.DELETE.{STREAM}", body, timeout=PATIENCE)
            assert json.loads(answer.data)["success"]

    async def remove_stream(self, name=STREAM):
        async with administration(self.settings) as admin:
            assert await admin.delete_stream(name)

    async def redeliver_after(self, seconds):
        """What is not acknowledged so soon is handed out again."""
        async with administration(self.settings) as admin:
            config = (await admin.consumer(STREAM, COLLECTOR))["config"]
            await admin.update_consumer(STREAM, config | {"ack_wait": int(seconds * 1e9)})

    async def redelivered(self):
        async with administration(self.settings) as admin:
            return (await admin.consumer(STREAM, COLLECTOR))["num_redelivered"]

    async def recreate_stream(self):
        await self.remove_stream()
        await self._create()

    async def ack_floor(self):
        async with administration(self.settings) as admin:
            return (await admin.consumer(STREAM, COLLECTOR))["ack_floor"]["stream_seq"]

    async def last_sequence(self, stream):
        return await last_sequence(self.settings, stream)

    async def dead_letters(self):
        async with self._client() as client:
            where, found = f"$JS.API.DIRECT.GET.{DEAD_LETTERS}", []
            while True:
                body = json.dumps({"seq": len(found) + 1}).encode()
                message = await client.request(where, body, timeout=PATIENCE)
                if message.status == "404":
                    return found
                found.append(message.data)

    async def publish_what_is_refused(self, session, token):
        await session.publish(token, WEB1, {"Nats-Expected-Last-Sequence": "99"}, b"refused")

    @contextlib.asynccontextmanager
    async def losing_one_ack(self):
        """A client in place of the stream, which answers every publish but the first."""
        await self.remove_stream()
        seen = []

        async def answer(message):
            seen.append(message)
            if len(seen) > 1:
                await message.respond(json.dumps({"stream": STREAM, "seq": len(seen)}).encode())

        async with self._client() as client:
            await client.subscribe("logs.p0.>", cb=answer)
            await client.flush()
            await client.flush()  # the PING of the first may go ahead of the SUB
            yield

    def die(self):
        self.natsd.kill()


@contextlib.contextmanager
def world_of(kind: str, directory: Path, **server: Any):
    if kind == "memory":
        yield MemoryWorld()
    else:
        with running(directory, **server) as natsd:
            yield ServerWorld(natsd)


@contextlib.asynccontextmanager
async def open_inbox(world, **options):
    """An inbox that is closed in the end."""
    inbox = await world.open_inbox(**options)
    try:
        yield inbox
    finally:
        await soon(inbox.close())


async def taken(inbox, count, at_most_bytes=MIB):
    """The next `count` deliveries, or more when more come in one go."""
    found = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += apart(await inbox.take(at_most_bytes, 1.0))
    return found


def apart(deliveries):
    """The messages of deliveries, of which some may be runs."""
    return [message for delivery in deliveries for message in delivery.apart()]


def sequences(deliveries):
    return [delivery.sequence for delivery in deliveries]


def numbered(count):
    return [b"%d" % number for number in range(1, count + 1)]


async def last_sequence(settings, stream):
    """The sequence of the newest message of a stream, as its server reports it."""
    async with administration(settings) as admin:
        return (await admin.stream(stream))["state"]["last_seq"]


async def stored(last_sequence, count):
    """Wait until a stream has `count` messages: a server stores in each stream in its own time."""
    async with asyncio.timeout(PATIENCE):
        while await last_sequence() < count:
            await asyncio.sleep(0.01)


async def soon(work):
    """`work`'s result; a session that hangs fails the test instead of the whole run."""
    async with asyncio.timeout(PATIENCE):
        return await work
