"""The files that a batch writes: which file a message belongs to, what is new in it, and its creation and appends.

New files are journaled, then created, then appended to. A kill between these steps leaves no file that the journal
does not name.
"""

from collections.abc import Callable
from typing import NamedTuple

from consumer.archive.directory import Layout
from consumer.archive.journal import Journal
from consumer.archive.stored_times import Mark, appended
from consumer.commit.frame_cache import FrameCache
from consumer.commit.sink import Sink
from consumer.commit.staged_batch import StagedBatch
from consumer.model import ArchivedSource, Extent, Loss, OpenFile, Position, SourceKey
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.edit_map import Rest
from shipper.errors import ArchiveTrouble
from shipper.layout import NANOSECONDS, FileKey, day_of
from shipper.manifest import SourceSpan
from shipper.model import MAX_BLOCK_BYTES, Block, Delivery, Span

Compress = Callable[[bytes], bytes]


class FileDraft:
    """A file as it grows within one batch. Mutable, because a batch may be thousands of lines.

    With `compress` it holds frames: those of whole blocks as received, and one for all text between them.
    """

    def __init__(self, committed: OpenFile, compress: Compress | None = None) -> None:
        self.committed = committed  #: the appended bytes begin at its length
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

    def end_line(self, source: str) -> None:
        """The rest of the last line was filtered: its beginning becomes a line."""
        if self._ends_open and self._last_source == source:
            self._join()

    def account(self, span: Span, rest: Rest, block: Block) -> None:
        """Count what was filtered, redacted or converted: `rest` was appended for the bytes `span` of a source.

        Bytes of all spans = bytes of the file - joins + filtered + edited, also where blocks overlap.
        """
        self._filtered += rest.filtered
        self._edited += span.length - rest.filtered - len(rest.content)
        self._labels, self._zone = block.labels, block.zone

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

    def file(self) -> OpenFile:
        """The file as it is after the batch; call `close` first."""
        return OpenFile(  # every field: `replace` takes twice as long, and this is done for every file of a batch
            path=self.committed.path,
            key=self.committed.key,
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


class BatchPlan:
    """The file drafts of one batch, and the sources after it. Paths are relative to the archive."""

    def __init__(self, journal: Journal, staged: StagedBatch, compress: Compress | None = None) -> None:
        self._journal = journal
        self.staged = staged
        self.changes = staged.changes
        self._compress = compress
        self.drafts: dict[str, FileDraft] = {}
        self.created: list[OpenFile] = []
        self._extents: dict[tuple[str, str], list[Span]] = {}

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """A source as it is after the messages that were staged so far."""
        return self.changes.sources.get(key) or self._journal.source(key)

    def forks(self, key: SourceKey) -> tuple[str, ...]:
        """The ids of the forks of a source; usually it has none."""
        if not (self._journal.forks or self.changes.forks):
            return ()
        return (*self._journal.forks.get(key, ()), *self.changes.forks.get(key, ()))

    def draft(self, path: str, key: FileKey, delivery: Delivery, *, length_before: int) -> FileDraft:
        """The draft of a file. A file that is not in the journal is planned to be created."""
        draft = self.drafts.get(path)
        if draft is None:
            file = self._journal.files.get(path)
            if file is None:
                sequence, time_ns, crc = delivery.sequence, delivery.time_ns, None if length_before else 0
                file = OpenFile(
                    path=path, key=key, length=length_before, raw=length_before, crc=crc, first_seq=sequence,
                    last_seq=sequence, first_ns=time_ns, last_ns=time_ns,
                )  # fmt: skip
                self.created.append(file)
            elif file.sealing:
                raise ArchiveTrouble(f"{path} is not sealed yet")
            draft = self.drafts[path] = FileDraft(file, self._compress)
        return draft

    def extend(self, path: str, source: str, span: Span) -> None:
        """Note that a file now holds `span` of a source."""
        spans = self._extents.setdefault((path, source), [])
        if spans and spans[-1].end == span.start:
            spans[-1] = Span(spans[-1].start, span.end)
        else:
            spans.append(span)

    def duplicate(self, path: str) -> None:
        """Count a dropped block, where its file is still open."""
        file = self._journal.files.get(path)
        if path not in self.drafts and file is not None and not file.sealing:
            self.drafts[path] = FileDraft(file, self._compress)
        if path in self.drafts:
            self.drafts[path].duplicates += 1

    def added_to(self, path: str) -> list[SourceSpan]:
        """The spans that this batch adds to a file."""
        named = ((source, spans) for (where, source), spans in self._extents.items() if where == path)
        return [SourceSpan(source=source, start=span.start, end=span.end) for source, spans in named for span in spans]

    def complete(self, position: Position) -> None:
        """Everything is appended: enter the plan in the changes that the journal will commit."""
        self.changes.position = position
        self.changes.spent = self.staged.budgets.spent
        self.changes.files = {path: draft.file() for path, draft in self.drafts.items()}
        self.changes.extents = [
            Extent(path, source, span) for (path, source), spans in self._extents.items() for span in spans
        ]


OVERFLOW = "overflow.log"
"""Log file for the lines of a host that has too many files."""
WRITE_BYTES = 256 * 1024
"""Bytes of one file that are written before the batch ends. The text was just decompressed and is still in the cache
of the core. A full block is therefore written alone."""


class Destination(NamedTuple):
    """The file that a message belongs to."""

    path: str  #: relative to the archive
    key: FileKey
    delivery: Delivery


class BatchFiles:
    """Writes the files of a partition's batches. Owned by the partition's worker."""

    def __init__(self, journal: Journal, sink: Sink, layout: Layout, ready: FrameCache, partition: int) -> None:
        self._journal = journal
        self.sink = sink
        self._layout = layout
        self._ready = ready
        self._partition = partition

    def destination(self, delivery: Delivery, host: str, file: str, plan: BatchPlan) -> Destination:
        """Where text of `file` is written: its own file, or `OVERFLOW` where the host has too many files."""
        key = FileKey(day_of(delivery.time_ns), self._partition, host, file)
        path = self._layout.path(key, delivery.time_ns)
        if path in plan.drafts or path in self._journal.files or plan.staged.budgets.admit_file(key, path):
            return Destination(path, key, delivery)
        plan.staged.overflowed[host] += 1
        key = key._replace(file=OVERFLOW)
        return Destination(self._layout.path(key, delivery.time_ns), key, delivery)

    def append_line(self, at: Destination, plan: BatchPlan) -> None:
        """Append the line of a plain message."""
        self._draft(at, plan).append(at.delivery, "", at.delivery.payload + b"\n")
        plan.staged.count(at.key, lines=count_lines(at.delivery.payload) + 1, octets=len(at.delivery.payload) + 1)

    def append_block(
        self, at: Destination, source: str, block: Block, new: Span, rest: Rest, plan: BatchPlan
    ) -> None:  # fmt: skip
        """Append `rest`, the text of the bytes `new` of a block. A block that is whole stays in its frame."""
        draft = self._draft(at, plan)
        if rest.begins_left_out:
            draft.end_line(source)
        is_whole = block.edited is None and new == block.span
        frame = block.encoding.value if is_whole else "none"
        draft.append(
            at.delivery,
            source,
            rest.content,
            frame=at.delivery.payload if frame == self._layout.frames else b"",
            crc=block.block_crc if is_whole else None,
        )
        draft.account(new, rest, block)
        lines = block.lines if new == block.span else count_lines(rest.content)
        plan.staged.count(at.key, lines=lines, octets=len(rest.content))
        plan.extend(at.path, source, new)
        if frame == self._ready.codec:
            self._ready.add(
                at.path,
                draft.raw - new.length,
                at.delivery.payload,
                text_bytes=new.length,
                lines=block.lines,
                time_ns=at.delivery.time_ns,
            )
        if draft.waiting_bytes >= WRITE_BYTES:
            self.write_ahead(draft, plan)

    def record_loss(self, at: Destination, known: ArchivedSource, span: Span, reason: str, plan: BatchPlan) -> None:
        """Record that bytes of a source are missing in the file. The file is created even if it stays empty."""
        self._draft(at, plan)
        plan.changes.losses.append(Loss(at.path, known.key, span, reason))

    def write(self, plan: BatchPlan) -> None:
        """Create and append everything that is planned. Raises OSError, sqlite3.Error."""
        self._create(plan)
        for draft in plan.drafts.values():
            draft.close()
            self._append(draft, plan)

    def write_ahead(self, draft: FileDraft, plan: BatchPlan) -> None:
        """Append what is planned for one file. It is committed with the rest of the batch."""
        self._create(plan)
        self._append(draft, plan)

    def _draft(self, at: Destination, plan: BatchPlan) -> FileDraft:
        known = at.path in plan.drafts or at.path in self._journal.files
        before = 0 if known else self._layout.length_before(at.path)
        return plan.draft(at.path, at.key, at.delivery, length_before=before)

    def _create(self, plan: BatchPlan) -> None:
        created, plan.created = plan.created, []
        self._journal.register(created)
        for file in created:
            self.sink.create(file)
            plan.staged.budgets.begin_file(file.key)

    def _append(self, draft: FileDraft, plan: BatchPlan) -> None:
        if draft.waiting_bytes:
            plan.staged.written_bytes += draft.waiting_bytes
            is_large = draft.waiting_bytes >= WRITE_BYTES
            append = self.sink.append_direct if is_large and plan.staged.keeps_up else self.sink.append
            offset, buffers = draft.take()
            append(draft.committed, buffers, at=offset)
