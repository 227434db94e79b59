"""Numbers of payment cards, and mail addresses."""

import re
from collections.abc import Callable, Iterator

from shipper.linear_regex import Linear

Range = tuple[int, int]

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
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
_SEPARATOR = (
    rb"(?:[.\t_/]|[ ]{2}|-{2}|[ ]?-[ ]|\xc2\xa0|\xe2\x80[\x80-\x95\xaf]|\xe3\x80\x80|%20|&nbsp;|%C2%A0|\\\\u00a0|\\\\t)"
)
_SEPARATED = Linear(
    rb"[2-9][0-9]{3}S[0-9]{4}S[0-9]{4}S[0-9]{1,4}(?:S[0-9]{1,3}\b)?|3[0-9]{3}S[0-9]{6}S[0-9]{4,5}".replace(
        b"S", _SEPARATOR
    )
)
"""The usual groups with another separator than one space, dash or plus: dots, tabs, two spaces, no-break spaces."""
_ESCAPED_SEPARATOR = re.compile(_SEPARATOR)


def cards(data: bytes) -> Iterator[Range]:
    """Card numbers: 13 to 19 digits, perhaps in groups with a space, dash or plus (of a URL) between, Luhn sum right.

    None begins with 0 or 1, so that times in milliseconds survive.
    """
    for run in _RUN.finditer(data):
        if len(run[0].translate(None, b" +-")) >= _CARD_DIGITS.start:
            yield from _cards_of(data, [group.span() for group in _DIGITS.finditer(data, *run.span())])
    yield from separated_cards(data)


def separated_cards(data: bytes) -> Iterator[Range]:
    """Card numbers in the usual groups with any separator."""
    for begin, end in _SEPARATED.finditer(data, 0, len(data)):
        if data[max(0, begin - 1) : begin].isdigit() or data[end : end + 1].isdigit():
            continue
        digits = _ESCAPED_SEPARATOR.sub(b"", data[begin:end])
        if digits.isdigit() and len(digits) in _CARD_DIGITS and _luhn(digits) and not _is_fraction(data, begin):
            yield begin, end


def _cards_of(data: bytes, groups: list[Range]) -> Iterator[Range]:
    """The card numbers among groups of digits.

    Where an adjacent number makes two readings in the usual groups, both go; any other grouping is for what is left.
    """
    used: set[int] = set()
    for is_card, may_overlap in ((_USUAL.__contains__, True), (_is_grouped, False)):
        for first in range(len(groups)):
            last = _card_end(data, groups, first, is_card)
            if last > first and (may_overlap or used.isdisjoint(range(first, last))):
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
