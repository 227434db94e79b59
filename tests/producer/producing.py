"""A host in steps: real files, a clock that the test turns, and an archive that keeps the collector's rule.

host = Host(tmp_path, "app.log")
(tmp_path / "app.log").write_bytes(b"one\n")
host.ship()                                  # scan, read, deliver, acknowledge, save - until nothing is left
assert host.archive.text(tmp_path / "app.log") == b"one\n"

`Producer` is a whole pipeline on a server in memory, and `archive_of` what a collector makes of the stream.
"""

import asyncio
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Watched
from producer.fingerprint import Mark
from producer.model import Piece
from producer.options import Following, Order, Task
from producer.pipeline import pipeline_of
from producer.session.host_name_guard import HostNameGuard
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.tailer import new_tailer
from producer.transform.edits import NO_EDITS
from shipper import codec
from shipper.compression import Compressor, Decompressor
from shipper.lifecycle import Stop
from shipper.model import Encoding, End, Span, Stored
from shipper.ports import Publisher
from shipper.retry import Patience
from shipper.subjects import control_down, control_up
from shipper.testing import Bus, MemoryPublisher


class Archive:
    """What a collector makes of the pieces: accept iff start <= watermark < end, each source apart.

    `holes`: pieces after missing ones are ignored, as go-back-N sends them again; else they fail the test.
    """

    def __init__(self, *, holes: bool = False) -> None:
        self._holes = holes
        self.bytes: dict[str, bytearray] = {}  # by source
        self.files: dict[str, str] = {}
        self.origins: dict[str, int] = {}
        self.watermarks: dict[str, int] = {}
        self.ends: dict[str, End] = {}
        self.gaps: dict[str, list[Span]] = {}
        self.order: list[tuple[str, bytes]] = []  # file and bytes as they were written
        self.dropped = 0

    def take(self, piece: Piece) -> None:
        id_, start = piece.source, piece.span.start
        watermark = self.watermarks.setdefault(id_, piece.origin)
        text = self.bytes.setdefault(id_, bytearray())
        self.files[id_] = piece.file
        self.origins[id_] = piece.origin
        assert len(piece.data) == piece.span.length
        if self._holes and start > watermark:
            return
        assert start <= watermark, f"hole before {piece.span} of {piece.file}, watermark {watermark}"
        new = piece.data[watermark - start :] if piece.span.end > watermark else b""
        self.dropped += len(piece.data) - len(new)
        if new:
            text += new
            self.order.append((piece.file, new))
            self.watermarks[id_] = piece.span.end
        if piece.span.end == self.watermarks[id_]:
            assert zlib.crc32(text) == piece.source_crc, f"sum of {piece.file} at {piece.span}"
        if piece.end is not None:
            self._end(piece)

    def _end(self, piece: Piece) -> None:
        id_ = piece.source
        if id_ not in self.ends and piece.span.end + piece.gap > self.watermarks[id_]:
            self.gaps.setdefault(piece.file, []).append(Span(self.watermarks[id_], piece.span.end + piece.gap))
        self.ends[id_] = piece.end

    def text(self, file: Path | str) -> bytes:
        """Everything of one file in the order of writing."""
        return b"".join(data for name, data in self.order if name == str(file))

    def lost(self, file: Path | str) -> int:
        return sum(gap.length for gap in self.gaps.get(str(file), []))

    def sources_of(self, file: Path | str) -> list[str]:
        return [id_ for id_, name in self.files.items() if name == str(file)]


class Host:
    """One host's producer without its pipeline: the test is the pipeline."""

    def __init__(
        self, directory: Path, *patterns: str, started: bool = True, state: Path | None = None, **options: Any
    ) -> None:
        self.directory = directory
        self.now = 1000.0
        self.wall = time.time()
        self.archive = Archive()
        self.window: list[Piece] = []
        self.sequence = 0
        self.state = (state or directory) / "checkpoint.sqlite"
        self._patterns = [str(directory / pattern) for pattern in patterns]
        self.retained: RetainedFiles | None = options.pop("retained", None)
        edits = options.pop("edits", NO_EDITS)
        cut = edits.cut(options.pop("block", 4096), line_a_piece=options.pop("plain", False))
        excluded = [name if "/" not in name else str(directory / name) for name in options.pop("exclude", ())]
        self.following = Following(watched=Watched.of(self._patterns, excluded), cut=cut, **options)
        if started:
            self.start()

    def start(self) -> None:
        self.checkpoints = Checkpoints(self.state)
        clocks = {"clock": lambda: self.now, "wall": lambda: self.wall}
        self.sources = new_tailer(self.following, self.checkpoints, self.retained, **clocks)
        self.sources.resume(self.checkpoints.load())
        self.sources.scan()

    def kill(self) -> None:
        """kill -9: what was not saved is forgotten."""
        self.sources.close()
        self.checkpoints.close()
        self.window = []

    def restart(self, *, while_down: Callable[[], object] = lambda: None) -> None:
        self.kill()
        while_down()
        self.start()

    def read(self, budget: int = 1 << 20) -> list[Piece]:
        pieces = list(self.sources.read_scheduler.pieces(budget))
        self.window += pieces
        return pieces

    def read_all(self) -> list[Piece]:
        pieces: list[Piece] = []
        while more := self.read():
            pieces += more
        return pieces

    def deliver(self) -> None:
        """All that is in flight reaches the collector, whether for the first time or again."""
        for piece in self.window:
            self.archive.take(piece)

    def acknowledge(self, count: int | None = None) -> None:
        settled = self.window[:count]
        self.window = self.window[len(settled) :]
        for piece in settled:
            self.sequence += 1
            self.sources.ended_files.acknowledged(piece, self.sequence)

    def save(self) -> None:
        self.checkpoints.save(self.sources.acks.take_unsaved())

    def ship(self) -> None:
        """Scan once, then read, deliver and acknowledge everything."""
        self.sources.scan()
        while self.read():
            self.deliver()
            self.acknowledge()
        self.sources.ended_files.retire()
        self.save()

    def let_go(self) -> None:
        """Let so much time pass that files which lost their names end."""
        for _ in range(4):
            self.now += self.following.rotate_wait + 0.1
            self.ship()

    @property
    def open_files(self) -> int:
        return len(list(self.sources.readers))


def partly_shipped(host: Host) -> None:
    """Ship the first blocks."""
    host.read(3000)
    host.deliver()
    host.acknowledge()
    host.save()


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def shift(path: Path, suffix: str = "", *, keep: int = 9) -> None:
    """Rename the rotated files of `path`: .8 -> .9, ..., .1 -> .2."""
    for number in range(keep - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}{suffix}")
        if older.exists():
            older.rename(path.with_name(f"{path.name}.{number + 1}{suffix}"))


def rotate(path: Path, *, keep: int = 9) -> None:
    """As logrotate does without copytruncate and compression: .8 -> .9, ..., app.log -> .1; nothing new is created."""
    shift(path, keep=keep)
    path.rename(path.with_name(f"{path.name}.1"))


def copytruncate(path: Path) -> None:
    shift(path)
    path.with_name(f"{path.name}.1").write_bytes(path.read_bytes())
    os.truncate(path, 0)


# -- a whole pipeline on a server in memory ------------------------------------------------------------------------

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
