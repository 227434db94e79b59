"""When a line happened and how bad it says it is: column expressions over a prefix of the line.

Only built-in functions on a prefix: a whole line may be megabytes, and a Python function would cost more than the
rest of the job. The families are those of the 16 Loghub systems, plus access logs, syslog, klog and JSON.
"""

import datetime as dt
import enum
import functools
import operator
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

STAMP_PREFIX = 64
"""Characters in which a time stamp is looked for. Each expression costs a copy of them, so they are few."""

LONG_STAMP_PREFIX = 160
"""The same for access logs, HPC and JSON, where it stands behind other fields."""

SOME_YEAR = 9996
"""Stands for the year that a line does not name: a leap year, so that 29 February is a day, and one nobody means."""

LEVEL_PREFIX = 120
"""Characters in which a level is looked for; 80 miss those of Blue Gene."""

ACCESS_PREFIX = 1024
"""Characters in which the status of an access log is looked for: it stands behind the request."""


class Form(enum.Enum):
    """How the text that a family yields becomes a time."""

    ISO = "iso"  #: a cast; the zone, if any, is in the text, else UTC
    CLF = "dd/MMM/yyyy:HH:mm:ss Z"
    NAMED_MONTH = "yyyy MMM d HH:mm:ss"
    EPOCH = "epoch"  #: whole seconds since 1970


@dataclass(frozen=True, slots=True)
class Family:
    """One way to write a time: `pattern` finds it, `shape` puts its groups into the order of `form`.

    A line that does not begin with one of `first` is not tried at all: that is four times cheaper than a pattern.
    """

    name: str
    first: str  #: characters that such a line begins with; empty: any
    pattern: str
    shape: str
    form: Form
    characters: int = STAMP_PREFIX


_DIGITS = "0123456789"
_CLOCK = r"(\d\d:\d\d:\d\d)"
_MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

FAMILIES = (
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
        f"{SOME_YEAR} $1 $2 $3",
        Form.NAMED_MONTH,
    ),
    Family("spark", _DIGITS, rf"^(\d\d)/(\d\d)/(\d\d) {_CLOCK}", "20$1-$2-$3 $4", Form.ISO),
    Family("nginx_error", _DIGITS, rf"^(\d{{4}})/(\d\d)/(\d\d) {_CLOCK}", "$1-$2-$3 $4", Form.ISO),
    Family("hdfs", _DIGITS, r"^(\d\d)(\d\d)(\d\d) (\d\d)(\d\d)(\d\d) ", "20$1-$2-$3 $4:$5:$6", Form.ISO),
    Family("android", _DIGITS, rf"^(\d\d-\d\d) {_CLOCK}\.", f"{SOME_YEAR}-$1 $2", Form.ISO),
    Family(
        "healthapp",
        _DIGITS,
        r"^(\d{4})(\d\d)(\d\d)-(\d{1,2}:\d{1,2}:\d{1,2}):\d",
        "$1-$2-$3 $4",
        Form.ISO,
    ),
    Family(
        "apache_error",
        "[",
        rf"^\[[A-Z][a-z]{{2}} {_MONTH} (\d\d) {_CLOCK}(?:\.\d+)? (\d{{4}})\]",
        "$4 $1 $2 $3",
        Form.NAMED_MONTH,
    ),
    Family("proxifier", "[", rf"^\[(\d\d)\.(\d\d) {_CLOCK}\]", f"{SOME_YEAR}-$1-$2 $3", Form.ISO),
    Family("klog", "IWEF", rf"^[IWEF](\d\d)(\d\d) {_CLOCK}\.", f"{SOME_YEAR}-$1-$2 $3", Form.ISO),
    # Blue Gene and Thunderbird, HPC, squid.
    Family("epoch_dated", "", r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", "$1", Form.EPOCH),
    Family("epoch_fifth", _DIGITS, r"^\d+ \S+ \S+ \S+ (\d{10}) ", "$1", Form.EPOCH, LONG_STAMP_PREFIX),
    Family("epoch_first", _DIGITS, r"^(\d{10})(?:\d{3})?(?:\.\d+)?\s", "$1", Form.EPOCH),
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
"""In the order of trial. No family shadows a later one on the Loghub files."""


def event_hour(line: Column) -> Column:
    """The hour (UTC) that `line` itself names, or null where no family is known; for `meant_hour` to put right.

    Times without a zone are taken as UTC. This runs for each line, so nothing is mentioned twice: Spark evaluates a
    column as often as it is mentioned in a branch. What needs a second look is left to `meant_hour`, behind the
    grouping; times without a year are left in `SOME_YEAR`.
    """
    return F.date_trunc("HOUR", F.coalesce(*(_moment(line, family) for family in FAMILIES)))


def _moment(line: Column, family: Family) -> Column:
    prefix = F.substring(line, 1, family.characters)
    whole = f"(?s)^.*?{family.pattern.removeprefix('^')}.*$"
    fits = prefix.rlike(family.pattern)
    if family.first:
        fits = F.contains(F.lit(family.first), F.substring(line, 1, 1)) & fits
    found = F.when(fits, F.regexp_replace(prefix, F.lit(whole), F.lit(family.shape)))
    if family.form is Form.EPOCH:
        return F.timestamp_seconds(found.try_cast("bigint"))
    if family.form is Form.ISO:
        return found.try_cast("timestamp")
    return F.try_to_timestamp(found, F.lit(family.form.value))


def meant_hour(hour: Column, day: dt.date) -> Column:
    """`event_hour` with its year, for lines that arrived on `day`; null where it cannot be meant.

    A time without a year is of the year of `day`, or of the one before where it would be more than a day ahead. A
    time before 1970 or more than a day ahead is none: a clock that wrong says nothing of when the line happened.
    """
    this_year = hour - F.make_interval(years=F.lit(SOME_YEAR - day.year))
    last_year = hour - F.make_interval(years=F.lit(SOME_YEAR - day.year + 1))
    latest = F.lit(_latest(day))
    dated = F.when(F.year(hour) != SOME_YEAR, hour).when(this_year <= latest, this_year).otherwise(last_year)
    return F.when(dated.between(F.lit(_midnight(dt.date(1970, 1, 1))), latest), dated)


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)


def _latest(day: dt.date) -> dt.datetime:
    """A day's slack: a line may come from a zone that is ahead, or from a clock that is."""
    return _midnight(day + dt.timedelta(days=1)) + dt.timedelta(hours=23)


WORDS = {
    "emerg": "fatal",
    "emergency": "fatal",
    "panic": "fatal",
    "alert": "fatal",
    "crit": "fatal",
    "critical": "fatal",
    "fatal": "fatal",
    "severe": "error",  # java.util.logging's word for an error
    "error": "error",
    "err": "error",
    "warning": "warn",
    "warn": "warn",
    "notice": "notice",
    "info": "info",
    "information": "info",
    "debug": "debug",
    "fine": "debug",
    "trace": "trace",
    "verbose": "trace",
}
"""The words that name a level, and the level that they name."""

LETTERS = {"V": "trace", "D": "debug", "I": "info", "W": "warn", "E": "error", "F": "fatal"}
"""The letters of Android's and Kubernetes' logs."""

STATUSES = {"1": "info", "2": "info", "3": "info", "4": "warn", "5": "error"}
"""The level of an access log's line by the first digit of its status."""

SEVERITIES = ("fatal", "fatal", "fatal", "error", "warn", "notice", "info", "debug")
"""The level of each severity of syslog's PRI, RFC 5424."""

# In capitals the common words stand for themselves (logrotate's ALERT is none); all words do in brackets or behind a
# key, so that prose is none. Mixed case is what Windows writes.
_CAPITALS = "FATAL|CRITICAL|SEVERE|ERROR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE"
_SMALL = "|".join(sorted(WORDS, key=len, reverse=True))
WORD_PATTERN = (
    r"(?=[FCSEWNIDT\[])"  # first, as it drops most positions for the price of one comparison
    rf"(?:(?<![A-Za-z])(?:{_CAPITALS}|Info|Warning|Error)(?![A-Za-z])"
    rf"|\[(?:[a-z0-9_]{{1,16}}:)?(?:{_SMALL})(?=\]))"
)
KEYED_PATTERN = rf'(?i)(?:level|lvl|severity)"?[=:] ?"?({_SMALL})(?![a-z])'
KEYS = ("level", "lvl", "severity", "LEVEL", "SEVERITY")
LETTER_PATTERN = r"^\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\s+\d+\s+\d+ [VDIWEF](?= )|^[IWEF](?=\d{4} \d\d:\d\d:\d\d\.)"
STATUS_PATTERN = r'" (\d)\d\d (?:\d|-)'
PRIORITY_PATTERN = r"^<(\d{1,3})>"


def level(line: Column) -> Column:
    """One of `schemas.LEVELS`: what `line` says of itself in its first 120 characters; access logs by status."""
    head = F.substring(line, 1, LEVEL_PREFIX)
    return F.coalesce(
        _by_priority(head),
        _by_status(line, head),
        _by_key(head),
        _by_word(head),
        _by_letter(head),
        F.lit("none"),
    )


def _by_key(head: Column) -> Column:
    has_key = functools.reduce(operator.or_, (F.contains(head, F.lit(key)) for key in KEYS))
    return F.when(has_key, _looked_up(WORDS, F.lower(F.regexp_extract(head, KEYED_PATTERN, 1))))


def _by_word(head: Column) -> Column:
    found = F.regexp_extract(head, WORD_PATTERN, 0)
    word = F.substring_index(F.substring_index(found, "[", -1), ":", -1)
    return _looked_up(WORDS, F.lower(word))


def _by_priority(head: Column) -> Column:
    priority = F.regexp_extract(head, PRIORITY_PATTERN, 1).try_cast("int")
    severities = F.array(*(F.lit(name) for name in SEVERITIES))
    return F.when(head.startswith("<"), F.try_element_at(severities, priority % 8 + 1))


def _by_status(line: Column, head: Column) -> Column:
    first_digit = F.regexp_extract(F.substring(line, 1, ACCESS_PREFIX), STATUS_PATTERN, 1)
    return F.when(F.contains(head, F.lit('] "')), _looked_up(STATUSES, first_digit))


def _by_letter(head: Column) -> Column:
    may = F.contains(F.lit(f"{_DIGITS}IWEF"), F.substring(head, 1, 1))
    found = F.regexp_extract(head, LETTER_PATTERN, 0)
    return F.when(may, _looked_up(LETTERS, F.substring(found, -1, 1)))


def _looked_up(names: dict[str, str], key: Column) -> Column:
    pairs = (F.lit(text) for pair in names.items() for text in pair)
    return F.try_element_at(F.create_map(*pairs), key)
