"""Receipts for the producers: what the archive holds of their sources; the rate limit of their requests."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from consumer.model import Known
from shipper import events
from shipper.control import MAX_SOURCES, Receipt, ReceiptsReply, ReceiptsRequest, as_many_as_fit


class Place(NamedTuple):
    """Where receipts come from, and when."""

    archive: str  #: identity of the archive
    through: int  #: every message up to this sequence, as its producer was told it, is judged; no hole is before it


def reply(newest_first: Iterable[Known], place: Place, *, left: int = -1, is_retired: bool = False) -> ReceiptsReply:
    """The receipts of as many sources as fit."""
    receipts = tuple(as_many_as_fit(map(_receipt, newest_first)))
    return ReceiptsReply(place.archive, place.through, receipts, left, is_retired)


def _receipt(known: Known) -> Receipt:
    """One receipt. An archived copy that is not the host's file byte for byte has no sum that could prove it: -1.

    The sum that the host itself reported still identifies its file.
    """
    crc = -1 if known.crc is None else known.crc
    proven, told = (crc, -1) if known.proven else (-1, crc)
    return Receipt(known.id, known.file, known.origin, known.watermark, proven, told)


PER_SECOND = 10.0
"""Points that a host regains per second. A request costs 1, and 1 more for every 100 sources that it names: a host may
request the receipts of 1,000 sources per second in each partition; the collector needs about 0.05 s for them."""
BURST = 1100.0
"""Maximum points of a host: the receipts of 100,000 sources. A producer requests each of its files once a session."""
SOURCES_PER_POINT = 100
MAX_HOSTS = 20_000
"""Maximum number of hosts in memory; the one with the oldest request is dropped first, and has all its points again."""


class Questions:
    """Rate limit of the requests of each host. Owned by a loop."""

    def __init__(self, partition: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._clock = clock
        self._points: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by host: points, and when
        self.refused = 0  #: requests that were not answered

    def may_ask(self, host: str, request: ReceiptsRequest) -> bool:
        """Whether a request is answered; it costs its host points then."""
        now, cost = self._clock(), _cost(request)
        points, when = self._points.pop(host, (BURST, now))
        points = min(BURST, points + (now - when) * PER_SECOND)
        is_allowed = points >= cost
        self._points[host] = (points - cost if is_allowed else points, now)
        if len(self._points) > MAX_HOSTS:
            self._points.popitem(last=False)
        if not is_allowed:
            self.refuse(host, "asks too often")
        return is_allowed

    def refuse(self, host: str, reason: str) -> None:
        """Count and log a request that is not answered."""
        self.refused += 1
        events.question_refused(host=host, partition=self._partition, reason=reason)


def _cost(request: ReceiptsRequest) -> float:
    about = MAX_SOURCES if request.sources is None else len(request.sources)
    return 1 + about // SOURCES_PER_POINT
