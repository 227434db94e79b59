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
"""The same for access logs and JSON, where it stands behind other fields."""

LEVEL_PREFIX = 120
"""Characters in which a level is looked for; 80 miss those of Blue Gene."""

ACCESS_PREFIX = 1024
"""Characters in which the status of an access log is looked for: it stands behind the request."""


class Form(enum.Enum):
    """How the text that a family yields becomes a time."""

    ISO = "iso"  #: a cast; the zone, if any, is in the text, else UTC
    YEARLESS = "yearless"  #: ISO, in the year of the archive's day or the one before
    CLF = "dd/MMM/yyyy:HH:mm:ss Z"
    NAMED_MONTH = "yyyy MMM d HH:mm:ss"
    NAMED_YEARLESS = "yyyy MMM d HH:mm:ss "  #: as above, in the year of the archive's day or the one before
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
        "Y $1 $2 $3",
        Form.NAMED_YEARLESS,
    ),
    Family("spark", _DIGITS, rf"^(\d\d)/(\d\d)/(\d\d) {_CLOCK}", "20$1-$2-$3 $4", Form.ISO),
    Family("nginx_error", _DIGITS, rf"^(\d{{4}})/(\d\d)/(\d\d) {_CLOCK}", "$1-$2-$3 $4", Form.ISO),
    Family("hdfs", _DIGITS, r"^(\d\d)(\d\d)(\d\d) (\d\d)(\d\d)(\d\d) ", "20$1-$2-$3 $4:$5:$6", Form.ISO),
    Family("android", _DIGITS, rf"^(\d\d-\d\d) {_CLOCK}\.", "Y-$1 $2", Form.YEARLESS),
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
    Family("proxifier", "[", rf"^\[(\d\d)\.(\d\d) {_CLOCK}\]", "Y-$1-$2 $3", Form.YEARLESS),
    Family("klog", "IWEF", rf"^[IWEF](\d\d)(\d\d) {_CLOCK}\.", "Y-$1-$2 $3", Form.YEARLESS),
    # Blue Gene and Thunderbird, HPC, squid.
    Family("epoch_dated", "", r"^\S+ (\d{10}) \d{4}\.\d\d\.\d\d ", "$1", Form.EPOCH),
    Family("epoch_fifth", _DIGITS, r"^\d+ \S+ \S+ \S+ (\d{10}) ", "$1", Form.EPOCH),
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


def event_hour(line: Column, day: dt.date) -> Column:
    """The hour (UTC) that `line` itself names, or null where no family is known or the time cannot be meant.

    Times without a zone are taken as UTC. A time before 1970 or later than the end of the day after `day` is none:
    a clock that wrong says nothing of when the line happened.
    """
    moment = F.coalesce(*(_moment(line, family, day) for family in FAMILIES))
    hour = F.date_trunc("HOUR", moment)
    return F.when(hour.between(F.lit(_midnight(dt.date(1970, 1, 1))), F.lit(_latest(day))), hour)


def _moment(line: Column, family: Family, day: dt.date) -> Column:
    prefix = F.substring(line, 1, family.characters)
    whole = f"(?s)^.*?{family.pattern.removeprefix('^')}.*$"
    shape = family.shape.replace("Y", str(day.year))
    fits = prefix.rlike(family.pattern)
    if family.first:
        fits = F.contains(F.lit(family.first), F.substring(line, 1, 1)) & fits
    found = F.when(fits, F.regexp_replace(prefix, F.lit(whole), F.lit(shape)))
    if family.form is Form.EPOCH:
        return F.timestamp_seconds(found.try_cast("bigint"))
    if family.form in {Form.ISO, Form.YEARLESS}:
        moment = found.try_cast("timestamp")
    else:
        moment = F.try_to_timestamp(found, F.lit(family.form.value.strip()))
    if family.form in {Form.YEARLESS, Form.NAMED_YEARLESS}:
        return F.when(moment > F.lit(_latest(day)), moment - F.expr("INTERVAL 1 YEAR")).otherwise(moment)
    return moment


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
LETTER_PATTERN = (
    r"^\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\s+\d+\s+\d+ [VDIWEF](?= )|^[IWEF](?=\d{4} \d\d:\d\d:\d\d\.)"
)
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
    named = F.when(first_digit == "5", "error").when(first_digit == "4", "warn").when(first_digit != "", "info")
    return F.when(F.contains(head, F.lit('] "')), named)


def _by_letter(head: Column) -> Column:
    may = F.contains(F.lit(f"{_DIGITS}IWEF"), F.substring(head, 1, 1))
    found = F.regexp_extract(head, LETTER_PATTERN, 0)
    return F.when(may, _looked_up(LETTERS, F.substring(found, -1, 1)))


def _looked_up(names: dict[str, str], key: Column) -> Column:
    pairs = (F.lit(text) for pair in names.items() for text in pair)
    return F.try_element_at(F.create_map(*pairs), key)
