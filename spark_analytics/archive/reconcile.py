"""Where Spark's reader and `wc -l -c` differ, and what gives way: values only.

An unterminated last line is a row to Spark and no line to `wc`; and the reader eats a byte order mark at the start of a
file. Both show as a difference between what was counted and what is listed, and only such a segment is looked at.
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


def settled(counted: Counted | None, *, lines_manifest: int, bytes_there: int) -> Settled | None:
    """The account of a segment of which `lines_manifest` lines are listed and `bytes_there` bytes can be read.

    None where they are not what was counted: then `looked_at` says who is right.
    """
    if counted is None:  # a file of a byte order mark alone yields no row, and nobody misses three bytes of no line
        return Settled(0, bytes_there) if bytes_there == BYTE_ORDER_MARK and not lines_manifest else NOTHING
    agree = (counted.lines, counted.bytes) == (lines_manifest, bytes_there)
    return Settled(counted.lines, counted.bytes) if agree else None


def looked_at(counted: Counted, *, is_marked: bool, is_cut: bool) -> Settled:
    """The account of a segment that begins with a byte order mark, or whose last line has no newline.

    What the manifest lists has no say in it, for a line that lies must not make a wrong total.
    """
    surplus, mark = int(is_cut), BYTE_ORDER_MARK if is_marked else 0
    return Settled(counted.lines - surplus, counted.bytes - surplus + mark, surplus, mark)
