"""Many stored messages by one request: a batched direct read leaves nothing at the server."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from shipper.errors import SessionLost, StreamMissing
from shipper.jetstream.connection import API, Connection, describe
from shipper.jetstream.publisher import NO_RESPONDERS, NOT_FOUND

END_OF_BATCH = "204"


async def direct_batch(connection: Connection, stream: str, what: Mapping[str, Any], *, within: float) -> list[Msg]:
    """The messages of `stream` that `what` asks for (ADR-31: `multi_last`, or `seq` with `batch`), as of now.

    Raises:
        StreamMissing: nobody answers for it. SessionLost: the whole batch did not come in `within` seconds.
    """
    connection.check()
    client, arrived = connection.client, asyncio.Queue[Msg]()
    inbox = client.new_inbox()
    try:
        subscription = await client.subscribe(inbox, cb=arrived.put)
        try:
            await client.publish(f"{API}.DIRECT.GET.{stream}", json.dumps(what).encode(), reply=inbox)
            async with asyncio.timeout(within):
                return await _until_its_end(arrived, stream)
        finally:
            await subscription.unsubscribe()
    except (nats.errors.Error, OSError, TimeoutError) as error:
        connection.check()
        raise SessionLost(f"reading {stream}: {describe(error)}") from None


async def _until_its_end(arrived: "asyncio.Queue[Msg]", stream: str) -> list[Msg]:
    messages: list[Msg] = []
    while True:
        message = await arrived.get()
        status = (message.headers or {}).get("Status")
        if status is None:
            messages.append(message)
        elif status in {END_OF_BATCH, NOT_FOUND}:
            return messages
        elif status == NO_RESPONDERS:
            raise StreamMissing(f"stream {stream} does not answer direct reads")
        else:
            raise SessionLost(f"reading {stream}: status {status}")
