"""What the archive holds, told back to the producers."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from consumer.writing.watermark import Known

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
