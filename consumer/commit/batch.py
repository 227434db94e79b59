"""A batch of messages, from the decisions until the commit: what it changes, which files grow, what its hosts spend.

`Applier` decides and fills it, `PartitionStore.write` writes its files, `Journal.commit` commits it.

Budgets bound what one host may spend in a partition, so that it cannot use up the space that other hosts need. The
journal stores what a host spends in a UTC day, so a restart of the collector does not reset a budget. The day is that
of the JetStream timestamp, which no host controls.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.archive.directory import Layout
from consumer.archive.journal import Journal
from consumer.archive.stored_times import Mark, appended
from consumer.commit.other_partitions import FoundSource
from consumer.commit.watermark import NOT_LOST, GivenUp, Grown, Lost
from consumer.model import Account, ArchivedSource, Budget, Changes, Extent, Loss, OpenFile, SourceKey
from shipper import codec
from shipper.bytes_ops import count_lines, crc32, crc32_combine
from shipper.edit_map import Rest
from shipper.errors import ArchiveTrouble, Poison
from shipper.layout import DAY_NS, NANOSECONDS, FileKey, day_of
from shipper.model import MAX_BLOCK_BYTES, Block, Delivery, Span

Compress = Callable[[bytes], bytes]
WRITE_BYTES = 256 * 1024
"""Bytes of one file that are written before the batch ends. The text was just decompressed and is still in the cache
of the core. A full block is therefore written alone."""
MANY_PENDING = 64
"""Messages that are pending after the batch: as many full blocks as are written between two syncs. While more are
pending, the collector does not wait for the disk within a batch."""
MAX_HOLES = 1000
"""Maximum open holes of a host: each one delays the purge of the stream, needs requests, and uses memory.

A block after a further hole becomes a dead letter. Its producer sends it again with the bytes of the hole.
"""
OVERFLOW = "overflow.log"
"""Log file for the lines of a host that has too many files."""
MAX_FILES = 10_000
"""Maximum open files of a host. The lines of further files go to `OVERFLOW`, in order and exactly once."""
MAX_NEW_FILES = 250_000
"""Maximum new files of a host per day; each becomes a segment. The lines of further files go to `OVERFLOW`."""
MAX_NEW_SOURCES = 1_000_000
"""Maximum new sources of a host per day; blocks of further ones become dead letters. 100 MB/s in files of 10 MB are
864,000 sources."""
MAX_LOST = 1 << 44
"""Maximum bytes that a host may report as lost per day: 16 TiB. More would hide the losses of other hosts."""
MAX_LETTERS = 10_000
"""Maximum dead letters of a host that are kept per day; further ones are only counted."""
FULL_BYTES = 16 * 1024 * 1024
"""Maximum bytes of whole dead letters of a host per day; of further ones only the beginning is kept."""


class GrowingFile:
    """A file as it grows within one batch. Mutable, because a batch may be thousands of lines.

    With `compress` it holds frames: those of whole blocks as received, and one for all text between them.
    """

    def __init__(self, committed: OpenFile, compress: Compress | None = None, *, is_new: bool = False) -> None:
        self.path, self.key = committed.path, committed.key
        self.text_account = Account(self.key.date, self.key.host, Budget.TEXT)
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
            self._first_seq = self._last_seq = sequence = delivery.first_sequence
            self._first_ns = self._last_ns = time_ns = delivery.first_ns
            self.committed = replace(
                self.committed, first_seq=sequence, last_seq=sequence, first_ns=time_ns, last_ns=time_ns
            )

    def append(self, delivery: Delivery, source: str, data: bytes, frame: bytes = b"", crc: int | None = None) -> None:
        """Append `data` to the file. If another source ended without a newline, a newline is appended first.

        `frame` is exactly `data`, in the codec of the file's frames; `crc` is the CRC of `data`, if it is known.
        """
        sequence, time_ns = delivery.sequence, delivery.time_ns
        if data:
            if self._ends_open and self._last_source != source:
                self._join()
            if (second := time_ns // NANOSECONDS) != self._mark.second:
                mark = Mark(self.raw, second)
                self._marks += appended(mark, self._mark)
                self._mark = mark
            self._put(data, frame, crc)
            self._last_source, self._ends_open = source, not data.endswith(b"\n")
        self._last_seq = max(self._last_seq, sequence)
        if (first := delivery.first_sequence) < self._first_seq:  # read again, for a hole that was given up
            self._first_seq = first
        if (last_ns := delivery.last_ns) > self._last_ns:
            self._last_ns = last_ns
        if (first_ns := delivery.first_ns) < self._first_ns:  # the server's clock may be set back
            self._first_ns = first_ns

    def append_block(self, delivery: Delivery, block: Block, new: Span, rest: Rest, frame: bytes) -> None:
        """Append `rest`, the text of the bytes `new` of a block, and count what was filtered, redacted or converted.

        Bytes of all spans = bytes of the file - joins + filtered + edited, also where blocks overlap.
        """
        source = block.source
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
        else:
            self._lines += count_lines(data)
            if frame:
                self.close()
                self._store(frame)
            else:
                self._loose += data
                if len(self._loose) >= MAX_BLOCK_BYTES:  # readers decompress a frame at a time
                    self.close()
        self.raw += len(data)
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
        """The file as it is after the batch. Call `close` first."""
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
    layout: Layout
    partition: int
    compress: Compress | None  #: makes the frames of files that hold frames
    text_bytes: int  #: text that a host may archive in a day before an alert; 0: without limit
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
    spent: Counter[Account] = field(default_factory=Counter)  #: by this batch
    refused: Counter[tuple[str, Budget]] = field(default_factory=Counter)  #: messages above a budget of their host
    cut: Counter[str] = field(default_factory=Counter)  #: dead letters of which only the beginning is kept, by host
    # what follows is for the calls of this class; the counts are computed at their first use, which is rare
    _spent_before: dict[Account, int] = field(default_factory=dict)
    _named: dict[tuple[int, str, str], GrowingFile] = field(default_factory=dict)  # by day, host and log file
    _files_of: Counter[str] | None = None  # open files by host
    _new_files: Counter[Account] = field(default_factory=Counter)  # that were admitted, and may stay without a byte
    _holes_of: Counter[str] | None = None  # open holes by host
    _missing_of: Counter[str] = field(default_factory=Counter)  # bytes of these holes

    @property
    def keeps_up(self) -> bool:
        """Whether so few messages are pending after the batch that the collector keeps up with the stream."""
        return self.messages[-1].pending <= MANY_PENDING

    # -- what is known before a message -------------------------------------------------------------------------------

    def source(self, key: SourceKey) -> ArchivedSource | None:
        """A source as it is after the messages that were staged so far."""
        return self.sources.get(key) or self.journal.source(key)

    def forks_of(self, key: SourceKey) -> tuple[str, ...]:
        """The ids of the forks of a source. Usually it has none."""
        if not (self.journal.forks or self.forks):
            return ()
        return (*self.journal.forks.get(key, ()), *self.forks.get(key, ()))

    def version_left(self, host: str) -> int:
        """The map version by which a host left the partition. 0 means that it did not."""
        return self.left.get(host) or self.journal.left.get(host, 0)

    def file(self, delivery: Delivery, host: str, name: str) -> GrowingFile:
        """The file for the text of a log file: its own, or `OVERFLOW` where the host has too many files."""
        named = (delivery.time_ns // DAY_NS, host, name)
        if (file := self._named.get(named)) is not None:
            return file
        key = FileKey(day_of(delivery.time_ns), self.partition, host, name)
        path = self.layout.path(key, delivery.time_ns)
        file, committed = self.growing.get(path), self.journal.files.get(path)
        is_own = file is not None or committed is not None or self._admit_file(key)
        if not is_own:
            self.overflowed[host] += 1
            key = key._replace(file=OVERFLOW)
            path = self.layout.path(key, delivery.time_ns)
            file, committed = self.growing.get(path), self.journal.files.get(path)
        if file is None:
            is_new = committed is None
            if committed is None:
                length = self.layout.length_before(path)
                committed = OpenFile(path=path, key=key, length=length, raw=length, crc=None if length else 0)
            file = self.growing[path] = GrowingFile(committed, self.compress, is_new=is_new)
        if is_own and self.layout.seals:  # a template may have the time in its names
            self._named[named] = file
        return file

    # -- the files that grow ------------------------------------------------------------------------------------------

    def append_line(self, file: GrowingFile, delivery: Delivery) -> None:
        """Append the line of a plain message, or the lines of a run."""
        line = delivery.payload + b"\n"
        self._change(file, delivery)
        file.append(delivery, "", line)
        self._count(file, lines=line.count(b"\n"), octets=len(line))

    def append_block(
        self, file: GrowingFile, delivery: Delivery, block: Block, grown: Grown, rest: Rest, frame: bytes
    ) -> None:
        """Append `rest`, the new text of a block. `frame` is exactly that text, if it is not empty."""
        new, key = grown.new, SourceKey(file.key.host, block.source)
        if new.end > new.start:
            self._change(file, delivery)
            file.append_block(delivery, block, new, rest, frame)
            lines = block.lines if new == block.span else count_lines(rest.content)
            self._count(file, lines=lines, octets=len(rest.content))
        if block.edited is not None:
            self.edited.add(key)
        if codec.REDACTED in delivery.headers:
            if not block.redacted:
                self.bad_counts[file.key.host] += 1
            elif new == block.span and new.length:  # of a block that was there in part the counts are not known
                for rule, places in block.redacted:
                    self.redacted[file.path, rule] = self.redacted.get((file.path, rule), 0) + places
        self.grow(file, delivery, key, grown)

    def grow(self, file: GrowingFile, delivery: Delivery, key: SourceKey, grown: Grown) -> None:
        """Enter a source after a block, and what is missing of it."""
        self.sources[key] = grown.source
        if grown.losses:
            self.lose(file, delivery, key, grown.losses)

    def lose(self, file: GrowingFile, delivery: Delivery, source: SourceKey, losses: Iterable[Lost]) -> None:
        """Record that bytes of a source are missing in the file. The file is created even if it stays empty."""
        for span, reason in losses:
            self._change(file, delivery)
            self.losses.append(Loss(file.path, source, span, reason))
            if reason not in NOT_LOST:
                self.spent[Account(file.key.date, source.host, Budget.LOST)] += span.length

    def add_duplicate(self, file: GrowingFile, delivery: Delivery) -> None:
        """Count a dropped block, where its file is still open."""
        if file.is_changed or not file.is_new:
            self._change(file, delivery)
            file.duplicates += 1

    def _change(self, file: GrowingFile, delivery: Delivery) -> None:
        if not file.is_changed:
            file.change(delivery)
            if file.is_new:
                self.created.append(file)

    def _count(self, file: GrowingFile, *, lines: int, octets: int) -> None:
        """Count new text. Above its budget the message is counted and kept: a loss is worse than its size.

        A few stored bytes can hold much text, which each reader of the archive has to unpack.
        """
        self.totals.lines += lines
        self.totals.bytes += octets
        self.spent[file.text_account] += octets
        if self.text_bytes and self._spent(file.text_account) > self.text_bytes:
            self.refused[file.key.host, Budget.TEXT] += 1

    # -- holes, and what is not written -------------------------------------------------------------------------------

    def open_hole(self, delivery: Delivery, known: ArchivedSource, missing: Span) -> None:
        """Note that `missing` bytes precede a block. Raises Poison: its host has too many holes, or loses too much."""
        key, host = known.key, known.host
        if key not in self.holes:
            self._admit_loss(day_of(delivery.time_ns), host, missing.length)
            if self._count_holes()[host] >= MAX_HOLES:
                raise Poison(f"bytes before it are missing, as in {MAX_HOLES} other files of its host")
            self._count_holes()[host] += 1
            self._missing_of[host] += missing.length
            self.holes[key] = Hole(source=key, file=known.file, sequence=delivery.first_sequence, missing=missing)

    def accept(self, file: GrowingFile, block: Block, key: SourceKey, *, is_new: bool) -> None:
        """Note that a block is written: it may begin a source, and end a hole. Raises Poison: too much is lost."""
        if block.gap:
            self._admit_loss(file.key.date, key.host, block.gap)
        if is_new:
            self.spent[Account(file.key.date, key.host, Budget.SOURCES)] += 1
        if self.holes and (hole := self.holes.get(key)) is not None and block.span.end >= hole.missing.end:
            self._remove_hole(hole)

    def leave(self, host: str, version: int) -> None:
        """Ignore blocks that `host` sends by older maps from here on. Its holes stay unfilled in this partition."""
        self.left[host] = max(version, self.version_left(host))
        for hole in [hole for source, hole in self.holes.items() if source.host == host]:
            self._remove_hole(hole)

    def add_dead_letter(self, delivery: Delivery, host: str, reason: str) -> None:
        """Keep an invalid message with the reason, as far as the budget of its host allows."""
        host, date = host or "unknown", day_of(delivery.time_ns)
        letters, whole = Account(date, host, Budget.LETTERS), Account(date, host, Budget.LETTER_BYTES)
        if self._spent(letters) >= MAX_LETTERS:
            self.refused[host, Budget.LETTERS] += 1
            self.spent[Account(date, host, Budget.DROPPED)] += 1
            return
        self.spent[letters] += 1
        octets = len(delivery.payload) + sum(len(name) + len(value) for name, value in delivery.headers.items())
        if is_whole := self._spent(whole) + octets <= FULL_BYTES:
            self.spent[whole] += octets
        else:
            self.cut[host] += 1
        self.dead_letters.append(DeadLetter(delivery=delivery, host=host, reason=reason, is_whole=is_whole))

    def _remove_hole(self, hole: Hole) -> None:
        del self.holes[hole.source]
        if self._holes_of is not None:
            self._holes_of[hole.source.host] -= 1
            self._missing_of[hole.source.host] -= hole.missing.length

    # -- what a host may spend ----------------------------------------------------------------------------------------

    def admit_source(self, delivery: Delivery, host: str) -> None:
        """Check that a host may begin one more source. Raises Poison: it has begun too many today."""
        if self._spent(Account(day_of(delivery.time_ns), host, Budget.SOURCES)) >= MAX_NEW_SOURCES:
            self.refused[host, Budget.SOURCES] += 1
            raise Poison(f"its host has begun {MAX_NEW_SOURCES} other sources (files and rotations) today")

    def _admit_file(self, key: FileKey) -> bool:
        """Whether a host may begin a file. If it may, the file is counted."""
        if self._files_of is None:
            self._files_of = Counter(file.key.host for file in self.journal.files.values())
        day = Account(key.date, key.host, Budget.FILES)
        if self._files_of[key.host] >= MAX_FILES or self._spent(day) + self._new_files[day] >= MAX_NEW_FILES:
            return False
        self._files_of[key.host] += 1
        self._new_files[day] += 1
        return True

    def _admit_loss(self, date: str, host: str, octets: int) -> None:
        """Check that a host may lose `octets` more bytes. Raises Poison: that would exceed `MAX_LOST`."""
        self._count_holes()
        if self._spent(Account(date, host, Budget.LOST)) + self._missing_of[host] + octets > MAX_LOST:
            self.refused[host, Budget.LOST] += 1
            raise Poison(f"with these {octets} lost bytes its host would have lost more than {MAX_LOST} today")

    def _spent(self, account: Account) -> int:
        before = self._spent_before.get(account)
        if before is None:
            before = self._spent_before[account] = self.journal.spent(account)
        return before + self.spent[account]

    def _count_holes(self) -> Counter[str]:
        if self._holes_of is None:
            self._holes_of = Counter(source.host for source in self.holes)
            for source, hole in self.holes.items():
                self._missing_of[source.host] += hole.missing.length
        return self._holes_of

    # -- the end ------------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Enter the files and the position, after the last message.

        The last message is before the position where the stream is read again for a hole. A restart reads again from
        the first of the holes.
        """
        at, last = self.journal.position, self.messages[-1]
        applied = max(at.applied, last.sequence)
        first_hole = min((hole.sequence for hole in self.holes.values()), default=applied + 1)
        self.position = replace(
            at,
            applied=applied,
            applied_ns=at.applied_ns if last.sequence < at.applied else last.time_ns,
            resume=min(first_hole, last.sequence + 1),
        )
        for file in [file for file in self.growing.values() if file.is_changed]:
            file.close()
            if file.is_new:
                self.spent[Account(file.key.date, file.key.host, Budget.FILES)] += 1
            self.files[file.path] = file.grown()
            self.extents += [Extent(file.path, id_, span) for id_, spans in file.spans.items() for span in spans]
            if file.spans or file.raw > file.committed.raw:
                self.totals.files.add((file.key.host, file.key.file))
