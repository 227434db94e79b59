"""What lines are counted by: hosts, files, severities, or the values of a field. Bounded memory."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from consumer.read.fields import fields_of, needle_of
from consumer.read.severity import severity_of

MAX_VALUES = 50_000
"""Different values that are counted; lines with further ones are counted together."""
MAX_VALUE_CHARACTERS = 256
"""A longer value is cut."""
MARK = "field:"
"""Before the name of a field that is one of the other words, such as `host`."""


class CountBy(enum.Enum):
    """What hits are counted by."""

    ALL = "all"
    HOST = "host"
    FILE = "file"
    LEVEL = "level"
    FIELD = "field"


@dataclass(frozen=True, slots=True)
class Counted:
    """What hits are counted by, and the name of the field."""

    by: CountBy
    field: str = ""

    @property
    def name(self) -> str:
        """The name as it is shown."""
        return self.field or self.by.value

    @property
    def is_of_lines(self) -> bool:
        """Whether the text of a line decides, and not its file."""
        return self.by in {CountBy.LEVEL, CountBy.FIELD}


def counted_by(text: str) -> Counted:
    """What `--count` means: one of the words, else the name of a field."""
    if text.startswith(MARK):
        return Counted(CountBy.FIELD, text.removeprefix(MARK))
    words = {each.value: each for each in CountBy if each is not CountBy.FIELD}
    return Counted(words[text]) if text in words else Counted(CountBy.FIELD, text)


@dataclass(slots=True)
class Values:
    """The values of lines and how many lines have each."""

    lines: Counter[str] = field(default_factory=Counter)
    other: int = 0  #: of values beyond MAX_VALUES
    without: int = 0  #: lines without any

    def add(self, counted: Counted, line: bytes) -> None:
        """Count one line."""
        if counted.by is CountBy.LEVEL:
            self.lines[severity_of(line)] += 1
            return
        found = _of_field(counted.field, line)
        self.without += not found
        self._count((each, 1) for each in found)

    def merge(self, others: "Values") -> None:
        """Add what was counted elsewhere."""
        self.other += others.other
        self.without += others.without
        self._count(others.lines.items())

    def _count(self, counts: Iterable[tuple[str, int]]) -> None:
        for value, count in counts:
            if len(self.lines) < MAX_VALUES or value in self.lines:
                self.lines[value] += count
            else:
                self.other += count


def _of_field(name: str, line: bytes) -> set[str]:
    """The different values of one field of a line."""
    if needle_of(name) not in line:
        return set()
    return {value[:MAX_VALUE_CHARACTERS] for each, value in fields_of(line) if each == name}
