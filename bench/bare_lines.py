"""The limit of line mode with nats-py: a message a line, and nothing else. No headers, no rules, no state.

python bare_lines.py URL publish FILE    publish each line, with a window of messages, and wait for all acks
python bare_lines.py URL pull FILE       pull batches, write the lines, fdatasync, acknowledge, until the end
"""

import asyncio
import os
import sys
from pathlib import Path

import nats
from bare_pull import CONSUMER, PULLS, STREAM, consumer

SUBJECT = "logs.p0.bare.example.net"
WINDOW_LINES = 4096
BATCH_LINES = 5000
REQUEST = b'{"batch": %d, "expires": 30000000000}' % BATCH_LINES


async def publish(url: str, source: Path) -> None:
    connection = await nats.connect(url, allow_reconnect=False, pending_size=32 * 1024 * 1024)
    inbox = connection.new_inbox()
    room = asyncio.Event()
    sent = acknowledged = 0

    async def on_ack(_: object) -> None:
        nonlocal acknowledged
        acknowledged += 1
        room.set()

    await connection.subscribe(inbox, cb=on_ack, pending_msgs_limit=0, pending_bytes_limit=0)
    with source.open("rb") as lines:
        for line in lines:
            await connection.publish(SUBJECT, line[:-1], reply=inbox)
            sent += 1
            while sent - acknowledged >= WINDOW_LINES:
                room.clear()
                await room.wait()
    while acknowledged < sent:
        room.clear()
        await room.wait()
    await connection.close()


async def pull(url: str, path: Path) -> None:
    connection = await nats.connect(url, allow_reconnect=False)
    left = await consumer(connection)
    arrived: asyncio.Queue[nats.aio.msg.Msg] = asyncio.Queue()
    inbox = connection.new_inbox()
    await connection.subscribe(inbox, cb=arrived.put, pending_msgs_limit=0, pending_bytes_limit=0)
    pulls = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}"
    for _ in range(PULLS):
        await connection.publish(pulls, REQUEST, reply=inbox)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    while left:
        batch = [await arrived.get() for _ in range(min(left, BATCH_LINES))]
        left -= len(batch)
        await connection.publish(pulls, REQUEST, reply=inbox)
        os.write(descriptor, b"".join([message.data + b"\n" for message in batch]))
        os.fdatasync(descriptor)
        await connection.publish(batch[-1].reply, b"+ACK")
    await connection.close()


if __name__ == "__main__":
    asyncio.run({"publish": publish, "pull": pull}[sys.argv[2]](sys.argv[1], Path(sys.argv[3])))
