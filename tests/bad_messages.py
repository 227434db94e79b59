"""Publish messages that no collector can apply: `python bad_messages.py HOW_MANY`."""

import asyncio
import sys

import nats


async def main(count: int) -> None:
    """Their headers claim that they are blocks, and their bodies are none."""
    client = await nats.connect("nats://127.0.0.1:4222")
    stream = client.jetstream()
    for number in range(count):
        await stream.publish("logs.p0.web1.example.net", b"?", headers={"Log-Id": f"{number}", "Log-Span": "none"})
    await client.close()
    await asyncio.sleep(1.0)  # the collector's turn


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
