"""Find the lines of a text that may match, by byte strings that every match contains. Searches whole buffers. Pure.

Python code runs only for lines that contain one of the strings: the rest is compared at memory speed (stringzilla).
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from shipper.bytes_ops import find_bytes, lower_ascii

MIN_LITERAL_BYTES = 2
"""Shorter strings are in nearly every line, so that they exclude nothing."""
MAX_LITERALS = 24
"""Each one is a search of its own; more of them take longer than one regular expression."""
_CHUNK_BYTES = 64 * 1024
"""Bytes that are converted to lower case in one step."""
_UNICODE_TWINS = {
    ord("i"): ("\u0130".encode(), "\u0131".encode()),
    ord("k"): ("\u212a".encode(),),
    ord("s"): ("\u017f".encode(),),
}
"""Characters beyond ASCII that Python's `re.IGNORECASE` takes for a letter of ASCII."""


NextPosition = Callable[[int], int]
"""A position at or after the given one inside the next line that may match; -1: there is none. Positions ascend."""
Finder = Callable[[bytes, int, int], NextPosition]
"""Searches one buffer: its text, and where its lines begin and end."""


@dataclass(frozen=True, slots=True)
class Literals:
    """Byte strings. Every match contains at least one of them."""

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

    def find(self, text: bytes, start: int, end: int) -> NextPosition:
        """A Finder of them."""
        if len(self.strings) > 1:
            return _find_several(lower_ascii(text) if self.ignores_case else text, self.strings, start, end)
        (string,) = self.strings
        if self.ignores_case:
            return _find_in_any_case(text, string, start, end)
        return lambda at: find_bytes(text, string, at, end)


_TOKEN = re.compile(
    r"\\[dDwWsSbBAzZntrfv]|\\[^a-zA-Z0-9]"
    r"|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\((?:\?(?::|P?<\w+>|[ims]+[:)]|<?[=!])|(?!\?))"
    r"|[*+?]|\{[0-9]+(?:,[0-9]*)?\}"
    r"|[^\\\[\]{}(]",
    re.DOTALL,
)
"""What expressions of RE2 and of Python are made of; anything else makes one unknown."""


def required_literals(expression: str, *, ignores_case: bool) -> Literals | None:
    """Byte strings of which every match of a regular expression contains at least one; None: none is known."""
    tokens = _TOKEN.findall(expression)
    if "".join(tokens) != expression:
        return None
    ignores_case = ignores_case or any(re.match(r"\(\?[ms]*i", token) for token in tokens)
    found = _of_group(deque(tokens), ignores_case=ignores_case)
    return Literals(found, ignores_case) if found else None


def _of_group(tokens: deque[str], *, ignores_case: bool) -> frozenset[bytes] | None:
    """What one of the alternatives up to the end of a group contains; takes them off `tokens`."""
    branches, items = [], list[str | frozenset[bytes] | None]()
    while tokens and (part := tokens.popleft()) != ")":
        if part == "|":
            branches.append(_of_branch(items, ignores_case=ignores_case))
            items = []
        elif part[0] == "(" and part[-1] != ")":
            inner = _of_group(tokens, ignores_case=ignores_case)
            items.append(None if part[-1] in "=!" else inner)
        elif part[0] in "*?" or part.startswith("{0"):
            items[-1:] = [None]
        elif len(part) == 1 and part not in "+.^$":
            items.append(part)
        elif part[0] == "\\" and not part[1].isalpha():
            items.append(part[1])
        else:
            items.append(None)
    branches.append(_of_branch(items, ignores_case=ignores_case))
    known = [each for each in branches if each is not None]
    return frozenset().union(*known) if len(known) == len(branches) else None


def _of_branch(items: Iterable[str | frozenset[bytes] | None], *, ignores_case: bool) -> frozenset[bytes] | None:
    """The best of what a sequence contains: each of its runs of characters, and what its groups contain."""
    found, run = list[frozenset[bytes]](), ""
    for item in (*items, None):
        if isinstance(item, str):
            run += item
            continue
        if run and ignores_case:  # of characters beyond ASCII the other case is not known
            run = max(re.split("[^\\x00-\\x7f]+", run), key=len).lower()
        found += [frozenset({run.encode("utf-8", "surrogateescape")})] if run else []
        found += [item] if item else []
        run = ""
    return max(found, key=lambda each: (min(map(len, each)), -len(each)), default=None)


def _find_in_any_case(text: bytes, string: bytes, start: int, end: int) -> NextPosition:
    """Converts a chunk at a time to lower case, so that it is still in the cache of the core when it is searched."""
    begin, chunk = start - _CHUNK_BYTES, b""

    def next_position(at: int) -> int:
        nonlocal begin, chunk
        while (found := find_bytes(chunk, string, max(0, at - begin), len(chunk))) < 0:
            begin = max(begin + _CHUNK_BYTES, at)
            if begin >= end:
                return -1
            chunk = lower_ascii(text, begin, min(begin + _CHUNK_BYTES + len(string) - 1, end))
        return begin + found

    return next_position


def _find_several(text: bytes, strings: Iterable[bytes], start: int, end: int) -> NextPosition:
    """Remembers of each string where it is next, so that each byte is searched once a string."""
    places = {each: at for each in strings if (at := find_bytes(text, each, start, end)) >= 0}

    def next_position(at: int) -> int:
        for string in [each for each, found in places.items() if found < at]:
            found = find_bytes(text, string, at, end)
            if found < 0:
                del places[string]
            else:
                places[string] = found
        return min(places.values(), default=-1)

    return next_position


def every_line(_text: bytes, _start: int, end: int) -> NextPosition:
    """A Finder that excludes no line."""
    return lambda at: at if at < end else -1


def candidates(finder: Finder, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Begin and end, newline included, of each line between `start` and `end` that may match."""
    next_position, at = finder(text, start, end), start
    while at < end and (found := next_position(at)) >= 0:
        begin = text.rfind(b"\n", at, found) + 1 or at
        at = text.find(b"\n", found, end) + 1 or end
        yield begin, at
