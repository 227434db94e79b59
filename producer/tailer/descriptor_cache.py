"""Open descriptors, bounded: the file that was used least recently is closed, and opened again when it is needed."""

import os
from collections import OrderedDict
from collections.abc import Sized
from typing import Protocol

from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links
from producer.options import UNBOUNDED

RESERVED_DESCRIPTORS = 48
"""For everything that is no log file: connection, checkpoint, watcher, metrics, and what they open for a moment."""


class DescriptorOwner(Protocol):
    """Has a descriptor, or -1 while it is closed."""

    fd: int

    def suspend(self) -> None:
        """Close the descriptor; it is opened again when it is used."""
        ...


class DescriptorCache:
    """At most `at_most` open files, except those that have no name any more: no other file has their bytes.

    `others`: further open files that count; `links`: how a file is opened again. Owned by `FileTable`.
    """

    def __init__(self, at_most: int = UNBOUNDED, others: Sized = (), links: Links = FOLLOWED_BY_OWNER) -> None:
        self.links = links
        self._at_most = at_most
        self._others = others
        self._open: OrderedDict[int, DescriptorOwner] = OrderedDict()

    def used(self, owner: DescriptorOwner) -> None:
        """`owner` has an open descriptor and needs it now; another one may be closed for it."""
        self._open[id(owner)] = owner
        self._open.move_to_end(id(owner))
        if len(self._open) > max(1, self._at_most - len(self._others)):
            self._suspend_oldest(owner)

    def closed(self, owner: DescriptorOwner) -> None:
        """`owner` closed its descriptor for good."""
        self._open.pop(id(owner), None)

    def _suspend_oldest(self, needed: DescriptorOwner) -> None:
        for key, owner in self._open.items():
            if owner is not needed and _has_name(owner.fd):
                del self._open[key]
                owner.suspend()
                return


def file_limit(chosen: int, soft_limit: int) -> int:
    """How many log files may be open: `chosen` (0: no choice), within what the process may have."""
    allowed = max(1, soft_limit - RESERVED_DESCRIPTORS)
    return min(chosen, allowed) if chosen else allowed


def _has_name(descriptor: int) -> bool:
    """Whether some name leads to the file; where that is unknown it stays open."""
    try:
        return os.fstat(descriptor).st_nlink > 0
    except OSError:
        return False
