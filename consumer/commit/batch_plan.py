"""What a batch changes in files and sources, relative to the committed state; nothing is written yet."""

from collections.abc import Callable

from consumer.commit.journal import Journal
from consumer.commit.staged_batch import StagedBatch
from consumer.model import ArchivedSource, Extent, Loss, OpenFile, Position, SourceKey
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.edit_map import Rest
from shipper.errors import ArchiveTrouble
from shipper.layout import FileKey
from shipper.manifest import SourceSpan
from shipper.model import MAX_BLOCK_BYTES, Delivery, Span

Compress = Callable[[bytes], bytes]


class FileDraft:
    """A file as it grows within one batch. Mutable, because a batch may be thousands of lines.

    With `compress` it holds frames: those of whole blocks as received, and one for all text between them.
    """

    def __init__(self, committed: OpenFile, compress: Compress | None = None) -> None:
        self.committed = committed  #: the appended bytes begin at its length
        self._buffers: list[bytes] = []  # to be written; complete after `close`
        self._waiting = self._taken = 0  # bytes in them, and bytes that were taken out of them
        self._compress = compress
        self._loose = bytearray()  # text that is in no frame yet
        self._length, self._joins, self._duplicates = committed.length, committed.joins, committed.duplicates
        self._first = (committed.first_seq, committed.first_ns)
        self._last = (committed.last_seq, committed.last_ns)
        self._last_source, self._ends_open = committed.last_source, committed.ends_open
        self._filtered, self._edited, self._labels = committed.filtered, committed.edited, committed.labels
        self._raw, self._lines, self._crc = committed.raw, committed.lines, committed.crc

    def append(self, delivery: Delivery, source: str, data: bytes, frame: bytes = b"", crc: int | None = None) -> None:
        """Append `data` to the file. If another source ended without a newline, a newline is appended first.

        `frame` is exactly `data`, in the codec of the file's frames; `crc` is the CRC of `data`, if it is known.
        """
        if data:
            if self._ends_open and self._last_source != source:
                self._join()
            self._put(data, frame, crc)
            self._last_source, self._ends_open = source, not data.endswith(b"\n")
        at = (delivery.sequence, delivery.time_ns)
        if at > self._last:
            self._last = at
        elif at < self._first:  # read again, for a hole that was given up
            self._first = at

    def end_line(self, source: str) -> None:
        """The rest of the last line was filtered: its beginning becomes a line."""
        if self._ends_open and self._last_source == source:
            self._join()

    def account(self, span: Span, rest: Rest, labels: tuple[tuple[str, str], ...]) -> None:
        """Count what was filtered, redacted or converted: `rest` was appended for the bytes `span` of a source.

        Bytes of all spans = bytes of the file - joins + filtered + edited, also where blocks overlap.
        """
        self._filtered += rest.filtered
        self._edited += span.length - rest.filtered - len(rest.content)
        self._labels = labels

    def count_duplicate(self) -> None:
        """Count a block that was dropped, because the file has its bytes."""
        self._duplicates += 1

    def _join(self) -> None:
        self._put(b"\n")
        self._joins += 1
        self._ends_open = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are waiting to be written."""
        return self._waiting

    @property
    def raw(self) -> int:
        """Bytes of text that the file holds so far."""
        return self._raw

    def take(self) -> tuple[int, list[bytes]]:
        """Remove and return the buffers to write, and the offset to write them at."""
        offset = self.committed.length + self._taken
        buffers, self._buffers = self._buffers, []
        self._taken, self._waiting = self._taken + self._waiting, 0
        return offset, buffers

    def close(self) -> None:
        """Nothing more is appended in this batch."""
        if self._loose and self._compress is not None:
            self._store(self._compress(bytes(self._loose)))
            self._loose.clear()

    def _put(self, data: bytes, frame: bytes = b"", crc: int | None = None) -> None:
        if self._compress is None:
            self._store(data)
        else:
            self._frame(data, frame)
        self._raw += len(data)
        if self._crc is not None:
            self._crc = crc32(data, self._crc) if crc is None else crc32_combine(self._crc, crc, len(data))

    def _frame(self, data: bytes, frame: bytes) -> None:
        self._lines += count_lines(data)
        if frame:
            self.close()
            self._store(frame)
        else:
            self._loose += data
            if len(self._loose) >= MAX_BLOCK_BYTES:  # readers decompress a frame at a time
                self.close()

    def _store(self, stored: bytes) -> None:
        self._buffers.append(stored)
        self._waiting += len(stored)
        self._length += len(stored)

    def file(self) -> OpenFile:
        """The file as it is after the batch; call `close` first."""
        return OpenFile(  # every field: `replace` takes twice as long, and this is done for every file of a batch
            path=self.committed.path,
            key=self.committed.key,
            sealing=self.committed.sealing,
            opened=self.committed.opened,
            length=self._length,
            first_seq=self._first[0],
            first_ns=self._first[1],
            last_seq=self._last[0],
            last_ns=self._last[1],
            duplicates=self._duplicates,
            joins=self._joins,
            last_source=self._last_source,
            ends_open=self._ends_open,
            filtered=self._filtered,
            edited=self._edited,
            labels=self._labels,
            raw=self._raw,
            lines=self._lines,
            crc=self._crc,
        )


class BatchPlan:
    """The file drafts of one batch, and the sources after it. Paths are relative to the archive."""

    def __init__(self, journal: Journal, staged: StagedBatch, compress: Compress | None = None) -> None:
        self._journal = journal
        self.staged = staged
        self._compress = compress
        self.sources: dict[SourceKey, ArchivedSource] = {}
        self.drafts: dict[str, FileDraft] = {}
        self.created: list[OpenFile] = []
        self.losses: list[Loss] = []
        self.new_forks: dict[SourceKey, tuple[str, ...]] = {}
        self._extents: dict[tuple[str, str], list[Span]] = {}

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """A source as it is after the messages that were staged so far."""
        return self.sources.get(key) or self._journal.source(key)

    def forks(self, key: SourceKey) -> tuple[str, ...]:
        """The ids of the forks of a source; usually it has none."""
        if not (self._journal.forks or self.new_forks):
            return ()
        return (*self._journal.forks.get(key, ()), *self.new_forks.get(key, ()))

    def begin_fork(self, key: SourceKey, fork: str) -> None:
        """Note that a source has a fork."""
        self.new_forks[key] = (*self.new_forks.get(key, ()), fork)

    def draft(self, path: str, key: FileKey, delivery: Delivery, *, length_before: int) -> FileDraft:
        """The draft of a file. A file that is not in the journal is planned to be created."""
        draft = self.drafts.get(path)
        if draft is None:
            file = self._journal.files.get(path)
            if file is None:
                file = _new(path, key, delivery, length_before)
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
        if path in self.drafts:
            self.drafts[path].count_duplicate()
        elif (file := self._journal.files.get(path)) is not None and not file.sealing:
            draft = self.drafts[path] = FileDraft(file, self._compress)
            draft.count_duplicate()

    def added_to(self, path: str) -> list[SourceSpan]:
        """The spans that this batch adds to a file."""
        named = ((source, spans) for (where, source), spans in self._extents.items() if where == path)
        return [SourceSpan(source=source, start=span.start, end=span.end) for source, spans in named for span in spans]

    def complete(self, position: Position) -> None:
        """Everything is appended: enter the plan in the changes that the journal will commit."""
        changes = self.staged.changes
        changes.position = position
        changes.spent = self.staged.budgets.spent
        changes.sources = self.sources
        changes.files = {path: draft.file() for path, draft in self.drafts.items()}
        changes.extents = [
            Extent(path, source, span) for (path, source), spans in self._extents.items() for span in spans
        ]
        changes.losses = self.losses
        changes.forks = self.new_forks


def _new(path: str, key: FileKey, delivery: Delivery, length: int) -> OpenFile:
    return OpenFile(
        path=path,
        key=key,
        length=length,
        raw=length,
        crc=None if length else 0,
        first_seq=delivery.sequence,
        last_seq=delivery.sequence,
        first_ns=delivery.time_ns,
        last_ns=delivery.time_ns,
    )
