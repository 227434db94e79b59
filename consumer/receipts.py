"""What the archive holds, told back to the producers."""

import json
from collections.abc import Iterable
from typing import Any

from consumer.watermark import Known

MAX_RECEIPTS = 2000
"""In one message: the newest are enough for a host that lost its checkpoint."""

MAX_BYTES = 512 * 1024
"""Of one message: half of what a server takes by default."""


def to_message(newest_first: Iterable[Known]) -> dict[str, Any]:
    """The receipts of as many sources as fit; a source behind a gap has no sum that could prove it."""
    receipts, size = [], 0
    for known in newest_first:
        receipt = {
            "source": known.id,
            "file": known.file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
            "origin": known.origin,
            "watermark": known.watermark,
            "crc": -1 if known.crc is None else known.crc,
        }
        size += len(json.dumps(receipt)) + 2
        if size > MAX_BYTES:
            break
        receipts.append(receipt)
    return {"v": 1, "receipts": receipts}
