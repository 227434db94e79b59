"""The way of bytes from a file to the checkpoint.

    read -> open (in flight; the bytes are kept) -> send -> take_acks (JetStream has stored them) -> save (checkpoint)

A kill between any two of these steps loses nothing: the next process reads and sends again what the checkpoint lacks,
and the collector drops duplicates.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from producer.batcher import Batch
from producer.checkpoint.ack_tracker import CheckpointSaver
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.discovery.watcher import Wake
from producer.inputs.spool import Progress
from producer.model import Destination, Entry, Piece
from producer.options import Task
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.tailer import new_tailer
from shipper import events
from shipper.errors import SessionLost
from shipper.ports import Publisher

MAX_MESSAGES = 4096
ENTRY_BYTES = 1024
"""Added for each message: headers and bookkeeping, so that many small blocks count, too."""

GROWTH = 16
"""Acknowledged bytes for each byte by which a reduced in-flight window grows."""

InFlight = tuple[int, Entry]
"""An entry with its token."""


class Window:
    """The in-flight entries of one host, oldest first, limited in bytes and number. Owned by `Delivery`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._limit_bytes = max_bytes  # at most `max_bytes`, less after the server was busy
        self._open: deque[tuple[int, Entry, float]] = deque()
        self.bytes = 0  #: of payloads and `ENTRY_BYTES` in flight
        self._messages = 0
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    @property
    def has_capacity(self) -> bool:
        """Whether more may be read."""
        return self.bytes < self._limit_bytes and self._messages < MAX_MESSAGES

    def open(self, entry: Entry, now: float) -> int:
        """Put `entry` in flight. Returns its token, which grows by one."""
        token, self._next = self._next, self._next + 1
        self._open.append((token, entry, now))
        self.bytes += _size(entry)
        self._messages += entry.messages
        return token

    def settle(self, token: int) -> Entry:
        """The entry of `token`, which must be the oldest in flight. Raises SessionLost if it is not."""
        if not self._open or self._open[0][0] != token:
            raise SessionLost(f"ack for block {token} came out of order")
        _, entry, _ = self._open.popleft()
        size = _size(entry)
        self.bytes -= size
        self._messages -= entry.messages
        self._limit_bytes = min(self._limit_bytes + size // GROWTH, self._max_bytes)
        return entry

    def halve(self) -> None:
        """Put half as much in flight from now on. Acks raise it again."""
        self._limit_bytes = max(self.bytes // 2, 1)  # one block is always possible

    @property
    def sources(self) -> set[str]:
        """The sources that have blocks in flight."""
        return {entry.piece.source for _, entry, _ in self._open}

    def end_of(self, source: str) -> int:
        """End offset of the newest block of a source in flight. 0: none is."""
        pieces = (entry.piece for _, entry, _ in self._open if entry.piece.source == source)
        return max((piece.span.end for piece in pieces if piece.span.length), default=0)

    @property
    def oldest_sent_at(self) -> float:
        """Monotonic time at which the oldest entry was sent. There must be one."""
        return self._open[0][2]

    def again(self, now: float) -> list[InFlight]:
        """Every entry in order, to be sent again by a new session at `now` (go-back-N)."""
        self._open = deque((token, entry, now) for token, entry, _ in self._open)
        return [(token, entry) for token, entry, _ in self._open]

    def clear(self) -> None:
        """Remove everything: it is read again."""
        self._open.clear()
        self.bytes = self._messages = 0


def _size(entry: Entry) -> int:
    return entry.size + ENTRY_BYTES * entry.messages


ALL_AT_ONCE = MAX_MESSAGES
ONE_AT_FIRST = 1
"""Blocks that are sent first after a refusal: a full stream would refuse the whole window each time."""


@dataclass(slots=True)
class Shipped:
    """Files, lines and bytes that the server acknowledged. Owned by `Delivery`.

    Bytes that are sent again because the server lost them count once. An input without a file counts as one file.
    """

    inputs: frozenset[str]  #: archive names of inputs without a file
    files: set[str] = field(default_factory=set)  #: of which anything was shipped
    lines: int = 0
    bytes: int = 0
    redacted: Counter[str] = field(default_factory=Counter)  #: how often each rule of redaction fired
    ends: dict[str, int] = field(default_factory=dict)  #: by source: acknowledged up to there

    def add(self, entries: Iterable[Entry]) -> None:
        """Count acknowledged blocks."""
        for entry in entries:
            piece = entry.piece
            before = self.ends.get(piece.source, piece.span.start)
            if piece.span.end > before:
                self.ends[piece.source] = piece.span.end
                self.files.add(piece.file if piece.file in self.inputs else piece.source)
                self.bytes += piece.span.end - max(before, piece.span.start)
                self.lines += entry.lines
                self.redacted.update(entry.redacted)


class Delivery:
    """The files of a host, their blocks in flight, and their checkpoint. Owned by the pipeline.

    `tailer` is replaced by `reopen`: read it again after each wait.
    """

    def __init__(
        self,
        task: Task,
        checkpoints: Checkpoints,
        destination: Destination,
        wake: Wake,
        retained: RetainedFiles | None = None,
    ) -> None:
        self._task = task
        self._checkpoints = checkpoints
        self._destination = destination
        self.tailer = new_tailer(task.following, checkpoints, retained)
        self._wake = wake
        self.window = Window(task.window_bytes)  #: what is in flight
        self._saver = CheckpointSaver(task.checkpoint_every)
        self._resends: dict[str, int] = {}  # by source: the offset to go back to
        self.shipped = Shipped(frozenset(task.following.spools.values()))  #: with `once`: what the server acknowledged
        self._acknowledged: list[Callable[[Sequence[Entry]], None]] = []
        if task.following.once:
            self.on_acknowledged(self.shipped.add)

    def on_acknowledged(self, note: Callable[[Sequence[Entry]], None]) -> None:
        """Call `note` with the blocks whenever JetStream has stored some."""
        self._acknowledged.append(note)

    def start(self) -> None:
        """Continue with the sources of the checkpoint."""
        self.tailer.resume(self._checkpoints.load())

    def close(self) -> None:
        """Save the checkpoint, and close the files."""
        self.tailer.ended_files.retire()
        self.tailer.acks.save(self.tailer.acks.take_unsaved())
        self.tailer.close()

    # -- the steps --------------------------------------------------------------------------------------------------

    def read(self, at_most: int) -> Iterable[Piece]:
        """Bytes of files, those of inputs under the names of the inputs. Called in the reader's thread."""
        return map(self._task.following.named, self.tailer.read_scheduler.pieces(at_most))

    def open(self, batch: Batch) -> list[InFlight]:
        """Put a batch in flight. If sending it fails, the next session sends it."""
        return [(self.window.open(entry, time.monotonic()), entry) for entry in batch]

    async def send(self, session: Publisher, blocks: Iterable[InFlight]) -> None:
        """Send blocks that are in flight."""
        for token, entry in blocks:
            if entry.by_line:
                await session.publish_lines(token, self._destination.subject, entry.by_line)
            else:
                await session.publish(token, self._destination.subject, entry.headers, entry.payload)

    async def send_again(
        self, session: Publisher, at_once: int, run_tasks: Callable[[Publisher], Awaitable[None]]
    ) -> None:
        """Send everything that is in flight again: `at_once` blocks, and twice as many whenever those are stored.

        Raises SessionLost: an ack is late.
        """
        blocks = self.window.again(time.monotonic())
        while blocks:
            while len(self.window) > len(blocks):
                await self._wake.wait(self._task.poll)
                self.take_acks(session)
                await run_tasks(session)
                self.check_late()
            await self.send(session, blocks[:at_once])
            blocks, at_once = blocks[at_once:], at_once * 2

    def take_acks(self, session: Publisher) -> None:
        """Take the PubAcks that arrived. Raises SessionLost, StreamFull, StreamMissing: after those before it."""
        entries: list[Entry] = []
        try:
            while acks := session.acknowledged():
                for ack in acks:
                    entry = self.window.settle(ack.token)
                    self.tailer.ended_files.acknowledged(entry.piece, ack.sequence)
                    entries.append(entry)
        finally:
            if entries:
                for note in self._acknowledged:
                    note(entries)
                lines, octets = sum(each.lines for each in entries), sum(each.piece.span.length for each in entries)
                blocks = sum(each.messages for each in entries)
                events.blocks_acknowledged(blocks=blocks, lines=lines, octets=octets, in_flight=self.window.bytes)

    @property
    def late_at(self) -> float:
        """Monotonic time at which the oldest block in flight has waited too long. Infinite: nothing is in flight."""
        return self.window.oldest_sent_at + self._task.ack_timeout if len(self.window) else math.inf

    def check_late(self) -> None:
        """Raises SessionLost: the oldest block in flight waits too long for its PubAck."""
        if time.monotonic() >= self.late_at:
            raise SessionLost(f"no ack for {self._task.ack_timeout:.0f} s")

    @property
    def save_at(self) -> float:
        """Monotonic time of the next save. Infinite while everything is saved."""
        return self._saver.next_at if self.tailer.acks.has_unsaved else math.inf

    async def save_if_due(self, _: Publisher | None = None) -> None:
        """Save the checkpoint if it is time."""
        await self._saver.save_if_due(self.tailer.acks)

    async def save(self) -> None:
        """Save the checkpoint now."""
        await self._saver.save(self.tailer.acks)

    async def retire(self, _: Publisher | None) -> None:
        """Close the files whose last block is acknowledged."""
        self.tailer.ended_files.retire()

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

    @property
    def must_resend(self) -> bool:
        """Whether a source must go back."""
        return bool(self._resends)

    def resend(self, source: str, start: int) -> None:
        """Let a source go back to `start`, once no thread reads."""
        self._resends[source] = min(start, self._resends.get(source, start))
        self._wake.rouse()

    async def go_back_if_requested(self, session: Publisher | None) -> None:
        """Let the sources go back that must be sent again, unless something is in flight that cannot be read again.

        Raises SessionLost: some went back; the next session sends from there.
        """
        if session is not None and self._resends and self.tailer.may_all_be_read_again(self.window.sources):
            offsets, self._resends = self._resends, {}
            with checkpoint_needed():
                self.tailer.acks.go_back(offsets)
                self.reopen()
            raise SessionLost("an archive lacks bytes that were acknowledged")

    def progress(self) -> Progress:
        """How far each source is acknowledged and saved."""
        return Progress.of(self.tailer.acks.known.values(), self.tailer.acks.unsaved_ids)
