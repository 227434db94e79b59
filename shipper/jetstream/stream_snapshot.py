"""Streams as bytes: the server packs one with its consumers into chunks, and makes one of such chunks again."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

import nats.errors

from shipper.errors import ConfigError, Fatal, SessionLost
from shipper.jetstream.admin import explained
from shipper.jetstream.connection import ApiError, Connection, describe
from shipper.jetstream.fast_client import Message

Json = dict[str, Any]

CHUNK_BYTES = 128 * 1024
WINDOW_BYTES = 2 * 1024 * 1024
"""What the server sends before it waits for an acknowledgement: below `max_pending` of the shipped configurations."""
IDLE_SECONDS = 20.0
END_SECONDS = 300.0  # after the last chunk the server unpacks everything, and reads it once
NAME_TAKEN = 10130
FINE = frozenset({"", "204"})


async def snapshot(
    connection: Connection, stream: str, *, consumers: bool, begun: Callable[[Json], None]
) -> AsyncIterator[bytes]:
    """The chunks of `stream` as it is now; `begun` gets `{"config": ..., "state": ...}` before the first of them.

    Raises StreamMissing: there is none. SessionLost: the server stopped sending; what came is worth nothing.
    """
    async with connection.client.mailbox() as (inbox, arrived):
        question = {
            "deliver_subject": inbox,
            "no_consumers": not consumers,
            "chunk_size": min(CHUNK_BYTES, connection.max_payload),
            "window_size": WINDOW_BYTES,
        }
        begun(await _api(connection, f"STREAM.SNAPSHOT.{stream}", question))
        while chunk := await _next(connection, arrived, stream):
            yield chunk


async def restore(connection: Connection, head: Mapping[str, Any], chunks: Iterable[bytes]) -> Json:
    """Make the stream that `head` describes of `chunks`. Returns the state.

    Raises ConfigError: the server has such a stream already, or refuses the configuration. Fatal: it could not make a
    stream of it. SessionLost: it stopped answering, and keeps nothing.
    """
    name = str(head["config"]["name"])
    begun = await _api(connection, f"STREAM.RESTORE.{name}", {"config": head["config"], "state": head["state"]})
    subject = str(begun["deliver_subject"])
    for chunk in chunks:
        _check(name, await _send(connection, subject, chunk, IDLE_SECONDS))
    answer = await _send(connection, subject, b"", END_SECONDS)
    _check(name, answer)
    made: Json = json.loads(answer)
    return made


async def _next(connection: Connection, arrived: "asyncio.Queue[Message]", stream: str) -> bytes:
    """The next chunk; empty: that was all of it."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            message = await arrived.get()
    except TimeoutError:
        connection.check()
        raise SessionLost(f"the server stopped sending {stream}") from None
    if not message.data and message.status not in FINE:
        raise SessionLost(f"the server gave up sending {stream}: {message.description or message.status}")
    if message.reply:
        with connection.session_errors():
            await connection.client.publish(message.reply)
    return message.data


async def _send(connection: Connection, subject: str, chunk: bytes, within: float) -> bytes:
    try:
        return (await connection.client.request(subject, chunk, timeout=within)).data
    except (nats.errors.Error, OSError) as error:
        connection.check()
        raise SessionLost(f"the server stopped taking the stream: {describe(error)}") from None


def _check(name: str, answer: bytes) -> None:
    error = json.loads(answer).get("error") if answer else None
    if error:
        raise Fatal(f"the server could not make stream {name} of it: {error.get('description')}")


async def _api(connection: Connection, verb: str, body: Mapping[str, Any]) -> Json:
    try:
        answer: Json = await connection.api(verb, body)
    except ApiError as error:
        if error.code == NAME_TAKEN:
            raise ConfigError(
                f"the server has a stream {verb.rpartition('.')[2]} already",
                hint="restore it under another name (--as NAME), or delete that one first",
            ) from None
        raise explained(error) from None
    return answer
