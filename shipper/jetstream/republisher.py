"""Publish log lines again, one message a line, to any subject; acknowledged where a stream takes it."""

import asyncio
import itertools
from collections.abc import Mapping

import nats.errors

from shipper.errors import Fatal, SessionLost, StreamMissing
from shipper.jetstream.connection import Connection, connect, describe
from shipper.jetstream.reply_window import Ack, ReplyWindow
from shipper.settings import NatsSettings

WINDOW = 1000
"""Maximum number of messages in flight."""
ACK_SECONDS = 10.0
HEADER_ROOM_BYTES = 8 * 1024
MAX_SUBJECTS = 10_000


class Republisher:
    """A session of sending. Owned by one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._replies = ReplyWindow(
            connection, self._acknowledged, StreamMissing("no stream takes the subject any more")
        )
        self._numbers = itertools.count(1)
        self._in_flight: set[int] = set()
        self._streams: dict[str, str] = {}  # which stream takes a subject; empty: none does
        self._news = asyncio.Event()
        self._replies.on_news(self._news.set)

    @classmethod
    async def open(cls, settings: NatsSettings) -> "Republisher":
        """A session with the first server that answers. Raises Unavailable: none does."""
        connection = await connect(settings, name="fshipper replay", inbox="_INBOX_reader")
        republisher = cls(connection)
        await republisher._replies.open()
        return republisher

    async def send(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send one message. Raises the server's error for it or an earlier one; Fatal: it is too long."""
        if len(payload) + HEADER_ROOM_BYTES > self._connection.max_payload:
            most = self._connection.max_payload
            raise Fatal(f"a line of {len(payload)} bytes does not fit a message of {most}", hint="raise max_payload")
        await self._settle(WINDOW - 1)
        reply = ""
        if await self._stream_of(subject):
            number = next(self._numbers)
            self._in_flight.add(number)
            reply = self._replies.subject(number)
        try:
            await self._connection.client.publish(subject, payload, reply=reply, headers=dict(headers))
        except (nats.errors.Error, OSError) as error:
            raise SessionLost(describe(error)) from None

    async def finish(self) -> None:
        """Return when the server has everything."""
        await self._settle(0)
        try:
            await self._connection.client.flush(round(ACK_SECONDS))
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise SessionLost(describe(error)) from None
        self._replies.check()

    async def close(self) -> None:
        """End the session."""
        await self._connection.close()

    async def _settle(self, most: int) -> None:
        """Wait until at most so many messages are not acknowledged."""
        self._replies.check()
        while len(self._in_flight) > most:
            self._news.clear()
            try:
                async with asyncio.timeout(ACK_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                raise SessionLost(f"no ack for {ACK_SECONDS:.0f} s") from None
            self._replies.check()

    async def _stream_of(self, subject: str) -> str:
        if subject not in self._streams:
            if len(self._streams) >= MAX_SUBJECTS:
                self._streams.clear()
            names = (await self._connection.api("STREAM.NAMES", {"subject": subject})).get("streams") or [""]
            self._streams[subject] = names[0]
        return self._streams[subject]

    def _acknowledged(self, number: int, _: Ack) -> None:
        self._in_flight.discard(number)
