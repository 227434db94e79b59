"""Request receipts: how much of each source the archive of a partition holds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shipper.control import MAX_SOURCES, ReceiptsReply, ReceiptsRequest
from shipper.ports import Publisher
from shipper.subjects import control_up

RECEIPT_SECONDS = (2.0,)
"""How long to wait for a reply, in seconds; the request is repeated after each but the last."""
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
    """What the collector of `partition` holds of `host`: of `sources`, or else of the newest; None: no reply.

    `leaving`: the version of the map by which the host leaves the partition; the collector seals its files.
    """
    told: ReceiptsReply | None = None
    for start in range(0, max(1, len(sources)), MAX_SOURCES):
        named = tuple(sources[start : start + MAX_SOURCES]) or None
        request = ReceiptsRequest(partition, named, leaving)
        more = ReceiptsReply.from_json(await _answer(publisher, control_up(host), request.to_json(), waits))
        if more is None:
            return None
        told = more if told is None else replace(more, receipts=told.receipts + more.receipts)
    return told


async def _answer(
    publisher: Publisher, subject: str, question: Mapping[str, Any], waits: Sequence[float]
) -> Mapping[str, Any] | None:
    for seconds in waits:
        began = time.monotonic()
        answer = await publisher.ask(subject, question, seconds)
        if answer is not None or time.monotonic() - began < seconds:  # the server reports: no listener
            return answer
    return None
