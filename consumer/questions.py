"""Rate limit for what hosts ask a collector: one host cannot keep it from its work."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from consumer import receipts
from shipper import events

PER_SECOND = 10.0
"""Points that a host gets back each second. A question costs 1, and 1 more for each 100 sources that it may be about: a
host may ask for the receipts of 1,000 sources each second, in each partition; they cost some 0.05 s."""
BURST = 1100.0
"""Points that a silent host has: the receipts of 100,000 sources. A host asks for each of its files once a session."""
SOURCES_PER_POINT = 100
MAX_HOSTS = 20_000
"""Hosts that are remembered; the one that asked longest ago is forgotten first, and has all its points again."""


class Questions:
    """How much each host asked lately. Owned by a loop."""

    def __init__(self, partition: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._clock = clock
        self._points: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by host: points, and when
        self.refused = 0  #: questions that were not answered

    def may_ask(self, host: str, question: Mapping[str, Any]) -> bool:
        """Whether a question is answered; it costs its host points then."""
        now, cost = self._clock(), _cost(question)
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
        """A question is not answered."""
        self.refused += 1
        events.question_refused(host=host, partition=self._partition, reason=reason)


def _cost(question: Mapping[str, Any]) -> float:
    sources = question.get("sources")
    about = min(len(sources), receipts.MAX_RECEIPTS) if isinstance(sources, list) else receipts.MAX_RECEIPTS
    return 1 + about // SOURCES_PER_POINT
