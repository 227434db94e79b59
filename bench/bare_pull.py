"""The limit of a collector: pull batches, decompress each payload, write to one file, fdatasync, acknowledge all of it.

    python bare_pull.py URL FILE BATCH_BYTES [zstd|identity]      until the stream of partition 0 is empty

No rules: no watermark, no journal, no check of the header of a block. One batch is written while the next comes.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import nats
import zstandard

STREAM, CONSUMER = "LOGS_0", "bare"
PULLS = 2  # one is being served while the other's messages are written
MAX_RAW_BYTES = 1 << 20


class Sink:
    """The file, and what of it is synced."""

    def __init__(self, path: Path, codec: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._decompressor = zstandard.ZstdDecompressor() if codec == "zstd" else None

    def write(self, payloads: list[bytes]) -> None:
        """Decompressed, in one piece each; durable when it returns."""
        for payload in payloads:
            unpack = self._decompressor
            text = unpack.decompress(payload, max_output_size=MAX_RAW_BYTES) if unpack else payload
            os.write(self._descriptor, text)
        os.fdatasync(self._descriptor)


async def pull_all(url: str, path: Path, batch_bytes: int, codec: str) -> None:
    connection = await nats.connect(url, allow_reconnect=False)
    left = await consumer(connection)
    arrived: asyncio.Queue[nats.aio.msg.Msg] = asyncio.Queue()
    inbox = connection.new_inbox()
    await connection.subscribe(inbox, cb=arrived.put, pending_msgs_limit=0, pending_bytes_limit=0)
    request = json.dumps({"batch": 100_000, "max_bytes": batch_bytes, "expires": 30 * 10**9}).encode()
    for _ in range(PULLS):
        await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}", request, reply=inbox)
    sink = Sink(path, codec)
    while left:
        batch = await next_batch(arrived, left, batch_bytes)
        left -= len(batch)
        await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}", request, reply=inbox)
        await asyncio.to_thread(sink.write, [message.data for message in batch])
        await connection.publish(batch[-1].reply, b"+ACK")
    await connection.close()


async def next_batch(arrived: "asyncio.Queue[nats.aio.msg.Msg]", left: int, at_most_bytes: int) -> list:
    """The messages of a pull: until its end is reported, until the stream is empty, or until it is large enough."""
    batch, size = [], 0
    while len(batch) < left and size < at_most_bytes:
        message = await arrived.get()
        if message.reply.startswith("$JS.ACK."):
            batch.append(message)
            size += len(message.data)
        elif batch:  # 409: what is next is larger than what is left of max_bytes
            break
    return batch


async def consumer(connection: nats.NATS) -> int:
    """A consumer that acknowledges all up to a message; how many messages there are."""
    config = {"durable_name": CONSUMER, "ack_policy": "all", "deliver_policy": "all", "max_ack_pending": -1}
    body = json.dumps({"stream_name": STREAM, "config": config}).encode()
    answer = await connection.request(f"$JS.API.CONSUMER.CREATE.{STREAM}.{CONSUMER}", body)
    return int(json.loads(answer.data)["num_pending"])


if __name__ == "__main__":
    asyncio.run(pull_all(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), (*sys.argv, "zstd")[4]))
