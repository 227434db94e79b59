"""What the archive holds, told back to the producers."""

from collections.abc import Iterable
from typing import Any

from consumer.watermark import Known

MAX_RECEIPTS = 2000
"""In one message: the newest are enough for a host that lost its checkpoint."""


def to_message(sources: Iterable[Known]) -> dict[str, Any]:
    """The receipts of `sources`; a source behind a gap has no sum that could prove it."""
    receipts = [
        {
            "source": known.id,
            "file": known.file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"),
            "origin": known.origin,
            "watermark": known.watermark,
            "crc": -1 if known.crc is None else known.crc,
        }
        for known in sources
    ]
    return {"v": 1, "receipts": receipts[-MAX_RECEIPTS:]}
