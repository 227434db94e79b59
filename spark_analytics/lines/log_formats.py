"""Formats of log files: the families of time stamps, and the kinds of lines. Values only, for Java and Python.

`detect` decides the format of a log file once, from a sample of its lines; Spark then evaluates one expression on each
line instead of all. The families are those of the 16 Loghub systems, plus access logs, syslog, klog and JSON. Every
pattern has the same meaning in Java and in Python's `re` with `ASCII`.
"""

import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

STAMP_PREFIX = 64
"""Characters that are searched for a time stamp. Each expression copies them, so the number is small."""

LONG_STAMP_PREFIX = 160
"""The same for access logs and HPC, where the time comes after other fields."""

AHEAD = 8
"""Characters before a time at the start of a line: a blank, a colour code, the rest of another line."""

PLACEHOLDER_YEAR = 9996
"""The year of times without one: a leap year, so that 29 February is valid, and one that no log has."""

SAMPLE_LINES = 200
"""Lines of a log file that decide its format; the first `QUICK_LINES` are enough if they agree."""

QUICK_LINES = 20

ANY, NONE, JSON = "any", "none", "json"
"""Families without a pattern: every pattern is tried; there are no times; a JSON key has the time."""


class TimeForm(enum.Enum):
    """How the text that a family extracts is parsed."""

    HEAD = "head"  #: the first 19 characters are the time, in UTC
    ISO = "iso"  #: a cast; the zone, if any, is in the text, else UTC
    CLF = "dd/MMM/yyyy:HH:mm:ss Z"
    NAMED_MONTH = "MMM yyyy d HH:mm:ss"
    EPOCH = "epoch"  #: whole seconds since 1970


class LineKind(enum.Enum):
    """What the lines of a log file contain besides a time and a level."""

    PLAIN = "plain"
    SYSLOG = "syslog"  #: a program and its process id: logins and failed logins
    ACCESS = "access"  #: requests to a web server, common or combined log format
    JSON = "json"  #: an object per line; may be an access log as well


@dataclass(frozen=True, slots=True)
class TimeFamily:
    """A format of times: `pattern` finds one, `shape` arranges its groups in the order of `form`."""

    name: str
    first: str  #: possible first characters of a line; empty: any
    pattern: str
    shape: str
    form: TimeForm
    characters: int = STAMP_PREFIX
    compiled: re.Pattern[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern, re.ASCII))

    def fits(self, line: str) -> bool:
        """Whether `line` has a time of this family."""
        if self.first and line[:1] not in self.first:
            return False
        return self.compiled.search(line, 0, self.characters) is not None


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The format of the lines of a log file."""

    family: str
    kind: LineKind
    level: str = ""  #: pattern of the level if it is at the same position in the sample; else empty
    varies: bool = False  #: the headers differ in more than numbers, for example by a hexadecimal request id
    uneven: bool = False  #: numbers vary so much in length that lines are equal only without them


_DIGITS = "0123456789"
_CLOCK = r"(\d\d:\d\d:\d\d)"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"({'|'.join(MONTHS)})"

TIME_FAMILIES = (
    TimeFamily(
        "iso_utc", _DIGITS, r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?![.,]?\d* ?[+-]\d\d:?\d\d)", "", TimeForm.HEAD
    ),
    TimeFamily(
        "iso",
        "",
        rf"(\d{{4}}-\d\d-\d\d)[T ]{_CLOCK}(?:[.,]\d{{1,9}})?(Z|[+-]\d\d:?\d\d)?",
        "$1 $2$3",
        TimeForm.ISO,
    ),
    TimeFamily(
        "rfc3164",
        "JFMASOND<",
        rf"^(?:<\d{{1,3}}>)?{_MONTH} {{1,2}}(\d{{1,2}}) {_CLOCK}",
        f"$1 {PLACEHOLDER_YEAR} $2 $3",
        TimeForm.NAMED_MONTH,
        AHEAD + 21,
    ),
    TimeFamily("spark", _DIGITS, rf"^(\d\d)/(\d\d)/(\d\d) {_CLOCK}", "20$1-$2-$3 $4", TimeForm.ISO, AHEAD + 17),
    TimeFamily("nginx_error", _DIGITS, rf"^(\d{{4}})/(\d\d)/(\d\d) {_CLOCK}", "$1-$2-$3 $4", TimeForm.ISO, AHEAD + 19),
    TimeFamily(
        "hdfs", _DIGITS, r"^(\d\d)(\d\d)(\d\d) (\d\d)(\d\d)(\d\d) ", "20$1-$2-$3 $4:$5:$6", TimeForm.ISO, AHEAD + 14
    ),
    TimeFamily("android", _DIGITS, rf"^(\d\d-\d\d) {_CLOCK}\.", f"{PLACEHOLDER_YEAR}-$1 $2", TimeForm.ISO, AHEAD + 15),
    TimeFamily(
        "healthapp",
        _DIGITS,
        r"^(\d{4})(\d\d)(\d\d)-(\d{1,2}:\d{1,2}:\d{1,2}):\d",
        "$1-$2-$3 $4",
        TimeForm.ISO,
        AHEAD + 19,
    ),
    TimeFamily(
        "apache_error",
        "[",
        rf"^\[[A-Z][a-z]{{2}} {_MONTH} (\d\d) {_CLOCK}(?:\.\d+)? (\d{{4}})\]",
        "$1 $4 $2 $3",
        TimeForm.NAMED_MONTH,
        AHEAD + 36,
    ),
    TimeFamily(
        "proxifier", "[", rf"^\[(\d\d)\.(\d\d) {_CLOCK}\]", f"{PLACEHOLDER_YEAR}-$1-$2 $3", TimeForm.ISO, AHEAD + 16
    ),
    TimeFamily(
        "klog", "IWEF", rf"^[IWEF](\d\d)(\d\d) {_CLOCK}\.", f"{PLACEHOLDER_YEAR}-$1-$2 $3", TimeForm.ISO, AHEAD + 15
    ),
    # Blue Gene and Thunderbird, HPC, squid.
    TimeFamily("epoch_dated", "", r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", "$1", TimeForm.EPOCH),
    TimeFamily("epoch_fifth", _DIGITS, r"^\d+ \S+ \S+ \S+ (\d{10}) ", "$1", TimeForm.EPOCH, LONG_STAMP_PREFIX),
    TimeFamily(
        "epoch_first", _DIGITS, r"^(\d{10})(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\s", "$1", TimeForm.EPOCH, AHEAD + 40
    ),
    TimeFamily(
        "epoch_json",
        "{",
        r'"@?(?:timestamp|time|ts)": ?(\d{10})',
        "$1",
        TimeForm.EPOCH,
        LONG_STAMP_PREFIX,
    ),
    TimeFamily(
        "clf",
        "",
        rf"\b(\d\d/{_MONTH}/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}})",
        "$1",
        TimeForm.CLF,
        LONG_STAMP_PREFIX,
    ),
)
"""In the order of matching. No family shadows a later one on the Loghub files; `iso_utc` is a faster `iso`."""

BY_NAME = {family.name: family for family in TIME_FAMILIES}

TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventTime", "time_local", "t")
"""Keys of the time in JSON lines: ISO 8601, CLF, or a number since 1970; the first that exists is used."""

_ACCESS = re.compile(r'\] "[^"]*" \d{3} (?:\d+|-)')
_PROGRAM = re.compile(r"^.{10,60}?[A-Za-z_][\w./()-]*\[\d+\]: ", re.ASCII)
_SYSLOG_FAMILIES = frozenset({"rfc3164", "iso", "iso_utc", "epoch_dated", ANY})
_STRAY_SHARE = 0.02
"""Maximum share of the dated lines that may be of another family in a file that is not mixed."""


def detect(lines: Sequence[str]) -> LogFormat:
    """The format of a log file that begins with `lines`; blank ones are ignored."""
    nonblank = (line.rstrip("\r\n") for line in lines if line.strip())
    quick = list(islice(nonblank, QUICK_LINES))
    votes = _votes(quick)
    if len(votes) != 1 or votes.total() != len(quick):
        votes += _votes(islice(nonblank, SAMPLE_LINES - QUICK_LINES))
    family = _elected(votes)
    kind = _kind(family, quick)
    return LogFormat(family, kind, _level(quick) if kind in {LineKind.PLAIN, LineKind.SYSLOG} else "")


def _votes(lines: Iterable[str]) -> Counter[str]:
    return Counter(name for line in lines if (name := _family_of(line)))


def _family_of(line: str) -> str:
    if line.startswith("{") and _json_time(line):
        return JSON
    return next((family.name for family in TIME_FAMILIES if family.fits(line)), "")


def _json_time(line: str) -> bool:
    try:
        fields = json.loads(line)
    except ValueError:
        return False
    return isinstance(fields, dict) and any(fields.get(key) is not None for key in TIME_KEYS)


def _elected(votes: Counter[str]) -> str:
    if "iso" in votes and "iso_utc" in votes:
        votes["iso"] += votes.pop("iso_utc")
    if not votes:
        return NONE
    name, most = votes.most_common(1)[0]
    return (
        name if (votes.total() - most <= max(1, _STRAY_SHARE * votes.total()) and most > 1) or len(votes) == 1 else ANY
    )


def _kind(family: str, lines: Sequence[str]) -> LineKind:
    half = len(lines) / 2
    if family == JSON or sum(line.startswith("{") for line in lines) > half:
        return LineKind.JSON
    if sum(_ACCESS.search(line) is not None for line in lines) > half:
        return LineKind.ACCESS
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
