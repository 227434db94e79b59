"""One source being read: its open file, how far it is read, and the sums up to there."""

import enum
import os
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from producer.identity import HEAD_BYTES, TAIL_BYTES, Mark, first_mark, read_ends
from producer.source import Source
from shipper.model import End, Span

GUARD_BYTES = 64
"""Bytes before the offset that every read takes along: if they changed, the file was rewritten under us."""


class Piece(NamedTuple):
    """Bytes read from a source, with what the checkpoint needs when they are acknowledged."""

    source: str
    file: str
    origin: int
    span: Span
    data: bytes
    source_crc: int
    mark: Mark
    end: End | None = None
    gap: int = 0


class Tip(enum.Enum):
    """What lies behind the last byte that was read."""

    MORE = "more"  #: probably more to read
    NOTHING = "nothing"  #: the end of the file, behind a newline
    REST = "rest"  #: a line without its newline, held back
    REWRITTEN = "rewritten"  #: the file is shorter, or has other bytes before the offset


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut what is read into blocks."""

    block_bytes: int
    line_a_piece: bool  #: PLAIN encoding: one line a message


class Tail:
    """The open file of one source. Owned by `Sources`; raises OSError where a read fails: that is "unknown"."""

    def __init__(self, source: Source, descriptor: int, path: str) -> None:
        self.id = source.id
        self.file = source.file
        self.origin = source.origin
        self.path = path  #: where the file lies now
        self.descriptor = descriptor
        self.offset = source.offset
        self.crc = source.crc
        self.limit: int | None = None  #: `--once`: read no further
        self.present = True  #: some name that is watched leads to it
        self.left_at: float | None = None  #: monotonic time of the last news since it left its first name
        self.tip = Tip.MORE
        self.ending = False  #: its last block was read
        stat = os.fstat(descriptor)
        self.device, self.inode = stat.st_dev, stat.st_ino
        self.size, self.mtime_ns = stat.st_size, stat.st_mtime_ns
        self._head, self._before = read_ends(descriptor, source.offset)
        self.start = source.mark if source.offset else first_mark(descriptor, 0)  #: while nothing of it is read
        self.marked = source.mark.head_length > 0  #: the checkpoint knows what it begins with; not read before
        self._largest = max(self.size, source.size)
        self._ahead, self._ahead_at = b"", 0  # read already, not cut yet (one line a piece)

    @property
    def key(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode

    @property
    def mark(self) -> Mark:
        """What identifies the file up to the offset."""
        return self.start if self.offset == 0 else Mark.of(self.offset, self._head, self._before)

    def look(self) -> int:
        """Notice growth, truncation, and a rewrite that kept the size.

        Returns how many bytes behind the offset were there and are gone, though what was read before them stays: a
        program that cuts off its own torn last line does that.
        """
        stat = os.fstat(self.descriptor)
        changed = stat.st_mtime_ns != self.mtime_ns or stat.st_size != self.size
        self.size, self.mtime_ns = stat.st_size, stat.st_mtime_ns
        if stat.st_size < self._largest and (self.offset == 0 or stat.st_size < self.offset):
            self.tip = Tip.REWRITTEN  # nothing was read yet: what is there now may be anything
        elif changed and not self._guard_holds():
            self.tip = Tip.REWRITTEN
        elif changed:
            self.tip = Tip.MORE
            if self.offset == 0:
                self.start = first_mark(self.descriptor, 0)
        if self.tip is Tip.REWRITTEN:
            return 0  # the farewell says what was lost
        lost, self._largest = max(0, self._largest - stat.st_size), stat.st_size
        return lost

    def read(self, cut: Cut, *, flush: bool) -> Piece | None:
        """The next whole lines, at most one block; `flush`: an unterminated last line too.

        None: there is nothing to ship now; `tip` says why.
        """
        if not self.marked:
            self.tip = Tip.NOTHING
            return None
        if cut.line_a_piece and (line := self._line_ahead()):
            return self._advance(line)
        data = self._pread(cut.block_bytes)
        if data is None:
            self.tip = Tip.REWRITTEN
            return None
        taken = _cut(data, cut, flush=flush)
        if taken == 0:
            self.tip = Tip.REST if data else Tip.NOTHING
            return None
        if cut.line_a_piece:
            self._ahead, self._ahead_at = data, taken
        self.tip = Tip.MORE
        return self._advance(data[:taken] if taken < len(data) else data)

    def finish(self, why: End) -> Piece:
        """The last, empty piece of the source; bytes that were seen but can never be read are its gap."""
        self.ending = True
        gap = max(0, self._largest - self.offset) if why is End.TRUNCATED else 0
        span = Span(self.offset, self.offset)
        return Piece(self.id, self.file, self.origin, span, b"", self.crc, self.mark, why, gap)

    def forget_ahead(self) -> None:
        """Keep nothing in memory between two turns; what was not cut yet is read again."""
        self._ahead, self._ahead_at = b"", 0

    def has_more(self) -> bool:
        """Whether somebody wrote behind the last block; unknown counts as no."""
        try:
            return self.limit is None and os.fstat(self.descriptor).st_size > self.offset
        except OSError:
            return False

    def may_come_back(self) -> bool:
        """Whether some name still leads to the file, or that is unknown; its inode number means nothing otherwise."""
        try:
            return os.fstat(self.descriptor).st_nlink > 0
        except OSError:
            return True

    @property
    def unread_bytes(self) -> int:
        """Bytes that the last look found behind the offset, up to the limit."""
        return max(0, min(self.size, self.size if self.limit is None else self.limit) - self.offset)

    def close(self) -> None:
        """Let the file go."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _guard_holds(self) -> bool:
        if self.offset == 0:
            return self.start.agrees(self.descriptor)
        guard = self._before[-GUARD_BYTES:]
        return os.pread(self.descriptor, len(guard), self.offset - len(guard)) == guard

    def _pread(self, block_bytes: int) -> bytes | None:
        """Bytes from the offset on; None when the bytes before it are not the ones that were read."""
        guard = self._before[-GUARD_BYTES:]
        size = block_bytes if self.limit is None else min(block_bytes, max(0, self.limit - self.offset))
        found = os.pread(self.descriptor, len(guard) + size, self.offset - len(guard))
        known = found.startswith(guard) if self.offset else self.start.is_head_of(found)
        return found[len(guard) :] if known else None

    def _line_ahead(self) -> bytes:
        """The next whole line of what was read already; b"" when there is none."""
        end = self._ahead.find(b"\n", self._ahead_at) + 1
        if end == 0:
            self.forget_ahead()
            return b""
        line, self._ahead_at = self._ahead[self._ahead_at : end], end
        return line

    def _advance(self, data: bytes) -> Piece:
        start, self.offset = self.offset, self.offset + len(data)
        self.crc = zlib.crc32(data, self.crc)
        if len(self._head) < HEAD_BYTES and start == len(self._head):
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._before = data[-TAIL_BYTES:] if len(data) >= TAIL_BYTES else (self._before + data)[-TAIL_BYTES:]
        return Piece(self.id, self.file, self.origin, Span(start, self.offset), data, self.crc, self.mark)


def _cut(data: bytes, cut: Cut, *, flush: bool) -> int:
    """How many bytes of `data` make the next piece; 0: wait for more."""
    newline = data.find(b"\n") if cut.line_a_piece else data.rfind(b"\n")
    if newline >= 0:
        return newline + 1
    if len(data) >= cut.block_bytes or flush:
        return len(data)  # an over-long line is split over pieces, never cut short or dropped
    return 0
