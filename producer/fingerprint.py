"""Identifies a file by its content: a hash of its head, and a hash of the bytes before the offset."""

import hashlib
import os
from typing import NamedTuple

from producer.padding import content_end
from shipper.bytes_ops import crc32

HEAD_BYTES = 1024
TAIL_BYTES = 256
ENOUGH_BYTES = 512
"""Bytes that a file must have in common with a source to be its copy, whatever its name: most banners are shorter."""
CHUNK_BYTES = 1024 * 1024
"""Bytes of one read while a sum is computed."""


def digest(data: bytes) -> str:
    """A short hash of file content: the checkpoint must not contain log lines."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


class Mark(NamedTuple):
    """What identifies the content of a file up to an offset."""

    offset: int = 0
    head_length: int = 0
    head_hash: str = ""
    tail_length: int = 0  #: bytes just before the offset
    tail_hash: str = ""

    @classmethod
    def of(cls, offset: int, head: bytes, tail: bytes) -> "Mark":
        """The mark of the first bytes of a file and the bytes before `offset`."""
        return cls(offset, len(head), digest(head) if head else "", len(tail), digest(tail) if tail else "")

    def agrees(self, descriptor: int) -> bool:
        """Whether the open file matches the mark. Raises OSError: unknown."""
        head = os.pread(descriptor, self.head_length, 0) if self.head_length else b""
        tail = os.pread(descriptor, self.tail_length, self.offset - self.tail_length) if self.tail_length else b""
        return Mark.of(self.offset, head, tail) == self and os.fstat(descriptor).st_size >= self.offset

    def is_head_of(self, data: bytes) -> bool:
        """Whether the first bytes of a file match the mark."""
        head = data[: self.head_length]
        return self.head_length == 0 or (len(head) == self.head_length and digest(head) == self.head_hash)


def first_mark(descriptor: int, origin: int) -> Mark:
    """The mark of an open file of which nothing was read: its first bytes distinguish it from a later file.

    NULs at its end are no part of it: its writer fills them in place.
    """
    _, tail = read_ends(descriptor, origin)
    head = os.pread(descriptor, HEAD_BYTES, 0)
    if head.endswith(b"\0"):
        head = head[: content_end(descriptor, 0, os.fstat(descriptor).st_size)]
    return Mark.of(origin, head, tail)


def read_ends(descriptor: int, offset: int) -> tuple[bytes, bytes]:
    """The head of an open file and the bytes before `offset`, as far as there are."""
    head = os.pread(descriptor, min(HEAD_BYTES, offset), 0)
    reach = min(TAIL_BYTES, offset)
    return head, os.pread(descriptor, reach, offset - reach)


def crc_of(descriptor: int, start: int, end: int) -> int | None:
    """CRC-32 of some bytes of an open file. None: it is shorter. Raises OSError."""
    crc, offset = 0, start
    while offset < end:
        data = os.pread(descriptor, min(CHUNK_BYTES, end - offset), offset)
        if not data:
            return None
        crc, offset = crc32(data, crc), offset + len(data)
    return crc
