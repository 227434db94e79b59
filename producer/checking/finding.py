"""What a check found: a sign, a sentence, and the next step where something is wrong."""

import enum
from typing import NamedTuple


class Sign(enum.Enum):
    """How it stands."""

    GOOD = "ok"
    NOTE = "info"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(NamedTuple):
    """One check."""

    check: str  #: a stable name, for scripts
    sign: Sign
    text: str
    hint: str = ""


def good(check: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(check, Sign.GOOD, text)


def note(check: str, text: str, hint: str = "") -> Finding:
    """It is neither good nor bad."""
    return Finding(check, Sign.NOTE, text, hint)


def warning(check: str, text: str, hint: str) -> Finding:
    """It works, and may hurt one day."""
    return Finding(check, Sign.WARNING, text, hint)


def wrong(check: str, text: str, hint: str) -> Finding:
    """It does not work."""
    return Finding(check, Sign.WRONG, text, hint)
