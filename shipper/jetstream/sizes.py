"""The sizes of a stream's newest messages by subject, without their payloads."""

import asyncio
from collections import Counter

from nats.aio.msg import Msg

from shipper.jetstream.connection import Connection

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
