"""The files that a batch writes: which file a message belongs to, and its creation and appends.

New files are journaled, then created, then appended to. A kill between these steps leaves no file that the journal
does not name.
"""

from typing import NamedTuple

from consumer.archive import Layout
from consumer.commit.batch_plan import BatchPlan, FileDraft
from consumer.commit.frame_cache import FrameCache
from consumer.commit.journal import Journal
from consumer.commit.sink import Sink
from consumer.model import ArchivedSource, Loss
from shipper.bytes_ops import count_lines
from shipper.edit_map import Rest
from shipper.layout import FileKey, day_of
from shipper.model import Block, Delivery, Span

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
        plan.staged.count(at.key, lines=1, octets=len(at.delivery.payload) + 1)

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
        draft.account(new, rest, block.labels)
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
