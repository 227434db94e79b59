"""A whole producer pipeline on a server in memory, and what a collector would make of the stream."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from producing import Archive

from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Watched
from producer.fingerprint import Mark
from producer.model import Piece
from producer.options import Following, Order, Task
from producer.pipeline import pipeline_of
from producer.session.host_name_guard import HostNameGuard
from producer.tailer.retained_files import RetainedFiles
from producer.transform.edits import NO_EDITS
from shipper import codec
from shipper.compression import Compressor, Decompressor
from shipper.lifecycle import Stop
from shipper.model import Encoding, Stored
from shipper.ports import Publisher
from shipper.retry import Patience
from shipper.subjects import control_down, control_up
from shipper.testing import Bus, MemoryPublisher

HOST = "web1.example.net"
STREAM = "LOGS_0"
SUBJECT = f"logs.p0.{HOST}"


class Producer:
    """One producer of the files that match `pattern`; `start` it again as often as a test kills it."""

    def __init__(self, directory: Path, *patterns: str, bus: Bus | None = None, **options: Any) -> None:
        self.directory = directory
        self.bus = bus or Bus()
        if bus is None:
            self.bus.add_stream(STREAM, "logs.p0.>")
        self.patterns = [str(directory / pattern) for pattern in patterns]
        self.options = options
        self.sessions = 0
        self.stop = Stop()
        self.namesake: HostNameGuard | None = None
        self.retained: RetainedFiles | None = options.get("retained")

    @property
    def stream(self) -> Any:
        return self.bus.stream(STREAM)

    def task(self) -> Task:
        options = {name: value for name, value in self.options.items() if name != "retained"}
        encoding = options.pop("encoding", Encoding.ZSTD)
        edits = options.pop("edits", NO_EDITS)
        following = Following(
            watched=Watched.of(self.patterns),
            cut=edits.cut(options.pop("block", 64 * 1024), line_a_piece=encoding is Encoding.PLAIN),
            once=options.pop("once", False),
            start_at_end=options.pop("start_at_end", False),
            rotate_wait=options.pop("rotate_wait", 0.0),
            order=options.pop("order", Order.FAIR),
            ignore_older=options.pop("ignore_older", 0.0),
        )
        patience = options.pop("patience", None) or Patience(at_start=30.0, later=30.0)
        plain = {"window_bytes": 1 << 20, "poll": 0.02, "watch": False, "ack_timeout": 5.0, "drain_within": 5.0}
        return Task(
            host=HOST,
            partition=0,
            prefix="logs",
            following=following,
            compressor=Compressor(encoding),
            edits=edits,
            checkpoint_every=0.0,
            patience=patience,
            **(plain | options),
        )

    async def _connect(self, partition: int) -> Publisher:
        return await self.connect(partition)  # a test may replace it

    async def connect(self, partition: int) -> Publisher:
        self.sessions += 1
        return MemoryPublisher(self.bus, f"LOGS_{partition}")

    async def ship_once(self) -> None:
        self.options["once"] = True
        await self.run()

    async def run(self) -> None:
        self.stop = Stop()
        self.checkpoints = Checkpoints(self.directory / "checkpoint.sqlite")
        self.pipeline = pipeline_of(
            self.task(),
            self.checkpoints,
            self._connect,
            self.stop,
            guard=self.namesake,
            retained=self.retained,
        )
        try:
            await self.pipeline.run()
        finally:
            self.checkpoints.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.run())
        try:
            yield
            self.stop.request()
            await asyncio.wait_for(running, 20)
        finally:
            running.cancel()
            await asyncio.wait({running})

    def archived(self) -> Archive:
        return archive_of(list(self.stream))


class Collector:
    """A collector that answers with receipts of `archive`, and sends them unrequested."""

    def __init__(self, bus: Bus, archive: Archive, *, name: str = "a1") -> None:
        self.bus = bus
        self.archive = archive
        self.name = name
        self.through = 1 << 60  #: up to where it has judged the stream
        self.crc: int | None = None  #: instead of the true sums
        self.questions: list[Any] = []
        self.session = MemoryPublisher(bus, STREAM)
        bus.listen(self.session, control_up(HOST), self._heard)

    async def _heard(self, _: str, question: Any) -> Any:
        assert question["ask"] == "receipts"
        assert question["partition"] == 0
        self.questions.append(question)
        return self.message(question.get("sources"))

    def message(self, sources: list[str] | None = None) -> dict[str, Any]:
        archive = self.archive
        fields = [
            {
                "source": id_,
                "file": archive.files[id_],
                "origin": archive.origins[id_],
                "watermark": watermark,
                "crc": zlib.crc32(archive.bytes[id_]) if self.crc is None else self.crc,
            }
            for id_, watermark in archive.watermarks.items()
            if sources is None or id_ in sources
        ]
        badly_formed = [{"source": "not well formed"}, 7]
        return {"v": 1, "archive": self.name, "through": self.through, "receipts": [*badly_formed, *fields]}

    def tell(self) -> None:
        self.bus.tell(control_down(HOST), self.message())


def archive_of(messages: list[Stored]) -> Archive:
    """What a collector makes of the messages."""
    archive = Archive(holes=True)
    take_all(archive, messages)
    return archive


def take_all(archive: Archive, messages: list[Stored]) -> None:
    """Let `archive` have the messages."""
    decompressor = Decompressor()
    for message in messages:
        block = codec.from_headers(message.headers)
        data = decompressor.decode(block, message.payload)
        archive.take(
            Piece(
                block.source,
                block.file,
                block.origin,
                block.span,
                data,
                block.source_crc,
                Mark(),
                block.end,
                block.gap,
            )
        )
