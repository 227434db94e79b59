"""How log files are written: the families of time stamps, and the kinds of lines. Values only, for Java and Python.

Which family and kind a log file is of is decided once from a sample of its lines (`chosen`); Spark then tries one
expression on each of its lines instead of all. The families are those of the 16 Loghub systems, plus access logs,
syslog, klog and JSON. Every pattern means the same to Java and to Python's `re` with `ASCII`.
"""

import enum
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

STAMP_PREFIX = 64
"""Characters in which a time stamp is looked for. Each expression costs a copy of them, so they are few."""

LONG_STAMP_PREFIX = 160
"""The same for access logs and HPC, where it stands behind other fields."""

AHEAD = 8
"""Characters that may stand before a time that begins its line: a blank, a colour, what was left of another line."""

SOME_YEAR = 9996
"""Stands for the year that a line does not name: a leap year, so that 29 February is a day, and one nobody means."""

SAMPLE_LINES = 200
"""Lines of a log file that decide how it is written; the first `QUICK_LINES` do where they agree."""

QUICK_LINES = 20

ANY, NONE, JSON = "any", "none", "json"
"""Families without a pattern of their own: every pattern is tried; there are no times; a key holds the time."""


class Form(enum.Enum):
    """How the text that a family yields becomes a time."""

    HEAD = "head"  #: the first 19 characters are the time, in UTC
    ISO = "iso"  #: a cast; the zone, if any, is in the text, else UTC
    CLF = "dd/MMM/yyyy:HH:mm:ss Z"
    NAMED_MONTH = "MMM yyyy d HH:mm:ss"
    EPOCH = "epoch"  #: whole seconds since 1970


class Kind(enum.Enum):
    """What else the lines of a log file say, beside a time and a level."""

    PLAIN = "plain"
    SYSLOG = "syslog"  #: a program and its number: who logged in and who failed to
    ACCESS = "access"  #: a web server's requests, common or combined log format
    JSON = "json"  #: an object a line; may be an access log, too


@dataclass(frozen=True, slots=True)
class Family:
    """One way to write a time: `pattern` finds it, `shape` puts its groups into the order of `form`."""

    name: str
    first: str  #: characters that such a line begins with; empty: any
    pattern: str
    shape: str
    form: Form
    characters: int = STAMP_PREFIX
    compiled: re.Pattern[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", re.compile(self.pattern, re.ASCII))

    def fits(self, line: str) -> bool:
        """Whether `line` has such a time."""
        if self.first and line[:1] not in self.first:
            return False
        return self.compiled.search(line, 0, self.characters) is not None


@dataclass(frozen=True, slots=True)
class Writing:
    """How the lines of a log file are written."""

    family: str
    kind: Kind
    level: str = ""  #: finds the level of nearly every line, where the sample had it in the same place; else empty
    varies: bool = False  #: the headers differ in more than numbers: a request's id in hexadecimal digits
    uneven: bool = False  #: numbers are of so many lengths that lines are alike only without them


_DIGITS = "0123456789"
_CLOCK = r"(\d\d:\d\d:\d\d)"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = f"({'|'.join(MONTHS)})"

FAMILIES = (
    Family("iso_utc", _DIGITS, r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?![.,]?\d* ?[+-]\d\d:?\d\d)", "", Form.HEAD),
    Family(
        "iso",
        "",
        rf"(\d{{4}}-\d\d-\d\d)[T ]{_CLOCK}(?:[.,]\d{{1,9}})?(Z|[+-]\d\d:?\d\d)?",
        "$1 $2$3",
        Form.ISO,
    ),
    Family(
        "rfc3164",
        "JFMASOND<",
        rf"^(?:<\d{{1,3}}>)?{_MONTH} {{1,2}}(\d{{1,2}}) {_CLOCK}",
        f"$1 {SOME_YEAR} $2 $3",
        Form.NAMED_MONTH,
        AHEAD + 21,
    ),
    Family("spark", _DIGITS, rf"^(\d\d)/(\d\d)/(\d\d) {_CLOCK}", "20$1-$2-$3 $4", Form.ISO, AHEAD + 17),
    Family("nginx_error", _DIGITS, rf"^(\d{{4}})/(\d\d)/(\d\d) {_CLOCK}", "$1-$2-$3 $4", Form.ISO, AHEAD + 19),
    Family("hdfs", _DIGITS, r"^(\d\d)(\d\d)(\d\d) (\d\d)(\d\d)(\d\d) ", "20$1-$2-$3 $4:$5:$6", Form.ISO, AHEAD + 14),
    Family("android", _DIGITS, rf"^(\d\d-\d\d) {_CLOCK}\.", f"{SOME_YEAR}-$1 $2", Form.ISO, AHEAD + 15),
    Family(
        "healthapp", _DIGITS, r"^(\d{4})(\d\d)(\d\d)-(\d{1,2}:\d{1,2}:\d{1,2}):\d", "$1-$2-$3 $4", Form.ISO, AHEAD + 19
    ),
    Family(
        "apache_error",
        "[",
        rf"^\[[A-Z][a-z]{{2}} {_MONTH} (\d\d) {_CLOCK}(?:\.\d+)? (\d{{4}})\]",
        "$1 $4 $2 $3",
        Form.NAMED_MONTH,
        AHEAD + 36,
    ),
    Family("proxifier", "[", rf"^\[(\d\d)\.(\d\d) {_CLOCK}\]", f"{SOME_YEAR}-$1-$2 $3", Form.ISO, AHEAD + 16),
    Family("klog", "IWEF", rf"^[IWEF](\d\d)(\d\d) {_CLOCK}\.", f"{SOME_YEAR}-$1-$2 $3", Form.ISO, AHEAD + 15),
    # Blue Gene and Thunderbird, HPC, squid.
    Family("epoch_dated", "", r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", "$1", Form.EPOCH),
    Family("epoch_fifth", _DIGITS, r"^\d+ \S+ \S+ \S+ (\d{10}) ", "$1", Form.EPOCH, LONG_STAMP_PREFIX),
    Family("epoch_first", _DIGITS, r"^(\d{10})(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\s", "$1", Form.EPOCH, AHEAD + 40),
    Family(
        "epoch_json",
        "{",
        r'"@?(?:timestamp|time|ts)": ?(\d{10})',
        "$1",
        Form.EPOCH,
        LONG_STAMP_PREFIX,
    ),
    Family(
        "clf",
        "",
        rf"\b(\d\d/{_MONTH}/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}})",
        "$1",
        Form.CLF,
        LONG_STAMP_PREFIX,
    ),
)
"""In the order of trial. No family shadows a later one on the Loghub files; `iso_utc` is a cheaper `iso`."""

BY_NAME = {family.name: family for family in FAMILIES}

TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventTime", "time_local", "t")
"""The keys under which JSON lines have their time: ISO 8601, CLF, or a number since 1970; the first that is there."""

_ACCESS = re.compile(r'\] "[^"]*" \d{3} (?:\d+|-)')
_PROGRAM = re.compile(r"^.{10,60}?[A-Za-z_][\w./()-]*\[\d+\]: ", re.ASCII)
_SYSLOG_FAMILIES = frozenset({"rfc3164", "iso", "iso_utc", "epoch_dated", ANY})
_A_FEW = 0.02
"""Share of the dated lines that may be of another family: one stray line does not make a file a mixed one."""


def chosen(lines: Sequence[str]) -> Writing:
    """How the log file is written that begins with `lines`; blank ones say nothing."""
    spoken = (line.rstrip("\r\n") for line in lines if line.strip())
    quick = list(islice(spoken, QUICK_LINES))
    votes = _votes(quick)
    if len(votes) != 1 or votes.total() != len(quick):
        votes += _votes(islice(spoken, SAMPLE_LINES - QUICK_LINES))
    family = _elected(votes)
    kind = _kind(family, quick)
    return Writing(family, kind, _level(quick) if kind in {Kind.PLAIN, Kind.SYSLOG} else "")


def _votes(lines: Iterable[str]) -> Counter[str]:
    return Counter(name for line in lines if (name := _family_of(line)))


def _family_of(line: str) -> str:
    if line.startswith("{") and _json_time(line):
        return JSON
    return next((family.name for family in FAMILIES if family.fits(line)), "")


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
    return name if (votes.total() - most <= max(1, _A_FEW * votes.total()) and most > 1) or len(votes) == 1 else ANY


def _kind(family: str, lines: Sequence[str]) -> Kind:
    half = len(lines) / 2
    if family == JSON or sum(line.startswith("{") for line in lines) > half:
        return Kind.JSON
    if sum(_ACCESS.search(line) is not None for line in lines) > half:
        return Kind.ACCESS
    if family in _SYSLOG_FAMILIES and any(_PROGRAM.match(line) for line in lines):
        return Kind.SYSLOG
    return Kind.PLAIN


LEVEL_WORDS = "INFO|WARN|ERROR|DEBUG|FATAL|WARNING|NOTICE|TRACE|CRITICAL|SEVERE|Info|Warning|Error"
_LEVEL_WORD = re.compile(rf"\[?(?:{LEVEL_WORDS})[\]:,]*", re.ASCII)
_OTHER_LEVEL = re.compile(r"\[[a-z0-9_:]{3,28}\]|(?i:level|lvl|severity)\"?[=:]", re.ASCII)
"""Before such a word: `[error]`, `level=`."""

_MOST_WORDS = 8
"""Words of a line among which the level is looked for: what stands further back is no header."""


def _level(lines: Sequence[str]) -> str:
    """A pattern for the word that is the level of all `lines`, in its first group; empty where they differ.

    One look at a known place costs a fifth of a search through the beginning of the line.
    """
    places = {_level_place(line) for line in lines}
    if len(places) != 1 or None in places or any(line.startswith("<") for line in lines):  # syslog's PRI knows better
        return ""
    (place,) = places
    return rf"^(?:\S+\s+){{{place}}}\[?({LEVEL_WORDS})[\]:,]*(?:\s|$)"


def _level_place(line: str) -> int | None:
    words = line.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    place = next((place for place, word in enumerate(words) if _LEVEL_WORD.fullmatch(word)), None)
    return None if place is None or any(_OTHER_LEVEL.search(word) for word in words[:place]) else place
