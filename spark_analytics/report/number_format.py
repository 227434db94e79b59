"""Formats numbers and names for the page and for text: counted nouns, sizes, shares, lists of names."""

import unicodedata
from collections.abc import Sequence

MAX_TEXT = 300
"""Maximum characters of one text of a log or a host that are shown."""

MINUS = "\N{MINUS SIGN}"
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_KIB = 1024
_PICTURES = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421}
"""The pictures of Unicode for control characters of ASCII."""


def count(number: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def size(number: float) -> str:
    """Bytes in binary units: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < _KIB:
            return f"{number:,.0f} B" if unit == "B" else f"{number:,.1f} {unit}"
        number /= _KIB
    return f"{number:,.1f} TiB"


def percent(share: float | None) -> str:
    """`12.3 %`, where a rounded share is never shown as 0 % or 100 %."""
    if share is None:
        return "\N{EN DASH}"
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %" if share == 1 else f"{100 * share:,.0f} %"
    if share > 0.999:  # noqa: PLR2004
        return "> 99.9 %"
    if share < 0.0001:  # noqa: PLR2004
        return "< 0.01 %"
    return f"{100 * share:.2f} %" if share < 0.01 else f"{100 * share:.1f} %"  # noqa: PLR2004


def times(factor: float | None) -> str:
    """`12x`, `0.3x`, or a dash for None."""
    if factor is None:
        return "\N{EN DASH}"
    if factor >= 10:  # noqa: PLR2004
        return f"{factor:,.0f}\N{MULTIPLICATION SIGN}"
    return f"{max(factor, 0.1):.1f}\N{MULTIPLICATION SIGN}" if factor else "0"


def rounded(number: float | None) -> str:
    """`1,234`, or `2.5` for a median between two whole numbers."""
    if number is None:
        return "\N{EN DASH}"
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:,.1f}"  # noqa: PLR2004


def milliseconds(number: float | None) -> str:
    """`35 ms`, `1.20 s`."""
    if number is None:
        return "\N{EN DASH}"
    return f"{number:,.0f} ms" if number < 1000 else f"{number / 1000:,.2f} s"  # noqa: PLR2004


def clean(text: object, limit: int = MAX_TEXT) -> str:
    """`text` without control and direction characters, at most `limit` characters long.

    Log text may be hostile: it must not control a terminal or a browser.
    """
    plain = str(text)
    if plain.isprintable() and len(plain) <= limit:  # the common case; a table has 100,000 texts
        return plain
    kept = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _UNSHOWN else c for c in plain[:limit])
    return kept if len(plain) <= limit else kept[: limit - 1] + "…"


def visible(text: str, limit: int = MAX_TEXT) -> str:
    """Shows the control and direction characters of a log line: `␛`, `<U+202E>`, in about `limit` characters.

    A line that is longer is cut with `…`.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(f"<U+{ord(c):04X}>" if unicodedata.category(c) in _UNSHOWN else c for c in cut.translate(_PICTURES))


def shortened(path: str, limit: int = 48) -> str:
    """The end of a long path, which differs more than its beginning: `…/app/server.log`."""
    shown = clean(path)
    if len(shown) <= limit:
        return shown
    end = shown[-(limit - 1) :]
    return "…" + (end[end.index("/") :] if "/" in end else end)


def change(now: float, before: float | None) -> str:
    """Compares a value with an earlier one: `+12 %`, or from twice on a factor, or nothing without one."""
    if not before:
        return ""
    factor = now / before
    if factor >= 2:  # noqa: PLR2004
        return times(factor)
    percent = f"{abs(factor - 1) * 100:,.0f} %"
    return percent if percent == "0 %" else f"{'+' if factor >= 1 else MINUS}{percent}"


def listed(names: Sequence[str], whole: int) -> str:
    """`a, b and 3 more`."""
    if not names:
        return ""
    rest = whole - len(names)
    return ", ".join(names) + (f" and {rest:,} more" if rest > 0 else "")
