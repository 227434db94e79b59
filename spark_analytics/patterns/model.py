"""The values of pattern mining."""

import hashlib
from dataclasses import dataclass

WILD = "<*>"
"""Stands for a parameter in a template."""

MOST_DISTINCT = 200_000
"""Distinct masked texts that are clustered; those with the fewest lines beyond that are the pattern `REST`."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A template and the id that it got when it was first seen: 16 hex digits."""

    id: str
    template: str


def pattern_of(template: str) -> Pattern:
    """The pattern that `template` is at its first sight: its id is a hash of the text, so it is the same everywhere."""
    return Pattern(hashlib.blake2b(template.encode("utf-8", "replace"), digest_size=8).hexdigest(), template)


REST = pattern_of(WILD)
"""Of lines that are too rare, too many or too empty to have a pattern of their own."""
