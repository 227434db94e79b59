"""The network between a program and the server, which may lose, cut, delay and split what it carries."""

import asyncio
import random
import threading
from enum import Enum

CHUNK_BYTES = 64 * 1024


class Weather(Enum):
    """What befalls the bytes on a wire."""

    FAIR = "all arrives"
    DEAF = "nothing arrives from the server; the connection stays open"
    MUTE = "nothing arrives at the server; the connection stays open"
    CUT = "connections are cut after a random number of bytes, wherever that is"
    SPLIT = "what arrives comes in small pieces"
    SLOW = "what arrives comes late"


class Wire:
    """A port of our own in front of the server's. Lives in a thread of its own; `weather` may be set at any time."""

    def __init__(self, server_port: int, seed: str) -> None:
        self.weather = Weather.FAIR
        self.port = 0
        self._server_port = server_port
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._ends: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10), "the wire's thread did not start"

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, wherever it is; new ones are carried."""
        self._loop.call_soon_threadsafe(lambda: [end.transport.abort() for end in self._ends])

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        listening = self._loop.run_until_complete(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port = listening.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        listening.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until one side ends it, or the wire is cut."""
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        up = asyncio.ensure_future(self._pump(reader, up_writer, Weather.MUTE))
        down = asyncio.ensure_future(self._pump(up_reader, writer, Weather.DEAF))
        self._ends |= {writer, up_writer}
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ends -= {writer, up_writer}
            for task in (up, down):
                task.cancel()
            writer.transport.abort()
            up_writer.transport.abort()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost_in: Weather) -> None:
        """Carry one direction. Once a byte is lost the rest of the connection is, too: TCP has no holes."""
        is_lost, left = False, self._chance.randrange(1, 200_000)
        while data := await reader.read(CHUNK_BYTES):
            is_lost = is_lost or self.weather is lost_in
            if is_lost:
                continue
            if self.weather is Weather.CUT:
                if len(data) >= left:
                    writer.write(data[: left - 1])
                    await writer.drain()
                    return
                left -= len(data)
            if self.weather is Weather.SLOW:
                await asyncio.sleep(self._chance.uniform(0, 0.2))
            for piece in self._pieces(data):
                writer.write(piece)
                await writer.drain()

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.weather is not Weather.SPLIT:
            return [data]
        size = self._chance.choice((1, 7, 100, 1000)) if len(data) < 5000 else self._chance.choice((100, 1000))
        return [data[at : at + size] for at in range(0, len(data), size)]
