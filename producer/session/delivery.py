"""The way of bytes from a file to the checkpoint.

    read -> open (in flight; the bytes are kept) -> send -> take_acks (JetStream has stored them) -> save (checkpoint)

A kill between any two of these steps loses nothing: the next process reads and sends again what the checkpoint lacks,
and the collector drops duplicates.
"""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from producer.batcher import Batch
from producer.checkpoint.ack_tracker import CheckpointSaver
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.discovery.watcher import Wake
from producer.inputs.spool import Progress
from producer.model import Destination, Entry, Piece
from producer.options import Task
from producer.tailer.tailer import Tailer, new_tailer
from producer.transform.time_budget import OverBudget
from shipper import events
from shipper.errors import SessionLost
from shipper.ports import Publisher

MAX_ENTRIES = 4096
ENTRY_BYTES = 1024
"""Added for each block: headers and bookkeeping, so that many small blocks count, too."""


class Window:
    """The in-flight entries of one host, oldest first, limited in bytes and number. Owned by the sender."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._open: deque[tuple[int, Entry, float]] = deque()
        self._bytes = 0
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    @property
    def room(self) -> bool:
        """Whether more may be read."""
        return self._bytes < self._max_bytes and len(self._open) < MAX_ENTRIES

    @property
    def bytes(self) -> int:
        """Payload bytes in flight."""
        return self._bytes

    def open(self, entry: Entry, now: float) -> int:
        """Put `entry` in flight; returns its token, which grows by one."""
        token, self._next = self._next, self._next + 1
        self._open.append((token, entry, now))
        self._bytes += len(entry.payload) + ENTRY_BYTES
        return token

    def settle(self, token: int) -> Entry:
        """The entry of `token`, which must be the oldest in flight. Raises SessionLost if it is not."""
        if not self._open or self._open[0][0] != token:
            raise SessionLost(f"ack for block {token} came out of order")
        _, entry, _ = self._open.popleft()
        self._bytes -= len(entry.payload) + ENTRY_BYTES
        return entry

    @property
    def sources(self) -> set[str]:
        """The sources that have blocks in flight."""
        return {entry.piece.source for _, entry, _ in self._open}

    def end_of(self, source: str) -> int:
        """End offset of the newest block of a source in flight; 0: none is."""
        return max(
            (e.piece.span.end for _, e, _ in self._open if e.piece.source == source and e.piece.span.length), default=0
        )

    @property
    def oldest_sent_at(self) -> float:
        """Monotonic time at which the oldest entry was sent; there must be one."""
        return self._open[0][2]

    def check_late(self, now: float, ack_timeout: float) -> None:
        """Raise SessionLost if the oldest entry has waited for longer than `ack_timeout` seconds."""
        if self._open and now >= self.oldest_sent_at + ack_timeout:
            raise SessionLost(f"no ack for {ack_timeout:.0f} s")

    def again(self, now: float) -> Iterator[tuple[int, Entry]]:
        """Every entry in order, to be sent again by a new session at `now` (go-back-N)."""
        self._open = deque((token, entry, now) for token, entry, _ in self._open)
        for token, entry, _ in list(self._open):
            yield token, entry

    def clear(self) -> None:
        """Remove everything: it is read again."""
        self._open.clear()
        self._bytes = 0


ALL_AT_ONCE = MAX_ENTRIES
ONE_AT_FIRST = 1
"""Blocks that are sent first after a refusal: a full stream would refuse the whole window each time."""


class Sender:
    """Sends what is in `window` to `destination`. Owned by `Delivery`."""

    def __init__(self, task: Task, destination: Destination, window: Window, wake: Wake) -> None:
        self._task = task
        self._destination = destination
        self.window = window
        self._wake = wake

    def open(self, batch: Batch) -> list[int]:
        """Put a batch in flight; returns the tokens of its blocks."""
        return [self.window.open(entry, time.monotonic()) for entry in batch]

    async def send(self, publisher: Publisher, tokens: list[int], batch: Batch) -> None:
        """Send a batch that is in flight."""
        for token, entry in zip(tokens, batch, strict=True):
            await self._publish(publisher, token, entry)

    async def send_again(self, publisher: Publisher, at_once: int, settle: Callable[[], Awaitable[None]]) -> None:
        """Send all that is in flight: `at_once` blocks, and twice as many whenever those are stored.

        `settle` takes the acks that arrived, and runs periodic tasks. Raises SessionLost: an ack is late.
        """
        entries = list(self.window.again(time.monotonic()))
        while entries:
            while len(self.window) > len(entries):
                await self._wake.wait(self._task.poll)
                await settle()
                self.window.check_late(time.monotonic(), self._task.ack_timeout)
            for token, entry in entries[:at_once]:
                await self._publish(publisher, token, entry)
            entries, at_once = entries[at_once:], at_once * 2

    async def _publish(self, publisher: Publisher, token: int, entry: Entry) -> None:
        await publisher.publish(token, self._destination.subject, entry.headers, entry.payload)


class Shipped:
    """Files, lines and bytes that the server acknowledged. Owned by the pipeline.

    Bytes that are sent again because the server lost them count once. `inputs`: archive names of inputs without a file.
    """

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = frozenset(inputs)
        self._ends: dict[str, int] = {}  # by source: acknowledged up to there
        self._files: set[str] = set()
        self.lines = 0
        self.bytes = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """Count acknowledged blocks."""
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        piece = entry.piece
        before = self._ends.get(piece.source, piece.span.start)
        if piece.span.end <= before:
            return
        self._ends[piece.source] = piece.span.end
        self._files.add(piece.file if piece.file in self._inputs else piece.source)
        self.bytes += piece.span.end - max(before, piece.span.start)
        self.lines += entry.lines

    @property
    def files(self) -> int:
        """Files of which anything was shipped; an input without a file counts as one."""
        return len(self._files)


class ResendQueue:
    """Offsets that sources must go back to, once no thread reads. Owned by `Delivery`."""

    def __init__(self, rouse: Callable[[], None]) -> None:
        self._rouse = rouse
        self._offsets: dict[str, int] = {}

    @property
    def is_any(self) -> bool:
        """Whether a source must go back."""
        return bool(self._offsets)

    def add(self, source: str, start: int) -> None:
        """A source must be sent again from `start` on."""
        self._offsets[source] = min(start, self._offsets.get(source, start))
        self._rouse()

    def take(self) -> dict[str, int]:
        """The offset of each source; they are removed."""
        offsets, self._offsets = self._offsets, {}
        return offsets


class Delivery:
    """The files of a host, their blocks in flight, and their checkpoint. Owned by the pipeline.

    `tailer` is replaced by `reopen`: read it again after each wait.
    """

    def __init__(
        self, task: Task, checkpoints: Checkpoints, tailer: Tailer, sender: Sender, saver: CheckpointSaver,
        resends: ResendQueue, shipped: Shipped,
    ) -> None:  # fmt: skip
        self._task = task
        self._checkpoints = checkpoints
        self.tailer = tailer
        self._sender = sender
        self._saver = saver
        self.resends = resends
        self.shipped = shipped  #: with `once`: what the server acknowledged
        self._acknowledged: list[Callable[[Sequence[Entry]], None]] = []
        if task.following.once:
            self.on_acknowledged(shipped.add)

    @property
    def window(self) -> Window:
        """What is in flight."""
        return self._sender.window

    def on_acknowledged(self, note: Callable[[Sequence[Entry]], None]) -> None:
        """Call `note` with the blocks whenever JetStream has stored some."""
        self._acknowledged.append(note)

    def start(self) -> None:
        """Continue with the sources of the checkpoint."""
        self.tailer.resume(self._checkpoints.load())

    def close(self) -> None:
        """Save the checkpoint, and close the files."""
        self.tailer.retire()
        self._saver.save_last(self.tailer.acks)
        self.tailer.close()

    # -- the steps --------------------------------------------------------------------------------------------------

    def read(self, at_most: int) -> Iterable[Piece]:
        """Bytes of files under the names that they have in the archive. Called in the reader's thread."""
        return map(self._task.following.named, self.tailer.pieces(at_most))

    def put_back(self, error: OverBudget) -> None:
        """The piece that was read last cannot be edited now: it is read again later."""
        self.tailer.put_back(error)

    def open(self, batch: Batch) -> list[int]:
        """Put a batch in flight; returns the tokens of its blocks. If sending fails, the next session sends it."""
        return self._sender.open(batch)

    async def send(self, session: Publisher, tokens: list[int], batch: Batch) -> None:
        """Send a batch that is in flight."""
        await self._sender.send(session, tokens, batch)

    async def send_again(
        self, session: Publisher, at_once: int, run_tasks: Callable[[Publisher], Awaitable[None]]
    ) -> None:
        """Send everything that is in flight again, taking acks. Raises SessionLost: an ack is late."""

        async def settle() -> None:
            self.take_acks(session)
            await run_tasks(session)

        await self._sender.send_again(session, at_once, settle)

    def take_acks(self, session: Publisher) -> None:
        """Take the PubAcks that arrived. Raises SessionLost, StreamFull, StreamMissing: after those before it."""
        entries: list[Entry] = []
        try:
            while acks := session.acknowledged():
                for ack in acks:
                    entry = self.window.settle(ack.token)
                    self.tailer.acknowledged(entry.piece, ack.sequence)
                    entries.append(entry)
        finally:
            if entries:
                for note in self._acknowledged:
                    note(entries)
                lines, octets = sum(each.lines for each in entries), sum(each.piece.span.length for each in entries)
                events.blocks_acknowledged(blocks=len(entries), lines=lines, octets=octets, in_flight=self.window.bytes)

    def check_late(self) -> None:
        """Raises SessionLost: the oldest block in flight waits too long for its PubAck."""
        self.window.check_late(time.monotonic(), self._task.ack_timeout)

    @property
    def late_at(self) -> float | None:
        """Monotonic time at which `check_late` raises; None: nothing is in flight."""
        return self.window.oldest_sent_at + self._task.ack_timeout if len(self.window) else None

    @property
    def save_at(self) -> float:
        """Monotonic time of the next save."""
        return self._saver.next_at

    async def save_if_due(self) -> None:
        """Save the checkpoint if it is time."""
        await self._saver.save_if_due(self.tailer.acks)

    async def save(self) -> None:
        """Save the checkpoint now."""
        await self._saver.save(self.tailer.acks)

    # -- back to earlier bytes ----------------------------------------------------------------------------------------

    def reopen(self) -> None:
        """Start again from the checkpoint: what was in flight is read again. No thread may read meanwhile."""
        known = self._checkpoints.load()
        self.window.clear()
        self.tailer.close()
        following = replace(self._task.following, start_at_end=False)
        self.tailer = new_tailer(following, self._checkpoints, self.tailer.retained)
        self.tailer.resume(known)
        self.tailer.scan()

    def go_back_if_requested(self) -> None:
        """Let the sources go back that must be sent again, unless something is in flight that cannot be read again.

        Raises SessionLost: some went back; the next session sends from there.
        """
        if self.resends.is_any and self.tailer.may_all_be_read_again(self.window.sources):
            offsets = self.resends.take()
            with checkpoint_needed():
                self.tailer.acks.go_back(offsets)
                self.reopen()
            raise SessionLost("an archive lacks bytes that were acknowledged")

    def progress(self) -> Progress:
        """How far each source is acknowledged and saved."""
        return Progress.of(self.tailer.acks.known.values(), self.tailer.acks.unsaved_ids)
