r"""The mask of a line: each number becomes `MASK`, and the header of the line is removed.

The rules are regular expressions that mean the same in Java (Spark) and Python: except `NUMBER` they have only explicit
ASCII classes and bounded repeats, and no `$`, `\s`, `\w` or `.`. The header is removed after the numbers are masked if
it can still be recognised, so that it is removed once for all lines that are equal by then. This module is the Python
version, `scan.line_scan` has the Spark version; a test compares their results.
"""

import functools
import json
import re
from collections.abc import Sequence

from shipper import line_zones
from shipper.line_formats import MONTHS, TIME_FAMILIES
from spark_analytics.lines.log_formats import LineKind, LogFormat

MAX_CHARACTERS = 512
"""Maximum characters of a message. A longer one is cut and gets `MASK` at its end, because its last word may be
incomplete."""

MESSAGE_KEYS = ("msg", "message", "event", "log", "MESSAGE", "short_message", "@mt", "@m")
"""Keys of the message in JSON lines; the first key that exists is used."""

_GAP = r"[ \t]"
_MONTH = f"(?:{'|'.join(MONTHS)})"
_FRACTION = r"(?:[.,:][0-9]{1,9})?"
_ZONE = (
    r"(?:Z| ?[+-](?:[0-9]{2}:[0-9]{2}|[0-9]{4}|[0-9]{2})(?![0-9])"
    rf"| (?:{line_zones.NAME})(?![A-Za-z0-9]))?"
)
_COLONS = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T\t] ?| {{1,2}}){_CLOCK}{_FRACTION}{_ZONE}"
_NAMED = rf"{_MONTH} {{1,2}}[0-9]{{1,2}} {_COLONS}{_FRACTION}(?: [0-9]{{4}}(?=\]))?"
_DOTS = r"[0-9]{2}\.[0-9]{2}\.[0-9]{2}"
_LOOSE = rf"(?:[0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}}|{_DOTS}|[0-9]{{1,2}}(?::[0-9]{{1,2}}){{2}}(?=:[0-9]{{1,3}}\|))"
_ANYWHERE = r"[^\n]{0,64}?"

# What a logger writes between the time and the message.
_LEVEL = (
    r"(?:FATAL|CRITICAL|SEVERE|ERROR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE|FAILURE"
    r"|Fatal|Critical|Severe|Error|Warning|Notice|Info|Debug|Trace)"
)
_LEVEL_SMALL = r"(?:emerg|alert|crit|error|err|warning|warn|notice|info|debug|trace[0-9]?)"
_NAME = r"[A-Za-z0-9_.$/@*#<>~+-]{1,96}+"
_NUMBERS = rf"(?:[ \t,]{{1,8}}+-?[0-9]{{1,10}}+(?={_GAP}))*+"
_WORDS = rf"(?:(?!\[)[^ \t\n]{{1,64}}+(?<!:){_GAP}{{1,4}}+){{0,4}}?"
_BRACKET = r"\[[^\[\]\n]{0,256}+(?:\[[^\[\]\n]{0,128}+\][^\[\]\n]{0,128}+){0,4}+\]"
_IN_PARENTHESES = r"(?:\([^()\n]{0,64}+\))?+"
_LEVELLED = (
    rf"[ \t,\]-]{{0,12}}+(?:{_WORDS}{_LEVEL}(?={_GAP})|{_LEVEL}:?+(?={_GAP})|[VDIWEF](?={_GAP})"
    rf"|\[(?:[a-z0-9_]{{1,24}}+:)?+(?:{_LEVEL}|{_LEVEL_SMALL})\])"
)
_SOURCE = (
    rf"(?:{_GAP}{{1,32}}+(?:{_BRACKET}(?={_GAP})|{_NAME}{_GAP}{_BRACKET}(?={_GAP})))?+"
    rf"(?:{_GAP}{{1,32}}+(?:-(?={_GAP})|{_NAME}(?:{_IN_PARENTHESES}(?:\[[^\[\]\n]{{0,64}}+\])?+:(?={_GAP}|\z)|(?={_GAP}{{2}}))))?+"
)
_TITLE = r"[^ \t\n\[\]:()]{1,128}+"
_PROGRAM = (
    rf"{_GAP}{{1,4}}+[^ \t\n]{{1,128}}+{_GAP}{{1,4}}+(?:{_TITLE} ){{0,3}}{_TITLE}{_IN_PARENTHESES}"
    r"\[[0-9]{1,10}+\](?: \([^()\n]{0,128}+\))?+:"
)
_TAG = rf"{_GAP}{{1,4}}+[^ \t\n]{{1,128}}+{_GAP}{{1,4}}+{_TITLE}{_IN_PARENTHESES}(?:{_GAP}[0-9.]{{1,16}}+)?+:"
_PIPES = r"(?:\|[^|\n]{0,64}+){1,4}\|"
_DASHED = rf"\]?+{_GAP}{{1,4}}+[^ \t\n]{{1,64}}+(?:{_GAP}\*?[0-9]{{1,8}}+)?+{_GAP}-(?={_GAP})"
_FILED = rf"{_GAP}{{1,8}}+[0-9]{{1,10}}+{_GAP}[A-Za-z0-9_.]{{1,64}}+:[0-9]{{1,6}}+\]"

_PROGRAMS = rf"(?:{_PROGRAM}|{_TAG}|\]?{_LEVELLED}{_SOURCE})?"
_LOGGERS = rf"{_NUMBERS}(?:{_LEVELLED}{_SOURCE})?"
_ALL = rf"(?:{_NUMBERS}{_LEVELLED}{_SOURCE}|{_PROGRAM}|{_FILED}|{_PIPES}|{_DASHED}|{_NUMBERS})"
_ENDS = r"[ \t\]|,]{0,32}+"
_AGAIN = rf"(?: {_ISO})?"
_EPOCH = r"1[0-9]{9}(?:\.[0-9]{1,9})?(?=[ \t])"
_CLF = rf"[0-9]{{2}}/{_MONTH}/[0-9]{{4}}:{_COLONS} [+-][0-9]{{4}}"
_ANY = (
    rf"[ \t]{{0,8}}(?:{_ANYWHERE}{_NAMED}{_PROGRAMS}"
    rf"|(?:{_ANYWHERE}(?<![0-9.:]){_LOOSE}{_FRACTION}{_ZONE}{_AGAIN}|[0-9]{{6}} [0-9]{{6}}(?= )"
    rf"|(?:[^ \n]{{1,64}} ){{0,5}}?{_EPOCH}){_ALL})"
)

_HEADERS = {
    "any": _ANY,
    "epoch_dated": (
        rf"[^ \n]{{1,64}}+ [0-9]{{10}} [0-9]{{4}}\.[0-9]{{2}}\.[0-9]{{2}} [^ \n]{{1,64}}+ "
        rf"(?:{_NAMED}{_PROGRAMS}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}-{_DOTS}{_FRACTION}{_LOGGERS}|)"
    ),
    "epoch_json": _ANY,
    "iso_utc": rf"{_ISO}{_ALL}",
    "iso": rf"{_ANYWHERE}{_ISO}{_ALL}",
    "rfc3164": rf"(?:<[0-9]+>)?{_NAMED}{_PROGRAMS}",
    "apache_error": rf"\[[A-Z][a-z]{{2}} {_NAMED}{_PROGRAMS}",
    "spark": rf"[0-9]{{2}}/[0-9]{{2}}/[0-9]{{2}} {_COLONS}{_FRACTION}{_LOGGERS}",
    "nginx_error": rf"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}} {_COLONS}{_FRACTION}{_LOGGERS}",
    "hdfs": rf"[0-9]{{6}} [0-9]{{6}}{_LOGGERS}",
    "android": rf"[0-9]{{2}}-[0-9]{{2}} {_COLONS}{_FRACTION}{_LOGGERS}",
    "healthapp": rf"[0-9]{{8}}-[0-9]{{1,2}}:[0-9]{{1,2}}:[0-9]{{1,2}}{_FRACTION}(?:{_PIPES})?",
    "proxifier": rf"\[[0-9]{{2}}\.[0-9]{{2}} {_COLONS}(?:{_DASHED})?",
    "klog": rf"[IWEF][0-9]{{4}} {_COLONS}{_FRACTION}(?:{_FILED}|{_LOGGERS})",
    "epoch_fifth": rf"(?:[^ \n]{{1,64}} ){{4}}{_EPOCH}{_LOGGERS}",
    "epoch_first": rf"[0-9]{{10,19}}(?:\.[0-9]{{1,9}})?(?=[ \t]){_ALL}",
    "clf": rf"[^\n]{{0,140}}?{_CLF}",
}
_OTHERS = {
    one.name: (one.pattern.removeprefix("^") if one.is_anchored else _ANYWHERE + one.pattern) + _ALL
    for one in TIME_FAMILIES
    if one.name not in _HEADERS
}
_HEADERS |= _OTHERS
"""The header before the message, by time family. All except `any` start at a fixed position and are faster."""

_BY_DIGITS = frozenset({"any", "epoch_json", "clf", *_OTHERS})
"""Families whose times are recognised by their digits only: `1700000000` is a time, 7 is not."""

NUMBER, PYTHON_NUMBER = r"\p{Nd}\p{Nd}*", r"\d+"
"""What becomes `MASK`, in digits of any script, for Java and for Python. Java matches this faster than `\\p{Nd}+`."""

MASK = "0"

PRI = r"^<\p{Nd}+>"
"""Syslog's PRI, which has the level. It is kept until the level is evaluated."""

_DIGITS = re.compile(r"1?\[0-9\]\{[0-9,]+\}\+?")


@functools.cache
def header_before_masking(family: str) -> str:
    """Pattern of the header that is removed before numbers are masked; empty: none."""
    return f"^{_HEADERS[family]}{_ENDS}" if family in _BY_DIGITS else ""


@functools.cache
def header_after_masking(family: str) -> str:
    """Pattern of the header that is removed after numbers are masked; empty: none."""
    if family in _BY_DIGITS or family not in _HEADERS:
        return ""
    return f"^{_DIGITS.sub(MASK, _HEADERS[family])}{_ENDS}"


_REQUEST = re.compile(r'\] "([A-Za-z]{1,16})(?: [^"]*)?" ([0-9]{3}) ')


_MAX_HEADERS, _HEADER_FACTOR = 2, 1.5
_UNEVEN_FACTOR = 4  # so many times more distinct lines
_HIDDEN = str.maketrans("123456789", MASK * 9)
_NUMBER = re.compile(PYTHON_NUMBER)


@functools.cache
def _compiled(header: str) -> re.Pattern[str]:
    return re.compile(header.replace(r"\z", r"\Z"), re.ASCII)


def masked(message: str, family: str) -> str:
    """`message` with each number replaced by `MASK`, and without the header of `family`."""
    if len(message) > MAX_CHARACTERS:
        message = message[:MAX_CHARACTERS] + MASK
    if header := header_before_masking(family):
        message = _compiled(header).sub("", message)
    text = _NUMBER.sub(MASK, message)
    header = header_after_masking(family)
    return _compiled(header).sub("", text) if header else text


def varies(lines: Sequence[str], family: str) -> bool:
    """Whether the headers of `lines` differ so much that they have to be removed before lines are grouped."""
    whole = {_NUMBER.sub(MASK, line[:MAX_CHARACTERS]) for line in lines}
    return len(whole) > _MAX_HEADERS + _HEADER_FACTOR * len({masked(line, family) for line in lines})


def uneven(lines: Sequence[str]) -> bool:
    """Whether `lines` with hidden digits are mostly distinct, and with masked numbers much fewer are."""
    hidden = {line[:MAX_CHARACTERS].translate(_HIDDEN) for line in lines}
    numbered = {_NUMBER.sub(MASK, line) for line in hidden}
    return 2 * len(hidden) > len(lines) and len(hidden) > _UNEVEN_FACTOR * len(numbered)


def pattern_text(line: str, writing: LogFormat) -> str:
    """The text of `line` for pattern mining: its masked message; of a request the method and the status."""
    if writing.kind is LineKind.ACCESS and (request := _REQUEST.search(line)):
        return " ".join(request.groups())
    if writing.kind is LineKind.JSON and (message := _message(line)) is not None:
        return masked(message, writing.family)
    return masked(line, writing.family)


def _message(line: str) -> str | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    value = next((fields[key] for key in MESSAGE_KEYS if fields.get(key) is not None), None)
    return value if isinstance(value, str | None) else json.dumps(value)
