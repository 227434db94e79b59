"""Reconciles what Spark counted of a segment with what `wc -l -c` would count. Pure.

Spark's reader differs from `wc` in two cases: an unterminated last line is a row but not a line, and the reader skips a
byte order mark at the start of a file. Both show as a difference between the counted and the listed numbers; only such
a segment is read again.
"""

from dataclasses import dataclass

BOM_BYTES = 3
"""Bytes of U+FEFF in UTF-8, which Hadoop's line reader skips at the start of a file."""

RowPosition = tuple[int, int]
"""The position of a row in its segment: (start of the block, number in the block)."""


@dataclass(frozen=True, slots=True)
class SegmentCount:
    """What the scan counted of a segment."""

    segment: int
    lines: int
    bytes: int
    first: RowPosition
    last: RowPosition


@dataclass(frozen=True, slots=True)
class ReconciledCount:
    """What `wc` would have counted of a segment, and the corrections of the groups of its first and last row."""

    lines: int
    bytes: int
    unterminated: int = 0  #: 1: the group of the last row has one line and one byte too many
    bom_bytes: int = 0  #: bytes that the group of the first row lacks


EMPTY_COUNT = ReconciledCount(0, 0)


def reconcile(counted: SegmentCount | None, *, lines_manifest: int, bytes_there: int) -> ReconciledCount | None:
    """The count of a segment whose manifest lists `lines_manifest` lines and of which `bytes_there` bytes can be read.

    None if the scan counted other numbers: then `reconcile_with_content` decides.
    """
    if counted is None:  # a file that consists of a byte order mark has no row
        return ReconciledCount(0, bytes_there) if bytes_there == BOM_BYTES and not lines_manifest else EMPTY_COUNT
    agree = (counted.lines, counted.bytes) == (lines_manifest, bytes_there)
    return ReconciledCount(counted.lines, counted.bytes) if agree else None


def reconcile_with_content(counted: SegmentCount, *, has_bom: bool, is_unterminated: bool) -> ReconciledCount:
    """The count of a segment of which the first and last bytes were read.

    The numbers in the manifest are not used: a false manifest line must not produce a false total.
    """
    unterminated, bom_bytes = int(is_unterminated), BOM_BYTES if has_bom else 0
    return ReconciledCount(
        counted.lines - unterminated, counted.bytes - unterminated + bom_bytes, unterminated, bom_bytes
    )
