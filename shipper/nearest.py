"""Finds the known name that a mistyped one is most like."""

import difflib
from collections.abc import Iterable

CUTOFF = 0.6
"""Least similarity of two names, from 0 to 1."""


def nearest(wanted: str, known: Iterable[str]) -> str:
    """The known name that is most like `wanted`, in any case of letters, or the only one that begins so; or empty."""
    by_fold = {name.casefold(): name for name in known}
    fold = wanted.casefold()
    if best := difflib.get_close_matches(fold, by_fold, 1, CUTOFF):
        return by_fold[best[0]]
    begun = [name for each, name in by_fold.items() if fold and each.startswith(fold)]
    return begun[0] if len(begun) == 1 else ""


def did_you_mean(wanted: str, known: Iterable[str], *, before: str = "") -> str:
    """`did you mean web1? `, to begin a hint, or empty. `before`: what is typed before the name."""
    best = nearest(wanted, known)
    return f"did you mean {before}{best}? " if best else ""
