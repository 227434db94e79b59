"""Browse a stream: list messages, read one message, delete it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import nats.errors

from shipper.errors import SessionLost, StreamMissing
from shipper.jetstream.connection import API, ApiError, Connection
from shipper.jetstream.direct_get import body_of, direct_batch, stored, subject_of
from shipper.jetstream.fast_client import NO_RESPONDERS, Message
from shipper.jetstream.leaf_stream import stream_state
from shipper.jetstream.publisher import refusal
from shipper.jetstream.pull_loop import NANOSECONDS, read_delivery
from shipper.model import Delivery, Stored, StreamState

NO_MESSAGE = 10037
PULL_MESSAGES = 500
PULL_BYTES = 2 * 1024 * 1024
"""Of one pull: what bounds the memory of a listing."""
ANSWER_SECONDS = 5.0
IDLE_SECONDS = 30  # the server forgets the listing of a program that died


class MessageBrowser:
    """The messages of `stream`. Everything raises `StreamMissing`, or `SessionLost` when the server does not answer."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._stream = stream

    async def state(self) -> StreamState:
        """What the stream holds now."""
        return stream_state(await self._connection.api(f"STREAM.INFO.{self._stream}"))

    def read(self, first: int, last: int, *, pattern: str) -> AsyncGenerator[Delivery]:
        """The messages `first` to `last` whose subject `pattern` matches, oldest first.

        Whole ones, never `headers_only`: nats-server 2.15 ends with a panic when a consumer with that option comes to a
        message whose header block has one byte, which any client may publish. At most 2 MiB are in memory at a time.
        """
        return self._read(first, last, pattern)

    async def get(self, sequence: int) -> Stored | None:
        """The message with exactly `sequence`; None when the stream does not hold it."""
        answer = await self._request(subject_of(self._stream), body_of(sequence))
        if answer.status == NO_RESPONDERS:
            await self._connection.api(f"STREAM.INFO.{self._stream}")  # raises what is missing: JetStream or the stream
            raise SessionLost(f"stream {self._stream} does not answer direct reads: set allow_direct")
        return stored(answer)

    async def delete(self, sequence: int) -> bool:
        """Remove one message for good; False when it was not there."""
        try:
            await self._connection.api(f"STREAM.MSG.DELETE.{self._stream}", {"seq": sequence, "no_erase": True})
        except ApiError as error:
            if error.code == NO_MESSAGE:
                return False
            raise
        return True

    async def store(self, stream: str, subject: str, headers: Mapping[str, str], payload: bytes) -> int:
        """Publish a message into `stream` and wait until it is stored; its sequence there.

        Raises StreamMissing, StreamFull: it has no place. SessionLost: whether it is stored is unknown.
        """
        answer = await self._request(subject, payload, headers)
        if answer.status == NO_RESPONDERS:
            raise StreamMissing(f"no stream takes {subject}", hint="create it: fshipper partition apply --partitions N")
        content: Any = json.loads(answer.data)
        if "error" in content:
            raise refusal(stream, content["error"])
        if content.get("stream") != stream:
            raise SessionLost(f"stream {content.get('stream')!r} takes {subject}, not {stream}")
        return int(content["seq"])

    async def _read(self, first: int, last: int, pattern: str) -> AsyncGenerator[Delivery]:
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(1, first),
            "ack_policy": "none",
            "mem_storage": True,
            "inactive_threshold": IDLE_SECONDS * NANOSECONDS,
            "filter_subject": pattern,
        }
        body = {"stream_name": self._stream, "config": config}
        made = await self._connection.api(f"CONSUMER.CREATE.{self._stream}", body)
        try:
            pending = int(made["num_pending"])
            while pending and (batch := await self._pull(str(made["name"]), pending)):
                for found in batch:
                    if found.sequence > last:
                        return
                    pending = found.pending
                    yield found
        finally:
            if self._connection.open:
                await self._connection.api(f"CONSUMER.DELETE.{self._stream}.{made['name']}")

    async def _request(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> Message:
        try:
            return await self._connection.request(subject, payload, within=ANSWER_SECONDS, headers=headers)
        except nats.errors.NoRespondersError:
            return Message(self._connection.client, status=NO_RESPONDERS)

    async def _pull(self, consumer: str, pending: int) -> list[Delivery]:
        """The next messages, at least one where any is left."""
        found: list[Delivery] = []
        wanted = min(PULL_MESSAGES, pending)
        request = {"batch": wanted, "max_bytes": PULL_BYTES, "no_wait": True}
        with self._connection.session_errors(f"reading {self._stream}: "):
            async with self._connection.client.mailbox() as (inbox, arrived):
                verb = f"{API}.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
                await self._connection.client.publish(verb, json.dumps(request).encode(), reply=inbox)
                while len(found) < wanted:
                    async with asyncio.timeout(2 * ANSWER_SECONDS):
                        message = await arrived.get()
                    if not message.reply.startswith("$JS.ACK."):
                        break  # a status: the pull has brought what it can
                    found.append(read_delivery(message)[0])
        return found


class DirectMessageBrowser(MessageBrowser):
    """The same read with a monitor's rights: by direct reads, payloads too, because it may make no consumer."""

    async def _read(self, first: int, last: int, pattern: str) -> AsyncGenerator[Delivery]:
        wanted = {"batch": PULL_MESSAGES, "max_bytes": PULL_BYTES, "next_by_subj": pattern}
        first = max(1, first)
        while first <= last:
            body = {"seq": first, **wanted}
            batch = await direct_batch(self._connection, self._stream, body, within=2 * ANSWER_SECONDS)
            for found in batch:
                if found.sequence > last:
                    return
                first = found.sequence + 1
                yield Delivery(found.sequence, found.time_ns, 0, found.subject, found.headers, found.payload, "")
            if not batch:
                return


def browser_of(connection: Connection, stream: str) -> MessageBrowser:
    """The messages of `stream`, in the way that this user has the right to."""
    return (DirectMessageBrowser if connection.is_monitor else MessageBrowser)(connection, stream)
