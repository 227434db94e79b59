"""Judge a batch of deliveries and write what is new into the files; nothing counts before the journal commits it."""

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from consumer.archive import Layout
from consumer.journal import Changes, Extent, Journal, Loss, OpenFile, Position
from consumer.sink import Sink
from consumer.watermark import Known, Verdict, begin, judge, missing_before, missing_behind
from shipper import codec, events
from shipper.compression import Decompressor
from shipper.errors import ArchiveTrouble, Poison
from shipper.layout import FileKey, day_of
from shipper.model import Block, Delivery, Span
from shipper.subjects import parse_log_subject

REASON_MISSING = "missing"
REASON_POISON = "poison"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Blocks that came behind missing ones: where they begin in the stream, and what is missing."""

    source: str
    host: str
    file: str
    sequence: int  #: of the first block behind the hole
    missing: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """A message that fails for its own sake."""

    delivery: Delivery
    host: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Staged:
    """A batch that is judged, and written but not synced."""

    changes: Changes
    dead: list[Dead] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    written_bytes: int = 0
    holes: dict[str, Hole] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)


class Stager:
    """Turns deliveries into appended bytes and journal changes. Owned by the partition's worker."""

    def __init__(self, journal: Journal, sink: Sink, *, output: str, partition: int, layout: Layout) -> None:
        self._journal = journal
        self._sink = sink
        self._output = output
        self._partition = partition
        self._layout = layout
        self._decompressor = Decompressor()

    def stage(self, batch: list[Delivery], holes: Mapping[str, Hole], given_up: Mapping[str, int]) -> Staged:
        """Judge `batch` and append its new bytes. Raises OSError, sqlite3.Error: the archive has trouble."""
        staged = Staged(changes=Changes(position=self._journal.position), holes=dict(holes))
        plan = _Plan(self._journal, staged, self._layout)
        for delivery in batch:
            self._stage_one(delivery, staged, plan, given_up)
        self._write(plan, staged)
        staged.changes.position = self._position(staged, batch[-1])
        return staged

    def _stage_one(self, delivery: Delivery, staged: Staged, plan: "_Plan", given_up: Mapping[str, int]) -> None:
        host = ""
        try:
            host = parse_log_subject(delivery.subject).host
            if codec.is_plain(delivery.headers):
                self._stage_plain(delivery, host, staged, plan)
            else:
                self._stage_block(delivery, host, staged, plan, given_up)
        except Poison as error:
            staged.outcomes["poison"] += 1
            staged.dead.append(Dead(delivery=delivery, host=host or "unknown", reason=str(error)))

    def _stage_plain(self, delivery: Delivery, host: str, staged: Staged, plan: "_Plan") -> None:
        """One line from anybody: it has no offsets, so the journal's sequence makes it exactly once."""
        at = self._journal.position
        if delivery.sequence <= at.applied or delivery.time_ns <= at.plain_after_ns:
            staged.outcomes["duplicate"] += 1
            return
        key = FileKey(day_of(delivery.time_ns), self._partition, host, self._output)
        plan.append(key, delivery, "", delivery.payload + b"\n")
        staged.outcomes["written"] += 1

    def _stage_block(
        self, delivery: Delivery, host: str, staged: Staged, plan: "_Plan", given_up: Mapping[str, int]
    ) -> None:
        block = codec.from_headers(delivery.headers)
        known = plan.source(block.source) or begin(block, host)
        if known.host != host:
            raise Poison(f"source {block.source} belongs to host {known.host}")
        verdict = judge(block, known, given_up_at=given_up.get(block.source))
        if verdict is Verdict.HOLE:
            self._note_hole(delivery, block, known, staged)
        elif verdict is Verdict.DUPLICATE:
            plan.duplicate(self._key(delivery, known), delivery)
        else:
            self._accept(delivery, block, known, plan)
            self._note_filled(block, staged)
        staged.outcomes[verdict.value] += 1

    def _accept(self, delivery: Delivery, block: Block, known: Known, plan: "_Plan") -> None:
        """Write the new bytes of a sound block; a damaged one leaves a gap, so that the next can follow it."""
        key = self._key(delivery, known)
        missing = missing_before(block, known)
        if missing.length > 0:
            plan.lose(key, delivery, known, missing, REASON_MISSING)
            known = replace(known, watermark=block.span.start, crc=None)
        try:
            data = self._decompressor.decode(block, delivery.payload)
        except Poison:
            plan.lose(key, delivery, known, Span(known.watermark, block.span.end), REASON_POISON)
            plan.sources[known.id] = replace(known, watermark=block.span.end, crc=None)
            raise
        new = data[known.watermark - block.span.start :]
        if new:
            plan.append(key, delivery, known.id, new)
            plan.extend(key, delivery, known, block.span.end)
        lost = missing_behind(block, known)
        if lost.length > 0:
            plan.lose(key, delivery, known, lost, block.end.value if block.end else REASON_MISSING)
        plan.sources[known.id] = replace(
            known,
            watermark=max(known.watermark, block.span.end),
            crc=self._sum(block, known, new),
            ended=block.end is not None,
        )

    def _sum(self, block: Block, known: Known, new: bytes) -> int | None:
        """The source's CRC behind `block`; another one than the block says means that the file was rewritten."""
        if block.span.end < known.watermark:
            return known.crc  # a farewell from before what is here
        if known.crc is not None and zlib.crc32(new, known.crc) != block.source_crc:
            events.source_rewritten(partition=self._partition, host=known.host, file=known.file, offset=known.watermark)
        return block.source_crc

    def _key(self, delivery: Delivery, known: Known) -> FileKey:
        return FileKey(day_of(delivery.time_ns), self._partition, known.host, known.file)

    def _note_hole(self, delivery: Delivery, block: Block, known: Known, staged: Staged) -> None:
        if block.source not in staged.holes:
            missing = missing_before(block, known)
            staged.holes[block.source] = Hole(
                source=block.source, host=known.host, file=known.file, sequence=delivery.sequence, missing=missing
            )
            events.hole_opened(
                partition=self._partition, host=known.host, file=known.file, start=missing.start, end=missing.end
            )

    def _note_filled(self, block: Block, staged: Staged) -> None:
        hole = staged.holes.get(block.source)
        if hole is not None and block.span.end >= hole.missing.end:
            del staged.holes[block.source]
            staged.filled.add(block.source)

    def _write(self, plan: "_Plan", staged: Staged) -> None:
        """Journal new files, create them, append: in this order a kill leaves nothing that nobody knows of."""
        self._journal.register(plan.created.values())
        for file in plan.created.values():
            self._sink.create(file)
        for path, buffers in plan.buffers.items():
            self._sink.append(plan.committed(path), buffers)
            staged.written_bytes += sum(map(len, buffers))
        staged.changes.sources = plan.sources
        staged.changes.files = plan.files

    def _position(self, staged: Staged, last: Delivery) -> Position:
        at = self._journal.position
        applied = max(at.applied, last.sequence)
        first_hole = min((hole.sequence for hole in staged.holes.values()), default=applied + 1)
        behind = last.sequence < at.applied  # read again for a hole that was given up
        return replace(
            at,
            applied=applied,
            applied_ns=at.applied_ns if behind else last.time_ns,
            resume=min(first_hole, last.sequence + 1),
        )


class _Plan:
    """What a batch does to files and sources, over what the journal has committed."""

    def __init__(self, journal: Journal, staged: Staged, layout: Layout) -> None:
        self._journal = journal
        self._changes = staged.changes
        self._layout = layout
        self.sources: dict[str, Known] = {}
        self.files: dict[str, OpenFile] = {}
        self.created: dict[str, OpenFile] = {}
        self.buffers: dict[str, list[bytes]] = {}

    def source(self, id_: str) -> Known | None:
        """A source as it is behind what was staged so far."""
        return self.sources.get(id_) or self._journal.source(id_)

    def committed(self, path: str) -> OpenFile:
        """A file as the journal has it: appended bytes begin at its length."""
        return self._journal.files[path]

    def append(self, key: FileKey, delivery: Delivery, source: str, data: bytes) -> None:
        """Put `data` behind the file of `key`; a source that ended without a newline is closed by one first."""
        file = self._file(key, delivery)
        buffers = self.buffers.setdefault(file.path, [])
        join = file.ends_open and file.last_source != source
        if join:
            buffers.append(b"\n")
        buffers.append(data)
        self.files[file.path] = replace(
            file,
            length=file.length + len(data) + join,
            last_seq=delivery.sequence,
            last_ns=delivery.time_ns,
            joins=file.joins + join,
            last_source=source,
            ends_open=not data.endswith(b"\n"),
        )

    def extend(self, key: FileKey, delivery: Delivery, known: Known, end: int) -> None:
        """Note that the file of `key` now holds the source from its watermark to `end`."""
        path = self._file(key, delivery).path
        self._changes.extents.append(Extent(path, known.id, Span(known.watermark, end)))

    def lose(self, key: FileKey, delivery: Delivery, known: Known, span: Span, reason: str) -> None:
        """Note that bytes are missing in the file of `key`, and say so."""
        path = self._file(key, delivery).path
        self._changes.losses.append(Loss(path, known.id, span, reason))
        events.gap_recorded(
            partition=key.partition, host=known.host, file=known.file, start=span.start, end=span.end, reason=reason
        )

    def duplicate(self, key: FileKey, delivery: Delivery) -> None:
        """Count a dropped block, where its file is still open."""
        path = self._layout.path(key, delivery.time_ns)
        file = self.files.get(path) or self._journal.files.get(path)
        if file is not None and not file.sealing:
            self.files[path] = replace(file, duplicates=file.duplicates + 1)

    def _file(self, key: FileKey, delivery: Delivery) -> OpenFile:
        path = self._layout.path(key, delivery.time_ns)
        file = self.files.get(path) or self._journal.files.get(path)
        if file is not None and file.sealing:
            raise ArchiveTrouble(f"{path} is not sealed yet")
        if file is None:
            file = OpenFile(
                path=path,
                key=key,
                length=self._layout.length_before(path),
                first_seq=delivery.sequence,
                last_seq=delivery.sequence,
                first_ns=delivery.time_ns,
                last_ns=delivery.time_ns,
            )
            self.created[path] = file
        self.files[path] = file
        return file
