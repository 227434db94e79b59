"""A collector's worker over streams in memory and a real archive below tmp_path.

harness = PartitionHarness(tmp_path)
log = Log(b"one\\ntwo\\n")                     # a source of a host, cut into blocks as a producer does
harness.send(log, 0, 8)
await harness.drain()
harness.text(log)                                # what the archive holds of its file
"""

import asyncio
import contextlib
import inspect
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.fleet import unpack, unsealed

from consumer.archive.directory import Layout
from consumer.archive.journal import Journal
from consumer.commit.applier import Applier
from consumer.commit.frame_cache import FrameCache
from consumer.commit.other_partitions import OtherPartitions
from consumer.commit.sink import Sink
from consumer.commit.store import Fence, PartitionStore
from consumer.model import PartitionOptions, Until
from consumer.partition.pace import RequestedPace
from consumer.partition.session_loop import SessionLoop
from consumer.pipeline import Worker, make_worker
from consumer.segments.sealer import Sealer
from shipper import codec, layout, manifest
from shipper.compression import Compressor
from shipper.lifecycle import Pulse, Stop
from shipper.model import Block, Encoding, End, Span
from shipper.retry import Patience
from shipper.testing import Bus, Clock, MemoryInbox, MemoryPublisher

HOST = "web1.example.net"
FILE = "/var/log/app.log"


OPTIONS: dict[str, Any] = {
    "partition": 0, "stream": "LOGS_0", "output": "messages.log", "batch_bytes": 1 << 20,
    "segment_bytes": 1 << 30, "idle_seal": 1e9, "replay_window": 1e9, "hole_patience": 0.02,
    "hole_limit": 1e9, "receipt_every": 1e9,
}  # fmt: skip


class LocalFence:
    """The right to write a partition that no other process can claim."""

    async def hold(self) -> None:
        """Return."""

    async def prove(self) -> None:
        """Return."""


def store_of(
    journal: Journal, sink: Sink, layout: Layout, fence: Fence | None = None, pulse: Pulse | None = None
) -> PartitionStore:
    """What partition 0 has on disk."""
    pulse = pulse or Pulse("partition 0")
    return PartitionStore(journal, sink, layout, OtherPartitions(0), fence or LocalFence(), pulse)


def applier_of(journal: Journal, sink: Sink) -> Applier:
    """An applier of partition 0 in Spark's layout."""
    options = PartitionOptions(until=Until.DRAINED, **OPTIONS)
    return Applier(options, store_of(journal, sink, Layout(sink.archive)), FrameCache("zstd", sink.archive))


class KilledError(Exception):
    """Stands for kill -9: nothing in the product catches it."""


@dataclass
class Log:
    """A source: all its bytes, and how they travel."""

    data: bytes
    id: str = "00000000000000a1"
    host: str = HOST
    file: str = FILE
    origin: int = 0
    encoding: Encoding = Encoding.ZSTD

    def message(
        self, start: int, end: int, *, last: End | None = None, gap: int = 0
    ) -> tuple[str, dict[str, str], bytes]:
        """Subject, headers and payload of the block of bytes `start` to `end`."""
        data = self.data[start:end]
        block = Block(
            source=self.id,
            file=self.file,
            span=Span(start, end),
            origin=self.origin,
            lines=data.count(b"\n"),
            block_crc=zlib.crc32(data),
            source_crc=zlib.crc32(self.data[self.origin : end]),
            encoding=self.encoding,
            read_at="2026-11-20T10:00:00Z",
            end=last,
            gap=gap,
        )
        return f"logs.p0.{self.host}", codec.to_headers(block), Compressor(self.encoding).encode(data)


class PartitionHarness:
    """One partition: its stream, its archive, and workers on them one after the other."""

    def __init__(
        self, directory: Path, *, template: str = "", codec: str = "zstd", frames: str = "none", **task: Any
    ) -> None:
        self.clock = Clock()  # the server's
        self.wall = Clock()  # the collector's
        self.bus = Bus(self.clock, longest_wait=0.01)
        self.stream = self.bus.add_stream("LOGS_0", "logs.p0.>")
        self.dead = self.bus.add_stream("DLQ", "dlq.>")
        self.told: list[Any] = []  # receipts that came unasked
        self.inbox: Callable[[Bus, str], MemoryInbox] = MemoryInbox
        self.archive = directory / "archive"
        self.archive.mkdir(exist_ok=True)
        self.journal_path = directory / "journal.sqlite"
        self.layout = Layout(self.archive, template, frames=frames)
        self.open_files = 8
        self.patience = 15.0  # seconds of trouble after which a collector gives up; longer than a busy machine needs
        self.fence: Fence = LocalFence()
        self.sealer = Sealer(self.archive, collector="here", codec=codec)
        self.pace = RequestedPace()
        self.task: dict[str, Any] = OPTIONS | task

    # -- the stream ---------------------------------------------------------------------------------------------

    def send(self, log: Log, *borders: int, last: End | None = None, gap: int = 0) -> int:
        """Blocks between these offsets reach the stream; the sequence of the last one."""
        return [self.bus.store(*log.message(*span, last=last, gap=gap)) for span in pairwise(borders)][-1]

    def ship(self, log: Log, size: int) -> None:
        """All of a source reaches the stream in blocks of `size` bytes."""
        self.send(log, *range(0, len(log.data), size), len(log.data))

    def say(self, line: bytes, host: str = HOST) -> int:
        """A plain message reaches the stream."""
        return self.bus.store(f"logs.p0.{host}", {}, line)

    def producer(self, host: str, answer: Callable[[dict[str, Any]], Any]) -> MemoryPublisher:
        """A client that answers requests to `host`; what `answer` returns may be awaitable."""
        session = MemoryPublisher(self.bus, "LOGS_0")

        async def heard(_subject: str, question: Any) -> Any:
            if "ask" not in question:
                self.told.append(question)
                return None
            answered = answer(question)
            return await answered if inspect.isawaitable(answered) else answered

        self.bus.listen(session, f"ctl.down.{host}", heard)
        return session

    # -- the collector ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def worker(self, until: Until = Until.DRAINED, *, stop: Stop | None = None, **task: Any) -> Iterator[Worker]:
        """A worker; leaving the block is what the end of its process is."""

        async def open_inbox() -> MemoryInbox:
            return self.inbox(self.bus, "LOGS_0")

        options, pulse = PartitionOptions(until=until, **(self.task | task)), Pulse("partition 0")
        sink = Sink(self.archive, open_files=self.open_files, links=self.layout.seals)
        store = store_of(Journal(self.journal_path), sink, self.layout, self.fence, pulse)
        sessions = SessionLoop(
            options, open_inbox, stop or Stop(), Patience(at_start=self.patience, later=self.patience), pulse
        )
        worker = make_worker(options, store, self.sealer, sessions, self.pace, self.wall)
        try:
            yield worker
        finally:
            store.close()

    async def drain(self, until: Until = Until.DRAINED, **task: Any) -> None:
        """A collector runs until the stream is read to its end."""
        with self.worker(until, **task) as worker:
            await asyncio.wait_for(worker.run(), 20)

    @contextlib.asynccontextmanager
    async def running(self, **task: Any) -> Any:
        """A collector that runs while the block does."""
        stop = Stop()
        with self.worker(Until.STOPPED, stop=stop, **task) as worker:
            running = asyncio.create_task(worker.run())
            try:
                yield worker
            finally:
                stop.request()
                await asyncio.wait_for(running, 20)

    async def die(self, **task: Any) -> None:
        """A collector runs until the `KilledError` that the test has put in its way."""
        with self.worker(**task) as worker:
            try:
                await asyncio.wait_for(worker.run(), 20)
            except KilledError:
                return
        raise AssertionError("nothing killed it")

    # -- the archive --------------------------------------------------------------------------------------------

    def text(self, log: Log | None = None, *, host: str = HOST, file: str = FILE) -> bytes:
        """All of one file: sealed, being sealed, open."""
        host, file = (log.host, log.file) if log else (host, file)
        sealed = [
            unpack(self.archive / each.path) for each in self.segments() if (each.host, each.file) == (host, file)
        ]
        listed = {each.path for each in self.segments()}
        parent, name = layout.escape(host), layout.file_name(file)
        beside = sorted(self.archive.glob(f"date=*/partition=0/host={parent}/_*"))
        opened = [path for path in beside if path.name in {f"_open-{name}{suffix}" for suffix in ("", ".zst", ".gz")}]
        waiting = [
            path
            for path in beside
            if path.name.startswith(f"_sealing-{name}-")
            and str(path.relative_to(self.archive)).replace("_sealing-", "") not in listed
        ]
        return b"".join([*sealed, *map(unsealed, (*waiting, *opened))])

    def segments(self) -> list[manifest.Segment]:
        """Every manifest line, in the order of the segments' names."""
        lines = [
            line
            for path in sorted(self.archive.glob("_manifest/date=*/*.jsonl"))
            for line in path.read_bytes().splitlines()
        ]
        return sorted(map(manifest.from_line, lines), key=lambda segment: segment.path)

    def gaps(self) -> list[tuple[int, int, str]]:
        """What the segments lack, and why."""
        return [(gap.start, gap.end, gap.reason) for segment in self.segments() for gap in segment.gaps]

    def journal(self) -> "contextlib.AbstractContextManager[Journal]":
        """What is remembered, between two collectors."""
        return contextlib.closing(Journal(self.journal_path))

    def files(self) -> set[str]:
        """Every file and link of the archive, relative to it."""
        return {str(path.relative_to(self.archive)) for path in self.archive.rglob("*") if not path.is_dir()}


def kill_at(monkeypatch: Any, owner: object, name: str, *, after: bool = False) -> None:
    """The next call of `owner.name` is where the process dies: before it does anything, or after it."""
    original = getattr(owner, name)

    def killed(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, original)
        if after:
            original(*arguments, **named)
        raise KilledError(name)

    monkeypatch.setattr(owner, name, killed)


def cuts(data: bytes, size: int) -> list[tuple[int, int]]:
    """The spans of blocks of about `size` bytes."""
    return [(start, min(start + size, len(data))) for start in range(0, len(data), size)]
