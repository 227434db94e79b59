"""What a batch does to files and sources, over what the journal has committed; nothing is written yet."""

from collections.abc import Callable, Iterable

from consumer.commit.journal import Journal
from consumer.model import ArchivedSource, Extent, Loss, OpenFile, SourceKey
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.edit_map import Rest
from shipper.errors import ArchiveTrouble
from shipper.layout import FileKey
from shipper.manifest import SourceSpan
from shipper.model import MAX_BLOCK_BYTES, Delivery, Span

Compress = Callable[[bytes], bytes]


class Draft:
    """A file as it grows within one batch. Mutable, because a batch may be thousands of lines.

    With `compress` it holds frames: blocks' as they came, and one for all text in between.
    """

    def __init__(self, committed: OpenFile, compress: Compress | None = None) -> None:
        self.committed = committed  #: the appended bytes begin at its length
        self._buffers: list[bytes] = []  # to be written; complete behind `close`
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
        """Put `data` behind the file; another source that ended without a newline is closed by one first.

        `frame` is all of `data` and nothing else, in the codec of the file's frames; `crc` is its sum, if it is known.
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
        """The rest of the last line was left out: what is there of it becomes a line."""
        if self._ends_open and self._last_source == source:
            self._join()

    def account(self, span: Span, rest: Rest, labels: tuple[tuple[str, str], ...]) -> None:
        """`rest` was appended for the bytes `span` of a source: what was left out, blacked out, converted adds up.

        Bytes of all spans = bytes of the file - joins + filtered + edited, whatever was sent again or overlapped.
        """
        self._filtered += rest.filtered
        self._edited += span.length - rest.filtered - len(rest.content)
        self._labels = labels

    def count_duplicate(self) -> None:
        """A block was dropped, because its bytes are there."""
        self._duplicates += 1

    def _join(self) -> None:
        self._put(b"\n")
        self._joins += 1
        self._ends_open = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are to be written."""
        return self._waiting

    @property
    def raw(self) -> int:
        """Bytes of text that the file holds so far."""
        return self._raw

    def take(self) -> tuple[int, list[bytes]]:
        """What is to be written, and at which offset; it is the caller's from now on."""
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
            if len(self._loose) >= MAX_BLOCK_BYTES:  # whoever reads the file unpacks a frame at a time
                self.close()

    def _store(self, stored: bytes) -> None:
        self._buffers.append(stored)
        self._waiting += len(stored)
        self._length += len(stored)

    def file(self) -> OpenFile:
        """The file as it is behind the batch, once that is closed."""
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


class Plan:
    """The drafts of one batch. Paths are relative to the archive."""

    def __init__(self, journal: Journal, compress: Compress | None = None) -> None:
        self._journal = journal
        self._compress = compress
        self.sources: dict[SourceKey, ArchivedSource] = {}
        self.drafts: dict[str, Draft] = {}
        self.created: list[OpenFile] = []
        self.losses: list[Loss] = []
        self.new_forks: dict[SourceKey, tuple[str, ...]] = {}
        self._extents: dict[tuple[str, str], list[Span]] = {}

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """A source as it is behind what was staged so far."""
        return self.sources.get(key) or self._journal.source(key)

    def forks(self, key: SourceKey) -> tuple[str, ...]:
        """The ids of the forks of a source; usually it has none."""
        if not (self._journal.forks or self.new_forks):
            return ()
        return (*self._journal.forks.get(key, ()), *self.new_forks.get(key, ()))

    def begin_fork(self, key: SourceKey, fork: str) -> None:
        """Note that a source has a fork."""
        self.new_forks[key] = (*self.new_forks.get(key, ()), fork)

    def draft(self, path: str, key: FileKey, delivery: Delivery, *, length_before: int) -> Draft:
        """The draft of a file, which is new to the journal if it is not known there."""
        draft = self.drafts.get(path)
        if draft is None:
            file = self._journal.files.get(path)
            if file is None:
                file = _new(path, key, delivery, length_before)
                self.created.append(file)
            elif file.sealing:
                raise ArchiveTrouble(f"{path} is not sealed yet")
            draft = self.drafts[path] = Draft(file, self._compress)
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
            draft = self.drafts[path] = Draft(file, self._compress)
            draft.count_duplicate()

    def added_to(self, path: str) -> list[SourceSpan]:
        """What a file holds more than before."""
        named = ((source, spans) for (where, source), spans in self._extents.items() if where == path)
        return [SourceSpan(source=source, start=span.start, end=span.end) for source, spans in named for span in spans]

    def extents(self) -> Iterable[Extent]:
        """What the files hold more than before, one for each uninterrupted run of a source's bytes."""
        return [Extent(path, source, span) for (path, source), spans in self._extents.items() for span in spans]


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
