"""Generations that came and were renamed between two looks, or while no producer ran: their names tell whose."""

import os

from producer.following import unpack
from producer.following.copies import Copies
from producer.following.ledger import Ledger
from producer.following.opening import Opening
from producer.following.packed import Packed
from producer.following.reading import Following
from producer.following.rest import Rests
from producer.following.unpack import Unfinished
from producer.looking import discover
from producer.looking.discover import Seen
from shipper import events


class Missed:
    """Finds them. Owned by `Sources`."""

    def __init__(
        self, following: Following, opening: Opening, ledger: Ledger, copies: Copies, packed: Packed, rests: Rests
    ) -> None:
        self._following = following
        self._opening = opening
        self._ledger = ledger
        self._copies = copies
        self._packed = packed
        self._rests = rests

    def first_name(self, seen: Seen) -> str:
        """The name that a new file had before it was renamed since the last look, if nothing came in its place yet."""
        for name in () if self._packed.is_named(seen) else discover.originals(seen.path):
            known_until = self._ledger.changed_before(name)
            if known_until is not None and seen.mtime_ns >= known_until and not os.path.lexists(name):
                return name
        return seen.path

    def before(self, name: str) -> list[Seen]:
        """The files that had `name` and are newer than all that is known of it, the oldest first.

        Raises Unfinished: what a compressed one holds is unknown yet.
        """
        known_until = 0 if name in self._following.spools else self._ledger.changed_before(name)
        if known_until is None:
            return []
        return [
            sibling
            for sibling in self._ledger.targets.rotations(name, self._opening.listing)
            if sibling.mtime_ns >= known_until
            and not self._opening.is_known(sibling)
            and self._is_readable(sibling)
            and not self._is_copy(sibling)
        ]

    def is_copy(self, seen: Seen) -> bool:
        """Whether what `seen` holds is known under another name; unknown counts as no."""
        try:
            return not self._packed.is_named(seen) and self._is_copy(seen)
        except Unfinished:
            return False

    def _is_copy(self, seen: Seen) -> bool:
        """The same. Raises Unfinished."""
        try:
            return self._copies.is_copy(seen)
        except OSError:
            return False  # opening it meets the same error and says so

    def _is_readable(self, sibling: Seen) -> bool:
        """Whether a rotation is plain, or compressed in a way that can be read. Raises Unfinished."""
        suffix = unpack.suffix_of(sibling.path)
        if not suffix:
            return True
        if self._packed.is_named(sibling) or os.path.lexists(sibling.path.removesuffix(suffix)):
            return False  # shipped as it is; or its original still lies beside it
        try:
            if not unpack.is_compressed(sibling.path, self._following.links) or self._rests.begins_with(sibling):
                return True
        except OSError as error:
            events.file_unreadable(path=sibling.path, error=error.strerror or str(error))
            return False
        self._rests.claims[sibling.key] = ""  # nobody's: empty, or damaged, which was said
        return False
