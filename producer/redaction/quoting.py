r"""Quotes at any depth of escaping: which are open at a place of a line, and where one that begins is closed.

A quote within n texts that quote each other has 2**n - 1 backslashes before it: `"`, `\"`, `\\\"`. An escaped quote
in such a value has one level more, so the number of backslashes decides which quote closes which.
"""

import re
from typing import NamedTuple

QUOTE = re.compile(rb"(\\*)([\"'`])")
_MAX_DEPTH = 16
"""Quotes that are open at the same time; a line that opens more is no text of a program."""
_BEFORE_OPENING = b" \t\r=:([{,>\"'`&?;|@bu"
"""What may be before a single quote or back-quote that opens; else it is an apostrophe."""


class Open(NamedTuple):
    """A quote that is open."""

    escapes: int  #: backslashes before it
    mark: bytes

    def is_closed_by(self, escapes: int, mark: bytes) -> bool:
        """Whether a quote with so many backslashes closes this one; fewer close what is around it, too."""
        if mark != self.mark:
            return False
        return escapes <= self.escapes or (escapes - self.escapes) % (2 * (self.escapes + 1)) == 0


def end_of_quoted(text: bytes, begin: int, quote: Open, limit: int) -> int:
    """Where the content that begins at `begin` after `quote` ends, at most `limit`: it is never closed."""
    for found in QUOTE.finditer(text, begin, limit):
        escapes = len(found[1])
        if quote.is_closed_by(escapes, found[2]):
            return found.end() - 1 - min(escapes, quote.escapes)
    return limit


class LineQuotes:
    """The quotes that are open at places of one text, which are given in ascending order: each byte is read once."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = self._line_begin = 0
        self._line_end = -1
        self._open: list[Open] = []

    def line(self, place: int) -> tuple[int, int]:
        """Begin and end of the line that `place` is in, without its newline."""
        if place > self._line_end:
            self._line_begin = self._text.rfind(b"\n", max(0, self._line_end), place) + 1
            end = self._text.find(b"\n", place)
            self._line_end = len(self._text) if end < 0 else end
            self._at, self._open = self._line_begin, []
        return self._line_begin, self._line_end

    def open_at(self, place: int) -> list[Open]:
        """The quotes that are open before `place`, the outermost first."""
        self.line(place)
        if place < self._at:  # a value that is before its name
            return []
        for found in QUOTE.finditer(self._text, self._at, place):
            self._take(len(found[1]), found[2], found.start())
        self._at = place
        return self._open

    def _take(self, escapes: int, mark: bytes, begin: int) -> None:
        stack = self._open
        if stack and stack[-1].is_closed_by(escapes, mark):
            while stack and stack[-1].mark == mark and stack[-1].escapes > escapes:
                stack.pop()
            if stack and stack[-1].mark == mark:
                stack.pop()
            return
        for depth in range(len(stack) - 1, -1, -1):  # an outer quote closes what was left open in it
            if stack[depth].mark == mark and escapes <= stack[depth].escapes and mark == b'"':
                del stack[depth:]
                return
        may_open = mark == b'"' or begin == self._line_begin or self._text[begin - 1] in _BEFORE_OPENING
        if may_open and len(stack) < _MAX_DEPTH:
            stack.append(Open(escapes, mark))
