r"""Regular expressions of RE2 on blocks of bytes: one search takes time that is linear in the text.

A pattern sees one line at a time: `^` and `$` are its ends, `$` is also before the CR of CRLF, and nothing matches a
newline. To the engine each byte is a character of Latin-1, so that any byte can match; `\w`, `\d` and `\s` are ASCII.
"""

import re
from collections.abc import Iterator

import re2

MAX_MEMORY = 1024 * 1024
"""Bytes for an expression of a user and its automaton: more may take a minute to compile (measured)."""
SHIPPED_MEMORY = 8 * MAX_MEMORY
"""The same for the large expressions that ship with fshipper."""
MAX_PROGRAM = 4000
"""Instructions of a compiled expression: each byte of a text may cost as many steps."""
SECRET = b"secret"
"""The name of the group that is found instead of the whole match: `(?P<secret>...)`."""
_UNANCHORED = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001
_ANCHORED = re2._re2.RE2.Anchor.ANCHOR_START  # noqa: SLF001
_MULTI_LINE = b"(?m)"
_TOKEN = re.compile(
    rb"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    rb"|\$|\{,[0-9]+\}|\{[0-9]{5,}|[\x80-\xff]|\(\?\w*-\w*m",
    re.DOTALL,
)
r"""What must be written otherwise: `$`, `\A`, `\z` and bytes beyond ASCII outside of classes, and what RE2 takes for
something else."""
_ENDS = {rb"\A": b"^", rb"\z": rb"(?:\r?$)", b"$": rb"(?:\r?$)"}
_WAYS_OUT = {
    "(?=": "look-ahead; write what follows into the expression; redact replaces only (?P<secret>...)",
    "(?!": "negative look-ahead; use drop_lines, or -/.../ in a search, for lines that must not match,"
    " or a class such as [^0-9]",
    "(?<=": "look-behind; write what is before into the expression; redact replaces only (?P<secret>...)",
    "(?<!": r"negative look-behind; write \b or (?:^|[^0-9]); redact replaces only (?P<secret>...)",
    "(?>": "an atomic group; write (?:...), as RE2 never backtracks",
    "(?(": "a condition; write both cases as alternatives: (?:...|...)",
    "(?#": "a comment; leave it out",
    "(?P": "a back-reference; write one alternative for each case, as in (?:\"x\"|'x')",
    "(?x": "the flag x; write the expression without blanks and comments",
    "(?a": r"the flag a; leave it out, as \w, \d and \s are ASCII",
    "(?u": r"the flag u; leave it out, as \w, \d and \s are ASCII",
    "(?L": "the flag L; leave it out",
    "++": "a possessive repetition; leave the second + out, as RE2 never backtracks",
    r"\Z": r"\Z; write $",
    r"\u": "an escape for a character; write the character itself",
    r"\U": "an escape for a character; write the character itself",
    r"\N": "an escape for a character; write the character itself",
    "{,": "a repetition without a first number; write {0,n}",
    "-m": "the flag -m; leave it out, as ^ and $ are always the ends of a line",
}
r"""What Python's `re` has and RE2 has not, by how it begins, and how to do without."""


class PatternError(ValueError):
    """An expression that RE2 does not accept, with the reason and the way out."""


class Linear:
    """A compiled expression."""

    def __init__(
        self, expression: bytes, *, in_lines: bool = True, captures: bool = False, max_memory: int = MAX_MEMORY
    ) -> None:
        """Compile an expression; `in_lines`: it matches no newline, `captures`: `match` knows its groups.

        Raises PatternError.
        """
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.never_nl = in_lines
        options.never_capture = not captures and b"(?P<%s>" % SECRET not in expression
        options.max_mem = max_memory
        try:
            regex = re2.compile(_MULTI_LINE + _TOKEN.sub(_rewritten, expression), options)
        except re2.error as error:
            raise PatternError(_reason(error.args[0].decode("utf-8", "replace"))) from None
        if max_memory == MAX_MEMORY and regex.programsize > MAX_PROGRAM:
            raise PatternError(_reason("pattern too large"))
        self._match = regex._regexp.Match  # noqa: SLF001
        self._group = regex.groupindex.get(SECRET, 0)

    def search(self, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
        """The first match between `begin` and `end`, where a text ends at `end`."""
        return next(self.finditer(data, begin, end), None)

    def finditer(self, data: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Each match between `begin` and `end`, or its secret."""
        start = 0
        if end < len(data):  # the engine reads what follows the end
            start = data.rfind(b"\n", 0, begin) + 1
            data = data[start:end]
        match, group, size, at = self._match, self._group, len(data), begin - start
        while True:  # what the module's own `finditer` does, which takes twice as long for each match
            spans = match(_UNANCHORED, data, at, size)
            first, last = spans[0]
            if first < 0:
                return
            found = spans[group] if spans[group][0] >= 0 else spans[0]
            yield found[0] + start, found[1] + start
            if at == size:
                return
            at = last if last > at else at + 1

    def matches(self, data: bytes) -> Iterator[tuple[int, int]]:
        """What it matches, in order; never nothing, never a line's end."""
        before = 0
        for begin, end in self.finditer(data, 0, len(data)):
            if begin < end and data[end - 1 : end + 1] in (b"\r\n", b"\r"):  # what is there without the line's end?
                line_begin = data.rfind(b"\n", 0, begin) + 1
                found = self.finditer(data, max(before, line_begin), end - 1)
                yield from ((first, last) for first, last in found if first < last)
            elif begin < end:
                yield begin, end
            before = end

    def match(self, data: bytes, begin: int) -> list[tuple[int, int]]:
        """The match that begins at `begin`, and its groups; (-1, -1): it does not match, or the group has no part."""
        spans: list[tuple[int, int]] = self._match(_ANCHORED, data, begin, len(data))
        return spans


def _rewritten(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token.startswith((b"{", b"(")):
        what = ": {," if token.startswith(b"{,") else "invalid repetition size" if token.startswith(b"{") else ": -m"
        raise PatternError(_reason(what))
    return b"(?-i:%s)" % token if token >= b"\x80" else _ENDS.get(token, token)  # half a character has no other case


def _reason(error: str) -> str:
    """Why RE2 refuses an expression, and what to write instead."""
    what, _, part = error.partition(": ")
    if "too large" in what or what == "invalid repetition size":
        return (
            f"it repeats too much{part and f', {part}'}; RE2 repeats up to 1000 times, and all in all up to 4000 times"
        )
    if what == "bad repetition operator" and part.endswith("+"):
        part = "++"
    elif what == "invalid escape sequence" and part[1:].isdigit():
        part = "(?P"
    elif what == "invalid perl operator" and part[2:].isalpha():
        part = f"(?{part[-1]}"  # of several flags the last one
    if what != "invalid named capture group" and part in _WAYS_OUT:
        return f"RE2, the language of patterns, does not have {_WAYS_OUT[part]}"
    shown = part.removeprefix(_MULTI_LINE.decode())
    return rf"{what}: {shown}; write \ before a character that stands for itself, as in \( or \["
