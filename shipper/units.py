"""Texts for people: sizes and durations (`256KiB`, `10s`, `1h30m`), and names that a terminal can show."""

import re

from shipper.errors import UsageError

_SIZES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 1000**2, "mb": 1000**2, "g": 1000**3, "gb": 1000**3, "tb": 1000**4}
_SIZES |= {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_STEP = 1024


def parse_size(text: object) -> int:
    """Bytes in `text`, a number or a text such as `256KiB`, `1GB`. Raises ValueError: it is neither."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    found = _SIZE.fullmatch(str(text))
    if not found or found[2].lower() not in _SIZES:
        raise ValueError(f"{text!r} is no size; write for example 512, 256KiB or 8MiB")
    return round(float(found[1]) * _SIZES[found[2].lower()])


def parse_seconds(text: object) -> float:
    """Seconds in `text`, a number or a text such as `500ms`, `10s`, `1h30m`. Raises ValueError: it is neither."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    plain = str(text).strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    if not plain or _DURATION.sub("", plain):
        raise ValueError(f"{text!r} is no duration; write for example 500ms, 10s or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(plain))


def seconds_of(text: str, option: str) -> float:
    """Seconds in the value of `option`, as 90s or 2h. Raises UsageError."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def counted(number: int, noun: str, nouns: str = "") -> str:
    """`number` of something for people: `1 file`, `31,402 lines`; `nouns`: the plural that is no `s` more."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def exact_size(count: int) -> str:
    """`count` bytes as `parse_size` reads them, in the largest unit that divides them: `512KiB`, `1500`."""
    for unit, size in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def exact_seconds(seconds: float) -> str:
    """`seconds` as `parse_seconds` reads them, in the largest unit that divides them: `10s`, `1d`, `500ms`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def format_bytes(count: float) -> str:
    """`count` bytes for people: `512 B`, `1.5 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < _STEP:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} TiB"


def format_duration(seconds: float) -> str:
    """`seconds` for people, one unit: `8 s`, `5 min`, `3 h`, `12 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def printable(text: str) -> str:
    r"""`text` with `\x1b` for an escape, and so on: no terminal obeys it. Bytes that are no UTF-8 become `\udcff`."""
    if text.isprintable():
        return text
    shown = (char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text)
    return "".join(shown)
