"""Formats of log files: the family of their time stamps, and the kinds of lines. Values only, for Java and Python.

`detect` decides the format of a log file once, from a sample of its lines; Spark then evaluates one expression on each
line instead of all.
"""

import enum
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from shipper.line_formats import ANY, JSON
from shipper.line_levels import RULES
from shipper.line_times import QUICK_LINES, detect_family


class LineKind(enum.Enum):
    """What the lines of a log file contain besides a time and a level."""

    PLAIN = "plain"
    SYSLOG = "syslog"  #: a program and its process id: logins and failed logins
    ACCESS = "access"  #: requests to a web server, common or combined log format
    JSON = "json"  #: an object per line; may be an access log as well


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of the lines of a log file."""

    family: str
    kind: LineKind
    level: str = ""  #: pattern of the level if it is at the same position in the sample; else empty
    varies: bool = False  #: the headers differ in more than numbers, for example by a hexadecimal request id
    uneven: bool = False  #: numbers vary so much in length that lines are equal only without them
    zone: str = ""  #: IANA name of the zone of times without one; empty: UTC
    clock: str = ""  #: the usual time at the start of a line, of `clock_of`; empty: none
    is_numbered: bool = False  #: the level is a number, which must be read before numbers are masked


_NUMBERED = re.compile("|".join(f"(?:{rule.pattern})" for rule in RULES if rule.is_number), re.ASCII)
_ACCESS = re.compile(r'\] "[^"]*" \d{3} (?:\d+|-)')
_PROGRAM = re.compile(r"^.{10,60}?[A-Za-z_][\w./()-]*\[\d+\]: ", re.ASCII)
_SYSLOG_FAMILIES = frozenset({"rfc3164", "iso", "iso_utc", "epoch_dated", ANY})


def detect(lines: Sequence[str]) -> LogFormat:
    """The format of a log file that begins with `lines`; blank ones are ignored."""
    family = detect_family(lines)
    quick = list(islice((line.rstrip("\r\n") for line in lines if line.strip()), QUICK_LINES))
    kind = _kind(family, quick)
    place = _level(quick) if kind in {LineKind.PLAIN, LineKind.SYSLOG} else ""
    is_numbered = any(_NUMBERED.search(line) for line in lines)
    return LogFormat(family, kind, place, is_numbered=is_numbered, clock=clock_of(family, quick))


_ISO_FAMILIES = frozenset({"iso", "iso_utc"})
_CLOCK = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"(?:((?:\.\d{1,9})?)([+-](?:0\d|1[0-4]):[0-5]\d)(?= )|((?:[.,]\d{1,9})?Z?)(?![0-9]| ?[+-]\d))",
    re.ASCII,
)
_DIGIT = re.compile("[0-9]")


def clock_of(family: str, lines: Iterable[str]) -> str:
    """The most common time at the start of `lines`, each digit before an offset replaced by 0; empty: none.

    The text of such a time is cast: that is what the pattern of `family` finds, in a fifth of the time.
    """
    if family not in _ISO_FAMILIES:
        return ""
    found = (match.groups("") for line in lines if (match := _CLOCK.match(line)))
    clocks = Counter(_DIGIT.sub("0", date + zoned + plain) + offset for date, zoned, offset, plain in found)
    return clocks.most_common(1)[0][0] if clocks else ""


_OFFSET_CHARACTERS = len("+00:00")


def offset_of(clock: str) -> str:
    """The offset of a clock of `clock_of`; empty: it has none."""
    end = clock[-_OFFSET_CHARACTERS:]
    return end if end.startswith(("+", "-")) else ""


def _kind(family: str, lines: Sequence[str]) -> LineKind:
    half = len(lines) / 2
    if family == JSON or sum(line.startswith("{") for line in lines) > half:
        return LineKind.JSON
    if sum(_ACCESS.search(line) is not None for line in lines) > half:
        return LineKind.ACCESS
    if family == ANY:
        return LineKind.JSON  # any of its lines may be
    if family in _SYSLOG_FAMILIES and any(_PROGRAM.match(line) for line in lines):
        return LineKind.SYSLOG
    return LineKind.PLAIN


LEVEL_WORDS = "INFO|WARN|ERROR|DEBUG|FATAL|WARNING|NOTICE|TRACE|CRITICAL|SEVERE|Info|Warning|Error"
_LEVEL_WORD = re.compile(rf"\[?(?:{LEVEL_WORDS})[\]:,]*", re.ASCII)
_OTHER_LEVEL = re.compile(r"\[[a-z0-9_:]{3,28}\]|(?i:level|lvl|severity)\"?[=:]", re.ASCII)
"""Levels in other notations: `[error]`, `level=`."""

_MOST_WORDS = 8
"""Words at the start of a line that are searched for the level: later ones are not in the header."""


def _level(lines: Sequence[str]) -> str:
    """A pattern whose first group is the level of all `lines`; empty if its position differs.

    Matching a known position takes a fifth of the time of a search.
    """
    places = {_level_place(line) for line in lines}
    if len(places) != 1 or None in places or any(line.startswith("<") for line in lines):  # syslog's PRI has the level
        return ""
    (place,) = places
    return rf"^(?:\S+\s+){{{place}}}\[?({LEVEL_WORDS})[\]:,]*(?:\s|$)"


def _level_place(line: str) -> int | None:
    words = line.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    place = next((place for place, word in enumerate(words) if _LEVEL_WORD.fullmatch(word)), None)
    return None if place is None or any(_OTHER_LEVEL.search(word) for word in words[:place]) else place
