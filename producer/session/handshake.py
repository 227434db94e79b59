"""The handshake at the start of a session: does the server still have what it acknowledged? If not, go back.

A PubAck is no fsync by default: after a power failure, a restored backup or a recreated stream the server may know
less than the checkpoint. Sending too much is always safe, the collector drops what it has; too little never is.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from producer import receipts
from producer.checkpoint.ack_tracker import Ledger
from producer.model import SETTLED, TRUSTED, Source
from shipper import codec, events
from shipper.control import Receipt
from shipper.errors import Poison
from shipper.model import Stored
from shipper.ports import Publisher


class Agreement(NamedTuple):
    """What a handshake found."""

    holds: bool  #: False: sources went back durably, and must be opened anew; nothing that was in flight counts
    unconfirmed: Mapping[str, int] = MappingProxyType({})
    """Sources that the stream lost and that an archive had when it was last heard, up to there."""
    unproven: Collection[str] = ()
    """Sources of which the stream may lack something that nothing shows: the newest message is somebody else's."""


async def agree(publisher: Publisher, ledger: Ledger, *, subject: str, host: str, partition: int) -> Agreement:
    """Let the sources go back to what the server, or an archive, has of what was acknowledged."""
    acknowledged = ledger.sequence
    last = await publisher.last_stored(subject)
    stored = surviving(last, ledger.known)
    if stored >= acknowledged:
        unproven = [] if _is_ours(last, ledger.known) else ledger.known.values()
        ids = [each.id for each in unproven if each.archived < each.offset]
        return Agreement(holds=True, unconfirmed=_unconfirmed(ledger), unproven=ids)
    doubtful = [each.id for each in ledger.known.values() if each.ring and not 0 < each.sequence <= stored]
    told = await receipts.ask(publisher, host, partition, doubtful, waits=receipts.STARTING_SECONDS)
    if told is not None:
        ledger.corrected(told, doubtful)
    # Without an answer a mark may be older than the archive, which may have gone back with the server. What the stream
    # proves to hold is a better place to go back to; where it holds nothing, marks save sending everything.
    is_marked = told is not None or last is None
    before = dict(ledger.known)
    archived = {source.id: source.archived if is_marked else source.settled for source in before.values()}
    after = ledger.rewound(sequence=stored, archived=archived, as_=TRUSTED if told is None else SETTLED)
    again = sum(before[source.id].offset - source.offset for source in after)
    if again:
        events.server_lost_data(subject=subject, acknowledged=acknowledged, stored=stored, again=again)
    ledger.take(after)
    holds = not again and all(bool(before[source.id].ended_at) == bool(source.ended_at) for source in after)
    return Agreement(holds, _unconfirmed(ledger))


def _unconfirmed(ledger: Ledger) -> Mapping[str, int]:
    return {source.id: source.trusted for source in ledger.known.values() if source.trusted}


def surviving(last: Stored | None, known: Mapping[str, Source]) -> int:
    """The stream sequence up to which everything of this host is there that was acknowledged; `last`: its newest.

    A sequence alone proves nothing: a stream that was created anew, or in which others wrote behind what was lost,
    soon reaches it again. The message must be one that these sources may have written there.
    """
    if last is None:
        return 0
    newest = receipt_of(last)
    source = known.get(newest.source) if newest else None
    if newest is None or source is None:  # somebody else's: as good as none, unless it came behind all of ours
        acknowledged = max((each.sequence for each in known.values()), default=0)
        return last.sequence if last.sequence > acknowledged else 0
    return last.sequence if _may_lie_at(last.sequence, newest, source) else 0


def receipt_of(last: Stored) -> Receipt | None:
    """The newest message of a host as a receipt for the one source that it belongs to."""
    if codec.is_plain(last.headers):
        return None
    try:
        block = codec.from_headers(last.headers)
    except Poison:
        return None
    return Receipt(block.source, block.file, block.origin, block.span.end, block.source_crc)


def _is_ours(last: Stored | None, known: Mapping[str, Source]) -> bool:
    newest = receipt_of(last) if last else None
    return newest is not None and newest.source in known


def _may_lie_at(sequence: int, block: Receipt, source: Source) -> bool:
    """Whether a block of `source` fits between what was acknowledged before and behind `sequence`."""
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
