"""Decide what is new in each message of a batch, and append it to the files. The journal commits it later.

`consumer/pipeline.py` has the order of the steps after that: sync, commit, acknowledge.
"""

from collections.abc import Mapping
from dataclasses import replace

from consumer.commit.batch_files import BatchFiles, BatchPlan, Destination
from consumer.commit.forks import ForkResolver
from consumer.commit.frame_cache import FrameCache
from consumer.commit.staged_batch import Hole, StagedBatch, begin_batch, position_after
from consumer.commit.store import PartitionStore
from consumer.commit.watermark import (
    REASON_ELSEWHERE,
    REASON_FORKED,
    REASON_MISSING,
    REASON_REWRITTEN,
    BlockOutcome,
    GivenUp,
    after_handoff,
    begin,
    judge,
    missing_after,
    missing_before,
    missing_parts,
    skip_to,
    source_crc,
)
from consumer.model import ArchivedSource, PartitionOptions, SourceKey
from shipper import codec, control
from shipper.compression import Compressor, Decompressor
from shipper.errors import Poison
from shipper.layout import day_of
from shipper.model import Block, Delivery, Encoding, Span
from shipper.subjects import parse_log_subject

REASON_POISON = "poison"
STALE = "stale"
"""Outcome of a block that a host sent before it moved, and that is stored after the move marker."""
MARKER = "marker"
"""Outcome of a move marker."""
MANY_PENDING = 64
"""Messages that are pending after the batch: as many full blocks as are written between two syncs. While more are
pending, the collector does not wait for the disk within a batch."""
MAX_OFFSET = (1 << 53) - 1
"""Maximum offset in a source: 8 PiB. No file is longer, and every reader of JSON represents sums up to it exactly."""


class Applier:
    """Turns deliveries into appended bytes and journal changes. Owned by the partition's worker."""

    def __init__(self, options: PartitionOptions, store: PartitionStore, ready: FrameCache) -> None:
        self._journal = store.journal
        self._others = store.others
        self._output = options.output
        self._archive = options.archive
        self._text_bytes = options.host_text_bytes
        self._decompressor = Decompressor()
        self._files = BatchFiles(store.journal, store.sink, store.layout, ready, options.partition)
        self._forks = ForkResolver(store.journal, self._files, self._decompressor)
        frames = store.layout.frames
        self._compress = None if frames == "none" else Compressor(Encoding(frames)).encode

    def stage(
        self, batch: list[Delivery], holes: Mapping[SourceKey, Hole], given_up: Mapping[SourceKey, GivenUp]
    ) -> StagedBatch:
        """Decide about every message of `batch` and append the new bytes.

        Raises OSError, sqlite3.Error: the archive has trouble.
        """
        keeps_up = batch[-1].pending <= MANY_PENDING
        staged = begin_batch(self._journal, holes, keeps_up=keeps_up, text_bytes=self._text_bytes)
        plan = BatchPlan(self._journal, staged, self._compress)
        self._forks.begin_batch()
        for delivery in batch:
            staged.outcomes[self._stage_message(delivery, plan, given_up)] += 1
        self._files.write(plan)
        plan.complete(position_after(self._journal.position, batch[-1], staged.holes))
        return staged

    def _stage_message(self, delivery: Delivery, plan: BatchPlan, given_up: Mapping[SourceKey, GivenUp]) -> str:
        """Stage a block, one plain line, or the marker of a host that moved; the outcome."""
        host, headers = "", delivery.headers
        try:
            host = parse_log_subject(delivery.subject).host
            if control.is_republished(headers):
                raise Poison("nats-server sent it as a copy of a stored message: no host published it on this subject")
            if (version := codec.leaves(headers)) is not None:
                # blocks by older maps are ignored from here on; the host's holes stay unfilled in this partition
                plan.changes.left[host] = max(version, self._left(host, plan))
                plan.staged.close_holes_of(host)
                return MARKER
            if codec.is_plain(headers):
                return self._stage_line(delivery, host, plan)
            return self._stage_block(delivery, host, _checked(codec.from_headers(headers)), plan, given_up)
        except Poison as error:
            if self._is_applied(delivery):
                return BlockOutcome.DUPLICATE.value
            plan.staged.add_dead_letter(delivery, host, str(error))
            return REASON_POISON

    def _is_applied(self, delivery: Delivery) -> bool:
        """Whether a message without offsets was applied before: it is read again for a hole, or in a new history."""
        at = self._journal.position
        return delivery.sequence <= at.applied or delivery.time_ns <= at.plain_after_ns

    def _left(self, host: str, plan: BatchPlan) -> int:
        return plan.changes.left.get(host) or self._journal.left.get(host, 0)

    def _stage_line(self, delivery: Delivery, host: str, plan: BatchPlan) -> str:
        """One line of any client. It has no offsets; the sequence in the journal makes it exactly once."""
        at = self._files.destination(delivery, host, self._output, plan)
        if self._is_applied(delivery):
            return BlockOutcome.DUPLICATE.value
        self._files.append_line(at, plan)
        return BlockOutcome.WRITE.value

    def _stage_block(
        self, delivery: Delivery, host: str, block: Block, plan: BatchPlan, given_up: Mapping[SourceKey, GivenUp]
    ) -> str:
        if block.map_version < self._left(host, plan):
            return STALE
        staged, date = plan.staged, day_of(delivery.time_ns)
        found = self._find(SourceKey(host, block.source), block, plan)
        if found is None:
            staged.budgets.admit_source(date, host)  # before the decision: a refused source must not leave a hole
        before = found or begin(block, host)
        known = after_handoff(block, before, self._archive)
        fork = self._forks.resolve(delivery, block, known, plan)
        at = self._files.destination(delivery, host, known.file, plan)
        if fork is not None:
            block, known = self._as_block_of(fork, block, at, plan), fork
        gone = given_up.get(known.key)
        outcome = judge(block, known, given_up_at=gone.offset if gone else None)
        try:
            if outcome is BlockOutcome.HOLE:
                staged.open_hole(delivery, known, missing_before(block, known))
            elif outcome is BlockOutcome.DUPLICATE:
                plan.duplicate(at.path)
            else:
                if block.gap:
                    staged.budgets.admit_loss(date, host, block.gap)
                if found is None:
                    staged.budgets.begin_source(date, host)
                staged.close_hole(known.key, block.span.end)
                if block.handoff is not None and block.handoff.archive != self._archive:
                    self._lose(known, Span(before.watermark, known.watermark), REASON_ELSEWHERE, at, plan)
                self._accept(block, known, gone, at, plan)
        except Poison as error:
            staged.add_dead_letter(delivery, host, str(error))
            return REASON_POISON
        return outcome.value

    def _as_block_of(self, fork: ArchivedSource, block: Block, at: Destination, plan: BatchPlan) -> Block:
        """`block` as a block of the fork that it belongs to. A new fork is recorded in the file."""
        if plan.source(fork.key) is None:
            self._files.record_loss(at, fork, Span(fork.origin, fork.watermark), REASON_FORKED, plan)
        return replace(block, source=fork.id, handoff=None)

    def _find(self, source: SourceKey, block: Block, plan: BatchPlan) -> ArchivedSource | None:
        """What the archive has of a source, in any partition; None: nothing.

        A block with a handoff contains itself where the former partition ended.
        """
        own = plan.source(source)
        if block.handoff is not None or (own is not None and source not in self._others.sources.shared):
            return own
        found = self._others.find(source)
        if found is None or found.known.watermark <= (own.watermark if own else found.known.origin):
            return own
        if own is None:
            plan.staged.archived_before.append(found)
            plan.changes.shared.add(source)
        plan.changes.sources[source] = found.known
        return found.known

    def _accept(
        self, block: Block, known: ArchivedSource, gone: GivenUp | None, at: Destination, plan: BatchPlan
    ) -> None:
        """Write the new bytes of a sound block. A damaged block leaves a gap, so that the next block can follow it."""
        if block.span.start > known.watermark:
            for span, reason in missing_parts(missing_before(block, known), gone or GivenUp(0)):
                self._lose(known, span, reason, at, plan)
            known = skip_to(known, block.span.start)
        new = Span(known.watermark, max(known.watermark, block.span.end))
        try:
            rest = self._decompressor.rest(block, at.delivery.payload, at=known.watermark)
        except Poison:
            self._lose(known, new, REASON_POISON, at, plan)
            if new.length:
                known = skip_to(known, new.end)
            plan.changes.sources[known.key] = replace(known, seen_ns=at.delivery.time_ns)
            raise
        if new.length:
            self._files.append_block(at, known.id, block, new, rest, plan)
        if block.gap:
            reason = block.end.value if block.end else REASON_MISSING
            self._lose(known, missing_after(block, known), reason, at, plan)
        if block.edited is not None:
            plan.changes.edited.add(known.key)
        if codec.REDACTED in at.delivery.headers:
            _count_redacted(block, new, at, plan)
        crc = source_crc(block, known, rest.content)
        if crc.is_rewritten:
            plan.staged.rewritten.append(known)
            self._files.record_loss(at, known, Span(known.watermark, known.watermark), REASON_REWRITTEN, plan)
        plan.changes.sources[known.key] = grown = known.grown(
            watermark=new.end,
            crc=crc.value,
            proven=crc.is_proven,
            ended=block.end is not None,
            seen_ns=at.delivery.time_ns,
        )
        self._forks.written(grown)

    def _lose(self, known: ArchivedSource, span: Span, reason: str, at: Destination, plan: BatchPlan) -> None:
        if span.length > 0:
            self._files.record_loss(at, known, span, reason, plan)
            if reason != REASON_ELSEWHERE:
                plan.staged.budgets.lose(at.key.date, known.host, span.length)


def _count_redacted(block: Block, new: Span, at: Destination, plan: BatchPlan) -> None:
    """Add what the redaction of the host counted in a block. Of a block that was there in part it is not known."""
    if not block.redacted:
        plan.staged.bad_counts[at.key.host] += 1
    elif new == block.span and new.length:
        for rule, places in block.redacted:
            key = (at.path, rule)
            plan.changes.redacted[key] = plan.changes.redacted.get(key, 0) + places


def _checked(block: Block) -> Block:
    """`block`, with offsets that a file can have. Raises Poison."""
    if block.span.end + block.gap > MAX_OFFSET:
        raise Poison(f"Log-Span {block.span} with Log-Gap {block.gap} leads beyond what any file can hold")
    if block.handoff is not None and block.handoff.offset > MAX_OFFSET:
        raise Poison(f"Log-Handoff {block.handoff.offset} is beyond what any file can hold")
    return block
