"""The built-in kinds of what is redacted, and patterns of a user, as functions from a text to its hits."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from producer.redaction.cards import cards, mails
from producer.redaction.commands import Commands, inserted_passwords, sql_passwords
from producer.redaction.named_values import Hit, NamedValues
from producer.redaction.private_keys import private_keys
from producer.redaction.rules import Rule, built_in, name_words
from producer.redaction.shapes import Shapes, dsn_passwords
from producer.redaction.unescaped import unescaped

Detector = Callable[[bytes], Iterable[Hit]]
_LINE = re.compile(rb"[^\r\n]+")
KINDS = ("card", "token", "email")


class Secrets:
    """The rules of kind `token`: values by their name, forms of keys, arguments of commands, private keys."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._named = NamedValues(tuple(rule.named for rule in rules if rule.names), name_words())
        self._shapes = Shapes(tuple(rule for rule in rules if rule.expression))
        self._commands = Commands("password-argument", "user-argument")

    def find(self, text: bytes) -> Iterator[Hit]:
        """The secrets in `text`, in its escaped lines as they are and decoded."""
        yield from self._in_plain(text)
        if decoded := unescaped(text):
            for begin, end, rule in self._in_plain(decoded.text):
                yield from _in_lines(text, decoded.place(begin), decoded.end_place(end), rule)
        if b"PRIVATE" in text:
            yield from private_keys(text, "private-key")

    def _in_plain(self, text: bytes) -> Iterator[Hit]:
        yield from self._named.find(text)
        yield from self._shapes.find(text)
        yield from self._commands.find(text)
        yield from sql_passwords(text, "sql-identified-by")
        yield from inserted_passwords(text, self._named.names)
        yield from dsn_passwords(text, "dsn-password")


def _in_lines(text: bytes, begin: int, end: int, rule: str) -> Iterator[Hit]:
    """A hit for each line of a value: the newlines between them stay."""
    for line in _LINE.finditer(text, begin, end):
        yield Hit(line.start(), line.end(), rule)


@functools.cache
def detector(kind: str) -> Detector:
    """What finds a built-in kind."""
    if kind == "token":
        return Secrets(tuple(rule for rule in built_in() if rule.kind == "token")).find
    find = {"card": cards, "email": mails}[kind]
    return lambda text: (Hit(begin, end, kind) for begin, end in find(text))


def of_pattern(find: Callable[[bytes], Iterable[tuple[int, int]]], rule: str) -> Detector:
    """The matches of a user's pattern, as hits of `rule`."""
    return lambda text: (Hit(begin, end, rule) for begin, end in find(text))


def after_lead(find: Detector, lead: bytes, data: bytes) -> Iterator[Hit]:
    """The hits in `data`, whose line begins with `lead`: a value whose name is in the lead is found.

    A value that begins in the lead is redacted from the begin of `data` on.
    """
    for begin, end, rule in find(lead + data if lead else data):
        if end > len(lead):
            yield Hit(max(0, begin - len(lead)), end - len(lead), rule)
