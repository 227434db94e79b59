"""Classifies tokens: parameters, names that may be parameters, and words."""

import functools
import re

from spark_analytics.patterns.model import WILD

Template = tuple[str, ...]
"""The tokens of a template; a parameter is a token that holds `WILD`."""

ANNOUNCING = frozenset(
    {
        "user",
        "users",
        "username",
        "login",
        "account",
        "group",
        "host",
        "hostname",
        "domain",
        "class",
        "package",
        "module",
        "driver",
        "device",
        "service",
        "interface",
        "tenant",
        "project",
        "namespace",
        "topic",
        "queue",
        "table",
        "database",
        "bucket",
        "volume",
        "unit",
        "job",
    }
)
"""Words that are followed by a name."""

_NAME = re.compile(r"[A-Za-z_][\w-]*(?:[._/@\\$]+[\w-]+)+\Z", re.ASCII)
_SHOUTED = re.compile(r"[A-Z_-]+\Z")
_WORD = re.compile(r"[a-z]{2,}\Z")
_EDGES = "\"'`.,:;!?()[]{}<>"


@functools.lru_cache(maxsize=65_536)
def core(token: str) -> str:
    """`token` without the punctuation around it."""
    return token.strip(_EDGES)


@functools.lru_cache(maxsize=65_536)
def is_name(token: str) -> bool:
    """Whether it has the form of a name: parts joined by dots, slashes or underscores, not in capitals."""
    inner = core(token)
    return _NAME.match(inner) is not None and _SHOUTED.match(inner) is None


def is_wild(token: str) -> bool:
    """Whether it contains a parameter."""
    return WILD in token


def is_word(token: str) -> bool:
    """Whether it is a plain word in small letters."""
    return _WORD.match(core(token)) is not None


def may_vary(template: Template, at: int) -> bool:
    """Whether the token at `at` may be a parameter: a name, or a token after one of `ANNOUNCING`."""
    token = template[at]
    if is_wild(token):
        return False
    if is_name(token):
        return True
    return at > 0 and template[at - 1].lower() in ANNOUNCING and core(token) not in ("", "is", "was", "has", "not")


def words(template: Template) -> int:
    """Number of its tokens with letters that are neither a parameter nor a name."""
    return sum(1 for token in template if not is_wild(token) and not is_name(token) and any(map(str.isalpha, token)))


def generalized(token: str) -> str:
    """`token` with `WILD` in place of its core."""
    inner = core(token)
    return token.replace(inner, WILD, 1) if inner else WILD


def fits(wild: str, token: str) -> bool:
    """Whether `wild`, which contains `WILD`, matches `token`."""
    before, _, after = wild.partition(WILD)
    suffix = after.rpartition(WILD)[2]
    return len(token) > len(before) + len(suffix) and token.startswith(before) and token.endswith(suffix)
