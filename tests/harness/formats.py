"""Lines of the formats that tools write most, with the time, the zone and the level that each has.

The data of `docs/reference/formats.md` and of `tests/spark/test_formats.py` is in `formats.tsv`; ␛ is an escape.
"""

import re
from pathlib import Path
from typing import NamedTuple

from shipper.line_levels import NONE, STATUSES, level_of_fields, level_of_text
from shipper.line_times import object_of

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


def level_of_line(line: str) -> str:
    """The level of a line, an object or text, or NONE; of a line of an access log by its status."""
    if request := REQUEST.search(line):
        return STATUSES.get(request[1][0], NONE)
    fields = object_of(line) if line.startswith("{") else {}
    return level_of_fields(fields) if fields else level_of_text(line)
