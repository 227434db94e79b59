"""The rules of the file `rules.toml`: what `--redact token` and the other built-in kinds find."""

import functools
import re
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files

from producer.redaction.secret_names import NamedRule, ValueKind
from shipper.linear_regex import Linear

VERSION = 1
_BEGIN, _END = "«", "»"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of the file, with the lines that show what it does."""

    id: str
    kind: str  #: token, card, email: what a user writes, and what replaces the value
    description: str
    keywords: tuple[str, ...] = ()  #: at which the expression is tried
    prefilter: str = ""  #: an expression that finds where it is tried
    expression: Linear | None = field(default=None, compare=False)
    not_after: Linear | None = field(default=None, compare=False)  #: matches a byte after which it is not tried
    secret_group: int = 0  #: of the expression
    requires: tuple[Linear, ...] = field(default=(), compare=False)  #: each is found in every value
    unless: Linear | None = field(default=None, compare=False)  #: is found in no value
    stopwords: frozenset[bytes] = frozenset()  #: values that are none, in lower case
    names: tuple[str, ...] = ()  #: words of names; empty: the rule has an expression or a scanner
    value: ValueKind = ValueKind.ANY
    glued: bool = False
    scanner: str = ""
    hits: tuple[str, ...] = ()  #: with marks around what is redacted
    misses: tuple[str, ...] = ()

    @property
    def named(self) -> NamedRule:
        """The rule for the scanner of named values."""
        return NamedRule(self.id, self.value, self.names, self.glued)

    def examples(self) -> list[tuple[bytes, bytes]]:
        """Lines before and after the redaction."""
        marks = re.compile(f"{_BEGIN}[^{_END}]*{_END}")
        hits = [(re.sub(f"[{_BEGIN}{_END}]", "", hit), marks.sub(f"[{self.kind}]", hit)) for hit in self.hits]
        return [
            (before.encode(), after.encode()) for before, after in [*hits, *zip(self.misses, self.misses, strict=True)]
        ]


@functools.cache
def built_in() -> tuple[Rule, ...]:
    """The rules of this version, in the order of the file."""
    read = tomllib.loads(files("producer.redaction").joinpath("rules.toml").read_text("utf-8"))
    if read["version"] != VERSION:
        raise ValueError(f"the rules have version {read['version']}, not {VERSION}")
    return tuple(_rule(dict(each)) for each in read["rules"])


def _rule(read: dict[str, object]) -> Rule:
    return Rule(
        id=str(read["id"]),
        kind=str(read["kind"]),
        description=str(read["description"]),
        keywords=_texts(read.get("keywords")),
        prefilter=str(read.get("prefilter", "")),
        expression=_expression(read.get("regex")),
        not_after=_expression(read.get("notAfter")),
        requires=tuple(Linear(each.encode()) for each in _texts(read.get("requires"))),
        unless=_expression(read.get("unless")),
        secret_group=int(str(read.get("secretGroup", 0))),
        stopwords=frozenset(word.encode() for word in _texts(read.get("stopwords"))),
        names=_texts(read.get("names")),
        value=ValueKind(read.get("value", "any")),
        glued=bool(read.get("glued")),
        scanner=str(read.get("scanner", "")),
        hits=_texts(read.get("hits")),
        misses=_texts(read.get("misses")),
    )


def _expression(value: object) -> Linear | None:
    return Linear(value.encode(), in_lines=False, captures=True) if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
