"""Read, send, wait for the server's word, move the checkpoint: the promise of the producer, in that order.

    sources.read -> encode -> window.open -> publish          (a block is in flight, its bytes are kept)
    acknowledged -> window.settle -> sources.acknowledged     (JetStream has it)
    checkpoints.save                                          (we remember that it has)

A kill at any line loses nothing: what is not in the checkpoint is read and sent again, and the collector drops what
it has already.
"""

import asyncio
import datetime as dt
import math
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from producer import discover
from producer.checkpoints import CHECKPOINT_ERRORS, Checkpoints
from producer.recover import prove, receipt_of
from producer.resume import agree, receipts
from producer.source import Source
from producer.sources import Following, Sources
from producer.tail import Piece
from producer.wake import Wake, Watcher
from producer.window import Entry, Window
from shipper import codec, events
from shipper.compression import Compressor
from shipper.errors import SessionLost, StreamFull, StreamMissing, Transient, Unavailable
from shipper.lifecycle import Stop, notify
from shipper.model import Block
from shipper.ports import Publisher
from shipper.retry import FULL, SESSION, Patience
from shipper.subjects import control_down, log_subject

READ_BYTES = 1024 * 1024
"""Read and encoded in one go by the reading thread."""
LINGER_SECONDS = 0.02
"""Behind a hint: lines that are written one by one travel together."""
DRAIN_NAP_SECONDS = 0.5
MIN_NAP_SECONDS = 0.001

Begin = Callable[[], Awaitable[Publisher]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one producer does."""

    host: str
    partition: int
    prefix: str
    following: Following
    compressor: Compressor
    window_bytes: int
    poll: float
    watch: bool
    ack_timeout: float
    checkpoint_every: float
    drain_within: float
    patience: Patience

    @property
    def subject(self) -> str:
        """Where the host publishes."""
        return log_subject(self.prefix, self.partition, self.host)


class Pipeline:
    """One producer: it owns the sources, the window and the checkpoint."""

    def __init__(self, task: Task, checkpoints: Checkpoints, begin: Begin, stop: Stop) -> None:
        self._task = task
        self._checkpoints = checkpoints
        self._begin = begin
        self._stop = stop
        self._wake = Wake()
        self._window = Window(task.window_bytes)
        self._sources = Sources(task.following, checkpoints)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._next_look = 0.0
        self._next_save = 0.0
        self._watcher = Watcher(self._wake)
        self._patience = task.patience
        self._trouble = "no session with the server yet"
        self._asked_back: dict[str, int] = {}

    async def run(self) -> None:
        """Ship until stopped, or with `once` to the ends of the files. Raises Fatal, and Unavailable with `once`."""
        self._stop.on_ask(self._wake.rouse)
        try:
            self._sources.adopt(self._checkpoints.load())
            self._sources.scan()
            await self._run_sessions()
        finally:
            self._watcher.close()
            self._reader.shutdown(wait=True)
            self._save(self._sources.unsaved())
            self._sources.close()
            events.drained(program="producer", left=len(self._window))

    def status(self) -> dict[str, Any]:
        """What the producer does now, for people and scripts."""
        return {
            "host": self._task.host,
            "subject": self._task.subject,
            "sources": len(self._sources.known),
            "in_flight_blocks": len(self._window),
            "in_flight_bytes": self._window.bytes,
            "backlog_bytes": self._sources.backlog_bytes,
        }

    def ready(self) -> str:
        """Why there is no working session with the server; empty while there is one."""
        return self._trouble

    # -- sessions -----------------------------------------------------------------------------------------------

    async def _run_sessions(self) -> None:
        """One session after the other until the work is done; trouble inside one leads to the next."""
        while not self._done():
            try:
                await self._session()
            except (Transient, Unavailable) as error:
                self._trouble = str(error)
                await self._pause(error)

    async def _session(self) -> None:
        publisher = await self._begin()
        try:
            await self._serve(publisher)
        finally:
            await publisher.close()

    async def _pause(self, error: Transient | Unavailable) -> None:
        policy = FULL if isinstance(error, StreamFull | StreamMissing) else SESSION
        delay = self._patience.after(error, policy)
        events.session_ended(program="producer", error=str(error), hint=error.hint, retry_in=delay)
        if self._stop.asked:
            await asyncio.sleep(min(delay, DRAIN_NAP_SECONDS))
        else:
            await self._stop.nap(delay)

    async def _serve(self, publisher: Publisher) -> None:
        publisher.on_news(self._wake.rouse)
        await self._handshake(publisher)
        await publisher.listen(control_down(self._task.host), self._heard)
        for token, entry in self._window.again(time.monotonic()):
            await publisher.publish(token, self._task.subject, entry.headers, entry.payload)
        self._trouble = ""
        self._patience.served()
        events.session_begun(program="producer", subject=self._task.subject)
        notify("READY=1")
        await self._ship(publisher)

    async def _handshake(self, publisher: Publisher) -> None:
        task = self._task
        if self._checkpoints.fresh:
            await self._recover(publisher)
            self._checkpoints.begin_use()
        if not await agree(publisher, self._sources, subject=task.subject, host=task.host, partition=task.partition):
            self._reopen()

    async def _recover(self, publisher: Publisher) -> None:
        """A checkpoint that did not exist: new here, or lost? What archive and stream know of our files decides."""
        task = self._task
        last = await publisher.last_stored(task.subject)
        known = await receipts(publisher, task.host, task.partition) if last else []
        newest = receipt_of(last) if last else None
        candidates = [*known, *([newest] if newest else [])]
        found = await asyncio.to_thread(prove, candidates, sequence=last.sequence if last else 0)
        if found:
            self._checkpoints.clear()
            self._checkpoints.save(found)
            self._reopen()

    def _reopen(self) -> None:
        """Begin anew from the checkpoint: what was in flight is read again."""
        self._window.clear()
        self._sources.close()
        self._sources = Sources(replace(self._task.following, start_at_end=False), self._checkpoints)
        self._sources.adopt(self._checkpoints.load())
        self._sources.scan()

    async def _heard(self, _subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A collector asks for bytes that it misses: go back to them if their source is still known."""
        source = self._sources.known.get(str(message.get("source", "")))
        if message.get("ask") != "resend":
            return None
        if source is None:
            return {"v": 1, "answer": "gone"}
        self._asked_back[source.id] = int(message.get("from", 0))
        self._wake.rouse()
        return {"v": 1, "answer": "resent"}

    # -- one session --------------------------------------------------------------------------------------------

    async def _ship(self, publisher: Publisher) -> None:
        """The main loop: acks in, looks, blocks out; reading and encoding run one load ahead in their own thread."""
        load: asyncio.Future[list[Entry]] | None = None
        try:
            while True:
                self._settle(publisher)
                await self._save_if_due()
                if load is None:
                    self._go_back_if_asked()
                    self._look_if_due()
                    load = self._read_ahead()
                if load is not None:
                    entries, load = await load, None
                    if not (self._look_is_due() or self._asked_back):
                        load = self._read_ahead(len(entries))
                    await self._send(publisher, entries)
                elif self._done():
                    return
                else:
                    self._check_late()
                    await self._rest()
        finally:
            if load is not None:  # read, so the sources have moved on: it must be in flight, or it would be skipped
                self._open(await load)

    def _settle(self, publisher: Publisher) -> None:
        blocks = lines = octets = 0
        try:
            while acks := publisher.acknowledged():
                for ack in acks:
                    entry = self._window.settle(ack.token)
                    self._sources.acknowledged(entry.piece, ack.sequence)
                    blocks, lines, octets = blocks + 1, lines + entry.lines, octets + entry.piece.span.length
        finally:
            if blocks:
                self._patience.progress()
                events.blocks_acknowledged(blocks=blocks, lines=lines, octets=octets, in_flight=self._window.bytes)

    def _read_ahead(self, sending: int = 0) -> "asyncio.Future[list[Entry]] | None":
        if self._stop.asked or not self._window.room or (not sending and self._sources.idle):
            return None
        return asyncio.get_running_loop().run_in_executor(self._reader, self._read)

    def _read(self) -> list[Entry]:
        read_at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return [self._encode(piece, read_at) for piece in self._sources.read(READ_BYTES)]

    def _encode(self, piece: Piece, read_at: str) -> Entry:
        lines = piece.data.count(b"\n")
        block = Block(
            source=piece.source,
            file=piece.file,
            span=piece.span,
            origin=piece.origin,
            lines=lines,
            block_crc=zlib.crc32(piece.data),
            source_crc=piece.source_crc,
            encoding=self._task.compressor.encoding,
            read_at=read_at,
            end=piece.end,
            gap=piece.gap,
        )
        payload = self._task.compressor.encode(piece.data)
        return Entry(piece._replace(data=b""), codec.to_headers(block), payload, lines)

    def _open(self, entries: list[Entry]) -> list[int]:
        now = time.monotonic()
        return [self._window.open(entry, now) for entry in entries]

    async def _send(self, publisher: Publisher, entries: list[Entry]) -> None:
        """Put all of a load in flight, then publish it: what fails here is sent again by the next session."""
        for token, entry in zip(self._open(entries), entries, strict=True):
            await publisher.publish(token, self._task.subject, entry.headers, entry.payload)

    # -- what is due --------------------------------------------------------------------------------------------

    def _look_is_due(self) -> bool:
        return time.monotonic() >= self._next_look or self._wake.names_changed

    def _look_if_due(self) -> None:
        grown = self._wake.take_grown()
        if self._look_is_due():
            self._wake.names_changed = False
            following = self._task.following
            self._next_look = time.monotonic() + (math.inf if following.once else self._task.poll)
            self._sources.scan()
            if self._task.watch and not following.once:
                self._watcher.watch(discover.directories(following.watched))
        elif grown:
            self._sources.grown(grown)

    async def _save_if_due(self) -> None:
        if self._sources.has_unsaved and time.monotonic() >= self._next_save:
            self._next_save = time.monotonic() + self._task.checkpoint_every
            await asyncio.to_thread(self._save, self._sources.unsaved())

    def _save(self, changed: list[Source]) -> None:
        try:
            self._checkpoints.save(changed)
        except CHECKPOINT_ERRORS as error:
            self._sources.unsave(changed)
            events.checkpoint_failed(error=str(error))

    async def _rest(self) -> None:
        """Sleep until there is news, or something is due."""
        due = min(self._next_look, self._next_save) if self._sources.has_unsaved else self._next_look
        await self._wake.wait(max(MIN_NAP_SECONDS, min(due - time.monotonic(), self._task.poll)))
        if self._wake.has_hints and self._sources.idle:
            await asyncio.sleep(LINGER_SECONDS)

    def _check_late(self) -> None:
        if self._window.sent_before(time.monotonic() - self._task.ack_timeout):
            raise SessionLost(f"no ack for {self._task.ack_timeout:.0f} s")

    def _go_back_if_asked(self) -> None:
        if self._asked_back:
            asked, self._asked_back = self._asked_back, {}
            self._sources.go_back(asked)
            self._reopen()
            raise SessionLost("a collector asked for bytes again")

    def _done(self) -> bool:
        nothing_in_flight = not len(self._window)
        if self._stop.asked:
            return nothing_in_flight or self._stop.asked_for > self._task.drain_within
        return self._task.following.once and nothing_in_flight and self._sources.idle
