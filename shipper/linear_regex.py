"""Regular expressions on an engine whose time for one search is linear in the text: google-re2.

The expression is parsed by Python's own parser and written anew from what that found, on bytes, with classes as sets of
bytes. What the engine cannot express (look-around, back-references), or might match otherwise (a repetition of what may
be empty), stays with Python's `re`, in a process of its own (`matcher`).

A newline is in no class that is written: lines have none, so one search over a whole block finds what a search of each
line finds.
"""

import re
from collections.abc import Iterable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import re2

MAX_PROGRAM = 4000
"""Instructions of a compiled expression: each byte of a text may cost as many steps."""
MAX_STEPS = 512
"""Ways in which `re` may try a bounded expression at one place of a text."""
MAX_COUNT = 1000
"""Repetitions that the engine can count."""
_NEWLINE = ord("\n")
_ALL = frozenset(range(256))
_LOWER = bytes(range(256)).lower()
_DIGITS = frozenset(b"0123456789")
_SPACES = frozenset(b" \t\n\r\f\v")
_WORDS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES = {
    codes.CATEGORY_DIGIT: _DIGITS,
    codes.CATEGORY_NOT_DIGIT: _ALL - _DIGITS,
    codes.CATEGORY_SPACE: _SPACES,
    codes.CATEGORY_NOT_SPACE: _ALL - _SPACES,
    codes.CATEGORY_WORD: _WORDS,
    codes.CATEGORY_NOT_WORD: _ALL - _WORDS,
}
_ONE_BYTE = frozenset({codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN})
_PLACES = {codes.AT_BEGINNING: "(?m:^)", codes.AT_END: "(?m:$)", codes.AT_BOUNDARY: r"\b"}
_UNANCHORED = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001
_IN_GROUPS = re.IGNORECASE | re.DOTALL | re.MULTILINE
"""Flags that a group may switch on for itself."""


class _Inexpressible(Exception):  # noqa: N818
    """The engine cannot express it, or matches it differently."""


class Linear:
    """An expression that is compiled for the linear engine; it finds what `re` finds in the lines of a text."""

    def __init__(self, regex: Any) -> None:
        self._match = regex._regexp.Match  # noqa: SLF001

    @classmethod
    def of(cls, expression: bytes, *, may_be_empty: bool) -> "Linear | None":
        """The expression as `re.MULTILINE` understands it; None: only `re` can run it.

        `may_be_empty`: only whether there is a match counts, so that one of no byte is as good as any.
        """
        try:
            tree = parser.parse(expression, re.MULTILINE)
            if not may_be_empty and tree.getwidth()[0] == 0:
                return None
            if _instructions(tree, tree.state.flags) > MAX_PROGRAM:  # compiling them would take seconds
                return None
            written = _written(tree, tree.state.flags)
        except (_Inexpressible, RecursionError):
            return None
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = True
        options.log_errors = False
        try:
            regex = re2.compile(written.encode("ascii"), options)
        except re2.error:
            return None
        return cls(regex) if regex.programsize <= MAX_PROGRAM else None

    def search(self, data: bytes, begin: int, end: int) -> tuple[int, int] | None:
        """The first match between `begin` and `end`, where a text ends at `end`."""
        if end == len(data):
            first, last = self._match(_UNANCHORED, data, begin, end)[0]
            return None if first < 0 else (first, last)
        return next(self.finditer(data, begin, end), None)

    def finditer(self, data: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Each match between `begin` and `end`."""
        start = 0
        if end < len(data):  # the engine reads what follows the end; `re` does not
            start = data.rfind(b"\n", 0, begin) + 1
            data = data[start:end]
        match, size, at = self._match, len(data), begin - start
        while True:  # what the module's own `finditer` does, which takes twice as long for each match
            first, last = match(_UNANCHORED, data, at, size)[0]
            if first < 0:
                return
            yield first + start, last + start
            if at == size:
                return
            at = last if last > at else at + 1


def required_literals(expression: bytes | str, flags: int = 0) -> tuple[frozenset[bytes], bool] | None:
    """Byte strings of which every match contains at least one, and whether case is ignored; None: none is known.

    Those that ignore case are in lower case. `flags`: those of `re`, such as IGNORECASE.
    """
    try:
        tree = parser.parse(expression, flags)
    except (re.error, OverflowError, RecursionError):
        return None
    found = _literals(list(tree), tree.state.flags)
    if found is None:
        return None
    strings, ignores_case = found
    return (frozenset(each.lower() for each in strings), True) if ignores_case else (strings, False)


_Literals = tuple[frozenset[bytes], bool]


def _literals(items: Iterable[Any], flags: int) -> _Literals | None:
    """The best of what a sequence requires: each of its runs of literals, and what its other items require."""
    found, run = list[_Literals](), list[int]()
    for code, value in [*items, (codes.AT, None)]:
        if code is codes.LITERAL:
            run.append(value)
            continue
        if run:
            found.append((frozenset({_encoded(run, flags)}), bool(flags & re.IGNORECASE)))
            run = []
        if (inner := _required(code, value, flags)) is not None:
            found.append(inner)
    return max(found, key=lambda each: (min(map(len, each[0])), -len(each[0])), default=None)


def _required(code: Any, value: Any, flags: int) -> _Literals | None:
    match code:
        case codes.BRANCH:
            branches = [_literals(branch, flags) for branch in value[1]]
            known = [each for each in branches if each is not None]
            if len(known) < len(branches):
                return None
            return frozenset().union(*(strings for strings, _ in known)), any(ignores for _, ignores in known)
        case codes.SUBPATTERN:
            _, added, removed, inner = value
            return _literals(inner, (flags | added) & ~removed)
        case codes.MAX_REPEAT | codes.MIN_REPEAT if value[0] > 0:
            return _literals(value[2], flags)
    return None


def _encoded(run: Iterable[int], flags: int) -> bytes:
    """Literals as bytes; of text beyond ASCII whose case is ignored only the longest part of ASCII."""
    text = "".join(map(chr, run))
    if not flags & re.UNICODE:
        return text.encode("latin-1")
    if not flags & re.IGNORECASE:
        return text.encode("utf-8", "surrogateescape")
    return max(re.split("[^\\x00-\\x7f]+", text), key=len).encode()


def is_bounded(expression: bytes) -> bool:
    """Whether `re` itself is linear on an expression, and quicker where much is found.

    At each place of a text it tries a few ways of bounded length; only the last thing may be repeated without a bound,
    when nothing after it can fail.
    """
    tree = parser.parse(expression, re.MULTILINE)
    *items, last = list(tree) or [(codes.AT, codes.AT_BOUNDARY)]
    steps = _steps(items)
    is_tail = last[0] is codes.MAX_REPEAT and last[1][0] <= 1 and last[1][1] is codes.MAXREPEAT
    if is_tail and len(last[1][2]) == 1 and last[1][2][0][0] in _ONE_BYTE:
        return steps <= MAX_STEPS
    return steps * _steps([last]) <= MAX_STEPS


def _steps(items: Iterable[Any]) -> int:
    """In how many ways, or with how many steps, `re` may try `items` at one place; more than MAX_STEPS: too many."""
    steps = length = 1
    for code, value in items:
        match code:
            case codes.LITERAL | codes.NOT_LITERAL | codes.ANY | codes.IN | codes.AT:
                length += 1
            case codes.BRANCH:
                steps *= sum(map(_steps, value[1]))
            case codes.SUBPATTERN:
                steps *= _steps(value[3])
            case codes.MAX_REPEAT | codes.MIN_REPEAT if value[1] is not codes.MAXREPEAT and value[1] <= MAX_STEPS:
                ways = _steps(value[2]) ** int(value[1]) if _steps(value[2]) > 1 else 1
                steps, length = steps * ways * (value[1] - value[0] + 1), length + int(value[1])
            case _:
                return MAX_STEPS + 1
        if steps * length > MAX_STEPS:
            return MAX_STEPS + 1
    return max(steps, length)


def _instructions(items: Iterable[Any], flags: int) -> int:
    """A lower bound of the size of the compiled program: a repetition is compiled as so many copies."""
    total = 0
    for code, value in items:
        match code:
            case codes.BRANCH:
                total += sum(_instructions(branch, flags) for branch in value[1])
            case codes.SUBPATTERN:
                _, added, removed, inner = value
                total += _instructions(inner, (flags | added) & ~removed)
            case codes.MAX_REPEAT | codes.MIN_REPEAT:
                least, most, inner = value
                copies = max(1, int(least)) if most is codes.MAXREPEAT else int(most)
                total += copies * _instructions(inner, flags)
            case codes.IN:
                negated = value[0][0] is codes.NEGATE
                total += len(_ranges(_octets(value[1:] if negated else value), flags, negated=negated))
            case _:
                total += 1
    return total


def _written(items: Iterable[Any], flags: int) -> str:
    return "".join(_one(code, value, flags) for code, value in items)


def _one(code: Any, value: Any, flags: int) -> str:  # noqa: PLR0911 - one for each kind of node
    match code:
        case codes.LITERAL | codes.NOT_LITERAL:
            return _class({value}, flags, negated=code is codes.NOT_LITERAL)
        case codes.ANY:
            return _class(_ALL, flags)
        case codes.IN:
            negated = value[0][0] is codes.NEGATE
            return _class(_octets(value[1:] if negated else value), flags, negated=negated)
        case codes.AT if value in _PLACES:
            return _PLACES[value]
        case codes.BRANCH:
            return "(?:" + "|".join(_written(branch, flags) for branch in value[1]) + ")"
        case codes.SUBPATTERN:
            _, added, removed, inner = value
            if (added | removed) & ~_IN_GROUPS or removed & re.MULTILINE:
                raise _Inexpressible
            return "(?:" + _written(inner, (flags | added) & ~removed) + ")"
        case codes.MAX_REPEAT | codes.MIN_REPEAT:
            return _repeated(value, flags) + ("?" if code is codes.MIN_REPEAT else "")
    raise _Inexpressible


def _repeated(repeat: Any, flags: int) -> str:
    least, most, inner = repeat
    if inner.getwidth()[0] == 0 or least > MAX_COUNT:  # engines differ in when they stop repeating nothing
        raise _Inexpressible
    body = "(?:" + _written(inner, flags) + ")"
    if most is codes.MAXREPEAT:
        return body + {0: "*", 1: "+"}.get(int(least), f"{{{least},}}")
    if most > MAX_COUNT:
        raise _Inexpressible
    return body + ("?" if (least, most) == (0, 1) else f"{{{least},{most}}}")


def _octets(items: Iterable[Any]) -> frozenset[int]:
    found: set[int] = set()
    for code, value in items:
        match code:
            case codes.LITERAL:
                found.add(value)
            case codes.RANGE:
                found.update(range(value[0], value[1] + 1))
            case codes.CATEGORY if value in _CATEGORIES:
                found |= _CATEGORIES[value]
            case _:
                raise _Inexpressible
    return frozenset(found)


def _class(octets: Iterable[int], flags: int, *, negated: bool = False) -> str:
    """A class of the bytes that `re` matches by this one, but for the newline."""
    ranges = _ranges(octets, flags, negated=negated)
    if not ranges:
        return r"[^\x00-\xff]"
    return "[" + "".join(rf"\x{low:02x}-\x{high:02x}" for low, high in ranges) + "]"


def _ranges(octets: Iterable[int], flags: int, *, negated: bool) -> list[tuple[int, int]]:
    wanted = set(octets)
    if flags & re.IGNORECASE:  # `re` compares lower-case bytes, and ASCII letters only
        lowered = {_LOWER[octet] for octet in wanted}
        wanted = {octet for octet in _ALL if _LOWER[octet] in lowered}
    wanted = (set(_ALL) - wanted if negated else wanted) - {_NEWLINE}
    ranges: list[tuple[int, int]] = []
    for octet in sorted(wanted):
        if ranges and ranges[-1][1] == octet - 1:
            ranges[-1] = (ranges[-1][0], octet)
        else:
            ranges.append((octet, octet))
    return ranges
