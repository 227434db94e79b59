"""The handshake at the start of a session: does the server still have what it acknowledged? If not, go back.

A PubAck is no fsync by default: after a power failure, a restored backup or a recreated stream the server may know
less than the checkpoint. Sending too much is always safe, the collector drops what it has; too little never is.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from producer.sources import Sources
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


async def agree(publisher: Publisher, sources: Sources, *, subject: str, host: str, partition: int) -> bool:
    """Whether the server still has everything that the checkpoint says it acknowledged.

    False: the sources' durable state went back to what the server or the archive has; they must be opened anew and
    nothing that was in flight counts.
    """
    acknowledged = sources.sequence
    last = await publisher.last_stored(subject)
    stored = last.sequence if last else 0
    if stored >= acknowledged:
        return True
    archived = {receipt.source: receipt.watermark for receipt in await receipts(publisher, host, partition)}
    before = {source.id: source.offset for source in sources.known.values()}
    after = sources.rewound(sequence=stored, archived=archived)
    again = sum(before[source.id] - source.offset for source in after)
    if again:
        events.server_lost_data(subject=subject, acknowledged=acknowledged, stored=stored, again=again)
    return not again


async def receipts(publisher: Publisher, host: str, partition: int) -> list[Receipt]:
    """What the collector of `partition` holds of `host`; [] when no collector answers."""
    answer = await publisher.ask(control_up(host), {"v": 1, "ask": "receipts", "partition": partition}, RECEIPT_SECONDS)
    return [_receipt(fields) for fields in (answer or {}).get("receipts", [])]


def _receipt(fields: Mapping[str, Any]) -> Receipt:
    return Receipt(
        str(fields["source"]),
        str(fields["file"]),
        int(fields["origin"]),
        int(fields["watermark"]),
        int(fields["crc"]),
    )
