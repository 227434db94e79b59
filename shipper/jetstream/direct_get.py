"""Many stored messages by one request: a batched direct read leaves nothing at the server.

The sizes of a stream's newest messages by subject, without their payloads.
"""

import asyncio
import json
from collections import Counter
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


SILENT_SECONDS = 2.0
INACTIVE_NS = 5_000_000_000


async def newest_sizes(connection: Connection, stream: str, *, last: int, messages: int) -> Counter[str]:
    """Bytes of payload by subject, of the `messages` newest ones up to sequence `last`; fewer, where some are gone.

    Raises:
        StreamMissing, SessionLost, ApiError.
    """
    sizes: Counter[str] = Counter()
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    target = connection.client.new_inbox()
    subscription = await connection.client.subscribe(target, cb=arrived.put)
    config = {
        "deliver_subject": target,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": max(1, last - messages + 1),
        "ack_policy": "none",
        "headers_only": True,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": INACTIVE_NS,
    }
    try:
        info = await connection.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        left = min(messages, int(info.get("num_pending", 0)) + int(info.get("delivered", {}).get("consumer_seq", 0)))
        while left > 0:
            message = await asyncio.wait_for(arrived.get(), SILENT_SECONDS)
            sizes[message.subject] += int((message.headers or {}).get("Nats-Msg-Size", 0))
            left -= 1
    except TimeoutError:
        pass  # some were purged meanwhile
    finally:
        await subscription.unsubscribe()
    return sizes
