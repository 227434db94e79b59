"""The options of `fshipper tail` and `fshipper replay`."""

import enum
from dataclasses import dataclass
from pathlib import Path


class Origin(enum.Enum):
    """Where stored lines are read."""

    ALL = "all"
    STREAMS = "streams"
    ARCHIVE = "archive"


class TimeOf(enum.Enum):
    """Which time orders and selects lines."""

    STORED = "stored"
    EVENT = "event"


class TimeOrigin(enum.Enum):
    """Where the time of a line is from."""

    LINE = "line"
    PREVIOUS = "previous"  #: the first line of its record, or another line before it in the same file
    STORED = "stored"
    ESTIMATED = "estimated"  #: it was stored at about that time: an earlier version did not note the second


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChoice:
    """Which lines, and where they are read; texts of times as they were given."""

    hosts: tuple[str, ...]  #: names and patterns; empty: all
    files: tuple[str, ...]  #: paths and patterns; empty: all
    since: str
    until: str
    grep: tuple[str, ...]  #: regular expressions
    invert_match: bool
    ignore_case: bool
    archive: Path | None  #: the archive that was named
    origin: Origin
    by: TimeOf | None  #: None: the event in the archive alone, else the time of storing
    late: str
    timezone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions(LineChoice):
    """The options of `fshipper tail`."""

    follow: bool
    lines: int | None
    raw: bool
    as_json: bool
    timed: bool
    color: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(LineChoice):
    """The options of `fshipper replay`."""

    speed: str
    to_subject: str
    to_file: Path | None
    named: bool
    as_json: bool
    color: bool | None
