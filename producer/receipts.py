"""How much of each source is stored: receipts of the archive, on request, and the newest message in the stream."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from producer.model import Source
from shipper import codec
from shipper.control import MAX_SOURCES, Receipt, ReceiptsReply, ReceiptsRequest
from shipper.errors import Poison
from shipper.model import Stored
from shipper.ports import Publisher
from shipper.subjects import control_up

RECEIPT_SECONDS = (2.0,)
"""How long to wait for a reply, in seconds. The request is repeated after each but the last."""
STARTING_SECONDS = (0.25, 0.75, 2.0)
"""The same while all programs may be starting: a collector of another partition may be subscribed already, so that the
server reports no missing listener, while the collector of this partition is not, and misses the first request."""


async def ask(
    publisher: Publisher,
    host: str,
    partition: int,
    sources: Sequence[str] = (),
    *,
    leaving: int = 0,
    waits: Sequence[float] = RECEIPT_SECONDS,
) -> ReceiptsReply | None:
    """What the collector of `partition` holds of `host`: of `sources`, or of the newest ones. None: no reply.

    `leaving`: the version of the map by which the host leaves the partition; the collector seals its files.
    """
    reply: ReceiptsReply | None = None
    for start in range(0, max(1, len(sources)), MAX_SOURCES):
        named = tuple(sources[start : start + MAX_SOURCES]) or None
        request = ReceiptsRequest(partition, leaving, named)
        more = ReceiptsReply.from_json(await _answer(publisher, control_up(host), request.to_json(), waits))
        if more is None:
            return None
        reply = more if reply is None else replace(more, receipts=reply.receipts + more.receipts)
    return reply


async def _answer(
    publisher: Publisher, subject: str, question: Mapping[str, Any], waits: Sequence[float]
) -> Mapping[str, Any] | None:
    for seconds in waits:
        began = time.monotonic()
        answer = await publisher.ask(subject, question, seconds)
        if answer is not None or time.monotonic() - began < seconds:  # the server reports: no listener
            return answer
    return None


def surviving(last: Stored | None, known: Mapping[str, Source]) -> int:
    """Stream sequence up to which the stream holds every acknowledged block of this host. `last`: its newest message.

    A sequence alone proves nothing: a stream that was created anew, or to which others wrote after the loss, soon
    reaches the same sequence. The message must be one that these sources can have written at that sequence.
    """
    if last is None:
        return 0
    if last.is_unread:  # receipts show whether it is a block of these sources
        return last.sequence
    newest = receipt_of(last)
    source = known.get(newest.source) if newest else None
    if newest and source:
        return last.sequence if _fits_at(last.sequence, newest, source) else 0
    # Another producer wrote it: it counts only if it is newer than all blocks of these sources.
    return last.sequence if last.sequence > max((each.sequence for each in known.values()), default=0) else 0


def receipt_of(last: Stored) -> Receipt | None:
    """The newest message of a host as a receipt for the one source that it belongs to."""
    if codec.is_plain(last.headers):
        return None
    try:
        block = codec.from_headers(last.headers)
    except Poison:
        return None
    return Receipt(block.source, block.file, block.origin, block.span.end, block.source_crc)


def is_known(last: Stored | None, known: Mapping[str, Source]) -> bool:
    """Whether the newest message of the host is a block of one of the `known` sources."""
    newest = receipt_of(last) if last else None
    return newest is not None and newest.source in known


def _fits_at(sequence: int, block: Receipt, source: Source) -> bool:
    """Whether a block of `source` fits between the blocks that were acknowledged at lower and at higher sequences."""
    if source.contradicts(block.watermark, block.crc):
        return False
    for point in source.ring:
        if point.sequence == sequence and (point.offset, point.crc) != (block.watermark, block.crc):
            return False
        if 0 < point.sequence < sequence and point.offset > block.watermark:
            return False
        if point.sequence > sequence and point.offset < block.watermark:
            return False
    return True
