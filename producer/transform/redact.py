"""What is blacked out: card numbers, tokens, mail addresses, and what a user's own patterns match."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from producer.transform.line_filter import Range

Find = Callable[[bytes], Iterable[Range]]

_DIGITS = re.compile(rb"[0-9]+")
_RUN = re.compile(rb"[0-9]{3}[0-9 +-]{10,}")
_CARD_DIGITS = range(13, 20)
_USUAL = frozenset({(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), *((size,) for size in _CARD_DIGITS)})
"""Digits in each group of a card number, as they are printed."""
_GROUP_DIGITS = 3
"""Else the least in a group but the last, so that a date and a time are none."""
_MOST_GROUPS = 7

_AT = re.compile(rb"(?:@|%40)(?:[A-Za-z0-9\x80-\xff][A-Za-z0-9\x80-\xff-]*\.)+[A-Za-z\x80-\xff][A-Za-z0-9\x80-\xff-]*")
_LOCAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-" + bytes(range(0x80, 0x100))
_LOCAL_BYTES = 128
"""Of the part before the @: the standard allows 64, some may be percent-encoded."""

_VALUE = (
    rb"""(?:\\"([^"\\\n]+)"""  # quoted within a quoted text
    rb"""|"((?:[^"\\\n]++|\\[^\n])++)"""
    rb"""|'([^'\n]+)"""
    rb"""|([^\s&;,"'\\]+))"""
)
_NAMES = (
    *(b"password", b"passwd", b"passphrase", b"pwd", b"secret", b"token"),
    *(b"api", b"access", b"private", b"author", b"bearer"),
)
_IS = rb"[ \t]*(?:[=:]{1,2}>?|%3[ad])[ \t]*"
"""Between a name and its value: `=`, `:`, `:=`, `=>` as Ruby and PHP write, percent-encoded ones."""
_NAMED = re.compile(
    rb"(?:password|passwd|passphrase|pwd|secret(?:key)?|token|api[_-]?key|access[_-]?key|private[_-]?key)"
    rb"(?:[_-][a-z0-9_-]{0,24})?\\?[\"']?" + _IS + _VALUE +
    rb"|(?<=--)(?:password|passwd|passphrase|secret|token)[ \t]+\\?[\"']?([^\s\"'\\-][^\s\"'\\]*)"
    rb"|authorization\\?[\"']?" + _IS + rb"\\?[\"']?(?:[a-z0-9-]+[ \t]+)?([^\s,\"'\\]+)"
    rb"|\bbearer[ \t]+([a-z0-9._~+/=-]+)"
)  # fmt: skip
"""On lower-case bytes: the value is the one group that matched. A value whose quote is not closed goes to the end."""
_ELEMENTS = frozenset({b"password", b"passwd", b"passphrase", b"secret", b"token"})
_ELEMENT = re.compile(rb"(?:password|passwd|passphrase|secret|token)>")
"""Begins an element of XML, whose text is a secret where `</` follows it."""
_TEXT_END = re.compile(rb"[<\n]|\Z")
_SHAPED = re.compile(
    rb"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,3}"
    rb"|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    rb"|gh[opsur]_[A-Za-z0-9]{36,}"
    rb"|://[^/\s:@\"']*:([^/\s@\"']+)@"
)
"""JSON web tokens, AWS access keys, tokens of GitHub, the password in a URL: known by their form."""
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")


class Redaction(NamedTuple):
    """What is blacked out, and what stands for it."""

    find: Find
    name: bytes  #: `[card]`

    @classmethod
    def of(cls, text: str, find: Callable[[str], Find]) -> "Redaction":
        """A ready pattern by its name, or what `find` makes of a regular expression."""
        if text in READY:
            return cls(READY[text], b"[%s]" % text.encode())
        return cls(find(text), b"[redacted]")


def cards(data: bytes) -> Iterator[Range]:
    """Card numbers: 13 to 19 digits, perhaps in groups with a space, dash or plus (of a URL) between, Luhn sum right.

    None begins with 0 or 1, so that times in milliseconds survive.
    """
    for run in _RUN.finditer(data):
        if len(run[0].translate(None, b" +-")) >= _CARD_DIGITS.start:
            yield from _cards_of(data, [group.span() for group in _DIGITS.finditer(data, *run.span())])


def _cards_of(data: bytes, groups: list[Range]) -> Iterator[Range]:
    """The card numbers among groups of digits.

    Where an adjacent number makes two readings in the usual groups, both go; any other grouping is for what is left.
    """
    used: set[int] = set()
    for first in range(len(groups)):
        last = _card_end(data, groups, first, _USUAL.__contains__)
        if last > first:
            used.update(range(first, last))
            yield groups[first][0], groups[last - 1][1]
    for first in range(len(groups)):
        last = _card_end(data, groups, first, _is_grouped)
        if last > first and used.isdisjoint(range(first, last)):
            used.update(range(first, last))
            yield groups[first][0], groups[last - 1][1]


def _is_grouped(sizes: tuple[int, ...]) -> bool:
    return min(sizes[:-1], default=_GROUP_DIGITS) >= _GROUP_DIGITS


def _card_end(data: bytes, groups: list[Range], first: int, is_card: Callable[[tuple[int, ...]], bool]) -> int:
    """The group after the card number that begins with group `first`; `first`: none does."""
    digits, expected = b"", groups[first][0]
    sizes: tuple[int, ...] = ()
    for number in range(first, min(len(groups), first + _MOST_GROUPS)):
        begin, end = groups[number]
        if begin != expected or len(digits) >= _CARD_DIGITS.stop:  # `expected`: after one space, dash or plus
            break
        digits, sizes, expected = digits + data[begin:end], (*sizes, end - begin), end + 1
        if len(digits) in _CARD_DIGITS and digits[:1] not in b"01" and is_card(sizes) and _luhn(digits):
            return first if _is_fraction(data, groups[first][0]) else number + 1
    return first


def _is_fraction(data: bytes, begin: int) -> bool:
    return data[begin - 1 : begin] == b"." and data[max(0, begin - 2) : begin - 1].isdigit()


def _luhn(digits: bytes) -> bool:
    plain, doubled = digits[-1::-2], digits[-2::-2].translate(_DOUBLED)
    return (sum(plain) + sum(doubled) - ord("0") * len(digits)) % 10 == 0


def mails(data: bytes) -> Iterator[Range]:
    """Mail addresses, also percent-encoded ones as in a URL."""
    for found in _AT.finditer(data):
        before = data[max(0, found.start() - _LOCAL_BYTES) : found.start()]
        local = len(before) - len(before.rstrip(_LOCAL))
        if local:
            yield found.start() - local, found.end()


def tokens(data: bytes) -> Iterator[Range]:
    """Values of passwords, keys and tokens by the name before them; or known by their form."""
    lower = data.lower()
    for name in _NAMES:  # finding words is many times faster than an expression that has to try every byte
        at, text_end = lower.find(name), -1
        while at >= 0:
            behind = at + len(name)
            if found := _NAMED.match(lower, at):
                behind = found.end()
                yield found.span(found.lastindex or 0)
            elif name in _ELEMENTS and (found := _ELEMENT.match(lower, at)):
                begin = found.end()
                if text_end < begin and (stop := _TEXT_END.search(lower, begin)):
                    text_end = stop.start()  # of every element that begins before: no text is searched twice
                if begin < text_end and lower.startswith(b"</", text_end):
                    behind = text_end + len(b"</")
                    yield begin, text_end
            at = lower.find(name, behind)  # no value is read twice
    for found in _SHAPED.finditer(data):
        yield found.span(found.lastindex or 0)


READY: dict[str, Find] = {"card": cards, "token": tokens, "email": mails}
