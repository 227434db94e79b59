"""Bytes on their way into a file: through the page cache, or past it, which is less to do for a core.

Past it the disk takes them out of memory itself, but only in whole units, from aligned memory to an aligned offset, and
whoever writes waits meanwhile.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence

from consumer.writing.tampering import check_length

UNIT = 4096  # of memory, offset and length: no disk asks for more
PIECE_BYTES = 4 * 1024 * 1024  # written at once: each is waited for, and whoever waited finds the cache cold
REFUSED = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


def write_all(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
    """Write every byte of `buffers` at `offset`; returns the offset behind them."""
    end = offset + sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, offset)
    if offset + written < end:  # a short write: rare, so a copy is fine
        rest = b"".join(buffers)
        while offset + written < end:
            written += os.pwrite(descriptor, rest[written:], offset + written)
    return end


class PastCache:
    """A run of bytes of one file at a time, of which the last ones, less than a piece, wait in memory.

    Each byte is written once: whole units past the page cache, what is before the first and behind the last through
    it. So no page is written both ways while it is dirty, and nothing that is committed is written again.
    """

    def __init__(self) -> None:
        self.is_refused = False  #: here the page cache is the only way
        self._memory: memoryview | None = None
        self._path = ""  # of the file; empty: there is no run
        self._descriptor = -1
        self._base = 0  # the offset in the file of the memory's first byte, a whole number of units
        self._start = self._end = 0  # offsets in the file of what waits

    def begin(self, path: str, descriptor: int, at: int) -> None:
        """A run of bytes of the open file `path`, from offset `at` on. There must be none."""
        self._path, self._descriptor = path, descriptor
        self._start = self._end = at
        self._base = _whole(at)

    def ends_at(self, path: str, at: int) -> bool:
        """Whether what comes at `at` continues the run."""
        return self._path == path and self._end == at

    def put(self, data: bytes) -> None:
        """Lengthen the run. Raises OSError: a piece cannot be written."""
        if self._memory is None:
            self._memory = memoryview(mmap.mmap(-1, PIECE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        left = memoryview(data)
        while left:
            filled = self._end - self._base
            taken = left[: PIECE_BYTES - filled]
            self._memory[filled : filled + len(taken)] = taken
            self._end += len(taken)
            left = left[len(taken) :]
            if self._end - self._base == PIECE_BYTES:
                self._flush()

    def finish(self) -> None:
        """Write what waits, and end the run. Raises OSError: it cannot be written."""
        if self._path:
            self._flush()
            self._path = ""

    def drop(self, path: str) -> None:
        """What waits for `path` does not count, and its descriptor is closed."""
        if self._path == path:
            self._path = ""

    def _flush(self) -> None:
        check_length(self._descriptor, self._path, self._start)
        first = min(_whole(self._start + UNIT - 1), self._end)
        last = max(_whole(self._end), first)
        for end, write in ((first, write_all), (last, self._write_past), (self._end, write_all)):
            if self._memory is not None and end > self._start:
                write(self._descriptor, [self._memory[self._start - self._base : end - self._base]], self._start)
                self._start = end
        self._base = _whole(self._start)

    def _write_past(self, descriptor: int, units: list[memoryview], offset: int) -> int:
        """Write whole units; through the page cache what the file system does not take, or not at once."""
        written = 0
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
            try:
                written = os.pwritev(descriptor, units, offset)
            finally:
                fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            self.is_refused = True
        rest = units[0][written:]
        return write_all(descriptor, [rest], offset + written) if rest else offset + written


def _whole(offset: int) -> int:
    """The last border between units up to `offset`."""
    return offset - offset % UNIT
