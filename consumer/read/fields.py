"""Fields of a line: the members of a JSON object in it, else its pairs `name=value` (logfmt). Pure.

The members of inner objects have names with dots, the elements of an array the name of the array. Values are text:
numbers as they are written. What is broken, too deep or too long has no fields, and is never an error.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

MAX_LINE_BYTES = 1024 * 1024
"""Longer lines have no fields."""
MAX_DEPTH = 32
"""Nested objects and arrays; what is deeper has no name."""
NAME = re.compile(r"(?:[^\W\d]|@)[\w.@/-]*")
"""Names that a query may have: they begin with a letter, `_` or `@`."""
_OBJECT = re.compile(rb'\{\s*+"')
_PAIR = re.compile(r'(?<!\S)((?:[^\W\d]|@)[\w.@/-]*+)=(?:"((?:[^"\\]++|\\.)*+)"|(?!")(\S*+))', re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,4})?")
_CONSTANTS = {True: "true", False: "false", None: "null"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PLAIN = re.compile(r"[A-Za-z0-9 _.:,@-]+")
"""Characters that no usual writer of JSON escapes."""


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object, in their order: of a name that repeats each one."""


_JSON = json.JSONDecoder(object_pairs_hook=_Members, parse_int=str, parse_float=str, parse_constant=str, strict=False)


def fields_of(line: bytes) -> list[tuple[str, str]]:
    """Names and values in the order of the line."""
    if len(line) > MAX_LINE_BYTES:
        return []
    if found := _OBJECT.search(line):
        try:
            members, _ = _JSON.raw_decode(line[found.start() :].decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            pass
        else:
            return list(_flat("", members, MAX_DEPTH))
    if b"=" not in line:
        return []
    return [(name, _unquoted(quoted, bare)) for name, quoted, bare in _pairs(line)]


def _pairs(line: bytes) -> list[tuple[str, str, str]]:
    return _PAIR.findall(line.decode("utf-8", "surrogateescape"))


def _flat(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield name, value
        case None | bool():
            yield name, _CONSTANTS[value]
        case _ if not depth:
            return
        case _Members():
            for key, inner in value:
                yield from _flat(f"{name}.{key}" if name else key, inner, depth - 1)
        case _:
            for inner in value:
                yield from _flat(name, inner, depth - 1)


def _unquoted(quoted: str, bare: str) -> str:
    if not quoted:
        return bare.rstrip(",;")
    if "\\" not in quoted:
        return quoted
    try:
        return str(json.loads(f'"{quoted}"', strict=False))
    except ValueError:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted, flags=re.DOTALL)


def number_of(text: str) -> Decimal | None:
    """The number that a text is; None: it is none."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


_COMPARISONS = {
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A value that is a number on one side of another one."""

    sign: str  #: of _COMPARISONS
    bound: Decimal

    def matches(self, value: str) -> bool:
        """Whether a value is one of these."""
        number = number_of(value)
        return number is not None and _COMPARISONS[self.sign](number, self.bound)

    @property
    def plain(self) -> str:
        """The longest text without escapes that is in each of these values."""
        return ""


@dataclass(frozen=True, slots=True)
class Written:
    """A value as it is written; between its parts there may be anything."""

    parts: tuple[str, ...]

    def matches(self, value: str) -> bool:
        """Whether a value is one of these. Takes time linear in its length."""
        first, *inner = self.parts
        if not inner:
            return value == first
        last, at = inner.pop(), len(first)
        if not (value.startswith(first) and value.endswith(last)):
            return False
        for part in inner:
            found = value.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return at + len(last) <= len(value)

    @property
    def plain(self) -> str:
        """The longest text without escapes that is in each of these values."""
        return max((run for part in self.parts for run in _PLAIN.findall(part)), key=len, default="")


@dataclass(frozen=True, slots=True)
class FieldTest:
    """A field of some name and value."""

    name: str
    value: Compared | Written
    ignores_case: bool  #: then the name and the value are in lower case

    def matches(self, line: bytes) -> bool:
        """Whether a line has such a field."""
        for name, value in fields_of(line):
            named, text = (name.lower(), value.lower()) if self.ignores_case else (name, value)
            if named == self.name and self.value.matches(text):
                return True
        return False

    @property
    def needle(self) -> bytes:
        """Bytes of the name that each line with such a field has."""
        return needle_of(self.name)

    @property
    def literal(self) -> bytes:
        """Bytes that each line with such a field has, the rarer the better."""
        plain = self.value.plain.encode()
        return plain if len(plain) > 1 else self.needle


def needle_of(name: str) -> bytes:
    """Bytes of a name that each line with such a field has: an inner object has only the last part of it."""
    return max(re.findall(r"[\w@-]+", re.split(r"[./]", name)[-1], re.ASCII), key=len, default="").encode()
