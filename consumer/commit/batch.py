"""A batch of messages, from the decisions until the commit: what it changes, which files grow, what is counted.

`Applier` decides and fills it, `PartitionStore.write` writes its files, `Journal.commit` commits it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.archive.journal import Journal
from consumer.archive.stored_times import Mark, appended
from consumer.commit.host_budgets import HostBudgets
from consumer.commit.other_partitions import FoundSource
from consumer.commit.watermark import NOT_LOST, GivenUp, Grown, Lost
from consumer.model import ArchivedSource, Changes, Extent, Loss, OpenFile, Position, SourceKey
from shipper import codec
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.edit_map import Rest
from shipper.errors import ArchiveTrouble
from shipper.layout import NANOSECONDS, day_of
from shipper.model import MAX_BLOCK_BYTES, Block, Delivery, Span

Compress = Callable[[bytes], bytes]
WRITE_BYTES = 256 * 1024
"""Bytes of one file that are written before the batch ends. The text was just decompressed and is still in the cache
of the core. A full block is therefore written alone."""
MANY_PENDING = 64
"""Messages that are pending after the batch: as many full blocks as are written between two syncs. While more are
pending, the collector does not wait for the disk within a batch."""


class GrowingFile:
    """A file as it grows within one batch. Mutable, because a batch may be thousands of lines.

    With `compress` it holds frames: those of whole blocks as received, and one for all text between them.
    """

    def __init__(self, committed: OpenFile, compress: Compress | None = None, *, is_new: bool = False) -> None:
        self.path, self.key = committed.path, committed.key
        self.committed = committed  #: the appended bytes begin at its length
        self.is_new = is_new  #: it is not in the journal yet
        self.is_changed = False  #: by this batch; a new file that is not changed is not created
        self.spans: dict[str, list[Span]] = {}  #: by source: its bytes that this batch appends
        self._buffers: list[bytes] = []  # to be written; complete after `close`
        self.waiting_bytes = self._taken = 0  #: bytes in the buffers, and bytes that were taken out of them
        self._compress = compress
        self._loose = bytearray()  # text that is in no frame yet
        self.duplicates = committed.duplicates  #: blocks that were dropped, because the file has their bytes
        self._length, self._joins = committed.length, committed.joins
        self._first_seq, self._first_ns = committed.first_seq, committed.first_ns
        self._last_seq, self._last_ns = committed.last_seq, committed.last_ns
        self._last_source, self._ends_open = committed.last_source, committed.ends_open
        self._filtered, self._edited, self._labels = committed.filtered, committed.edited, committed.labels
        self.raw = committed.raw  #: bytes of text so far
        self._lines, self._crc = committed.lines, committed.crc
        self._mark, self._marks = Mark(committed.marked_at, committed.marked_second), committed.marks
        self._zone = committed.zone

    def change(self, delivery: Delivery) -> None:
        """Note that a message changes the file. Raises ArchiveTrouble: it is being sealed."""
        if self.committed.sealing:
            raise ArchiveTrouble(f"{self.path} is not sealed yet")
        self.is_changed = True
        if self.is_new:
            self._first_seq = self._last_seq = sequence = delivery.sequence
            self._first_ns = self._last_ns = time_ns = delivery.time_ns
            self.committed = replace(
                self.committed, first_seq=sequence, last_seq=sequence, first_ns=time_ns, last_ns=time_ns
            )

    def append(self, delivery: Delivery, source: str, data: bytes, frame: bytes = b"", crc: int | None = None) -> None:
        """Append `data` to the file. If another source ended without a newline, a newline is appended first.

        `frame` is exactly `data`, in the codec of the file's frames; `crc` is the CRC of `data`, if it is known.
        """
        if data:
            if self._ends_open and self._last_source != source:
                self._join()
            self._note_time(delivery.time_ns)
            self._put(data, frame, crc)
            self._last_source, self._ends_open = source, not data.endswith(b"\n")
        self._first_seq = min(self._first_seq, delivery.sequence)  # read again, for a hole that was given up
        self._last_seq = max(self._last_seq, delivery.sequence)
        self._first_ns = min(self._first_ns, delivery.time_ns)  # the server's clock may be set back
        self._last_ns = max(self._last_ns, delivery.time_ns)

    def _note_time(self, time_ns: int) -> None:
        """The text that is appended next was stored at `time_ns`: a mark, if the second is another one."""
        second = time_ns // NANOSECONDS
        if second != self._mark.second:
            mark = Mark(self.raw, second)
            self._marks += appended(mark, self._mark)
            self._mark = mark

    def append_block(self, delivery: Delivery, block: Block, source: str, new: Span, rest: Rest, frame: bytes) -> None:
        """Append `rest`, the text of the bytes `new` of a source, and count what was filtered, redacted or converted.

        Bytes of all spans = bytes of the file - joins + filtered + edited, also where blocks overlap.
        """
        if rest.begins_left_out and self._ends_open and self._last_source == source:
            self._join()  # the rest of the last line was filtered: its beginning becomes a line
        is_whole = block.edited is None and new == block.span
        self.append(delivery, source, rest.content, frame=frame, crc=block.block_crc if is_whole else None)
        self._filtered += rest.filtered
        self._edited += new.length - rest.filtered - len(rest.content)
        self._labels, self._zone = block.labels, block.zone
        spans = self.spans.setdefault(source, [])
        if spans and spans[-1].end == new.start:
            spans[-1] = Span(spans[-1].start, new.end)
        else:
            spans.append(new)

    def _join(self) -> None:
        self._put(b"\n")
        self._joins += 1
        self._ends_open = False

    def take(self) -> tuple[int, list[bytes]]:
        """Remove and return the buffers to write, and the offset to write them at."""
        offset = self.committed.length + self._taken
        buffers, self._buffers = self._buffers, []
        self._taken, self.waiting_bytes = self._taken + self.waiting_bytes, 0
        return offset, buffers

    def close(self) -> None:
        """Nothing more is appended in this batch."""
        if self._loose and self._compress is not None:
            self._store(self._compress(bytes(self._loose)))
            self._loose.clear()

    def _put(self, data: bytes, frame: bytes = b"", crc: int | None = None) -> None:
        if self._compress is None:
            self._store(data)
        elif frame:
            self.close()
            self._store(frame)
        else:
            self._loose += data
            if len(self._loose) >= MAX_BLOCK_BYTES:  # readers decompress a frame at a time
                self.close()
        self.raw += len(data)
        if self._compress is not None:
            self._lines += count_lines(data)
        if self._crc is not None:
            self._crc = crc32(data, self._crc) if crc is None else crc32_combine(self._crc, crc, len(data))

    def _store(self, stored: bytes) -> None:
        self._buffers.append(stored)
        self.waiting_bytes += len(stored)
        self._length += len(stored)

    @property
    def is_large(self) -> bool:
        """Whether so much waits that it is written before the batch ends."""
        return self.waiting_bytes >= WRITE_BYTES

    def grown(self) -> OpenFile:
        """The file as it is after the batch; call `close` first."""
        return OpenFile(  # every field: `replace` takes twice as long, and this is done for every file of a batch
            path=self.path,
            key=self.key,
            sealing=self.committed.sealing,
            opened=self.committed.opened,
            length=self._length,
            first_seq=self._first_seq,
            first_ns=self._first_ns,
            last_seq=self._last_seq,
            last_ns=self._last_ns,
            duplicates=self.duplicates,
            joins=self._joins,
            last_source=self._last_source,
            ends_open=self._ends_open,
            filtered=self._filtered,
            edited=self._edited,
            labels=self._labels,
            raw=self.raw,
            lines=self._lines,
            crc=self._crc,
            marks=self._marks,
            marked_at=self._mark.offset,
            marked_second=self._mark.second,
            zone=self._zone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A range that is missing before blocks of the stream."""

    source: SourceKey
    file: str
    sequence: int  #: of the first block after the hole
    missing: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that is itself invalid: no retry can apply it."""

    delivery: Delivery
    host: str
    reason: str
    is_whole: bool = True  #: all of it is kept; else only the beginning, because its host has many


@dataclass(slots=True)
class RunTotals:
    """The new text of a batch, or of a run with an end: the numbers of its summary line."""

    files: set[tuple[str, str]] = field(default_factory=set)  #: host and log file
    lines: int = 0
    bytes: int = 0

    def add(self, more: "RunTotals") -> None:
        """Add the text of a committed batch, or of another worker."""
        self.files |= more.files
        self.lines += more.lines
        self.bytes += more.bytes


@dataclass(slots=True, kw_only=True)
class Batch(Changes):
    """Messages that are committed together: what they change in the journal, the files that grow, what is counted."""

    messages: Sequence[Delivery]
    given_up: Mapping[SourceKey, GivenUp]  #: ranges that are accepted as missing
    journal: Journal  #: as it is before the batch
    budgets: HostBudgets
    growing: dict[str, GrowingFile] = field(default_factory=dict)  #: by path
    created: list[GrowingFile] = field(default_factory=list)  #: files to create before they are written
    holes: dict[SourceKey, Hole] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    totals: RunTotals = field(default_factory=RunTotals)
    written_bytes: int = 0
    forked: list[tuple[ArchivedSource, ArchivedSource]] = field(default_factory=list)  #: sources, with a new fork
    archived_before: list[FoundSource] = field(default_factory=list)  #: new here, and another partition has a part
    overflowed: Counter[str] = field(default_factory=Counter)  #: messages by host that has too many files
    bad_counts: Counter[str] = field(default_factory=Counter)  #: blocks by host whose counts of redactions are none

    @property
    def keeps_up(self) -> bool:
        """Whether so few messages are pending after the batch that the collector keeps up with the stream."""
        return self.messages[-1].pending <= MANY_PENDING

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """A source as it is after the messages that were staged so far."""
        return self.sources.get(key) or self.journal.source(key)

    def forks_of(self, key: SourceKey) -> tuple[str, ...]:
        """The ids of the forks of a source; usually it has none."""
        if not (self.journal.forks or self.forks):
            return ()
        return (*self.journal.forks.get(key, ()), *self.forks.get(key, ()))

    def version_left(self, host: str) -> int:
        """The map version by which a host left the partition; 0: it did not."""
        return self.left.get(host) or self.journal.left.get(host, 0)

    # -- the files that grow ------------------------------------------------------------------------------------------

    def append_line(self, file: GrowingFile, delivery: Delivery) -> None:
        """Append the line of a plain message."""
        if not file.is_changed:
            self._change(file, delivery)
        file.append(delivery, "", delivery.payload + b"\n")
        self._count(file, lines=count_lines(delivery.payload) + 1, octets=len(delivery.payload) + 1)

    def append_block(
        self, file: GrowingFile, delivery: Delivery, block: Block, grown: Grown, rest: Rest, frame: bytes
    ) -> None:
        """Append `rest`, the new text of a block; `frame` is exactly that text, if it is not empty."""
        new, source = grown.new, grown.source
        if new.length:
            if not file.is_changed:
                self._change(file, delivery)
            file.append_block(delivery, block, source.id, new, rest, frame)
            lines = block.lines if new == block.span else count_lines(rest.content)
            self._count(file, lines=lines, octets=len(rest.content))
        if block.edited is not None:
            self.edited.add(source.key)
        if codec.REDACTED in delivery.headers:
            if not block.redacted:
                self.bad_counts[file.key.host] += 1
            elif new == block.span and new.length:  # of a block that was there in part the counts are not known
                for rule, places in block.redacted:
                    self.redacted[file.path, rule] = self.redacted.get((file.path, rule), 0) + places
        self.grow(file, delivery, grown)

    def grow(self, file: GrowingFile, delivery: Delivery, grown: Grown) -> None:
        """Enter a source after a block, and what is missing of it."""
        self.sources[grown.source.key] = grown.source
        if grown.losses:
            self.lose(file, delivery, grown.source.key, grown.losses)

    def add_duplicate(self, file: GrowingFile, delivery: Delivery) -> None:
        """Count a dropped block, where its file is still open."""
        if file.is_changed or not file.is_new:
            if not file.is_changed:
                self._change(file, delivery)
            file.duplicates += 1

    def lose(self, file: GrowingFile, delivery: Delivery, source: SourceKey, losses: Iterable[Lost]) -> None:
        """Record that bytes of a source are missing in the file. The file is created even if it stays empty."""
        for span, reason in losses:
            if not file.is_changed:
                self._change(file, delivery)
            self.losses.append(Loss(file.path, source, span, reason))
            if reason not in NOT_LOST:
                self.budgets.lose(file.key.date, source.host, span.length)

    def _change(self, file: GrowingFile, delivery: Delivery) -> None:
        file.change(delivery)
        if file.is_new:
            self.created.append(file)

    def _count(self, file: GrowingFile, *, lines: int, octets: int) -> None:
        date, _, host, name = file.key
        self.totals.lines += lines
        self.totals.bytes += octets
        self.totals.files.add((host, name))
        self.budgets.add_text(date, host, octets)

    # -- what is not written ------------------------------------------------------------------------------------------

    def add_dead_letter(self, delivery: Delivery, host: str, reason: str) -> None:
        """Keep an invalid message with the reason, as far as the budget of its host allows."""
        host = host or "unknown"
        octets = len(delivery.payload) + sum(len(name) + len(value) for name, value in delivery.headers.items())
        is_kept, is_whole = self.budgets.keep_letter(day_of(delivery.time_ns), host, octets)
        if is_kept:
            self.dead_letters.append(DeadLetter(delivery=delivery, host=host, reason=reason, is_whole=is_whole))

    def open_hole(self, delivery: Delivery, known: ArchivedSource, missing: Span) -> None:
        """Note that `missing` bytes precede a block. Raises Poison: its host has too many holes."""
        if known.key not in self.holes:
            self.budgets.admit_hole(day_of(delivery.time_ns), known.host, missing.length)
            self.holes[known.key] = Hole(source=known.key, file=known.file, sequence=delivery.sequence, missing=missing)

    def accept(self, file: GrowingFile, block: Block, known: ArchivedSource, *, is_new: bool) -> None:
        """Note that a block is written: it may begin a source, and end a hole. Raises Poison: too much is lost."""
        if block.gap:
            self.budgets.admit_loss(file.key.date, known.host, block.gap)
        if is_new:
            self.budgets.begin_source(file.key.date, known.host)
        if self.holes and (hole := self.holes.get(known.key)) is not None and block.span.end >= hole.missing.end:
            self._remove_hole(hole)

    def leave(self, host: str, version: int) -> None:
        """Ignore blocks that `host` sends by older maps from here on; its holes stay unfilled in this partition."""
        self.left[host] = max(version, self.version_left(host))
        for hole in [hole for source, hole in self.holes.items() if source.host == host]:
            self._remove_hole(hole)

    def _remove_hole(self, hole: Hole) -> None:
        del self.holes[hole.source]
        self.budgets.fill_hole(hole.source.host, hole.missing.length)

    # -- the end ------------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Enter the files and the position, after the last message."""
        self.position = position_after(self.journal.position, self.messages[-1], self.holes)
        self.spent = self.budgets.spent
        changed = [file for file in self.growing.values() if file.is_changed]
        for file in changed:
            file.close()
        self.files = {file.path: file.grown() for file in changed}
        self.extents = [
            Extent(file.path, source, span)
            for file in changed
            for source, spans in file.spans.items()
            for span in spans
        ]


def begin_batch(
    journal: Journal,
    messages: Sequence[Delivery],
    holes: Mapping[SourceKey, Hole],
    given_up: Mapping[SourceKey, GivenUp],
    *,
    text_bytes: int = 0,
) -> Batch:
    """A batch of which nothing is staged yet; `holes` are open before it. `text_bytes`: budget of a host; 0: none."""
    missing = ((source.host, hole.missing.length) for source, hole in holes.items())
    return Batch(
        position=journal.position,
        messages=messages,
        given_up=given_up,
        journal=journal,
        budgets=HostBudgets(journal.files, missing, journal.spent, text_bytes=text_bytes),
        holes=dict(holes),
    )


def position_after(at: Position, last: Delivery, holes: Mapping[SourceKey, Hole]) -> Position:
    """The position in the stream after a batch that ends with `last`.

    `last` is before `at` where the stream is read again for a hole. A restart reads again from the first of `holes`.
    """
    applied = max(at.applied, last.sequence)
    first_hole = min((hole.sequence for hole in holes.values()), default=applied + 1)
    return replace(
        at,
        applied=applied,
        applied_ns=at.applied_ns if last.sequence < at.applied else last.time_ns,
        resume=min(first_hole, last.sequence + 1),
    )
