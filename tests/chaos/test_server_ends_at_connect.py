"""A server that is on its way down still answers those who connect, and its last words come along with its end."""

import asyncio
import contextlib

import pytest

from shipper.errors import SessionLost
from shipper.jetstream.connection import Connection, connect
from shipper.settings import NatsSettings

PATIENCE_SECONDS = 10.0
LAST_WORDS = [b"", b"PING\r\n", b"-ERR 'Server Shutdown'\r\n", b"INF"]


@contextlib.asynccontextmanager
async def way_to(port: int, last_words: bytes):
    """The port of a way to the server at `port`; after the first PONG come `last_words` and the end."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(await up_reader.readline())  # INFO
        up_writer.write(await reader.readline() + await reader.readline())  # CONNECT, PING
        writer.write(await up_reader.readline() + last_words)
        writer.write_eof()
        up_writer.close()
        await reader.read()  # until we are closed, too
        writer.close()

    listening = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def session(port: int) -> Connection:
    settings = NatsSettings(url=[f"nats://127.0.0.1:{port}"], connect_timeout=PATIENCE_SECONDS)
    return await connect(settings, name="late", inbox="_INBOX_late")


@pytest.mark.parametrize("last_words", LAST_WORDS)
async def test_a_server_that_ends_as_we_connect_loses_the_session_and_nothing_else(natsd, last_words):
    async with way_to(natsd.port, last_words) as port:
        connection = await session(port)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await connection._lost.wait()
            with pytest.raises(SessionLost):
                connection.check()
        finally:
            await connection.close()
