"""Which names are those of secrets: `DB_PASSWORD`, `dbPassword`, `X-Api-Key`; and not `tokens_used`, `compass`."""

import enum
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

MAX_NAME_BYTES = 96
_SHORT_WORD = 5
"""Words of so many letters count only next to known ones: `mypassword`, but not `compassed`."""


class ValueKind(enum.Enum):
    """Which values of a name are secrets."""

    ANY = "any"  #: all but the words for nothing
    WORD = "word"  #: no small number, no word of prose
    DIGITS = "digits"  #: a number of four digits or more, or what seems random
    RANDOM = "random"  #: what seems random only, as the name has other meanings
    HEADER = "header"  #: of an HTTP header: perhaps a scheme, then the credentials
    COOKIE = "cookie"  #: the rest of the header


class SecretName(NamedTuple):
    """A rule by which a name is that of a secret."""

    rule: str
    value: ValueKind
    may_be_glued: bool  #: the word counts anywhere in a name, as in `mysqlpassword2`


class NamedRule(NamedTuple):
    """The words of one rule of the file."""

    rule: str
    value: ValueKind
    words: tuple[str, ...]  #: in lower case; parts are joined by `_`
    may_be_glued: bool


class NameWords(NamedTuple):
    """Words next to those of the rules within a name: the table `name_words` of the file."""

    glued_before: frozenset[str]  #: `dbpassword`
    glued_after: frozenset[str]  #: `passwordhash`
    other_meaning: frozenset[str]  #: after the word: the name is of something about the secret
    number_of: frozenset[str]  #: before the word


_PART = re.compile(r"[A-Z]+(?![a-z\u00df-\uffff])|[A-Z]?[a-z\u00df-\uffff]+|[0-9]+")


class NameTable:
    """Finds the rule of a name. The answers for the newest names are remembered."""

    def __init__(self, rules: Iterable[NamedRule], near: NameWords) -> None:
        self._near = near
        self._words: dict[tuple[str, ...], SecretName] = {}
        self._glued: dict[str, SecretName] = {}
        for rule in rules:
            for word in rule.words:
                parts = tuple(word.split("_"))
                found = SecretName(rule.rule, rule.value, rule.may_be_glued)
                self._words[parts] = found
                self._glued["".join(parts)] = found
        self._longest = max(map(len, self._words), default=1)
        self.rule_of = lru_cache(maxsize=4096)(self._rule_of)

    def _rule_of(self, name: bytes) -> tuple[SecretName, bool] | None:
        """The rule of a name and whether it is a plural; None: it is no name of a secret."""
        parts = [part.lower() for part in _PART.findall(name.decode("utf-8", "replace").replace(" ", "_"))]
        for last in range(len(parts), 0, -1):
            for first in range(max(0, last - self._longest), last):
                found, is_plural = self._found(parts[first:last])
                if found is None:
                    continue
                if self._near.other_meaning.intersection(parts[last:]):
                    return None
                if first and parts[first - 1] in self._near.number_of:
                    return None
                return found, is_plural
        return None

    def _found(self, parts: list[str]) -> tuple[SecretName | None, bool]:
        if found := self._words.get(tuple(parts)):
            return found, False
        if len(parts) > 1:
            singular = (*parts[:-1], parts[-1].removesuffix("s"))
            return self._words.get(singular), True
        word = parts[0]
        if found := self._glued.get(word):
            return found, False
        if found := self._glued.get(word.removesuffix("s")):
            return found, True
        for known, found in self._glued.items():
            before, has, after = word.partition(known)
            is_inner = found.may_be_glued and len(known) > _SHORT_WORD and len(before) > 1
            may_follow = not before or before in self._near.glued_before or is_inner
            if has and may_follow and (not after or after in self._near.glued_after):
                return found, after == "s"
        return None, False
