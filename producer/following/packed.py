"""Compressed files that a glob finds: read as rotations of a file that is followed, or left out. Never their raw bytes.

A path that is named without a glob is shipped as it is.
"""

from collections.abc import Callable, Collection

from producer.following import unpack
from producer.following.copies import originals
from producer.following.tails import Key
from producer.looking.discover import Seen, Watched
from producer.looking.links import Links
from shipper import events


class Packed:
    """The compressed files that the looks found. Owned by `Sources`."""

    def __init__(self, watched: Watched, links: Links) -> None:
        self._links = links
        self._named = set(watched.patterns)
        self._found: dict[Key, str] = {}
        self._said: set[str] = set()

    def is_named(self, seen: Seen) -> bool:
        """Whether a file that looks compressed is named without a glob."""
        return seen.path in self._named and bool(unpack.suffix_of(seen.path))

    def leaves_out(self, seen: Seen) -> bool:
        """Whether `seen` is compressed and only a glob names it."""
        if seen.key in self._found or self.is_named(seen):
            return seen.key in self._found
        try:
            packed = unpack.is_compressed(seen.path, self._links)
        except OSError:
            return False  # opening it meets the same error and says so
        if packed and seen.size:
            self._found[seen.key] = seen.path
        return packed

    def look_ends(self, keys: Collection[Key], *, is_known: Callable[[str], bool]) -> None:
        """Say once of each path what was left out that is no rotation of a known file."""
        self._found = {key: path for key, path in self._found.items() if key in keys}
        for path in self._found.values():
            if path not in self._said and not any(map(is_known, originals(path))):
                events.compressed_left_out(path=path)
            self._said.add(path)
