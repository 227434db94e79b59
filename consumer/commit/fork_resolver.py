"""Finds the fork of a source that a block belongs to, by comparing the block with what the archive has."""

import functools
from pathlib import Path

from consumer.commit.archived_bytes import ArchivedBytes
from consumer.commit.batch_files import BatchFiles
from consumer.commit.batch_plan import BatchPlan
from consumer.commit.forks import ForkDetector, NewFork, begin_fork, check_room
from consumer.commit.journal import Journal
from consumer.model import ArchivedSource, SourceKey
from shipper.compression import Decompressor
from shipper.errors import Poison
from shipper.model import Block, Delivery


class ForkResolver:
    """The forks of a partition's sources. Owned by the partition's worker."""

    def __init__(self, archive: Path, journal: Journal, files: BatchFiles, decompressor: Decompressor) -> None:
        self._journal = journal
        self._files = files
        self._decompressor = decompressor
        self._archived = ArchivedBytes(archive, journal)
        self._detector = ForkDetector()

    def begin_batch(self) -> None:
        """A batch begins: as much of the archive may be read again as for any batch."""
        self._archived.begin()

    def written(self, known: ArchivedSource) -> None:
        """A block of `known` was written, which ends at its watermark."""
        self._detector.written(known)

    def resolve(
        self, delivery: Delivery, block: Block, known: ArchivedSource, plan: BatchPlan
    ) -> ArchivedSource | None:  # fmt: skip
        """The fork of `known` that a block belongs to, as far as it is archived; None: it belongs to `known` itself.

        Raises Poison: the block begins another fork, and the source has too many.
        """
        forks = plan.forks(known.key)
        is_new = delivery.time_ns > self._journal.position.plain_after_ns
        if not forks and not (is_new and block.span.length and block.span.start < known.watermark):
            return None
        archived = [each for fork in forks if (each := plan.source(SourceKey(known.host, fork)))]
        try:
            chosen = self._detector.choose(
                block,
                functools.cache(functools.partial(self._decompressor.decode, block, delivery.payload)),
                known,
                archived,
                functools.partial(self._is_held, plan),
            )
        except Poison:
            return None  # a damaged block does not show to which source it belongs
        if chosen is known:
            return None
        if chosen is None:
            chosen = begin_fork(block, known)
            if chosen.id in forks:
                return plan.source(chosen.key)
            check_room(known, len(forks))
            plan.begin_fork(known.key, chosen.id)
            plan.staged.forked.append(NewFork(known, chosen.id, chosen.watermark))
        return chosen

    def _is_held(self, plan: BatchPlan, known: ArchivedSource, block: Block, content: bytes) -> bool | None:
        """Whether the archive, with what this batch wrote, has `content` for a block; None: it cannot be compared."""
        opened = []
        for path, draft in plan.drafts.items():
            if draft.committed.key.host == known.host and draft.committed.key.file == known.file:
                draft.close()
                self._files.write_ahead(draft, plan)
                opened.append((draft.file(), plan.added_to(path)))
        self._files.flush()
        return self._archived.hold(known, block.span, content, opened)
