"""Where to cut what is read into pieces: after whole lines, and after whole characters of an over-long one."""

from collections.abc import Callable
from dataclasses import dataclass

from producer.charset import Charset
from producer.transform.time_budget import Budget
from shipper.model import MAX_BLOCK_BYTES

GROWN_BYTES = MAX_BLOCK_BYTES // 3 * 2 - 16
"""The most UTF-16 that fits into a block as UTF-8: two bytes may become three."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut what is read into pieces."""

    block_bytes: int
    line_a_piece: bool  #: PLAIN encoding: one line a message
    lead_bytes: int = 0  #: of a line's first piece, what its later pieces carry along
    charset: str = ""  #: utf-16, utf-16-le, utf-16-be: what files may be written in
    seam: Callable[[bytes], int] | None = None  #: where an over-long line is best cut
    budget: Budget | None = None  #: of the patterns that pieces are edited by; None: by none

    def read_bytes(self, charset: Charset) -> int:
        """Maximum bytes of one read."""
        return self.block_bytes if charset is Charset.BYTES else min(self.block_bytes, GROWN_BYTES)

    def taken(self, data: bytes, *, flush: bool, charset: Charset = Charset.BYTES, at: int = 0) -> int:
        """How many bytes of `data` make the next piece; 0: wait for more. `flush`: an unterminated last line too.

        `at`: offset of `data` in its file.
        """
        behind = charset.first_end(data, 0, at=at) if self.line_a_piece else charset.last_end(data, at=at)
        if behind:
            return behind
        if len(data) >= self.read_bytes(charset):
            return self._seam(data, charset, at)  # an over-long line is split over pieces, never cut short or dropped
        return len(data) if flush else 0

    def first_piece(self, line: bytes, charset: Charset) -> bytes:
        """The piece that a long line began with, as it was cut before a restart."""
        most = self.read_bytes(charset)
        return line if len(line) < most else line[: self._seam(line[:most], charset, 0)]

    def _seam(self, data: bytes, charset: Charset, at: int) -> int:
        behind = self.seam(data) if self.seam and charset is Charset.BYTES else len(data)
        return charset.whole(data[:behind], at=at)
