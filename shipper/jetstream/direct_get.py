"""Direct get: read stored messages by request and reply, without a consumer at the server (ADR-31)."""

import asyncio
import datetime as dt
import json
import re
from collections.abc import Mapping
from typing import Any

from nats.aio.msg import Msg

from shipper.errors import SessionLost, StreamMissing
from shipper.jetstream.connection import API, NO_RESPONDERS, Connection
from shipper.model import Stored

NOT_FOUND = "404"
END_OF_BATCH = "204"
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

    Raises StreamMissing: no server answers for it. SessionLost: the whole batch did not come in `within` seconds.
    """
    connection.check()
    found: list[Stored] = []
    with connection.session_errors(f"reading {stream}: "):
        async with connection.client.mailbox() as (inbox, arrived), asyncio.timeout(within):
            await connection.client.publish(subject_of(stream), json.dumps(what).encode(), reply=inbox)
            while True:
                message = await arrived.get()
                status = (message.headers or {}).get("Status")
                if status in {END_OF_BATCH, NOT_FOUND}:
                    return found
                if status == NO_RESPONDERS:
                    raise StreamMissing(f"stream {stream} does not answer direct reads")
                if (one := stored(message)) is not None:
                    found.append(one)


def stored(message: Msg) -> Stored | None:
    """The message in the reply to a direct get; None: the stream does not hold it."""
    headers = dict(message.headers or {})
    status = headers.get("Status")
    if status == NOT_FOUND:
        return None
    if status or "Nats-Sequence" not in headers:
        raise SessionLost(f"direct get: {status} {headers.get('Description', '')}")
    return Stored(
        sequence=int(headers["Nats-Sequence"]),
        time_ns=nanoseconds(headers["Nats-Time-Stamp"]),
        subject=headers["Nats-Subject"],
        headers={name: value for name, value in headers.items() if not name.startswith("Nats-")},
        payload=message.data,
    )


def nanoseconds(rfc3339: str) -> int:
    """Nanoseconds since 1970 of the server's timestamps, which carry more digits than `datetime` keeps."""
    found = _FRACTION.fullmatch(rfc3339.replace(" ", "T", 1))
    if not found:
        raise SessionLost(f"timestamp {rfc3339!r} is not RFC 3339")
    seconds = int(dt.datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")).timestamp())
    return seconds * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))
