"""What the archive holds, told back to the producers.

Rate limit for what hosts ask a collector: one host cannot keep it from its work.
"""

import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from consumer.model import Known
from shipper import events

MAX_RECEIPTS = 2000
"""In one message: the newest are enough for a host that lost its checkpoint, and a host may name so many."""

MAX_BYTES = 512 * 1024
"""Of one message: half of what a server takes by default."""


_SOURCE = re.compile("[0-9a-f]{16}")
"""Any other text is the id of no source, and a lone surrogate is nothing that a journal can be asked for."""


class Place(NamedTuple):
    """Where receipts come from, and when."""

    archive: str  #: identity of the archive
    through: int  #: every message up to this sequence, as its producer was told it, is judged; no hole is before it


def to_message(newest_first: Iterable[Known], place: Place) -> dict[str, Any]:
    """The receipts of as many sources as fit."""
    receipts, size = [], 0
    for known in newest_first:
        receipt = _receipt(known)
        size += len(json.dumps(receipt)) + 2
        if size > MAX_BYTES:
            break
        receipts.append(receipt)
    return {"v": 1, "archive": place.archive, "through": place.through, "receipts": receipts}


def asked_for(question: Mapping[str, Any]) -> list[str] | None:
    """The sources that a question names; None: it names none, so the newest are meant."""
    sources = question.get("sources")
    if not isinstance(sources, list):
        return None
    texts = dict.fromkeys(source for source in sources[:MAX_RECEIPTS] if isinstance(source, str))
    return [source for source in texts if _SOURCE.fullmatch(source)]


def _receipt(known: Known) -> dict[str, Any]:
    """One receipt. A copy that is not the host's file byte for byte has no sum that could prove it: -1.

    What the host itself said its sum to be tells its file again all the same.
    """
    receipt = {
        "source": known.id,
        "file": known.file,
        "origin": known.origin,
        "watermark": known.watermark,
        "crc": known.crc if known.crc is not None and known.proven else -1,
    }
    return receipt if known.proven or known.crc is None else receipt | {"told": known.crc}


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
    about = min(len(sources), MAX_RECEIPTS) if isinstance(sources, list) else MAX_RECEIPTS
    return 1 + about // SOURCES_PER_POINT
