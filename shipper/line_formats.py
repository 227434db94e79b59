"""Formats of times in log lines, as data: the families, what each pattern finds, and how a sample decides. Pure.

`tests/formats.tsv` has an example of each. A template is a regular expression with fields, as of `strftime`;
every pattern that is made of one has the same meaning in Java and in Python's `re` with `ASCII`: the report evaluates
them in Spark, a search here.
"""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shipper import line_zones

STAMP_PREFIX = 64
"""Characters that are searched for a time stamp. Each expression copies them, so the number is small."""

LONG_STAMP_PREFIX = 200
"""The same where the time comes after other fields: access logs, flow logs."""

AHEAD = 8
"""Characters before a time at the start of a line: a blank, a colour code, the rest of another line."""

PLACEHOLDER_YEAR = 9996
"""The year of times without one: a leap year, so that 29 February is valid, and one that no log has."""

ANY, NONE, JSON = "any", "none", "json"
"""Families without a pattern of their own: a line may be of any; there are no times; a JSON key has the time."""

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTH_NUMBERS = {name: f"{number:02}" for number, name in enumerate(MONTHS, 1)}
MONTH_NUMBERS |= {"Mrz": "03", "Mai": "05", "Okt": "10", "Dez": "12"}


class TimeForm(enum.Enum):
    """How the text that a family extracts is parsed."""

    HEAD = "head"  #: the first 19 characters are the time, without a zone, or with Z
    CAST = "cast"  #: `2026-11-28 10:00:00+02:00`; the zone, if any, is an offset
    NAMED = "named"  #: `Nov 2026 28 10:00:00+02:00`
    FIELDS = "fields"  #: `FIELD_NAMES`, with bars between them
    EPOCH = "epoch"  #: whole seconds since 1970


FIELD_NAMES = ("year", "century", "month", "day", "clock", "minute", "second", "half", "zone", "epoch")
"""Fields of a time. century: two digits of a year from 2000 on; month: its number or name; clock: with minutes and
seconds, or the hour alone; half: A or P of a clock of twelve hours; zone: as in the line; epoch: seconds since 1970."""

_FIELDS = {
    "%Y": ("year", r"([0-9]{4})"),
    "%y": ("century", r"([0-9]{2})"),
    "%m": ("month", r"([0-9]{1,2})"),
    "%0m": ("month", r"([0-9]{2})"),
    "%b": ("month", f"({'|'.join(MONTH_NUMBERS)})"),
    "%d": ("day", r" {0,2}([0-9]{1,2})"),
    "%0d": ("day", r"([0-9]{2})"),
    "%T": ("clock", r" ?([0-9]{1,2}:[0-9]{2}:[0-9]{2})"),
    "%H": ("clock", r"([0-9]{1,2})"),
    "%M": ("minute", r"([0-9]{1,2})"),
    "%S": ("second", r"([0-9]{1,2})"),
    "%0H": ("clock", r"([0-9]{2})"),
    "%0M": ("minute", r"([0-9]{2})"),
    "%0S": ("second", r"([0-9]{2})"),
    "%f": ("fraction", r"(?:[.,:]([0-9]{1,9}+)[0-9]*+)?+"),
    "%p": ("half", r" ?([AaPp])\.?[Mm](?![A-Za-z0-9])"),
    "%n": ("zone", line_zones.NUMERIC),
    "%z": ("zone", line_zones.EACH),
    "%s": ("epoch", r"([0-9]{10})"),
}
_FIELD = re.compile("%0?[A-Za-z]")


@dataclass(frozen=True)
class TimeFamily:
    """A format of times: `template` finds one."""

    name: str
    template: str
    first: str = ""  #: possible first characters of a line; empty: any
    form: TimeForm = TimeForm.FIELDS
    characters: int = STAMP_PREFIX
    groups: tuple[str, ...] = field(init=False, compare=False, repr=False)  #: what each group of the pattern is
    pattern: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(_FIELDS[name][0] for name in _FIELD.findall(self.template)))
        object.__setattr__(self, "pattern", _FIELD.sub(lambda found: _FIELDS[found[0]][1], self.template))

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, for Python."""
        return re.compile(self.pattern, re.ASCII)

    @property
    def is_anchored(self) -> bool:
        """Whether the time is at the start of the line, or after fields that are always the same."""
        return self.template.startswith("^")

    @property
    def from_start(self) -> str:
        """The pattern of the first characters of a line, up to the end of the time."""
        return self.pattern if self.is_anchored else f"^.{{0,{self.characters}}}?{self.pattern}"

    def fits(self, line: str) -> bool:
        """Whether `line` has a time of this family."""
        if self.first and line[:1] not in self.first:
            return False
        return self.compiled.search(line, 0, self.characters) is not None


def shape(form: TimeForm, groups: Sequence[str]) -> str:
    """The replacement, for Java, that arranges the groups of a pattern for `form`."""
    number: dict[str, str] = {}
    for place, name in enumerate(groups, 1):
        number[name] = number.get(name, "") + f"${place}"
    if form is TimeForm.FIELDS:
        return "|".join(number.get(name, "") for name in FIELD_NAMES)
    year = f"20{number['century']}" if "century" in number else number.get("year", str(PLACEHOLDER_YEAR))
    clock = number["clock"] + (f":{number['minute']}:{number['second']}" if "minute" in number else "")
    if form is TimeForm.NAMED:
        return f"{number['month']} {year} {number['day']} {clock}{number.get('zone', '')}"
    return f"{year}-{number['month']}-{number['day']} {clock}{number.get('zone', '')}"


_DIGITS = "0123456789"
_ISO = r"%Y-%m-%d(?:[T\t]| |, )%T%f"
_PRI = r"(?:<[0-9]{1,3}>)?"
_EVENT = r"^(?:[A-Z][A-Za-z ]{3,20}[\t,;] ?)?\[?"
"""Before the time in exports of Windows' event log: the level."""
_DAY_NAME = r"[A-Z][a-z]{2}"
HEAD_ZONE = rf"[.,]?[0-9]*+(?: ?[+-][0-9]{{2}}|{line_zones.NAMED})"
"""What is after the 19 characters of a time that has a zone other than Z."""
_CAST, _NAMED, _FIELDED, _EPOCH = TimeForm.CAST, TimeForm.NAMED, TimeForm.FIELDS, TimeForm.EPOCH

_ANCHORED = (
    TimeFamily(
        "cisco", rf"^{_PRI}(?:[0-9]{{1,9}}: )?(?:[^ ]{{1,64}}: )?[*.]?%b {{1,2}}%d %T%f%z: %[A-Z]", characters=160
    ),
    TimeFamily(
        "cisco_year",
        rf"^{_PRI}(?:[0-9]{{1,9}}: )?(?:[^ ]{{1,64}}: )?[*.]?%b {{1,2}}%d %Y,? %T%f%z(?! ?[AP]M)",
        characters=160,
    ),
    TimeFamily("rfc3164", rf"^{_PRI}\[?%b {{1,2}}%d %T", "JFMASOND<[", _NAMED, AHEAD + 22),
    TimeFamily("spark", r"^%y/%m/%d %T", _DIGITS, _CAST, AHEAD + 17),
    TimeFamily("nginx_error", r"^(?:[01],)?\[?%Y/%m/%d %T%f%n", _DIGITS + "[", _CAST),
    TimeFamily("hdfs", r"^%y%0m%0d %0H%0M%0S ", _DIGITS, _CAST, AHEAD + 14),
    TimeFamily("mysql_5", r"^%y%0m%0d {1,2}%T", _DIGITS, _CAST, AHEAD + 18),
    TimeFamily("android", r"^%0m-%0d %T\.", _DIGITS, _CAST, AHEAD + 15),
    TimeFamily("healthapp", r"^%Y%0m%0d-%H:%M:%S:[0-9]", _DIGITS, _CAST, AHEAD + 20),
    TimeFamily("apache_error", rf"^\[{_DAY_NAME} %b {{1,2}}%d %T%f %Y\]", "[", _NAMED, AHEAD + 37),
    TimeFamily("proxifier", r"^\[%0m\.%0d %T\]", "[", _CAST, AHEAD + 17),
    TimeFamily("klog", r"^[IWEF]%0m%0d %T\.", "IWEF", _CAST, AHEAD + 16),
    TimeFamily("glog", r"^[IWEF]%Y%0m%0d %T\.", "IWEF", _CAST, AHEAD + 20),
    TimeFamily("ctime", rf"^{_DAY_NAME} %b {{1,2}}%d %T%f%z %Y(?![0-9])"),
    TimeFamily("js_date", rf"^{_DAY_NAME} %b {{1,2}}%d %Y %T%z"),
    TimeFamily("rfc2822", rf"^\[?{_DAY_NAME}, %d %b %Y %T%z"),
    TimeFamily("jul", r"^%b {1,2}%d, %Y,? %T%p%z", "JFMASOND"),
    TimeFamily("day_name_month", r"^\[?%d-%b-%Y %T%f%z", " [" + _DIGITS),
    TimeFamily("erlang", r"^=[A-Z ]+ REPORT=+ %d-%b-%Y::%T", "="),
    TimeFamily("redis", r"^[0-9]{1,9}:[A-Z] %d %b %Y %T%f", _DIGITS),
    TimeFamily("redis_2", r"^\[[0-9]{1,9}\] %d %b %T%f", "["),
    TimeFamily("day_slash", r"^\[%d/%b/%Y[ :]%T%f%z", "["),
    TimeFamily("us_12_hours", rf"{_EVENT}%m/%d/%Y,? %T%p%z", characters=96),
    TimeFamily("us", rf"{_EVENT}(?=0?[1-9]/|1[0-2]/)%m/%d/%Y[ T,-]{{1,2}}%T%f%z(?! ?[AP]M)", characters=96),
    TimeFamily("day_first", rf"{_EVENT}%d/%m/%Y(?:[ T,-]{{1,2}}| -- )%T%f%z(?! ?[AP]M)", characters=96),
    TimeFamily("day_first_dashes", r"^\[?%0d-(?=0[1-9]|1[0-2])%0m-%Y[ T,]{1,2}%T%f%z(?! ?[AP]M)", _DIGITS + "["),
    TimeFamily("us_dashes", r"^\[?(?=0[1-9]|1[0-2])%0m-%0d-%Y[ T,]{1,2}%T%f%z(?! ?[AP]M)", _DIGITS + "["),
    TimeFamily("comware", rf"^{_PRI}%%b {{1,2}}%d %T(?::[0-9]{{1,3}})? %Y ", "<%"),
    TimeFamily("day_first_dots", rf"{_EVENT}%d\.%m\.%Y,? %T%f%z", characters=96),
    TimeFamily("year_dots", r"^\[?%Y\.%m\.%d %T%f%z", _DIGITS + "["),
    TimeFamily("websphere", r"^\[%m/%d/%y,? %T%f%z\]", "["),
    TimeFamily("websphere_12_hours", r"^\[%m/%d/%y,? %T%f%p%z\]", "["),
    TimeFamily("zabbix", r"^ {0,8}[0-9]{1,9}:%Y%0m%0d:%0H%0M%0S%f", " " + _DIGITS),
    TimeFamily("db2", r"^%Y-%m-%d-%H\.%M\.%S%f%z", _DIGITS),
    TimeFamily("colons", r"^\[?%Y:%m:%d-%T", _DIGITS + "[", _CAST),
    TimeFamily("compact", r"^\[?%Y%0m%0d[T -]?%0H%0M%0S(?![0-9])%f%z", _DIGITS + "["),
    TimeFamily("compact_date", r"^\[?%Y%0m%0d[T -]%T%f%z", _DIGITS + "["),
    TimeFamily(
        "date_and_time",
        rf"^{_PRI}(?:[a-z]+=[^ ]* ){{0,2}}date=\"?%Y-%m-%d\"? time=\"?%T%f%z",
        "<abcdefghijklmnopqrstuvwxyz",
        characters=96,
    ),
    TimeFamily("geth", r"^[A-Z]{4,5} ?\[%0m-%0d\|%T", characters=AHEAD + 30),
    TimeFamily("snort", r"^%0m/%0d-%T\.", _DIGITS),
    TimeFamily("epoch_dated", r"^[^ ]+ %s [0-9]{4}\.[0-9]{2}\.[0-9]{2} ", "", _EPOCH),  # Blue Gene and Thunderbird
    TimeFamily("epoch_fifth", r"^[0-9]+ [^ ]+ [^ ]+ [^ ]+ %s ", _DIGITS, _EPOCH, 160),  # HPC
    TimeFamily("flow", r"^[0-9] [0-9]{12} [^ ]+ (?:[^ ]+ ){7}%s ", _DIGITS, _EPOCH, LONG_STAMP_PREFIX),
    TimeFamily("epoch_first", r"^%s(?:[0-9]{3}|[0-9]{6}|[0-9]{9})?(?:\.[0-9]+)?\s", _DIGITS, _EPOCH, AHEAD + 40),
    TimeFamily("epoch_brackets", r"^\[%s(?:\.[0-9]+)?\] ", "[", _EPOCH),
    TimeFamily("audit", r"^(?:node=[^ ]+ )?type=[^ ]+ msg=audit\(%s(?=[.:])", "nt", _EPOCH, 160),
    TimeFamily("epoch_key", r'^(?:time|ts|timestamp|t)="?%s', "t", _EPOCH),
)

_WITHIN = (
    TimeFamily("iso", rf"%Y-%m-%d(?:[T\t]| |, )%T%f(?!{line_zones.NAMED}|[+-][0-9]{{3}}(?![0-9]))%n", "", _CAST),
    TimeFamily("iso_named", rf"{_ISO}%z"),
    TimeFamily("epoch_json", r'"@?(?:timestamp|time|ts)": ?%s', "{", _EPOCH, 160),
    TimeFamily("clf", r"(?<![0-9])%0d/%b/%Y:%T%f %n", "", _NAMED, LONG_STAMP_PREFIX),
    TimeFamily("ctime_within", rf"\[{_DAY_NAME} %b {{1,2}}%d %T%f %Y\]", characters=LONG_STAMP_PREFIX),
    TimeFamily("slash_within", r"(?<![0-9/])%Y/%m/%d[ T-]%T%f%z"),
)

TIME_FAMILIES = (
    TimeFamily(
        "iso_utc",
        rf"^%Y-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?!{HEAD_ZONE})",
        _DIGITS,
        TimeForm.HEAD,
    ),
    *_ANCHORED,
    *_WITHIN,
)
"""In the order of matching. No family shadows a later one on the Loghub files; `iso_utc` is a faster `iso`."""

BY_NAME = {family.name: family for family in TIME_FAMILIES}

_ISO_FIRST = TimeFamily("iso_first", rf"^(?:<[0-9]{{1,3}}>[0-9]{{0,2}} ?|[\[(#*=-]{{0,3}}){_ISO}%z")

STRAY = (_ISO_FIRST, *_ANCHORED)
"""Families of lines in a file whose other lines are of another family."""

MIXED = (*STRAY, *_WITHIN[1:])
"""Families of lines in a file without a family, and of texts in JSON."""

MAY_BE_STRAY = r"^[^\s].{0,96}?(?:[0-9]:[0-9]{2}[:.0-9]|[0-9]{6}[ T:0-9])"
"""Lines without it are not compared with `STRAY`: most have no time, as those of a stack trace."""


def in_one(families: Sequence[TimeFamily]) -> tuple[str, tuple[str, ...]]:
    """One pattern for the whole line, of several families, and what each of its groups is."""
    patterns = "|".join(family.from_start.removeprefix("^") for family in families)
    return rf"(?s)^(?:{patterns}).*$", tuple(name for family in families for name in family.groups)


TIME_PATHS = (
    "@timestamp", "timestamp", "time", "ts", "datetime", "date", "eventTime", "time_local", "t", "@t", "t.$date",
    "__REALTIME_TIMESTAMP", "asctime", "instant.epochSecond", "Timestamp", "EventTime", "TimeCreated", "time_iso8601",
    "start_time", "T", "Time", "timeUnixNano", "event_timestamp", "TimeGenerated", "log.time", "log.ts",
    "log.timestamp", "timeMillis", "requestReceivedTimestamp", "stageTimestamp",
)  # fmt: skip
"""Keys of the time in JSON lines: a text, or a number since 1970. The first that exists is used; a dot leads into an
object, or into a text that is one. An object is no time."""
