"""What a host takes along from its old partition: for each source, how much of it is archived there for good. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from producer.following.source import Source
from producer.receipts import Receipt, Told
from shipper.model import Handoff

NAMELESS = "_"
"""Stands for an archive that did not say which one it is."""


def asked_for(known: Iterable[Source]) -> list[str]:
    """The sources of which only the collector can say how much it has: an older sender may have sent more."""
    return [each.id for each in known if not each.ended_at or each.archived < each.offset]


def handed_off(known: Iterable[Source], told: Told, asked: Collection[str]) -> list[Source]:
    """The sources as they are in the next partition.

    `told` came behind the move marker, so it is final: the old partition takes nothing more of this host. Of a source
    that was `asked` for and that the archive knows nothing of, all is sent again that no other one has.
    """
    receipts = {receipt.source: receipt for receipt in told.receipts}
    return [_one(source, told, receipts, is_asked=source.id in asked) for source in known]


def _one(source: Source, told: Told, receipts: Mapping[str, Receipt], *, is_asked: bool) -> Source:
    found = list(_candidates(source, told, receipts.get(source.id), is_asked=is_asked))
    if not found:
        return source.back_to(source.origin) if source.ring else source
    return source.handed_off(max(found, key=lambda each: (each.offset, each.crc is not None)))


def _candidates(source: Source, told: Told, receipt: Receipt | None, *, is_asked: bool) -> Iterator[Handoff]:
    """What archives have of a source, from the word of this partition's collector, from others', from before."""
    if receipt is not None and receipt.origin == source.origin:
        yield Handoff(receipt.watermark, _sum(source, receipt), told.archive or NAMELESS)
    for each in source.archives:
        if not (is_asked and each.archive == told.archive) and each.offset > source.origin:
            crc = source.crc if each.offset == source.offset else None
            yield Handoff(each.offset, crc, each.archive or NAMELESS)
    if source.handoff is not None:
        yield source.handoff


def _sum(source: Source, receipt: Receipt) -> int | None:
    """The sum that the archive proves; where it does not, or the file has another one, the next block tells it."""
    is_proven = receipt.crc >= 0 and not source.contradicts(receipt.watermark, receipt.crc)
    return receipt.crc if is_proven else None
