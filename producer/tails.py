"""The files that are open: by source, by inode, and in families.

A family is the line of generations that were seen under one name: an older one is read to its end before a younger
one, so the archive has them in the order in which they were written.
"""

from collections.abc import Iterator

from producer.tail import Tail

Key = tuple[int, int]


class Tails:
    """Every open file of this host. Owned by `Sources`."""

    def __init__(self) -> None:
        self._by_source: dict[str, Tail] = {}
        self._by_key: dict[Key, Tail] = {}
        self._families: dict[str, list[Tail]] = {}
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
        """Keep an open file, the youngest of its family."""
        self._by_source[tail.id] = tail
        self._by_key[tail.key] = tail
        self._families.setdefault(tail.file, []).append(tail)

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
            del self._by_key[tail.key]
            self.truncated.add(tail.key)

    def revive(self, tail: Tail) -> None:
        """A file whose last block was read got more bytes after all: it is its family's oldest again."""
        self._families.setdefault(tail.file, []).insert(0, tail)

    def remove(self, tail: Tail) -> None:
        """Close a file for good."""
        tail.close()
        self._by_source.pop(tail.id, None)
        if self._by_key.get(tail.key) is tail:
            del self._by_key[tail.key]
        if tail in self._families.get(tail.file, ()):
            self.finish(tail, key_is_free=False)

    def close(self) -> None:
        """Close every file."""
        for tail in self._by_source.values():
            tail.close()
