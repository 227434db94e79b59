"""Secrets that are known by their form: one search for where a form may begin, then the rule's own expression there."""

import re
from collections.abc import Iterator

from producer.redaction.named_values import Hit
from producer.redaction.rules import Rule
from shipper.linear_regex import SHIPPED_MEMORY, Linear

_DSN_HOST = re.compile(rb"@(?:tcp|unix|udp)\(")
_DSN_BYTES = 256
LONG_BYTES = 4096
"""A longer match of a rule hides its others that begin within it."""


class Shapes:
    """The rules with an expression."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        keywords = [(keyword.encode(), rule) for rule in rules for keyword in rule.keywords]
        self._prefilters = [(b"", rule) for rule in rules if rule.prefilter]
        self._all = [*self._prefilters, *keywords]
        self._keywords = tuple(keyword for keyword, _ in keywords)
        self._by_keyword = {
            found: [each for each in keywords if each[0].startswith(found) or found.startswith(each[0])]
            for found, _ in keywords
        }
        parts = [f"(?:{rule.prefilter})".encode() for _, rule in self._prefilters]
        parts += [re.escape(keyword) for keyword, _ in keywords]
        self._candidates = Linear(b"|".join(parts), max_memory=SHIPPED_MEMORY)

    def find(self, text: bytes) -> Iterator[Hit]:
        """What the expressions match in `text`."""
        ends: dict[str, int] = {}  # of long matches, by rule: within one, another would take as long
        for begin, end in self._candidates.finditer(text, 0, len(text)):
            others = self._all if text.startswith(self._keywords, begin) else self._prefilters
            for keyword, rule in self._by_keyword.get(text[begin:end], others):
                if rule.expression is None or not text.startswith(keyword, begin) or begin < ends.get(rule.id, 0):
                    continue
                if rule.not_after and begin and rule.not_after.match(text, begin - 1)[0][0] >= 0:
                    continue
                match, *groups = rule.expression.match(text, begin)
                if match[1] - match[0] > LONG_BYTES:
                    ends[rule.id] = match[1]
                whole = [match] if not rule.secret_group else [each for each in groups if each[0] >= 0]
                if whole and _is_secret(rule, text[slice(*whole[-1])]):
                    yield Hit(*whole[-1], rule.id)


def _is_secret(rule: Rule, value: bytes) -> bool:
    """Whether what an expression found passes the other conditions of its rule."""
    is_word = value.lower().decode("latin-1") in rule.stopwords
    if not value or is_word or (rule.unless and rule.unless.search(value, 0, len(value))):
        return False
    return all(each.search(value, 0, len(value)) for each in rule.requires)


def dsn_passwords(text: bytes, rule: str) -> Iterator[Hit]:
    """The passwords of `user:password@tcp(host)`, which is read backwards from its end."""
    for found in _DSN_HOST.finditer(text):
        before = text[max(0, found.start() - _DSN_BYTES) : found.start()].split()
        user, colon, password = before[-1].rpartition(b"://")[2].partition(b":") if before else (b"", b"", b"")
        if colon and password and user.strip(b"\"'"):
            yield Hit(found.start() - len(password), found.start(), rule)
