"""What is read again after a kill, against what the spool has of it already. Pure."""

from typing import NamedTuple


class Step(NamedTuple):
    """What to do with bytes that were read."""

    again: bytes  #: in the spool, still to be read again
    new: bytes  #: to be appended
    differs: bool  #: what was read is not what the spool holds: its torn last line will not be completed


def step(again: bytes, data: bytes) -> Step:
    """`again`: what the spool holds and is expected to be read again; `data`: whole lines that were read now."""
    if again.startswith(data):
        return Step(again[len(data) :], b"", differs=False)
    if data.startswith(again):
        return Step(b"", data[len(again) :], differs=False)
    same = next(index for index, (old, new) in enumerate(zip(again, data, strict=False)) if old != new)
    return Step(b"", data[data.rfind(b"\n", 0, same) + 1 :], differs=True)


def reached(again: bytes, line: bytes) -> tuple[bytes, int]:
    """What of `again` begins with `line`, and how many whole lines are before it; b"" where it does not come."""
    at = whole = 0
    for held in _lines(again):
        if line.startswith(held):
            return again[at:], whole
        at, whole = at + len(held), whole + held.endswith(b"\n")
    return b"", whole


def _lines(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]
