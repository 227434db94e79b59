"""Forks: sources that two producers continue, for example after a machine was cloned. Finds the fork of a block.

Both have the id of the source and the same bytes before some offset, and other bytes after it. The CRC of the source
in every block distinguishes them, also where a running process was copied. The copy that the archive received first
stays the source itself. Each other copy becomes a separate source, so that none of its bytes is dropped or mixed.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from consumer.model import ArchivedSource, SourceKey
from shipper.bytes_ops import crc32, crc32_combine
from shipper.errors import Poison
from shipper.model import Block

MAX_FORKS = 16
"""Maximum forks of one source, so that a host that invents forks cannot fill the journal."""
MAX_SUMS = 4096
"""Maximum ends of blocks whose CRC is in memory (1 MiB per partition): a block that is sent again with the same end is
compared without reading the archive."""
_PERIOD = (1 << 32) - 1  # number of zero bytes that leave a CRC-32 unchanged

Hold = Callable[[ArchivedSource, Block, bytes], bool | None]
"""Whether the archive has this text of a block in its copy of a source; None: that cannot be compared."""


class NewFork(NamedTuple):
    """A block begins a fork of a source."""

    source: ArchivedSource
    id: str  #: of the fork
    start: int  #: of its first block, at or before the first byte that differs


class ForkDetector:
    """Compares blocks that the archive may have already. Owned by the worker of a partition: one call at a time."""

    def __init__(self) -> None:
        self._sums: dict[tuple[SourceKey, int], int] = {}

    def written(self, known: ArchivedSource) -> None:
        """A block of the source `known` was written, which ends at its watermark."""
        if known.crc is not None:
            if len(self._sums) >= MAX_SUMS:
                self._sums.clear()
            self._sums[known.key, known.watermark] = known.crc

    def choose(
        self,
        block: Block,
        content: Callable[[], bytes],
        known: ArchivedSource,
        forks: Sequence[ArchivedSource],
        hold: Hold,
    ) -> ArchivedSource | None:
        """The source that `block` belongs to: `known`, or one of its `forks`; None: it begins another fork.

        Raises Poison: the block is damaged.
        """
        is_main = self._is_of(block, content, known, hold)
        if is_main:
            return known
        for fork in forks:
            if self._is_of(block, content, fork, hold):
                return fork
        return None if is_main is False and block.span.start < known.watermark else known

    def _is_of(self, block: Block, content: Callable[[], bytes], known: ArchivedSource, hold: Hold) -> bool | None:
        """Whether `block` continues or repeats `known`; None: that cannot be known."""
        start, end = block.span
        if start > known.watermark:
            return False
        if start == known.watermark:
            before = crc_before(block)
            return None if before is None or known.crc is None else before == known.crc
        if end >= known.watermark and known.crc is not None:
            if block.edited is None:
                return crc32(content()[known.watermark - start :], known.crc) == block.source_crc
            return block.source_crc == known.crc if end == known.watermark else None
        if (there := self._sums.get((known.key, end))) is not None:
            return there == block.source_crc
        return None if block.edited is not None or end > known.watermark else hold(known, block, content())


def crc_before(block: Block) -> int | None:
    """CRC-32 of the source from its origin to the start of `block`; None: an edited block does not contain it."""
    if block.edited is not None:
        return None
    length = block.span.length % _PERIOD
    return crc32_combine(block.source_crc ^ block.block_crc, 0, _PERIOD - length)


def begin_fork(block: Block, known: ArchivedSource) -> ArchivedSource:
    """The fork of `known` that `block` begins. The same block begins the same one, however often it is delivered."""
    text = f"{known.host}\0{known.id}\0{block.span}\0{block.source_crc:08x}"
    return ArchivedSource(
        id=hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16],
        host=known.host,
        file=known.file,
        origin=block.origin,
        watermark=block.span.start,
        crc=crc_before(block),
    )


def check_room(known: ArchivedSource, forks: int) -> None:
    """Raises Poison: the source has as many forks as one may have."""
    if forks >= MAX_FORKS:
        raise Poison(f"source {known.id} of {known.file} has {forks} forks: more than {MAX_FORKS} are not archived")
