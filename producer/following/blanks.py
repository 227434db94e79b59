"""Sources that never had a byte: nothing tells their files from others, so at a start they are looked for anew."""

from collections.abc import Iterable

from producer.following.ledger import Ledger
from producer.following.source import Source
from producer.looking import discover
from producer.looking.discover import Seen


class Blanks:
    """The blank sources of the checkpoint. Owned by `Sources`.

    An inode number alone would lend them any later file. Only the name is kept: a file that had it and was renamed
    while nobody looked is found by that. They stay in the checkpoint until a source of the same name is there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._left: list[Source] = []

    def without(self, sources: Iterable[Source]) -> list[Source]:
        """`sources` less the blank ones, whose names are known from now on."""
        kept = []
        for source in sources:
            if is_blank(source):
                self._ledger.learn_name(source)
                self.add(source)
            else:
                kept.append(source)
        return kept

    def add(self, source: Source) -> None:
        """One that is in the checkpoint and known no more."""
        self._left.append(source)

    def name_of(self, seen: Seen) -> str | None:
        """The name that a file had which is empty and renamed; what it will hold belongs there."""
        for source in self._left:
            if source.key == seen.key and seen.size == 0 and discover.is_sibling(seen.path, source.file):
                return source.file
        return None

    def look_ends(self) -> None:
        """Forget those whose name has a source again."""
        if self._left:
            names = {source.file for source in self._ledger.known.values()}
            over = [source for source in self._left if source.file in names]
            if over and self._ledger.forget(over):
                self._left = [source for source in self._left if source.file not in names]


def is_blank(source: Source) -> bool:
    """Whether nothing was ever seen of a source."""
    return not (source.ended_at or source.size or source.mark.head_length or source.offset > source.origin)
