"""The options of `fshipper tail` and `fshipper replay`."""

import enum
from dataclasses import dataclass
from pathlib import Path

from consumer.archive.event_times import TimeOf


class Origin(enum.Enum):
    """Where stored lines are read."""

    ALL = "all"
    STREAMS = "streams"
    ARCHIVE = "archive"


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
