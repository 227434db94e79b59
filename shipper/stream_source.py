"""The origin of a stream of the centre that is sourced from an edge site, and a message's sequence there. Pure.

A stream that is sourced counts by itself, so its sequences differ from those in the acks of the site's producers.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

SOURCE_HEADER = "Nats-Stream-Source"
"""`<stream> <sequence> ...`: nats-server writes it into each message that it sources."""

_API = re.compile(r"\$JS\.([A-Za-z0-9_-]+)\.API")
_SEQUENCE = re.compile(r"\S+ (\d+)(?: .*)?", re.DOTALL)


class Origin(NamedTuple):
    """The stream of an edge site that a stream of the centre takes everything from."""

    stream: str
    domain: str  #: the site's JetStream domain

    @property
    def api(self) -> str:
        """API prefix of the site's JetStream, as seen from the centre."""
        return f"$JS.{self.domain}.API"

    @property
    def source(self) -> dict[str, Any]:
        """It as one of the `sources` in a stream's configuration."""
        return {"name": self.stream, "external": {"api": self.api}}


def origin_of(config: Mapping[str, Any]) -> Origin | None:
    """The one origin of a stream that accepts no message from another publisher; None: it has none."""
    sources = list(config.get("sources") or [])
    if config.get("subjects") or len(sources) != 1:
        return None
    found = _API.fullmatch(str((sources[0].get("external") or {}).get("api", "")))
    return Origin(str(sources[0].get("name", "")), found[1]) if found else None


def sequence_at_origin(headers: Mapping[str, str]) -> int | None:
    """The sequence that a sourced message has at its origin; None: its headers name no origin."""
    found = _SEQUENCE.fullmatch(headers.get(SOURCE_HEADER, ""))
    return int(found[1]) if found else None
