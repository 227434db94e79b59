"""The frames of a sealed zstd segment: where each begins, and when its first line was stored.

After the data, a segment has two skippable frames, which every reader of zstd passes over:

    marks        magic 0x184D2A57, then `fsmk`, version (1 byte), flags (1 byte: 1 = exact), 2 bytes 0, and for each
                 frame the stored time of its first line (u64, microseconds since 1970) and its newlines (u32)
    seek table   magic 0x184D2A5E, as contrib/seekable_format of zstd describes it: sizes of each frame, compressed and
                 decompressed (u32 each), then the footer: number of frames (u32), descriptor (0), 0x8F92EAB1

Numbers are little endian. A segment without them, of an older version or of another codec, is read from its beginning.
"""

import itertools
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import zstandard

FRAME_BYTES = 1024 * 1024
"""Text of a frame that is packed here, about: it ends with the last newline before. A shorter segment has no index."""
MAX_LINE_BYTES = 4 * FRAME_BYTES
"""A frame without a newline ends here."""
MAX_FRAMES = 1_000_000
"""A table with more of them is not read: 20 MB."""
UNKNOWN_LINES = 0xFFFFFFFF
MARKS_MAGIC = 0x184D2A57
SEEK_TABLE_MAGIC = 0x184D2A5E
SEEKABLE_MAGIC = 0x8F92EAB1
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SMALLEST_FRAME = 6
_RLE_BLOCK = 1
_SKIPPABLE = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")
_SIZES = struct.Struct("<II")
_MARK = struct.Struct("<QI")
_MARKS_HEAD = struct.Struct("<4sBBH")
_MARKS_NAME = b"fsmk"
_VERSION = 1
_EXACT = 1
_CHECKSUMS = 0x80  # of the descriptor: each entry has four bytes more
_MICROSECOND_NS = 1000

TimeAt = Callable[[int], int]
"""When the byte at an offset of a text was stored, in nanoseconds."""


class Frame(NamedTuple):
    """One frame."""

    stored: int  #: its length
    raw: int  #: length of its text
    time_ns: int  #: when its first line was stored; 0: not known
    lines: int  #: newlines in it, or UNKNOWN_LINES


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames of a segment, in order."""

    frames: tuple[Frame, ...]
    is_exact: bool  #: times were noted as the text arrived; else they are estimates

    @property
    def stored(self) -> int:
        """The length of all frames; after it the segment has no text."""
        return sum(frame.stored for frame in self.frames)

    @property
    def raw(self) -> int:
        """The length of the text."""
        return sum(frame.raw for frame in self.frames)

    @property
    def has_times(self) -> bool:
        """Whether the times of all frames are known."""
        return all(frame.time_ns for frame in self.frames)

    def time_at(self, last_ns: int) -> TimeAt:
        """The stored time by offset: within a frame in proportion to the bytes, up to the next one's time."""
        starts, times = [0], list[int]()
        for frame in self.frames:
            starts.append(starts[-1] + frame.raw)
            times.append(max(frame.time_ns, times[-1] if times else 0))
        times.append(max(last_ns, times[-1] if times else 0))

        def at(offset: int) -> int:
            number = min(max(bisect_right(starts, offset) - 1, 0), len(times) - 2)
            length = max(1, starts[number + 1] - starts[number])
            return times[number] + (times[number + 1] - times[number]) * (offset - starts[number]) // length

        return at if len(times) > 1 else (lambda _: last_ns)

    def within(self, since_ns: int, until_ns: int | None) -> range:
        """The numbers of the frames that may hold text of a time."""
        times = [frame.time_ns - frame.time_ns % _MICROSECOND_NS for frame in self.frames]
        if any(one > other for one, other in itertools.pairwise(times)):
            return range(len(times))  # merged parts may overlap
        first = max(0, bisect_left(times, since_ns - _MICROSECOND_NS) - 1)
        return range(first, len(times) if until_ns is None else max(first, bisect_left(times, until_ns)))


def encode(index: FrameIndex) -> bytes:
    """The two skippable frames; nothing for a short segment."""
    frames = index.frames
    if index.raw < FRAME_BYTES or any(max(frame.stored, frame.raw) > UNKNOWN_LINES for frame in frames):
        return b""
    marks = _MARKS_HEAD.pack(_MARKS_NAME, _VERSION, _EXACT if index.is_exact else 0, 0) + b"".join(
        _MARK.pack(frame.time_ns // _MICROSECOND_NS, min(frame.lines, UNKNOWN_LINES)) for frame in frames
    )
    sizes = b"".join(_SIZES.pack(frame.stored, frame.raw) for frame in frames)
    table = sizes + _FOOTER.pack(len(frames), 0, SEEKABLE_MAGIC)
    return b"".join(
        (_SKIPPABLE.pack(MARKS_MAGIC, len(marks)), marks, _SKIPPABLE.pack(SEEK_TABLE_MAGIC, len(table)), table)
    )


def even(first_ns: int, last_ns: int, raw: int) -> TimeAt:
    """An estimate: in proportion to the bytes between the first and the last stored time."""
    length, most = last_ns - first_ns, max(1, raw)
    return lambda offset: first_ns + length * offset // most


def read(stream: BinaryIO, end: int | None = None) -> FrameIndex | None:
    """The index at the end of a file, or of its first `end` bytes; None: it has none that fits its length.

    Raises OSError.
    """
    length = os.fstat(stream.fileno()).st_size if end is None else end
    footer = _at(stream, length - _FOOTER.size, _FOOTER.size)
    if len(footer) < _FOOTER.size:
        return None
    count, descriptor, magic = _FOOTER.unpack(footer)
    if magic != SEEKABLE_MAGIC or not 0 < count <= MAX_FRAMES or descriptor & ~_CHECKSUMS:
        return None
    entry = _SIZES.size + (4 if descriptor & _CHECKSUMS else 0)
    table_bytes = count * entry + _FOOTER.size
    marks_bytes = _MARKS_HEAD.size + count * _MARK.size
    begin = length - table_bytes - _SKIPPABLE.size
    table = _at(stream, begin, _SKIPPABLE.size + table_bytes)
    if table[: _SKIPPABLE.size] != _SKIPPABLE.pack(SEEK_TABLE_MAGIC, table_bytes):
        return None
    sizes = [_SIZES.unpack_from(table, _SKIPPABLE.size + number * entry) for number in range(count)]
    marks = _at(stream, begin - marks_bytes - _SKIPPABLE.size, _SKIPPABLE.size + marks_bytes)
    return _decoded(sizes, marks, begin)


def _decoded(sizes: Sequence[tuple[int, int]], marks: bytes, begin: int) -> FrameIndex | None:
    stored = sum(size for size, _ in sizes)
    head = _SKIPPABLE.size + _MARKS_HEAD.size
    has_marks = len(marks) >= head and stored == begin - len(marks)
    if has_marks and marks[: _SKIPPABLE.size] == _SKIPPABLE.pack(MARKS_MAGIC, len(marks) - _SKIPPABLE.size):
        name, version, flags, _ = _MARKS_HEAD.unpack_from(marks, _SKIPPABLE.size)
        if (name, version) == (_MARKS_NAME, _VERSION):
            times = [_MARK.unpack_from(marks, head + number * _MARK.size) for number in range(len(sizes))]
            frames = (
                Frame(*size, micro * _MICROSECOND_NS, lines) for size, (micro, lines) in zip(sizes, times, strict=True)
            )
            return FrameIndex(tuple(frames), bool(flags & _EXACT))
    if stored != begin:
        return None
    return FrameIndex(tuple(Frame(*size, 0, UNKNOWN_LINES) for size in sizes), is_exact=False)


def _at(stream: BinaryIO, offset: int, length: int) -> bytes:
    return os.pread(stream.fileno(), length, offset) if offset >= 0 else b""


def joined(parts: Iterable[FrameIndex | None]) -> FrameIndex | None:
    """The index of segments that become one; None: one of them has none."""
    frames, is_exact = list[Frame](), True
    for part in parts:
        if part is None:
            return None
        frames += part.frames
        is_exact = is_exact and part.is_exact
    return FrameIndex(tuple(frames), is_exact)


def frames_in(stream: BinaryIO, end: int) -> list[tuple[int, int]] | None:
    """Lengths of the frames of zstd at the beginning of a file, stored and of the text; 0: not in its header.

    None: what is before `end` is something else. Reads the headers of the blocks only (RFC 8878).
    """
    found, at = list[tuple[int, int]](), 0
    while at < end:
        head = _at(stream, at, 18)
        if head[:4] != _ZSTD_MAGIC or len(head) < _SMALLEST_FRAME:
            return None
        parameters = zstandard.get_frame_parameters(head)
        size, begin, at = parameters.content_size, at, at + zstandard.frame_header_size(head)
        is_last = False
        while not is_last:
            block = int.from_bytes(_at(stream, at, 3), "little")
            is_last, kind = bool(block & 1), block >> 1 & 3
            at += 3 + (1 if kind == _RLE_BLOCK else block >> 3)
            if at > end:
                return None
        at += 4 if parameters.has_checksum else 0
        found.append((at - begin, 0 if size == zstandard.CONTENTSIZE_UNKNOWN else size))
    return found if at == end else None
