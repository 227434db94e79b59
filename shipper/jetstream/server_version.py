"""Versions of nats-server: which one fshipper needs, and from which one on `sync_interval: always` is always."""

import re
from typing import NamedTuple


class Version(NamedTuple):
    """A version of nats-server; a release candidate counts as its release."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return ".".join(map(str, self))


OLDEST = Version(2, 14)
"""The oldest server with which the whole of fshipper works."""
LACKING = "it cannot reset a consumer, so no collector can read its streams"
"""What servers before `OLDEST` lack."""
SYNCED = Version(2, 14, 6)
"""The first server that syncs everything under `sync_interval: always`. Before, a block that the server compacted was
replaced without a sync (nats-server #8475), and a block that was compacted during a sync was skipped (#8456)."""

_NUMBERS = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?(?![\d.])")


def version_in(text: object) -> Version | None:
    """The version in the server's own text, as `2.15.1` or `2.14.6-RC.1`; None: it is none."""
    found = _NUMBERS.match(str(text))
    return Version(int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
