"""The mask of a line, in Python: the same text as `columns.masked` gives in Spark."""

import functools
import json
import re
from collections.abc import Sequence

from spark_analytics.families import Kind, Writing
from spark_analytics.patterns import rules

_REQUEST = re.compile(r'\] "([A-Za-z]{1,16})(?: [^"]*)?" ([0-9]{3}) ')


_FEW_HEADERS, _OFTEN = 2, 1.5
_UNEVEN = 4  # times as many different lines
_HIDDEN = str.maketrans("123456789", rules.MASK * 9)
_NUMBER = re.compile(rules.PYTHON_NUMBER)


@functools.cache
def _compiled(header: str) -> re.Pattern[str]:
    return re.compile(header.replace(r"\z", r"\Z"), re.ASCII)


def masked(message: str, family: str) -> str:
    """`message` with each number a `0`, without its header, if lines of that family have one."""
    if len(message) > rules.MOST_CHARACTERS:
        message = message[: rules.MOST_CHARACTERS] + rules.MASK
    if header := rules.ahead(family):
        message = _compiled(header).sub("", message)
    text = _NUMBER.sub(rules.MASK, message)
    header = rules.behind(family)
    return _compiled(header).sub("", text) if header else text


def varies(lines: Sequence[str], family: str) -> bool:
    """Whether `lines` of that family are so much more alike without their headers that these are to be cut at once."""
    whole = {_NUMBER.sub(rules.MASK, line[: rules.MOST_CHARACTERS]) for line in lines}
    return len(whole) > _FEW_HEADERS + _OFTEN * len({masked(line, family) for line in lines})


def uneven(lines: Sequence[str]) -> bool:
    """Whether `lines` with hidden digits are mostly different, and with each number a `0` so much more alike."""
    hidden = {line[: rules.MOST_CHARACTERS].translate(_HIDDEN) for line in lines}
    numbered = {_NUMBER.sub(rules.MASK, line) for line in hidden}
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
    value = next((fields[key] for key in rules.MESSAGE_KEYS if fields.get(key) is not None), None)
    return value if isinstance(value, str | None) else json.dumps(value)
