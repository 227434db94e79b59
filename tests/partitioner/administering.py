"""What tests of the partitioner do to a real server in addition to the command under test."""

import asyncio

from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings


def on_server(natsd, work):
    """`await work(admin)` on a connection to the server."""

    async def within():
        async with administration(NatsSettings(url=natsd.url)) as admin:
            return await work(admin)

    return asyncio.run(within())


def publish(natsd, subject, *payloads, headers=None):
    """Store each payload in whatever stream takes `subject`."""

    async def within():
        connection = await connect(NatsSettings(url=natsd.url), name="test", inbox="_INBOX_test")
        for payload in payloads:
            answer = await connection.client.request(subject, payload, timeout=30, headers=headers)
            assert b'"seq"' in answer.data
        await connection.close()

    asyncio.run(within())
