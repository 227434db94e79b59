"""Regular expressions on the lines of a block, without a check of each line where a scan of the whole block will do.

A line is the text between two newlines. A pattern never sees beyond it, whatever it may match: `^` and `$` are its
ends. A CR before the newline belongs to the line, but `$` is also before it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from shipper.linear_regex import Linear, is_bounded

Range = tuple[int, int]
"""Begin and end in a block's bytes."""

_SCANNABLE = re.compile(
    r"""(?:\(\?i\))?(?:
        [\w\x20\-/:=,;"'@%&<>~\#!.|^)]                          # itself, or a line's begin
      | \\[.dwb/"'\-\[\](){}+*?|^$\\]                            # one character that is no newline
      | \[(?!\^)(?:[\w\x20\-/:=,;"'@%&<>~\#!.|+*?(){}$]|\\[.dw\-\[\]])+\]
      | \((?!\?) | \(\?:
      | [*+?](?!\+) | \{\d+(?:,\d*)?\}(?!\+)                     # not possessive
    )*""",
    re.VERBOSE,
)
"""Patterns that match in a block where they match in a line: they can match no newline, and check nothing around it."""


class Pattern(NamedTuple):
    """One regular expression, ready for blocks."""

    regex: re.Pattern[bytes]
    scans: bool  #: it may run over a whole block
    linear: Linear | None = None  #: the same for the linear engine, where that is what runs it

    @classmethod
    def of(cls, text: str, *, may_be_empty: bool = True) -> "Pattern":
        """The pattern that a user wrote. Raises re.error.

        `may_be_empty`: its lines are wanted, not its matches, so that one of no byte is as good as any.
        """
        pattern = cls.of_re(text)
        if pattern.is_quick:
            return pattern
        return pattern._replace(linear=Linear.of(pattern.regex.pattern, may_be_empty=may_be_empty))

    @property
    def is_quick(self) -> bool:
        """Whether `re` runs it on a whole block, in a time that is linear in the block."""
        return self.scans and is_bounded(self.regex.pattern)

    @property
    def needs_own_process(self) -> bool:
        """Whether only `re` can run it, in a time without a bound."""
        return self.linear is None and not self.is_quick

    @classmethod
    def of_re(cls, text: str) -> "Pattern":
        """The pattern for `re`, whose time may be exponential in the text. Raises re.error."""
        line_ends = {b"A": b"^", b"Z": b"$"}  # \A and \Z mean the ends of the line, too
        ends = re.sub(rb"\\(.)", lambda escape: line_ends.get(escape[1], escape[0]), text.encode(), flags=re.DOTALL)
        return cls(re.compile(ends, re.MULTILINE), _SCANNABLE.fullmatch(text) is not None)

    def matches_line(self, data: bytes, begin: int, end: int) -> bool:
        """Whether it matches in the line `begin` to `end`, which has no newline."""
        if self._search(data, begin, end):
            return True
        return data[end - 1 : end] == b"\r" and end > begin and self._search(data, begin, end - 1) is not None

    def lines(self, data: bytes) -> Iterator[Range]:
        """The lines in which it matches, in order, with their newlines."""
        if self._scans(data):
            yield from self._scanned(data)
            return
        for begin, end in lines_of(data):
            if self.matches_line(data, begin, end - data.endswith(b"\n", begin, end)):
                yield begin, end

    def matches(self, data: bytes) -> Iterator[Range]:
        """What it matches, in order; never nothing, never a line's end."""
        if self._scans(data):
            spans = self._scanned_matches(data)
        else:
            lines = ((begin, _without_line_end(data, begin, end)) for begin, end in lines_of(data))
            spans = (span for begin, end in lines for span in self._finditer(data, begin, end))
        return ((begin, end) for begin, end in spans if begin < end)

    def _scans(self, data: bytes) -> bool:
        """Whether it finds in a whole block what it finds in each line; `$` is also before a CR."""
        if self.scans or self.linear is None:
            return self.scans
        return b"\r\n" not in data and not data.endswith(b"\r")

    def _search(self, data: bytes, begin: int, end: int) -> Range | None:
        if self.linear:
            return self.linear.search(data, begin, end)
        found = self.regex.search(data, begin, end)
        return found.span() if found else None

    def _finditer(self, data: bytes, begin: int, end: int) -> Iterator[Range]:
        if self.linear:
            return self.linear.finditer(data, begin, end)
        return (match.span() for match in self.regex.finditer(data, begin, end))

    def _scanned_matches(self, data: bytes) -> Iterator[Range]:
        for begin, end in self._finditer(data, 0, len(data)):
            if data[end - 1 : end + 1] == b"\r\n" and begin < end:  # what is there without the line's end?
                yield from self._finditer(data, begin, end - 1)
            else:
                yield begin, end

    def _scanned(self, data: bytes) -> Iterator[Range]:
        at, last = 0, len(data) - data.endswith(b"\n")  # after a newline at the end is no line
        while at < len(data) and (found := self._search(data, at, len(data))) and found[0] <= last:
            begin = data.rfind(b"\n", 0, found[0]) + 1
            at = data.find(b"\n", found[0]) + 1 or len(data)
            yield begin, at


def lines_of(data: bytes) -> Iterator[Range]:
    """Every line with its newline; the last one may have none."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        yield begin, end
        begin = end


def joined(ranges: list[Range]) -> list[Range]:
    """Sorted ranges, those that touch or overlap as one."""
    out: list[Range] = []
    for begin, end in ranges:
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((begin, end))
    return out


def others(ranges: list[Range], length: int) -> list[Range]:
    """What of `length` bytes is in none of the sorted ranges."""
    edges = [0, *(edge for span in ranges for edge in span), length]
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]


def _without_line_end(data: bytes, begin: int, end: int) -> int:
    end -= data.endswith(b"\n", begin, end)
    return end - data.endswith(b"\r", begin, end)
