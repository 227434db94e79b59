"""The files that are read: by source, by inode, and in families.

A family is the line of generations that were seen under one name: an older one is read to its end before a younger
one, so the archive has them in the order in which they were written.
"""

import itertools
from collections.abc import Iterator

from producer.model import Source
from producer.tailer.descriptor_cache import Handles
from producer.tailer.file_reader import Tail

Key = tuple[int, int]


class Tails:
    """Every file that is read on this host. Owned by `Sources`."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._by_source: dict[str, Tail] = {}
        self._by_key: dict[Key, Tail] = {}
        self._families: dict[str, list[Tail]] = {}
        self._next_place = itertools.count(1)
        self._places: dict[str, int] = {}  # by source, in the order in which they were first seen
        self._awaited: dict[str, dict[str, int]] = {}  # by name: the sources without a file, and their places
        self.truncated: set[Key] = set()  #: inodes that began anew in place

    def __iter__(self) -> Iterator[Tail]:
        return iter(list(self._by_source.values()))

    def of(self, source: str) -> Tail | None:
        """The open file of a source."""
        return self._by_source.get(source)

    def at(self, key: Key) -> Tail | None:
        """The source that reads the file with this device and inode, also while its last block is on its way."""
        return self._by_key.get(key)

    def add(self, tail: Tail) -> None:
        """Keep an open file, the youngest of its family unless its source has a place there."""
        tail.handles = self._handles
        if tail.held >= 0:
            self._handles.used(tail)
        self._by_source[tail.id] = tail
        self._by_key[tail.key] = tail
        self.place(tail.id)
        family = self._families.setdefault(tail.file, [])
        family.append(tail)
        family.sort(key=lambda each: self._places[each.id])

    def place(self, source: str) -> int:
        """The place of a source in its family; younger than all if it has none yet."""
        if source not in self._places:
            self._places[source] = next(self._next_place)
        return self._places[source]

    def await_(self, source: Source) -> None:
        """Younger generations wait for a source whose file, or the rest of it, is looked for."""
        self._awaited.setdefault(source.file, {})[source.id] = self.place(source.id)

    def no_longer_awaited(self, source: Source) -> None:
        """Nobody waits for a source any more: it has a file, or there is none."""
        self._awaited.get(source.file, {}).pop(source.id, None)

    def awaits_before(self, file: str, id_: str) -> bool:
        """Whether a generation of `file` is awaited that is older than the source `id_`."""
        awaited = self._awaited.get(file)
        return awaited is not None and any(place < self.place(id_) for place in awaited.values())

    def before(self, file: str, id_: str) -> Iterator[Tail]:
        """The generations of `file` that are read and older than the source `id_`."""
        place = self.place(id_)
        return (tail for tail in self.family(file) if self._places[tail.id] < place)

    def family(self, name: str) -> list[Tail]:
        """The generations under a name, oldest first."""
        return list(self._families.get(name, ()))

    def older(self, tail: Tail) -> Iterator[Tail]:
        """The generations before `tail` under its name, oldest first."""
        for other in self._families.get(tail.file, ()):
            if other is tail:
                return
            yield other

    def finish(self, tail: Tail, *, key_is_free: bool) -> None:
        """Its last block was read: nobody waits for it; `key_is_free`: its inode holds a new generation."""
        family = self._families[tail.file]
        family.remove(tail)
        if not family:
            del self._families[tail.file]
        if key_is_free:
            self.free(tail)

    def free(self, tail: Tail) -> None:
        """The inode of a file holds a new generation."""
        if self._by_key.get(tail.key) is tail:
            del self._by_key[tail.key]
        self.truncated.add(tail.key)

    def revive(self, tail: Tail) -> None:
        """A file whose last block was read got more bytes after all: it is its family's oldest again."""
        self._families.setdefault(tail.file, []).insert(0, tail)

    def remove(self, tail: Tail) -> None:
        """Close a file for good."""
        tail.close()
        self._by_source.pop(tail.id, None)
        if tail.id not in self._awaited.get(tail.file, ()):
            self._places.pop(tail.id, None)
        if self._by_key.get(tail.key) is tail:
            del self._by_key[tail.key]
        if tail in self._families.get(tail.file, ()):
            self.finish(tail, key_is_free=False)

    def close(self) -> None:
        """Close every file."""
        for tail in self._by_source.values():
            tail.close()
