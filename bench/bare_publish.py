"""The limit of a producer: read, compress, publish with a window of 8 MiB, wait for the acks. No rules, no state.

python bare_publish.py URL FILE BLOCK_BYTES [zstd|identity]
"""

import asyncio
import sys
from pathlib import Path

import nats
import zstandard

WINDOW_BYTES = 8 * 1024 * 1024


async def publish(url: str, source: Path, block_bytes: int, codec: str) -> None:
    connection = await nats.connect(url, allow_reconnect=False, pending_size=32 * 1024 * 1024)
    inbox = connection.new_inbox()
    room = asyncio.Event()
    in_flight: list[int] = []

    async def acknowledged(_: object) -> None:
        in_flight.pop(0)
        room.set()

    await connection.subscribe(inbox, cb=acknowledged)
    pack = zstandard.ZstdCompressor(level=1).compress if codec == "zstd" else bytes
    with source.open("rb") as blocks:
        while block := blocks.read(block_bytes):
            payload = pack(block)
            in_flight.append(len(payload))
            await connection.publish("logs.p0.bare.example.net", payload, reply=inbox)
            while sum(in_flight) >= WINDOW_BYTES:
                room.clear()
                await room.wait()
    while in_flight:
        room.clear()
        await room.wait()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), (*sys.argv, "zstd")[4]))
