"""What to do with a block: write it, write a part of it, drop it, or wait for what is missing. Pure."""

import enum
from dataclasses import replace
from typing import NamedTuple

from consumer.model import ArchivedSource
from shipper.manifest import FORKED
from shipper.model import Block, End, Span

REASON_MISSING = "missing"
REASON_ELSEWHERE = "elsewhere"
"""Of a gap whose bytes another collector's archive has."""

REASON_EXCLUDED = End.EXCLUDED.value
"""Of a gap whose bytes the host did not read, because its configuration does not name the file: they are not lost."""


REASON_FORKED = FORKED
"""Of a gap whose bytes are in the source that this one is a fork of; it may be empty, and records the fork."""

REASON_REWRITTEN = "rewritten"
"""Of an empty gap: before it the host's file has other bytes than the archive."""


class GivenUp(NamedTuple):
    """Missing bytes of a source that are waited for no more."""

    offset: int  #: up to here
    elsewhere: int = 0  #: those before are in another collector's archive
    reason: str = REASON_MISSING  #: of the gap that the others leave


class BlockOutcome(enum.Enum):
    """What becomes of a block."""

    WRITE = "written"  #: it continues the source, or reaches beyond what is there
    DUPLICATE = "duplicate"  #: all of it is there
    HOLE = "hole"  #: something before it is missing
    GAP = "gap"  #: something before it is missing for good; write it behind a gap record


def begin(block: Block, host: str) -> ArchivedSource:
    """A source that the archive has nothing of."""
    return ArchivedSource(
        id=block.source, host=host, file=block.file, origin=block.origin, watermark=block.origin, crc=0
    )


def taken_up(block: Block, known: ArchivedSource, archive: str) -> ArchivedSource:
    """`known` where the host's former partition ended, if that is further; `archive`: the identity of this one.

    Every block of a host that moved says so, and it moved when that much of its source was archived for good. The sum
    goes on where the same archive proved it.
    """
    handoff = block.handoff
    if handoff is None or handoff.offset <= known.watermark:
        return known
    proven = known.proven and handoff.crc is not None and handoff.archive == archive
    return replace(known, watermark=handoff.offset, crc=handoff.crc, proven=proven, ended=False)


def judge(block: Block, known: ArchivedSource, *, given_up_at: int | None = None) -> BlockOutcome:
    """What to do with `block`; `given_up_at`: the offset up to which missing bytes are given up.

    Accept iff start <= watermark < end, so that sending too much is always safe. An empty block ends a source: it is
    news once.
    """
    start, end = block.span
    if start > known.watermark:
        return BlockOutcome.GAP if given_up_at is not None and start <= given_up_at else BlockOutcome.HOLE
    if block.end is not None and not known.ended:
        return BlockOutcome.WRITE
    return BlockOutcome.WRITE if end > known.watermark else BlockOutcome.DUPLICATE


def missing_before(block: Block, known: ArchivedSource) -> Span:
    """The bytes between the watermark and the block."""
    return Span(known.watermark, block.span.start)


def missing_parts(missing: Span, given_up: GivenUp) -> tuple[tuple[Span, str], ...]:
    """What is missing with the reasons: a part may be in another archive, and the rest nowhere."""
    border = min(max(missing.start, given_up.elsewhere), missing.end)
    return (Span(missing.start, border), REASON_ELSEWHERE), (Span(border, missing.end), given_up.reason)


def missing_behind(block: Block, known: ArchivedSource) -> Span:
    """The bytes that the producer gave up behind the last block, as far as the archive lacks them."""
    start = max(block.span.end, known.watermark)
    return Span(start, max(start, block.span.end + block.gap))
