"""What is a parameter by its shape alone: from a masked text to the tokens of its first template.

Masked texts come in here once each, so that these rules may be many; every one of them runs in linear time.
"""

import re

from spark_analytics.patterns.model import WILD
from spark_analytics.patterns.tokens import Template

MOST_TOKENS = 64
"""Tokens of a template; what follows them is cut off."""

_W = re.escape(WILD)
_BRACES = 4
"""Levels of nested braces that are seen as one value."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_TLD = r"(?:com|org|net|edu|gov|mil|int|info|biz|io|local|localdomain|internal|lan|arpa|[a-z]{2})"
_UNIT = r"(?:(?:[kKMGTP]i?)?[bB]|[mun]?s|secs?|msecs?|[kKMG]?Hz|%)"

_IN_PATH = r"[^\s\"'<>(){}\[\],;|=?]"
_IN_WORD = r"[\w.@$*#%~/\\?!&+^`-]"

_SHAPES = (
    # Dates in words, with or without the time, the zone and the year that belong to them.
    (rf"\b{_WEEKDAY},? +{_MONTH} +0(?: 0(?::0)*(?:\.0)?)?(?: [A-Z]{{3,4}})?(?: 0)?(?![\w.])", WILD),
    (rf"\b(?:{_MONTH} +0|0 {_MONTH})(?:,? 0(?::0)*)?(?![\w.])", WILD),
    # Addresses of things: URLs, paths, hosts, e-mail.
    (r"(?<![\w+.-])[A-Za-z][\w+.-]{0,64}://(?:[^\s\"'<>(){}\[\],;|]*[^\s\"'<>(){}\[\],;|:.])?", WILD),
    (r"(?:(?<![^\s\"'=:,\[({<])[A-Za-z]:)?\\(?:[^\s\\\"'<>(){}\[\],;|=]+\\)+[^\s\"'<>(){}\[\],;|=]*", WILD),
    (rf"(?<![^\s\"'=:,\[({{<@])(?:~|\.{{1,2}})?/(?:{_IN_PATH}*(?![:.]){_IN_PATH})?(?:\?[^\s\"'<>]*)?", WILD),
    (r"(?<![^\s\"'=,\[({<])[\w.+-]+(?:/[\w.+$-]+){2,}/?", WILD),
    (rf"(?<![\w.@/$-])(?:[\w.+-]{{1,64}}@)?(?:[a-z_][a-z_-]*\.)+{_TLD}(?![\w.$-]*[\w$-])", WILD),
    (r"(?<![\w:])(?=[A-Fa-f:]*0)(?:[0-9A-Fa-f]{0,4}:){3,}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![\w:])", WILD),
    (r"(?<![\w.@/$-])[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+:0(?![\w.])", WILD),
    # Numbers in a word: hexadecimal digits without one, then every word with one.
    (r"(?<![\w.])(?:[a-f]{8,}|[A-F]{8,}|f{4,})(?![\w.])", "0"),
    (rf"<?(?<![\w.+-])[+-]?0(?:\.0)? ?{_UNIT}(?![\w/-]|\.\w)", WILD),
    (rf"(?<!{_IN_WORD})(?:(?!0){_IN_WORD})*0{_IN_WORD}*", WILD),
    # Values behind an equals sign, truth values, rules of asterisks.
    (r"(?<==)( ?)\"[^\"]{0,200}\"", rf"\1{WILD}"),
    (r"(?<==)( ?)(?:[A-Za-z_$.-][\w.$@/+-]*\*?)(?![\w.$@/+-]|\s?=)", rf"\1{WILD}"),
    (r"(?<![\w.$-])(?:true|false|null|TRUE|FALSE|NULL|nil|None|True|False)(?![\w.$-])", WILD),
    (r"(?<![^\s\"'=:,;(\[{])[*#=_~.-]{4,}(?![^\s\"'=:,;)\]}])", WILD),
    # Quoted words; sentences in quotes are taken as they are.
    (r"\"[^\s\"]{1,200}\"(?!\s?:)", f'"{WILD}"'),
    (r"(?<![A-Za-z])'[^\s']{1,200}'(?![A-Za-z])", f"'{WILD}'"),
)
_RULES = tuple((re.compile(pattern, re.ASCII), text) for pattern, text in _SHAPES)

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")
_BRACED = re.compile(r"\{[^{}]*\}")
_MEMBER = re.compile(r"(?<=\"):\s?(?:\"[^\"]*\"?|[^\s,{}\[\]\"][^,{}\[\]\"]*)")
_LOGFMT = re.compile(r"(?:[\w.-]+=(?:\"[^\"]*\"|[^\s\"]*) )*(?:msg|message)=\"([^\"]*)", re.ASCII)
_RUN = re.compile(rf"{_W}(?:[ \t]?[,;:/@.+*|#&?-]?[ \t]?{_W})+")
_OPTIONAL = re.compile(rf" \((?:{_W}|,| )*\)")
_BRACKETED = re.compile(rf"{_W}(?:\({_W}\)|\[{_W}\]|\{{{_W}\}})")


def shaped(masked: str) -> Template:
    """The tokens of `masked` with every parameter that its shape betrays as `WILD`; none for an empty message."""
    text = _SPACE.sub(" ", masked).strip().replace(WILD, "0")
    if text.startswith('{"'):
        text = _MEMBER.sub(f":{WILD}", text)
        return tuple(text.split(" ", MOST_TOKENS)[:MOST_TOKENS])
    text = found[1] if (found := _LOGFMT.match(text)) and found[1] else text
    for _ in range(_BRACES):
        text = _BRACED.sub("\x01", text)
    text = text.replace("\x01", "{0}")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    for _ in range(2):
        text = _RUN.sub(WILD, _BRACKETED.sub(WILD, _OPTIONAL.sub("", _RUN.sub(WILD, text))))
    return tuple(text.split(" ", MOST_TOKENS)[:MOST_TOKENS]) if text else ()
