"""Lines of the formats that tools write most, with the time, the zone and the level that each has.

The data of `docs/reference/formats.md` and of `tests/spark/test_formats.py` is in `formats.tsv`; ␛ is an escape.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shipper.line_levels import LEVEL_PATHS, LEVEL_PREFIX, NONE, RULES, SERILOG_TIME, STATUSES, TEXT_PATHS, Rule
from shipper.line_times import COLOUR, at_path, first_at, object_of

TABLE = Path(__file__).resolve().parents[1] / "formats.tsv"
REQUEST = re.compile(r'\] "(?:[^"\\]|\\.)*" ([0-9]{3}) (?:[0-9]+|-)', re.ASCII)


class Example(NamedTuple):
    """A line, and what is in it. `time`: UTC, seconds; empty: none of its own."""

    name: str
    time: str
    zone: str  #: as in the line; empty: of the host
    level: str
    line: str


_ROWS = TABLE.read_text(encoding="utf-8").replace("␛", "\x1b").split("\n")[1:-1]
EXAMPLES = tuple(Example(*row.split("\t", 4)) for row in _ROWS)


@functools.cache
def compiled(rule: Rule) -> re.Pattern[str]:
    return re.compile(rule.pattern, re.ASCII)


def level_of_text(text: str) -> str:
    """The level in the first `LEVEL_PREFIX` characters of `text`, or NONE."""
    head = COLOUR.sub("", text[:LEVEL_PREFIX])
    for rule in RULES:
        if (found := compiled(rule).search(head)) and (level := rule.meaning.get(found[1].lower())):
            return level
    return NONE


def level_of_fields(fields: Mapping[str, Any]) -> str:
    """The level of an object, without regard to the status of a request; or NONE."""
    for path, meaning in LEVEL_PATHS.items():
        value = at_path(fields, path)
        if value is not None and not isinstance(value, bool | list) and (level := meaning.get(str(value).lower())):
            return level
    text = first_at(fields, TEXT_PATHS)
    level = level_of_text(text) if isinstance(text, str) else NONE
    if level == NONE and at_path(fields, SERILOG_TIME) is not None:
        return "info"
    return level


def level_of_line(line: str) -> str:
    """The level of a line, an object or text, or NONE; of a line of an access log by its status."""
    if request := REQUEST.search(line):
        return STATUSES.get(request[1][0], NONE)
    fields = object_of(line) if line.startswith("{") else {}
    return level_of_fields(fields) if fields else level_of_text(line)
