"""Files that no watched name leads to, kept open from one pipeline to the next: their bytes may lie nowhere else.

A restart finds a file by its name or not at all. Within one process there is a better way: the descriptor.
"""

import contextlib
import os
from collections.abc import Iterable

from producer.following.tail import Tail
from producer.following.tails import Key
from producer.looking import discover


class Heirs:
    """What `Sources` leave to those that come after them, over a reload or a step back. Owned by `Turns`."""

    def __init__(self) -> None:
        self._descriptors: dict[Key, int] = {}

    def keep(self, tails: Iterable[Tail]) -> None:
        """Keep the files open that lie at no known name any more."""
        for tail in tails:
            if tail.held >= 0 and tail.key not in self._descriptors and not discover.lies_at(tail.path, tail.key):
                with contextlib.suppress(OSError):  # no descriptor is left: what a restart finds, is found
                    self._descriptors[tail.key] = os.dup(tail.held)

    def path(self, key: Key) -> str | None:
        """Where a kept file can be opened, for this process only."""
        descriptor = self._descriptors.get(key)
        return None if descriptor is None else f"/dev/fd/{descriptor}"

    def release(self) -> None:
        """Let go of what was kept: those who needed it have opened it."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
