"""Decide what is new in each message of a batch, and append it to the files. The journal commits it later.

`consumer/pipeline.py` has the order of the steps after that: sync, commit, acknowledge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.commit.batch import Batch, GrowingFile, Hole
from consumer.commit.forks import ForkResolver
from consumer.commit.frame_cache import FrameCache
from consumer.commit.store import PartitionStore
from consumer.commit.watermark import (
    REASON_FORKED,
    REASON_POISON,
    BlockOutcome,
    GivenUp,
    Lost,
    after_handoff,
    begin,
    grow,
    judge,
    lost_before,
    missing_before,
)
from consumer.model import ArchivedSource, PartitionOptions, Position, SourceKey
from shipper import codec, control
from shipper.compression import Compressor, Decompressor
from shipper.errors import Poison
from shipper.model import Block, Delivery, Encoding, Span
from shipper.subjects import parse_log_subject

STALE = "stale"
"""Outcome of a block that a host sent before it moved, and that is stored after the move marker."""
MARKER = "marker"
"""Outcome of a move marker."""
MAX_OFFSET = (1 << 53) - 1
"""Maximum offset in a source: 8 PiB. No file is longer, and every reader of JSON represents sums up to it exactly."""


class Applier:
    """Turns deliveries into appended bytes and journal changes. Owned by the partition's worker."""

    def __init__(self, options: PartitionOptions, store: PartitionStore, ready: FrameCache) -> None:
        self._options = options
        self._store = store
        self._ready = ready
        self._decompressor = Decompressor()
        self._forks = ForkResolver(store, self._decompressor)
        self._frames = store.layout.frames
        self._compress = None if self._frames == "none" else Compressor(Encoding(self._frames)).encode

    def begin(
        self, messages: Sequence[Delivery], holes: Mapping[SourceKey, Hole], given_up: Mapping[SourceKey, GivenUp]
    ) -> Batch:
        """A batch of `messages` of which nothing is staged yet. `holes` are open before it."""
        return Batch(
            position=self._store.journal.position,
            messages=messages,
            given_up=given_up,
            journal=self._store.journal,
            layout=self._store.layout,
            partition=self._options.partition,
            compress=self._compress,
            text_bytes=self._options.host_text_bytes,
            holes=dict(holes),
        )

    def stage(self, batch: Batch) -> Batch:
        """Decide about every message of `batch`, and write the new bytes. Returns the batch, ready for the commit.

        Raises OSError, sqlite3.Error: the archive has trouble.
        """
        self._forks.begin_batch()
        for delivery in _apart(batch):
            batch.outcomes[self._stage_message(delivery, batch)] += delivery.messages
        batch.complete()
        self._store.write(batch, batch.growing.values())
        return batch

    def _stage_message(self, delivery: Delivery, batch: Batch) -> str:
        """Stage a block, one plain line, or the marker of a host that moved. Returns the outcome."""
        host, headers = "", delivery.headers
        is_applied = _is_applied(delivery.sequence, delivery.time_ns, batch.journal.position)
        try:
            host = parse_log_subject(delivery.subject).host
            if control.is_republished(headers):
                raise Poison("nats-server sent it as a copy of a stored message: no host published it on this subject")
            if (version := codec.leaves(headers)) is not None:
                batch.leave(host, version)
                return MARKER
            if not codec.is_plain(headers):
                return self._stage_block(delivery, host, _checked(codec.from_headers(headers)), batch)
            if not is_applied:  # it has no offsets; its sequence in the journal makes it exactly once
                batch.append_line(batch.file(delivery, host, self._options.output), delivery)
                return BlockOutcome.WRITE
        except Poison as error:
            if not is_applied:
                batch.add_dead_letter(delivery, host, str(error))
                return REASON_POISON
        return BlockOutcome.DUPLICATE

    def _stage_block(self, delivery: Delivery, host: str, block: Block, batch: Batch) -> str:
        if block.map_version < batch.version_left(host):
            return STALE
        key, archive = SourceKey(host, block.source), self._options.archive
        found = self._find(key, block, batch)
        if found is None:  # before the decision: a refused source must not leave a hole
            batch.admit_source(delivery, host)
        before = found or begin(block, host)
        known = after_handoff(block, before, archive)
        fork = self._forks.resolve(delivery, block, key, known, batch)
        file = batch.file(delivery, host, known.file)
        if fork is not None:
            block, known, key = replace(block, source=fork.id, handoff=None), fork, fork.key
            if batch.source(key) is None:  # the file records a new fork, also where it has all bytes before it
                batch.lose(file, delivery, key, [Lost(Span(fork.origin, fork.watermark), REASON_FORKED)])
        given_up = batch.given_up.get(key)
        outcome = judge(block, known, given_up_at=given_up.offset if given_up else None)
        try:
            if outcome is BlockOutcome.DUPLICATE:
                batch.add_duplicate(file, delivery)
            elif outcome is BlockOutcome.HOLE:
                batch.open_hole(delivery, known, missing_before(block, known))
            else:
                batch.accept(file, block, key, is_new=found is None)
                losses = lost_before(block, before.watermark, known, given_up, archive)
                self._write(delivery, block, known, losses, file, batch)
        except Poison as error:
            batch.add_dead_letter(delivery, host, str(error))
            return REASON_POISON
        return outcome

    def _find(self, key: SourceKey, block: Block, batch: Batch) -> ArchivedSource | None:
        """What the archive has of a source, in any partition. None means that it has nothing.

        A block with a handoff contains itself where the former partition ended.
        """
        own, others = batch.source(key), self._store.others
        if block.handoff is not None or (own is not None and key not in others.sources.shared):
            return own
        found = others.find(key)
        if found is None or found.known.watermark <= (own.watermark if own else found.known.origin):
            return own
        if own is None:
            batch.archived_before.append(found)
            batch.shared.add(key)
        batch.sources[key] = found.known
        return found.known

    def _write(
        self,
        delivery: Delivery,
        block: Block,
        known: ArchivedSource,
        losses: list[Lost],
        file: GrowingFile,
        batch: Batch,
    ) -> None:
        """Write what the archive lacks of a block. `losses` are before it.

        Raises Poison: the block is damaged. It leaves a gap, so that the next block can follow it.
        """
        payload, time_ns = delivery.payload, delivery.time_ns
        try:
            rest = self._decompressor.rest(block, payload, at=max(known.watermark, block.span.start))
        except Poison:
            batch.grow(file, delivery, known.key, grow(block, known, losses, None, time_ns))
            raise
        grown = grow(block, known, losses, rest.content, time_ns)
        is_whole = block.edited is None and grown.new == block.span
        frames = block.encoding.value if is_whole else "none"  # a block that is whole stays in its frame
        batch.append_block(file, delivery, block, grown, rest, payload if frames == self._frames else b"")
        self._forks.written(grown.source)
        if frames == self._ready.codec and (length := grown.new.length):
            at = file.raw - length
            self._ready.add(file.path, at, payload, text_bytes=length, lines=block.lines, time_ns=time_ns)
        if file.is_large:
            self._store.write(batch, [file])


def _apart(batch: Batch) -> Iterator[Delivery]:
    """The messages of `batch`. A run of plain messages is taken apart if it may not be applied as a whole."""
    for delivery in batch.messages:
        if delivery.run is None or not codec.is_plain(delivery.headers) or _is_one(delivery, batch.journal.position):
            yield delivery
        else:
            yield from delivery.apart()


def _is_one(delivery: Delivery, at: Position) -> bool:
    """Whether no message of a run is applied already, or has a subject for which it becomes a dead letter."""
    try:
        parse_log_subject(delivery.subject)
    except Poison:
        return False
    return not _is_applied(delivery.first_sequence, delivery.first_ns, at)


def _is_applied(sequence: int, time_ns: int, at: Position) -> bool:
    """Whether a message without offsets is read again, for a hole or in a new history of the stream."""
    return sequence <= at.applied or time_ns <= at.plain_after_ns


def _checked(block: Block) -> Block:
    """`block`, with offsets that a file can have. Raises Poison."""
    if block.span.end + block.gap > MAX_OFFSET:
        raise Poison(f"Log-Span {block.span} with Log-Gap {block.gap} leads beyond what any file can hold")
    if block.handoff is not None and block.handoff.offset > MAX_OFFSET:
        raise Poison(f"Log-Handoff {block.handoff.offset} is beyond what any file can hold")
    return block
