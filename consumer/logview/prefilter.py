"""Find the lines of a text that may match, by byte strings that every match contains. Searches whole buffers. Pure.

Python code runs only for lines that contain one of the strings: the rest is compared at memory speed (stringzilla).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from shipper.bytes_ops import find_bytes, lower_ascii

MIN_LITERAL_BYTES = 2
"""Shorter strings are in nearly every line, so that they exclude nothing."""
MAX_LITERALS = 24
"""Each one is a search of its own; more of them take longer than one regular expression."""
_UNICODE_TWINS = {
    ord("i"): ("\u0130".encode(), "\u0131".encode()),
    ord("k"): ("\u212a".encode(),),
    ord("s"): ("\u017f".encode(),),
}
"""Characters beyond ASCII that Python's `re.IGNORECASE` takes for a letter of ASCII."""


class Finder(Protocol):
    """Finds a position inside the next line that may match."""

    def positions(self, text: bytes, start: int, end: int) -> "PositionFinder":
        """The finder for one buffer; lines begin and end between `start` and `end`."""
        ...


class PositionFinder(Protocol):
    """Finds positions in one buffer, in ascending order."""

    def next(self, at: int) -> int:
        """A position at or after `at` inside the next candidate line; -1: there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Literals:
    """Byte strings; every match contains at least one of them."""

    strings: frozenset[bytes]
    ignores_case: bool = False  #: then `strings` are in lower case

    @property
    def rank(self) -> tuple[int, int]:
        """How much they exclude: a higher one is better."""
        return min(map(len, self.strings), default=0), -len(self.strings)

    @property
    def is_useful(self) -> bool:
        """Whether the search for them is faster than judging each line."""
        return 0 < len(self.strings) <= MAX_LITERALS and self.rank[0] >= MIN_LITERAL_BYTES

    def joined(self, other: "Literals") -> "Literals":
        """What an OR of both contains."""
        if self.ignores_case == other.ignores_case:
            return Literals(self.strings | other.strings, self.ignores_case)
        return Literals(frozenset(each.lower() for each in self.strings | other.strings), ignores_case=True)

    def with_unicode_twins(self) -> "Literals":
        """The same, for a judge that ignores the case of characters beyond ASCII as well."""
        if not self.ignores_case:
            return self
        letters = {octet for string in self.strings for octet in string}
        return Literals(
            self.strings.union(*(twins for letter, twins in _UNICODE_TWINS.items() if letter in letters)), True
        )

    def positions(self, text: bytes, start: int, end: int) -> PositionFinder:
        """The finder for one buffer."""
        searched = lower_ascii(text) if self.ignores_case else text
        if len(self.strings) == 1:
            (string,) = self.strings
            return _One(searched, string, end)
        return _Several(searched, self.strings, start, end)


class _One:
    def __init__(self, text: bytes, string: bytes, end: int) -> None:
        self._text = text
        self._string = string
        self._end = end

    def next(self, at: int) -> int:
        return find_bytes(self._text, self._string, at, self._end)


class _Several:
    """Remembers of each string where it is next, so that each byte is searched once a string."""

    def __init__(self, text: bytes, strings: Iterable[bytes], start: int, end: int) -> None:
        self._text = text
        self._end = end
        found = ((find_bytes(text, each, start, end), each) for each in strings)
        self._next = {each: at for at, each in found if at >= 0}

    def next(self, at: int) -> int:
        for string in [each for each, found in self._next.items() if found < at]:
            found = find_bytes(self._text, string, at, self._end)
            if found < 0:
                del self._next[string]
            else:
                self._next[string] = found
        return min(self._next.values(), default=-1)


class EveryLine:
    """Excludes no line."""

    def positions(self, text: bytes, start: int, end: int) -> PositionFinder:  # noqa: ARG002 - as the protocol has it
        """The finder for one buffer."""
        return _Every(end)


class _Every:
    def __init__(self, end: int) -> None:
        self._end = end

    def next(self, at: int) -> int:
        return at if at < self._end else -1


def candidates(finder: Finder, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Begin and end, newline included, of each line between `start` and `end` that may match."""
    positions, at = finder.positions(text, start, end), start
    while at < end and (found := positions.next(at)) >= 0:
        begin = text.rfind(b"\n", at, found) + 1 or at
        at = text.find(b"\n", found, end) + 1 or end
        yield begin, at
