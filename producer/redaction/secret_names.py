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


_PART = re.compile(r"[A-Z]+(?![a-z\u00df-\uffff])|[A-Z]?[a-z\u00df-\uffff]+|[0-9]+")
_GLUED_BEFORE = frozenset(
    [
        "db",
        "user",
        "root",
        "admin",
        "my",
        "smtp",
        "ldap",
        "ftp",
        "ssh",
        "http",
        "https",
        "mail",
        "imap",
        "pg",
        "redis",
        "store",
        "trust",
        "proxy",
        "auth",
        "login",
        "wifi",
        "new",
        "old",
        "cur",
        "current",
        "java",
        "access",
        "api",
        "refresh",
        "id",
        "csrf",
        "xsrf",
        "session",
        "bearer",
        "bot",
        "app",
        "client",
        "master",
        "web",
        "user",
        "mysql",
        "bind",
        "service",
        "svc",
        "keystore",
        "truststore",
        "sudo",
        "host",
        "vnc",
        "rdp",
        "snmp",
        "sys",
        "system",
        "oauth",
        "sec",
        "device",
        "push",
        "x",
    ]
)
_GLUED_AFTER = frozenset(
    [
        "s",
        "key",
        "keys",
        "hash",
        "word",
        "words",
        "value",
        "text",
        "string",
        "data",
        "new",
        "old",
        "confirm",
        "confirmation",
        "again",
        "repeat",
        "verify",
        "salt",
        "b64",
        "base64",
        "code",
        "ref1",
        "1",
        "2",
        "3",
        "token",
        "tokens",
        "id",
        "enc",
        "encrypted",
        "plain",
        "file",
        "field",
        "access",
    ]
)
_OTHER_MEANING = frozenset(
    [
        "type",
        "types",
        "expiry",
        "expires",
        "expired",
        "expire",
        "expiration",
        "exp",
        "count",
        "counts",
        "counter",
        "length",
        "len",
        "size",
        "limit",
        "ttl",
        "policy",
        "attempt",
        "attempts",
        "status",
        "state",
        "enabled",
        "disabled",
        "required",
        "bucket",
        "rate",
        "usage",
        "used",
        "budget",
        "version",
        "age",
        "algorithm",
        "alg",
        "method",
        "methods",
        "endpoint",
        "url",
        "uri",
        "valid",
        "invalid",
        "error",
        "errors",
        "issuer",
        "file",
        "files",
        "path",
        "paths",
        "dir",
        "name",
        "names",
        "ref",
        "index",
        "position",
        "column",
        "per",
        "max",
        "min",
        "total",
        "at",
        "in",
        "strength",
        "quality",
        "prompt",
        "changed",
        "updated",
        "created",
        "reset",
        "rotation",
        "lifetime",
        "duration",
        "timeout",
        "retries",
        "provider",
        "manager",
        "service",
        "class",
        "mode",
        "fail",
        "failed",
        "failure",
        "success",
        "event",
        "events",
        "format",
        "level",
        "authentication",
        "management",
        "header",
        "prefix",
        "suffix",
        "cache",
        "store",
    ]
)
"""After the word: the name is of something about the secret."""
_NUMBER_OF = frozenset(
    [
        "max",
        "min",
        "num",
        "no",
        "number",
        "total",
        "count",
        "avg",
        "used",
        "remaining",
        "prompt",
        "completion",
        "has",
        "is",
        "use",
        "needs",
        "public",
        "n",
    ]
)
"""Before the word."""


class NameTable:
    """Finds the rule of a name. The answers for the newest names are remembered."""

    def __init__(self, rules: Iterable[NamedRule]) -> None:
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
                if _OTHER_MEANING.intersection(parts[last:]):
                    return None
                if first and parts[first - 1] in _NUMBER_OF:
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
            if has and (not before or before in _GLUED_BEFORE or is_inner) and (not after or after in _GLUED_AFTER):
                return found, after == "s"
        return None, False
