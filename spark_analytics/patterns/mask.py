r"""The masks of lines, once, in the regular expressions that Java and Python have in common.

Java runs them in Spark, Python on the lines of one file: so, but for `NUMBER`, only ASCII classes that are spelled out,
bounded repeats and no `$`, `\s`, `\w` or `.`. Each number becomes `MASK`, and the header of a line is cut off: behind
the masking where that leaves the header to be known by, so that one cut serves all lines that are alike by then.
`masking` and `columns` do it, and a test holds them against each other.

The mask of a line, in Python: the same text as `columns.masked` gives in Spark.
"""

import functools
import json
import re
from collections.abc import Sequence

from spark_analytics.lines.log_formats import MONTHS, Kind, Writing

MOST_CHARACTERS = 512
"""Characters of a message that are looked at. A longer one is cut there and ends with `MASK`, as its last word may be
half a word."""

MESSAGE_KEYS = ("msg", "message", "event", "log")
"""The keys under which JSON lines have their message; the first that is there."""

_GAP = r"[ \t]"
_MONTH = f"(?:{'|'.join(MONTHS)})"
_FRACTION = r"(?:[.,:][0-9]{1,9})?"
_ZONE = r"(?:Z| ?[+-](?:[0-9]{2}:[0-9]{2}|[0-9]{4})(?![0-9]))?"
_COLONS = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_COLONS}{_FRACTION}{_ZONE}"
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
"""What stands before the message, by how the time is written. All but `any` begin at a fixed place and are quicker."""

_BY_DIGITS = frozenset({"any", "epoch_json", "clf"})
"""Where only the digits tell what is a time: `1700000000` is one, 7 is not."""

NUMBER, PYTHON_NUMBER = r"\p{Nd}\p{Nd}*", r"\d+"
"""What becomes `MASK` in the message, in digits of any script: Java's and Python's name for them. Java looks for the
one digit quicker than for `\\p{Nd}+`."""

MASK = "0"

BEGUN = r"^<\p{Nd}+>"
"""Where syslog's PRI stands, which tells the level; other numbers there must not pass for it when they are masked."""

_DIGITS = re.compile(r"1?\[0-9\]\{[0-9,]+\}\+?")


@functools.cache
def ahead(family: str) -> str:
    """What is cut off the lines of a log file of that family before their numbers are masked; empty: nothing."""
    return f"^{_HEADERS[family]}{_ENDS}" if family in _BY_DIGITS else ""


@functools.cache
def behind(family: str) -> str:
    """What is cut off the lines of a log file of that family when their numbers are masked; empty: nothing."""
    if family in _BY_DIGITS or family not in _HEADERS:
        return ""
    return f"^{_DIGITS.sub(MASK, _HEADERS[family])}{_ENDS}"


_REQUEST = re.compile(r'\] "([A-Za-z]{1,16})(?: [^"]*)?" ([0-9]{3}) ')


_FEW_HEADERS, _OFTEN = 2, 1.5
_UNEVEN = 4  # times as many different lines
_HIDDEN = str.maketrans("123456789", MASK * 9)
_NUMBER = re.compile(PYTHON_NUMBER)


@functools.cache
def _compiled(header: str) -> re.Pattern[str]:
    return re.compile(header.replace(r"\z", r"\Z"), re.ASCII)


def masked(message: str, family: str) -> str:
    """`message` with each number a `0`, without its header, if lines of that family have one."""
    if len(message) > MOST_CHARACTERS:
        message = message[:MOST_CHARACTERS] + MASK
    if header := ahead(family):
        message = _compiled(header).sub("", message)
    text = _NUMBER.sub(MASK, message)
    header = behind(family)
    return _compiled(header).sub("", text) if header else text


def varies(lines: Sequence[str], family: str) -> bool:
    """Whether `lines` of that family are so much more alike without their headers that these are to be cut at once."""
    whole = {_NUMBER.sub(MASK, line[:MOST_CHARACTERS]) for line in lines}
    return len(whole) > _FEW_HEADERS + _OFTEN * len({masked(line, family) for line in lines})


def uneven(lines: Sequence[str]) -> bool:
    """Whether `lines` with hidden digits are mostly different, and with each number a `0` so much more alike."""
    hidden = {line[:MOST_CHARACTERS].translate(_HIDDEN) for line in lines}
    numbered = {_NUMBER.sub(MASK, line) for line in hidden}
    return 2 * len(hidden) > len(lines) and len(hidden) > _UNEVEN * len(numbered)


def told(line: str, writing: Writing) -> str:
    """What stands for `line` where patterns are sought: its message masked, or of a request the method and status."""
    if writing.kind is Kind.ACCESS and (request := _REQUEST.search(line)):
        return " ".join(request.groups())
    if writing.kind is Kind.JSON and (message := _message(line)) is not None:
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
