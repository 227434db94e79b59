"""Open descriptors, bounded: the file that was used least recently is closed, and opened again when it is needed."""

import os
from collections import OrderedDict
from collections.abc import Sized
from typing import Protocol

from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links

RESERVED_DESCRIPTORS = 48
"""For everything that is no log file: connection, checkpoint, watcher, metrics, and what they open for a moment."""
UNBOUNDED = 1 << 30


class Holder(Protocol):
    """Who holds a descriptor, or -1."""

    held: int

    def let_rest(self) -> None:
        """Close the descriptor; it is opened again when it is used."""
        ...


class Handles:
    """At most `at_most` open files, save for those that have no name any more: their bytes lie nowhere else.

    `others`: what is open beside them and counts, too; `links`: how a file is opened again. Owned by `Tails`.
    """

    def __init__(self, at_most: int = UNBOUNDED, others: Sized = (), links: Links = FOLLOWED_BY_OWNER) -> None:
        self.links = links
        self._at_most = at_most
        self._others = others
        self._open: OrderedDict[int, Holder] = OrderedDict()

    def used(self, holder: Holder) -> None:
        """`holder` has an open descriptor and needs it now; another may have to rest for it."""
        self._open[id(holder)] = holder
        self._open.move_to_end(id(holder))
        if len(self._open) > max(1, self._at_most - len(self._others)):
            self._let_one_rest(holder)

    def closed(self, holder: Holder) -> None:
        """`holder` closed its descriptor for good."""
        self._open.pop(id(holder), None)

    def _let_one_rest(self, needed: Holder) -> None:
        for key, holder in self._open.items():
            if holder is not needed and _has_name(holder.held):
                del self._open[key]
                holder.let_rest()
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
