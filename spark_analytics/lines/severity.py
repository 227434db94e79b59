"""The level of a line: column expressions over its first characters. Eight levels; `none` if the line has none."""

import functools
import operator
from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

LEVEL_PREFIX = 120
"""Characters that are searched for a level; 80 are too few for logs of Blue Gene."""

WORDS = {
    "info": "info",  # the most common ones first: a map is searched from its beginning
    "error": "error",
    "warn": "warn",
    "emerg": "fatal",
    "emergency": "fatal",
    "panic": "fatal",
    "alert": "fatal",
    "crit": "fatal",
    "critical": "fatal",
    "fatal": "fatal",
    "severe": "error",  # java.util.logging's word for an error
    "err": "error",
    "warning": "warn",
    "notice": "notice",
    "information": "info",
    "debug": "debug",
    "fine": "debug",
    "trace": "trace",
    "verbose": "trace",
}
"""The level of each word that names one."""

LETTERS = {"V": "trace", "D": "debug", "I": "info", "W": "warn", "E": "error", "F": "fatal"}
"""The letters of Android's and Kubernetes' logs."""

STATUSES = {"1": "info", "2": "info", "3": "info", "4": "warn", "5": "error"}
"""The level of a line of an access log by the first digit of its status."""

SEVERITIES = ("fatal", "fatal", "fatal", "error", "warn", "notice", "info", "debug")
"""The level of each severity of syslog's PRI, RFC 5424."""

# The common words count in capitals anywhere (ALERT of logrotate is no level). All words count in brackets or after a
# key, so that words in prose do not count. Windows writes mixed case.
_CAPITALS = "FATAL|CRITICAL|SEVERE|ERROR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE"
_SMALL = "|".join(sorted(WORDS, key=len, reverse=True))
WORD_PATTERN = (
    r"(?=[FCSEWNIDT\[])"  # first, as it drops most positions for the price of one comparison
    rf"(?:(?<![A-Za-z])(?:{_CAPITALS}|Info|Warning|Error)(?![A-Za-z])"
    rf"|\[(?:[a-z0-9_]{{1,16}}:)?(?:{_SMALL})(?=\]))"
)
KEYED_PATTERN = rf'(?i)(?:level|lvl|severity)"?[=:] ?"?({_SMALL})(?![a-z])'
KEYS = ("level", "lvl", "severity", "LEVEL", "SEVERITY")
LETTER_PATTERN = r"^\d+-\d+ \d+:\d+:\d+\.\d+\s+\d+\s+\d+ [VDIWEF](?= )|^[IWEF](?=\d+ \d+:\d+:\d+\.)"
PRIORITY_PATTERN = r"^<(\d{1,3})>"

LETTERED_FAMILIES = ("android", "klog", "any")
"""Families in which a single letter may be a level."""

_BETWEEN = "\x1f"  # the unit separator of ASCII, which no constant has

NUMBERS = {"10": "trace", "20": "debug", "30": "info", "40": "warn", "50": "error", "60": "fatal"}
"""The numeric levels of bunyan, for programs that write JSON."""


def of_line(head: Column, placed: Column | None, family: Column | None) -> Column:
    """The level in `head`, the first `LEVEL_PREFIX` characters of a line, or `none`.

    Numbers except the one of syslog's PRI may be masked. `placed` is the pattern of a level at a known position
    (`LogFormat.level`); if it is empty or finds nothing, the level is searched. `placed` is None if no line has a
    pattern, `family` if no line is of `LETTERED_FAMILIES`: then there is less code to compile.
    """
    found = [_by_priority(head), _by_key(head), _by_word(head)]
    if placed is not None:
        word = F.lower(F.call_function("regexp_extract", head, placed, F.lit(1)))
        found.insert(0, F.when(placed != "", lookup(WORDS, word)))
    if family is not None:
        letter = F.substring(F.regexp_extract(head, LETTER_PATTERN, 0), -1, 1)
        found.append(F.when(family.isin(*LETTERED_FAMILIES), lookup(LETTERS, letter)))
    return F.coalesce(*found, F.lit("none"))


def of_status(status: Column) -> Column:
    """The level of a request by its status; null without a status."""
    return lookup(STATUSES, F.substring(status.cast("string"), 1, 1))


def of_name(name: Column) -> Column:
    """The level that a JSON value names, a word or a number; null if it names none."""
    return lookup(WORDS | NUMBERS, F.lower(name))


def _by_key(head: Column) -> Column:
    may = F.contains(head, F.lit("=")) | F.contains(head, F.lit('":'))
    has_key = functools.reduce(operator.or_, (F.contains(head, F.lit(key)) for key in KEYS))
    return F.when(may & has_key, lookup(WORDS, F.lower(F.regexp_extract(head, KEYED_PATTERN, 1))))


def _by_word(head: Column) -> Column:
    found = F.regexp_extract(head, WORD_PATTERN, 0)
    word = F.substring_index(F.substring_index(found, "[", -1), ":", -1)
    return lookup(WORDS, F.lower(word))


def _by_priority(head: Column) -> Column:
    priority = F.regexp_extract(head, PRIORITY_PATTERN, 1).try_cast("int")
    return F.when(head.startswith("<"), F.try_element_at(constants(SEVERITIES), priority % 8 + 1))


def lookup(names: dict[str, str], key: Column) -> Column:
    """The value of `key` in `names`; null if it is not there."""
    return F.try_element_at(F.map_from_arrays(constants(names), constants(names.values())), key)


def constants(texts: Iterable[str]) -> Column:
    """An array that Spark makes once for all lines, split from one text: each literal would be a call to Java."""
    return F.split(F.lit(_BETWEEN.join(texts)), _BETWEEN)
