"""NULs at the end of a file: space that its writer reserved and has not filled yet. They are no content.

Preallocated files, files that are written through a memory map, and file systems after a crash have them. A run of at
least `MIN_PADDING_BYTES` counts: one NUL may end a record, or be half of the last character of UTF-16.
"""

import errno
import os
from collections.abc import Iterator

MIN_PADDING_BYTES = 2
CHUNK_BYTES = 64 * 1024
"""Bytes of one read while content is searched."""
SEARCH_BYTES = 4 * 1024 * 1024
"""Bytes before the end of a file that are searched again whenever a padded file changes."""
MOST_EXTENTS = 1024
"""Extents of a sparse file that are listed. What comes after them counts as one."""
_NULS = bytes(CHUNK_BYTES)


def content_end(descriptor: int, start: int, size: int) -> int:
    """The offset after the last byte of an open file that is content. `start`: there is none after it.

    Bytes before `start` are not read; `size` is the file's. One byte is read if the file is not padded. Raises OSError.
    """
    if size <= start or os.pread(descriptor, 1, size - 1) != b"\0":
        return size
    end = _last_byte(descriptor, start, size)
    return end if size - end >= MIN_PADDING_BYTES else size


def content_end_after(descriptor: int, known: int, size: int) -> int:
    """The same of a padded file whose content ended at `known`: it may have been filled there, or near its end."""
    end = content_end(descriptor, max(known, size - SEARCH_BYTES), size)
    if end > max(known, size - SEARCH_BYTES):
        return end
    end = at = known
    while data := os.pread(descriptor, min(CHUNK_BYTES, size - at), at):
        filled = len(data.rstrip(b"\0"))
        if not filled:
            break
        end, at = at + filled, at + len(data)
    return end


def _last_byte(descriptor: int, start: int, size: int) -> int:
    """The offset after the last byte that is no NUL. Holes of the file are not read."""
    for begin, extent_end in reversed(list(_extents(descriptor, start, size))):
        end = extent_end
        while end > begin:
            at = max(begin, end - CHUNK_BYTES)
            data = os.pread(descriptor, end - at, at)
            if data != _NULS[: len(data)]:
                return at + len(data.rstrip(b"\0"))
            end = at
    return start


def _extents(descriptor: int, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Where an open file has data, in order. The whole range where the file system does not know."""
    at = start
    for _ in range(MOST_EXTENTS):
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # only a hole follows
            break
        yield begin, min(at, size)
        if at >= size:
            return
    yield at, size
