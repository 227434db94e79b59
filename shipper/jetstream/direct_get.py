"""Direct get: read stored messages by request and reply, without a consumer at the server (ADR-31)."""

import asyncio
import datetime as dt
import json
import re
from collections.abc import Mapping
from typing import Any, TypedDict

from shipper import events
from shipper.errors import SessionLost, StreamMissing, UnreadableMessage
from shipper.jetstream.connection import API, Connection
from shipper.jetstream.fast_client import NO_RESPONDERS, STORED, Message
from shipper.model import Stored
from shipper.subjects import host_of_any

NOT_FOUND = "404"
END_OF_BATCH = "204"
_SEQUENCE = re.compile(r"[0-9]{1,20}")
_FRACTION = re.compile(r"(.*:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def subject_of(stream: str, last_of: str = "", *, api: str = API) -> str:
    """The subject of a direct get from `stream`: of the newest message on `last_of`, or else of what the body names."""
    return f"{api}.DIRECT.GET.{stream}.{last_of}" if last_of else f"{api}.DIRECT.GET.{stream}"


def body_of(sequence: int) -> bytes:
    """The body of a direct get of the first message with at least `sequence`."""
    return json.dumps({"seq": sequence}).encode()


async def last_stored(connection: Connection, stream: str, subject: str, *, within: float) -> Stored | None:
    """The newest message on `subject`; None: the stream holds none.

    Raises nats.errors.NoRespondersError: no server answers for the stream. SessionLost: no reply in `within` seconds.
    """
    return stored(await connection.request(subject_of(stream, subject), b"", within=within))


async def direct_batch(connection: Connection, stream: str, what: Mapping[str, Any], *, within: float) -> list[Stored]:
    """The messages of `stream` that `what` requests (ADR-31: `multi_last`, or `seq` with `batch`), as of now.

    One that cannot be read is reported and left out: it must not hide the others.

    Raises StreamMissing: no server answers for it. SessionLost: the whole batch did not come in `within` seconds.
    """
    connection.check()
    found: list[Stored] = []
    with connection.session_errors(f"reading {stream}: "):
        async with connection.client.mailbox() as (inbox, arrived), asyncio.timeout(within):
            await connection.client.publish(subject_of(stream), json.dumps(what).encode(), reply=inbox)
            while True:
                message = await arrived.get()
                if message.status in {END_OF_BATCH, NOT_FOUND}:
                    return found
                if message.status == NO_RESPONDERS:
                    raise StreamMissing(f"stream {stream} does not answer direct reads")
                try:
                    if (one := stored(message)) is not None:
                        found.append(one)
                except UnreadableMessage as error:
                    events.message_unreadable(stream=stream, **of_message(error), error=str(error))


def stored(message: Message) -> Stored | None:
    """The message in the reply to a direct get; None: the stream does not hold it.

    Raises SessionLost: the server answers with another status. UnreadableMessage: the reply holds no stored message.
    """
    if message.status == NOT_FOUND:
        return None
    if message.status:
        raise SessionLost(f"direct get: {message.status} {message.description}")
    headers = message.headers or {}
    try:
        return Stored(
            sequence=int(headers[STORED]),
            time_ns=nanoseconds(headers["Nats-Time-Stamp"]),
            subject=headers["Nats-Subject"],
            headers={name: value for name, value in headers.items() if not name.startswith("Nats-")},
            payload=message.data,
        )
    except (KeyError, ValueError, SessionLost) as error:
        number, subject = headers.get(STORED, "?")[:20], headers.get("Nats-Subject", "")
        sequence = int(number) if _SEQUENCE.fullmatch(number) else 0
        text = f"message {number}: {type(error).__name__} {error}"
        raise UnreadableMessage(text, sequence=sequence, subject=subject) from None


class OfMessage(TypedDict):
    """What is known of a message that cannot be read."""

    sequence: int
    host: str


def of_message(error: SessionLost, sequence: int = 0) -> OfMessage:
    """The sequence and the host of a message, as far as the error names them; `sequence`: what was requested."""
    if isinstance(error, UnreadableMessage):
        return {"sequence": error.sequence or sequence, "host": host_of_any(error.subject)}
    return {"sequence": sequence, "host": ""}


def nanoseconds(rfc3339: str) -> int:
    """Nanoseconds since 1970 of the server's timestamps, which carry more digits than `datetime` keeps."""
    found = _FRACTION.fullmatch(rfc3339.replace(" ", "T", 1))
    if not found:
        raise SessionLost(f"timestamp {rfc3339!r} is not RFC 3339")
    seconds = int(dt.datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")).timestamp())
    return seconds * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))
