"""Receipts: how much of each source an archive holds, as its collector says now and then, or when it is asked."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shipper.ports import Publisher
from shipper.subjects import control_up

RECEIPT_SECONDS = (2.0,)
"""How long an answer is waited for; asked again after each but the last."""
STARTING_SECONDS = (0.25, 0.75, 2.0)
"""The same where all programs may be starting. The subscription of a collector that has no answer keeps the server from
saying that nobody listens, and the one that has it may hear nothing of the first question."""
ASKED_AT_ONCE = 2000
"""Sources in one question: as many as a collector answers for."""


class Receipt(NamedTuple):
    """How much of a source the archive holds."""

    source: str
    file: str
    origin: int
    watermark: int
    crc: int  #: CRC-32 of what the archive holds; -1: behind a gap or a rewritten file it proves nothing
    told: int = -1  #: then the sum that the host itself gave at the watermark; -1: nobody knows it

    @property
    def host_crc(self) -> int:
        """CRC-32 of the file on the host from origin to watermark, whatever the archive has of it; -1: unknown."""
        return self.crc if self.crc >= 0 else self.told


class Told(NamedTuple):
    """What a collector said."""

    archive: str  #: which archive it writes to
    through: int  #: every message of the stream up to there is judged, and no hole is open before it
    receipts: tuple[Receipt, ...]
    left: int = 0  #: the version of the map by which the host has left the partition, as far as that is archived
    is_retired: bool = False  #: the partition has no stream any more; all that it had is archived


def read(message: Mapping[str, Any]) -> Told | None:
    """The receipts in a message as it came over the network; None: it holds none."""
    found = message.get("receipts")
    if not isinstance(found, list):
        return None
    archive, through = message.get("archive", ""), message.get("through", 0)
    receipts = tuple(receipt for fields in found if (receipt := _receipt(fields)))
    left, is_retired = message.get("left", 0), message.get("retired") is True
    return Told(
        str(archive),
        through if isinstance(through, int) else 0,
        receipts,
        left if isinstance(left, int) else 0,
        is_retired,
    )


async def ask(
    publisher: Publisher,
    host: str,
    partition: int,
    sources: Sequence[str] = (),
    *,
    leaving: int = 0,
    waits: Sequence[float] = RECEIPT_SECONDS,
) -> Told | None:
    """What the collector of `partition` holds of `host`: of `sources`, or else of the newest; None: nobody answers.

    `leaving`: the version of the map by which the host leaves the partition; the collector puts its files aside.
    """
    question = {"v": 1, "ask": "receipts", "partition": partition} | ({"leaving": leaving} if leaving else {})
    told: Told | None = None
    for start in range(0, max(1, len(sources)), ASKED_AT_ONCE):
        named = {"sources": list(sources[start : start + ASKED_AT_ONCE])} if sources else {}
        more = read(await _answer(publisher, control_up(host), question | named, waits) or {})
        if more is None:
            return None
        told = more if told is None else more._replace(receipts=told.receipts + more.receipts)
    return told


async def _answer(
    publisher: Publisher, subject: str, question: Mapping[str, Any], waits: Sequence[float]
) -> Mapping[str, Any] | None:
    for seconds in waits:
        began = time.monotonic()
        answer = await publisher.ask(subject, question, seconds)
        if answer is not None or time.monotonic() - began < seconds:  # then the server said that nobody listens
            return answer
    return None


def _receipt(fields: Any) -> Receipt | None:
    """A receipt as it came over the network; None: it is not well formed."""
    try:
        source, file = str(fields["source"]), str(fields["file"])
        origin, watermark, crc = (int(fields[name]) for name in ("origin", "watermark", "crc"))
        told = int(fields.get("told", -1))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return Receipt(source, file, origin, watermark, crc, told) if 0 <= origin <= watermark else None
