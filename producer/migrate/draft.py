"""A configuration in the making: settings of a producer, and remarks on what has no counterpart."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tomli_w
from pydantic import ValidationError

from producer.inputs.syslog import parse
from shipper.errors import ConfigError
from shipper.settings import ProducerSettings

MAX_BRACES = 100
"""Maximum patterns that braces of one pattern make."""
_BRACES = re.compile(r"\{([^{}]*)\}")
_ENDING = re.compile(r"\^?(?:\.\*)?((?:\\.|[\w-])+)\$")


class Remark(NamedTuple):
    """A setting that has no counterpart, or another meaning."""

    file: str
    line: int  #: 0: unknown
    setting: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.setting}: {self.text}"


class Draft:
    """What was read so far."""

    def __init__(self) -> None:
        self.file = ""  #: the configuration that is read now
        self.remarks: list[Remark] = []
        self._values: dict[str, Any] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be shipped."""
        return not self._values.keys() & {"files", "journald", "syslog"}

    def remark(self, line: int, setting: str, text: str) -> None:
        """Note what has no counterpart, once a line."""
        remark = Remark(self.file, line, setting, text)
        if remark not in self.remarks:
            self.remarks.append(remark)

    def ship(self, line: int, pattern: str) -> None:
        """Ship the files that a pattern matches."""
        for each in _expanded(pattern):
            if "$" in each or "%" in each:
                self.remark(line, each, "it has a variable: write the path into producer.files")
            elif not each.startswith("/"):
                self.remark(line, each, "it is no absolute path: write the path into producer.files")
            else:
                self._add(line, "files", each)

    def exclude(self, line: int, pattern: str) -> None:
        """Do not ship the files that a pattern matches."""
        for each in _expanded(pattern):
            self._add(line, "exclude", each)

    def exclude_expression(self, line: int, expression: str) -> None:
        """The same for a regular expression, which becomes a pattern where it is the end of a name."""
        if found := _ENDING.fullmatch(expression):
            self.exclude(line, "*" + re.sub(r"\\(.)", r"\1", found[1]))
        else:
            self.remark(line, f"{expression!r}", "a regular expression of files: write a glob into producer.exclude")

    def drop(self, line: int, expression: str) -> None:
        """Do not ship lines that match."""
        self._add(line, "drop_lines", expression)

    def keep(self, line: int, expression: str) -> None:
        """Ship only lines that match."""
        self._add(line, "keep_lines", expression)

    def listen(self, line: int, address: str) -> None:
        """Receive syslog on an address."""
        try:
            parse(address)
        except ConfigError as error:
            self.remark(line, address, f"no address to listen on; {error.hint}")
        else:
            self._add(line, "syslog", address)

    def match_journal(self, line: int, match: str) -> None:
        """Ship only such entries of the journal."""
        self._add(line, "journald_match", match)

    def label(self, line: int, name: str, value: str) -> None:
        """Keep a label. A host has one set of labels."""
        labels = self._values.get("labels", {})
        if labels.get(name, value) != value:
            self.remark(line, name, f"a host has one value of a label: {labels[name]!r} is kept, not {value!r}")
        elif self._accepts(line, "labels", {**labels, name: value}, f"label {name}"):
            self._values["labels"] = {**labels, name: value}

    def set(self, line: int, key: str, value: Any) -> None:
        """Set a setting. Inputs that differ have the first one's value."""
        if self._values.get(key, value) != value:
            self.remark(line, key, f"a producer has one value: {self._values[key]!r} is kept, not {value!r}")
        elif self._accepts(line, key, value, key):
            self._values[key] = value

    def toml(self, sources: Iterable[str]) -> str:
        """The configuration."""
        order = ("files", "exclude")
        values = {key: self._values[key] for key in sorted(self._values, key=lambda key: (key not in order, key))}
        head = f"# By fshipper migrate, of {', '.join(sources)}. The server is nats.url, or NATS_URL.\n"
        return head + tomli_w.dumps({"producer": values}, multiline_strings=False)

    def _add(self, line: int, key: str, value: str) -> None:
        known = self._values.get(key, [])
        if value not in known and self._accepts(line, key, (value,), value):
            self._values[key] = [*known, value]

    def _accepts(self, line: int, key: str, value: Any, shown: str) -> bool:
        """Whether a setting takes a value; if not, a remark has the reason."""
        try:
            ProducerSettings(**{key: value})
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            self.remark(line, shown, f"producer.{key} does not take it: {reason}")
            return False
        return True


def _expanded(pattern: str) -> Iterator[str]:
    """The patterns that braces make: `/{a,b}/*.log`."""
    waiting, made = [pattern], 0
    while waiting and made < MAX_BRACES:
        each = waiting.pop(0)
        if found := _BRACES.search(each):
            waiting += [each[: found.start()] + part + each[found.end() :] for part in found[1].split(",")]
        else:
            made += 1
            yield each
