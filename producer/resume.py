"""The handshake at the start of a session: does the server still have what it acknowledged? If not, go back.

A PubAck is no fsync by default: after a power failure, a restored backup or a recreated stream the server may know
less than the checkpoint. Sending too much is always safe, the collector drops what it has; too little never is.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from producer.following.ledger import Ledger
from shipper import events
from shipper.ports import Publisher
from shipper.subjects import control_up

RECEIPT_SECONDS = 2.0


class Receipt(NamedTuple):
    """How much of a source the archive holds."""

    source: str
    file: str
    origin: int
    watermark: int
    crc: int


async def agree(publisher: Publisher, ledger: Ledger, *, subject: str, host: str, partition: int) -> bool:
    """Whether the server still has everything that the checkpoint says it acknowledged.

    False: the sources' durable state went back to what the server or the archive has; they must be opened anew and
    nothing that was in flight counts.
    """
    acknowledged = ledger.sequence
    last = await publisher.last_stored(subject)
    stored = last.sequence if last else 0
    if stored >= acknowledged:
        return True
    archived = {receipt.source: receipt.watermark for receipt in await receipts(publisher, host, partition)}
    before = {source.id: source.offset for source in ledger.known.values()}
    after = ledger.rewound(sequence=stored, archived=archived)
    again = sum(before[source.id] - source.offset for source in after)
    if again:
        events.server_lost_data(subject=subject, acknowledged=acknowledged, stored=stored, again=again)
    return not again


async def receipts(publisher: Publisher, host: str, partition: int) -> list[Receipt]:
    """What the collector of `partition` holds of `host`; [] when no collector answers."""
    answer = await publisher.ask(control_up(host), {"v": 1, "ask": "receipts", "partition": partition}, RECEIPT_SECONDS)
    found = (answer or {}).get("receipts")
    return [receipt for fields in (found if isinstance(found, list) else ()) if (receipt := _receipt(fields))]


def _receipt(fields: Mapping[str, Any]) -> Receipt | None:
    """A receipt as it came over the network; None: it is not well formed."""
    try:
        source, file = str(fields["source"]), str(fields["file"])
        origin, watermark, crc = (int(fields[name]) for name in ("origin", "watermark", "crc"))
    except (KeyError, TypeError, ValueError):
        return None
    return Receipt(source, file, origin, watermark, crc) if 0 <= origin <= watermark else None
