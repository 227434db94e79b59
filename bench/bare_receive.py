"""The limit of a collector of small blocks: receive every message of the streams, and do nothing with it."""

import asyncio
import json
import sys

import nats

MESSAGES_A_PULL = 2000
PULLS = 2


async def receive(url: str, partitions: int) -> None:
    connection = await nats.connect(url, allow_reconnect=False)
    for partition in range(partitions):
        await receive_all(connection, f"LOGS_{partition}")
    await connection.close()


async def receive_all(connection: nats.NATS, stream: str) -> None:
    async def api(verb: str, body: object) -> dict[str, dict[str, int]]:
        answer = await connection.request(f"$JS.API.{verb}", json.dumps(body).encode())
        return dict(json.loads(answer.data))

    config = {"name": "bare", "ack_policy": "none", "deliver_policy": "all"}
    await api(f"CONSUMER.CREATE.{stream}.bare", {"stream_name": stream, "config": config})
    left = (await api(f"STREAM.INFO.{stream}", {}))["state"]["messages"]
    inbox, done, asked = connection.new_inbox(), asyncio.Event(), 0

    async def on_message(message: nats.aio.msg.Msg) -> None:
        nonlocal left, asked
        if message.reply.startswith("$JS.ACK."):
            left, asked = left - 1, asked - 1
            if left == 0:
                done.set()
            elif asked <= MESSAGES_A_PULL * (PULLS - 1):
                await pull()

    async def pull() -> None:
        nonlocal asked
        asked += MESSAGES_A_PULL
        request = json.dumps({"batch": MESSAGES_A_PULL, "expires": 10**10}).encode()
        await connection.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.bare", request, reply=inbox)

    await connection.subscribe(inbox, cb=on_message, pending_msgs_limit=0, pending_bytes_limit=0)
    for _ in range(PULLS):
        await pull()
    await done.wait()


if __name__ == "__main__":
    asyncio.run(receive(sys.argv[1], int(sys.argv[2])))
