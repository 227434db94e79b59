"""The first piece of the line in whose middle a file is being read: it decides about the whole line."""

import os

from producer.editing.charset import UNIT_BYTES, Charset

LOOK_BACK_BYTES = 16 * 1024 * 1024
"""How far before an offset the start of its line is looked for."""
CHUNK_BYTES = 64 * 1024


def lead_before(descriptor: int, offset: int, charset: Charset, *, most: int) -> bytes:
    """The first bytes, at most `most`, of the line that `offset` is in the middle of; b"": it is at a line's start.

    Where the line began further back than anybody looks, it begins there. Raises OSError: unknown.
    """
    begin, last = offset, max(0, offset - LOOK_BACK_BYTES)
    while begin > last:
        chunk = max(last, begin - CHUNK_BYTES)
        data = os.pread(descriptor, begin - chunk + UNIT_BYTES - 1, chunk)[: offset - chunk]  # a newline may be halved
        end = charset.last_end(data, at=chunk)
        if end:
            return _first(descriptor, chunk + end, offset, most)
        begin = chunk
    return _first(descriptor, last, offset, most)


def _first(descriptor: int, start: int, offset: int, most: int) -> bytes:
    return os.pread(descriptor, min(most, offset - start), start)
