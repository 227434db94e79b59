"""Streams by the names that people type: `LOGS_3`, `p3`, `3`. Pure."""

import re

from shipper.errors import Unavailable
from shipper.jetstream.admin import Admin, Json
from shipper.subjects import stream_name

_PARTITION = re.compile(r"p?(\d{1,6})")


def full_name(text: str, subject: str) -> str:
    """The stream that `text` means: a partition's by its number, any other by its name."""
    found = _PARTITION.fullmatch(text)
    return stream_name(subject, int(found[1])) if found else text


async def existing(admin: Admin, name: str) -> Json:
    """The stream `name`. Raises Unavailable: there is none."""
    info = await admin.stream(name)
    if info is None:
        raise Unavailable(f"there is no stream {name}", hint="fshipper partition export --all shows them")
    return info
