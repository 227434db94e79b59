"""The rules of the file `rules.toml`: what `--redact token` and the other built-in kinds find."""

import functools
import re
import tomllib
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from producer.redaction.secret_names import NamedRule, NameWords, ValueKind
from shipper.linear_regex import Linear

VERSION = 1
_BEGIN, _END = "«", "»"
Expression = Annotated[
    Linear | None, BeforeValidator(lambda text: Linear(text.encode(), in_lines=False, captures=True))
]
Condition = Annotated[Linear, BeforeValidator(lambda text: Linear(text.encode()))]


class Rule(BaseModel):
    """One rule of the file, with the lines that show what it does."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    id: str
    kind: str  #: token, card, email: what a user writes, and what replaces the value
    description: str
    keywords: tuple[str, ...] = ()  #: at which the expression is tried
    prefilter: str = ""  #: an expression that finds where it is tried
    expression: Expression = Field(None, alias="regex")
    not_after: Expression = Field(None, alias="notAfter")  #: matches a byte after which it is not tried
    secret_group: int = Field(0, alias="secretGroup")  #: of the expression; 0: all
    requires: tuple[Condition, ...] = ()  #: each is found in every value
    unless: Condition | None = None  #: is found in no value
    stopwords: tuple[str, ...] = ()  #: values that are none, in lower case
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
        return [(before.encode(), after.encode()) for before, after in (*hits, *((miss, miss) for miss in self.misses))]


@functools.cache
def _file() -> dict[str, Any]:
    read = tomllib.loads(files("producer.redaction").joinpath("rules.toml").read_text("utf-8"))
    if read["version"] != VERSION:
        raise ValueError(f"the rules have version {read['version']}, not {VERSION}")
    return read


@functools.cache
def built_in() -> tuple[Rule, ...]:
    """The rules of this version, in the order of the file."""
    return tuple(map(Rule.model_validate, _file()["rules"]))


def name_words() -> NameWords:
    """The words near those of the rules."""
    return NameWords(**{name: frozenset(words) for name, words in _file()["name_words"].items()})
