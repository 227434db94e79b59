"""The values of pattern mining."""

import hashlib
from dataclasses import dataclass

WILD = "<*>"
"""Stands for a parameter in a template."""

MAX_DISTINCT = 200_000
"""Maximum number of distinct masked texts that are clustered; others, with fewer lines, get the pattern `REST`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template and its id: 16 hex digits, from the first time it was seen."""

    id: str
    template: str


def pattern_of(template: str) -> Pattern:
    """A new pattern of `template`; its id is a hash of the text, so it is the same on all machines."""
    return Pattern(hashlib.blake2b(template.encode("utf-8", "replace"), digest_size=8).hexdigest(), template)


REST = pattern_of(WILD)
"""The pattern of lines without one of their own: empty, or beyond `MAX_DISTINCT`."""
