"""What to do with a block: write it, write a part of it, drop it, or wait for what is missing. Pure."""

import enum
from dataclasses import replace
from typing import NamedTuple

from consumer.model import ArchivedSource
from shipper.bytes_ops import crc32, crc32_combine
from shipper.manifest import FORKED
from shipper.model import Block, End, Span

REASON_MISSING = "missing"
REASON_ELSEWHERE = "elsewhere"
"""Reason of a gap whose bytes another collector's archive has."""
REASON_EXCLUDED = End.EXCLUDED.value
"""Reason of a gap whose bytes the host did not read, because its configuration excludes the file: nothing is lost."""
REASON_FORKED = FORKED
"""Reason of a gap whose bytes are in the source that this one is a fork of. It may be empty; it records the fork."""
REASON_REWRITTEN = "rewritten"
"""Reason of an empty gap: before it the host's file has other bytes than the archive."""
REASON_POISON = "poison"
"""Reason of a gap whose bytes came in a damaged block; outcome of a message that no retry can apply."""
NOT_LOST = frozenset({REASON_ELSEWHERE, REASON_FORKED, REASON_REWRITTEN})
"""Reasons of gaps whose bytes are elsewhere, so that they do not count as lost."""


class Lost(NamedTuple):
    """Bytes of a source that are missing in its file."""

    span: Span
    reason: str


class GivenUp(NamedTuple):
    """Missing bytes of a source that are not expected any more."""

    offset: int  #: end of the missing bytes
    elsewhere: int = 0  #: bytes before this offset are in another collector's archive
    reason: str = REASON_MISSING  #: of the gap for the other bytes


class BlockOutcome(enum.StrEnum):
    """The decision about a block."""

    WRITE = "written"  #: it starts at or before the watermark and ends after it, or it ends the source
    DUPLICATE = "duplicate"  #: all of it is archived
    HOLE = "hole"  #: something before it is missing
    GAP = "gap"  #: something before it is lost; record a gap and write it


def begin(block: Block, host: str) -> ArchivedSource:
    """A new source, of which the archive has nothing."""
    return ArchivedSource(
        id=block.source, host=host, file=block.file, origin=block.origin, watermark=block.origin, crc=0
    )


def after_handoff(block: Block, known: ArchivedSource, archive: str) -> ArchivedSource:
    """`known` where the host's former partition ended, if that is further. `archive`: the identity of this one.

    Every block of a host that moved contains the handoff; the host moves after that part of the source is archived. The
    CRC stays proven only if this archive proved it.
    """
    handoff = block.handoff
    if handoff is None or handoff.offset <= known.watermark:
        return known
    proven = known.proven and handoff.crc is not None and handoff.archive == archive
    return replace(known, watermark=handoff.offset, crc=handoff.crc, proven=proven, ended=False)


class SourceCrc(NamedTuple):
    """The CRC-32 of a source from its origin to its watermark."""

    value: int | None  #: None: unknown
    is_proven: bool  #: the archive has just these bytes
    is_rewritten: bool = False  #: the host's file has other bytes than the archive before the block


def skip_to(known: ArchivedSource, offset: int) -> ArchivedSource:
    """`known` after a gap that ends at `offset`."""
    return replace(known, watermark=offset, crc=None, proven=False)


def source_crc(block: Block, known: ArchivedSource, new: bytes) -> SourceCrc:
    """The CRC of the source after `block`, of which `new` is the text after the watermark.

    Where the block contains another CRC than the archived bytes have, the host's file was rewritten. From then on the
    CRC is that of the host's file only. The CRC of an edited block covers bytes that only the host has, so it is not
    checked; the next block that is not edited is checked against it.
    """
    if block.span.end < known.watermark:
        return SourceCrc(known.crc, known.proven)  # it ends the source before the watermark
    if known.crc is not None and block.edited is None:
        is_whole = len(new) == block.span.length  # the sum of a whole block is known already
        crc = crc32_combine(known.crc, block.block_crc, len(new)) if is_whole else crc32(new, known.crc)
        if crc != block.source_crc:
            return SourceCrc(block.source_crc, is_proven=False, is_rewritten=True)
    return SourceCrc(block.source_crc, known.proven)


def judge(block: Block, known: ArchivedSource, *, given_up_at: int | None = None) -> BlockOutcome:
    """What to do with `block`. `given_up_at`: the offset up to which missing bytes are given up.

    Accept iff start <= watermark < end, so that sending too much is always safe. A block that ends a source may be
    empty: it is written once.
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


def missing_parts(missing: Span, given_up: GivenUp) -> tuple[Lost, Lost]:
    """The missing bytes with the reasons: a first part may be in another archive, the rest is lost."""
    border = min(max(missing.start, given_up.elsewhere), missing.end)
    return Lost(Span(missing.start, border), REASON_ELSEWHERE), Lost(Span(border, missing.end), given_up.reason)


def missing_after(block: Block, known: ArchivedSource) -> Span:
    """The bytes that the producer gave up after its last block, as far as the archive lacks them."""
    start = max(block.span.end, known.watermark)
    return Span(start, max(start, block.span.end + block.gap))


def lost_before(block: Block, before: int, known: ArchivedSource, given_up: GivenUp | None, archive: str) -> list[Lost]:
    """What is missing between the offset `before` of a source and a block that is written.

    `known`: the source where the host's former partition ended; what was archived there may be in another archive.
    """
    losses = list[Lost]()
    if block.handoff is not None and block.handoff.archive != archive:
        losses.append(Lost(Span(before, known.watermark), REASON_ELSEWHERE))
    if block.span.start > known.watermark:
        losses += missing_parts(missing_before(block, known), given_up or GivenUp(0))
    return losses


class Grown(NamedTuple):
    """A source after a block that was written."""

    source: ArchivedSource
    new: Span  #: the bytes of the block that the archive lacked
    losses: list[Lost]  #: what is missing before and after the block


def grow(block: Block, known: ArchivedSource, before: list[Lost], text: bytes | None, seen_ns: int) -> Grown:
    """The source `known` after `block`, which was stored at `seen_ns`. `before`: what is missing before the block.

    `text` is what was written of the block. A damaged block has none: it leaves a gap, so that the next block can
    follow it.
    """
    start, losses = max(known.watermark, block.span.start), list(before)
    new = Span(start, max(start, block.span.end))
    if block.span.start > known.watermark:
        known = skip_to(known, start)
    if text is None:
        crc, ended = SourceCrc(None, is_proven=False) if new.length else SourceCrc(known.crc, known.proven), known.ended
        losses.append(Lost(new, REASON_POISON))
    else:
        crc, ended = source_crc(block, known, text), block.end is not None
        if block.gap:
            losses.append(Lost(missing_after(block, known), block.end.value if block.end else REASON_MISSING))
    if losses:
        losses = [lost for lost in losses if lost.span.length]
    if crc.is_rewritten:
        losses.append(Lost(Span(start, start), REASON_REWRITTEN))
    source = ArchivedSource(  # every field: `replace` takes twice as long, and this is done for every block
        id=known.id,
        host=known.host,
        file=known.file,
        origin=known.origin,
        watermark=new.end,
        crc=crc.value,
        proven=crc.is_proven,
        ended=ended,
        seen_ns=seen_ns,
    )
    return Grown(source, new, losses)
