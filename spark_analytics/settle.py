"""Where Spark's reader and `wc -l -c` differ, and what gives way: values only.

An unterminated last line is a row to Spark and no line to `wc`; and the reader eats a byte order mark at the start of a
file. Both show as a certain difference between what was counted and the listed sizes, so no second pass is needed.
"""

from dataclasses import dataclass

BYTE_ORDER_MARK = 3
"""Bytes of U+FEFF in UTF-8, which Hadoop's line reader skips at the start of a file."""

Place = tuple[int, int]
"""Where a row lies in its segment: (start of the block, number in it)."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the scan counted of a segment."""

    segment: int
    lines: int
    bytes: int
    first: Place
    last: Place


@dataclass(frozen=True, slots=True)
class Settled:
    """What `wc` would have counted of a segment, and which rows' groups have to give or get the difference."""

    lines: int
    bytes: int
    surplus: int = 0  #: 1: the last row's group gives back one line and one byte
    mark: int = 0  #: bytes that the first row's group gets


NOTHING = Settled(0, 0)


def settled(counted: Counted | None, *, lines_manifest: int, bytes_there: int) -> Settled:
    """The account of a segment of which `lines_manifest` lines are listed and `bytes_there` bytes can be read."""
    if counted is None:  # a file of a byte order mark alone yields no row, and nobody misses three bytes of no line
        return Settled(0, bytes_there) if bytes_there == BYTE_ORDER_MARK and not lines_manifest else NOTHING
    extra_lines, extra_bytes = counted.lines - lines_manifest, counted.bytes - bytes_there
    cut = extra_lines == 1 and extra_bytes == 1 - BYTE_ORDER_MARK
    surplus = int(cut or extra_bytes == 1)
    mark = BYTE_ORDER_MARK if cut or (extra_lines == 0 and extra_bytes == -BYTE_ORDER_MARK) else 0
    return Settled(counted.lines - surplus, counted.bytes - surplus + mark, surplus, mark)
