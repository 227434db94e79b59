"""Secrets that are known by their form: one search for where a form may begin, then the rule's own expression there."""

import re
from collections.abc import Iterator

from producer.redaction.named_values import Hit
from producer.redaction.rules import Rule
from shipper.linear_regex import Linear

_DSN_HOST = re.compile(rb"@(?:tcp|unix|udp)\(")
_DSN_BYTES = 256


class Shapes:
    """The rules with an expression."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._by_keyword: dict[bytes, list[Rule]] = {}
        self._others: list[tuple[re.Pattern[bytes], Rule]] = []
        parts = list[str]()
        for rule in rules:
            for keyword in rule.keywords:
                self._by_keyword.setdefault(keyword.encode(), []).append(rule)
                parts.append(re.escape(keyword))
            if rule.prefilter:
                self._others.append((re.compile(rule.prefilter.encode()), rule))
                parts.append(f"(?:{rule.prefilter})")
        self._lengths = sorted({len(keyword) for keyword in self._by_keyword}, reverse=True)
        linear = Linear.of("|".join(parts).encode(), may_be_empty=False)
        if linear is None:
            raise ValueError("the keywords of the rules make no expression for the linear engine")
        self._candidates = linear

    def find(self, text: bytes) -> Iterator[Hit]:
        """What the expressions match in `text`."""
        for begin, end in self._candidates.finditer(text, 0, len(text)):
            yield from self._at(text, begin, end)

    def _at(self, text: bytes, begin: int, end: int) -> Iterator[Hit]:
        if text[begin:end] not in self._by_keyword:
            for prefilter, rule in self._others:
                if prefilter.match(text, begin, end):
                    yield from _matched(rule, text, begin)
            return
        for length in self._lengths:  # a keyword may begin with another one
            for rule in self._by_keyword.get(text[begin : begin + length], ()):
                yield from _matched(rule, text, begin)


def _matched(rule: Rule, text: bytes, begin: int) -> Iterator[Hit]:
    if rule.pattern is None or (found := rule.pattern.match(text, begin)) is None:
        return
    group = rule.secret_group and (found.lastindex or 0)
    if found[group] and found[group].lower() not in rule.stopwords:
        yield Hit(*found.span(group), rule.id)


def dsn_passwords(text: bytes, rule: str) -> Iterator[Hit]:
    """The passwords of `user:password@tcp(host)`, which is read backwards from its end."""
    for found in _DSN_HOST.finditer(text):
        before = text[max(0, found.start() - _DSN_BYTES) : found.start()].split()
        user, colon, password = before[-1].rpartition(b"://")[2].partition(b":") if before else (b"", b"", b"")
        if colon and password and user.strip(b"\"'"):
            yield Hit(found.start() - len(password), found.start(), rule)
