"""The frames of a sealed zstd segment: where each begins, and when its lines were stored.

After the data, a segment has skippable frames, which every reader of zstd passes over:

    times        magic 0x184D2A58, then the marks of `archive/stored_times.py`, their CRC-32, their length, that
                 of the text (u32 each), and `fst1`
    marks        magic 0x184D2A57, then `fsmk`, version (1 byte), flags (1 byte: 1 = exact), 2 bytes 0, and for each
                 frame the stored time of its first line (u64, microseconds since 1970) and its newlines (u32)
    seek table   magic 0x184D2A5E, as contrib/seekable_format of zstd describes it: sizes of each frame, compressed and
                 decompressed (u32 each), then the footer: number of frames (u32), descriptor (0), 0x8F92EAB1

Numbers are little endian. The seek table lists the frame with the times as a last frame without text, so that versions
that do not know it read the table as before. A segment of less than 1 MiB of text has the times only, and none if all
of it was stored in one second. A segment without a table is read from its beginning.
"""

import itertools
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, NamedTuple

import zstandard

from consumer.archive import stored_times
from consumer.archive.stored_times import StoredTimes
from shipper.bytes_ops import crc32
from shipper.layout import NANOSECONDS
from shipper.manifest import Segment, nanoseconds

FRAME_BYTES = 1024 * 1024
"""Text of a frame that is packed here, about: it ends with the last newline before. A shorter segment has no index."""
MAX_LINE_BYTES = 4 * FRAME_BYTES
"""A frame without a newline ends here."""
MAX_FRAMES = 1_000_000
"""A table with more of them is not read: 20 MB."""
UNKNOWN_LINES = 0xFFFFFFFF
TIMES_MAGIC = 0x184D2A58
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
_U32 = 0xFFFFFFFF
_TRAILER = struct.Struct("<III4s")
_TIMES_NAME = b"fst1"
MAX_TIMES_BYTES = 32 * 1024 * 1024
"""Times that are longer are not read."""


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
    times: bytes = b""  #: the marks of its text, as `StoredTimes` has them; empty: there are none

    @property
    def stored(self) -> int:
        """The length of all frames. After it the segment has no text."""
        return sum(frame.stored for frame in self.frames)

    @property
    def raw(self) -> int:
        """The length of the text."""
        return sum(frame.raw for frame in self.frames)

    @property
    def has_times(self) -> bool:
        """Whether the times of all frames are known."""
        return all(frame.time_ns for frame in self.frames)

    def stored_times(self, first_ns: int, last_ns: int) -> StoredTimes:
        """When its text was stored, between two moments. Without marks: the times of frames, as estimates.

        Times of frames that were estimates themselves count for nothing: the text may be of any time between the two.
        """
        is_one_second = first_ns // NANOSECONDS == last_ns // NANOSECONDS
        if self.times or is_one_second or not (self.is_exact and self.has_times and self.frames):
            return StoredTimes.of(self.times, first_ns=first_ns, last_ns=last_ns, raw=self.raw)
        starts = list(itertools.accumulate((frame.raw for frame in self.frames[:-1]), initial=0))
        seconds = list(itertools.accumulate((frame.time_ns // NANOSECONDS for frame in self.frames), max))
        return StoredTimes(starts, [-second for second in seconds], last_ns, self.raw)

    def within(self, times: StoredTimes, since_ns: int, until_ns: int | None) -> range:
        """The numbers of the frames that may hold text of a time. Those of merged parts may overlap."""
        ends = list(itertools.accumulate(frame.raw for frame in self.frames))
        spans = (times.span(end - frame.raw, end) for frame, end in zip(self.frames, ends, strict=True))
        since_ns -= since_ns % NANOSECONDS
        wanted = [
            number
            for number, (first_ns, last_ns) in enumerate(spans)
            if last_ns >= since_ns and (until_ns is None or first_ns < until_ns)
        ]
        return range(wanted[0], wanted[-1] + 1) if wanted else range(0)

    def holding(self, start: int, end: int) -> range:
        """The numbers of the frames that hold bytes `start` to `end` of the text."""
        ends = list(itertools.accumulate(frame.raw for frame in self.frames))
        return range(bisect_right(ends, start), min(bisect_left(ends, end) + 1, len(ends)))


def encode(index: FrameIndex) -> bytes:
    """The skippable frames, of a short segment the times only."""
    frames, times = index.frames, encode_times(index.times, index.raw)
    if index.raw < FRAME_BYTES or any(max(frame.stored, frame.raw) > UNKNOWN_LINES for frame in frames):
        return times
    if times:
        frames = (*frames, Frame(len(times), 0, frames[-1].time_ns, 0))
    marks = _MARKS_HEAD.pack(_MARKS_NAME, _VERSION, _EXACT if index.is_exact else 0, 0) + b"".join(
        _MARK.pack(frame.time_ns // _MICROSECOND_NS, min(frame.lines, UNKNOWN_LINES)) for frame in frames
    )
    sizes = b"".join(_SIZES.pack(frame.stored, frame.raw) for frame in frames)
    table = sizes + _FOOTER.pack(len(frames), 0, SEEKABLE_MAGIC)
    return b"".join(
        (times, _SKIPPABLE.pack(MARKS_MAGIC, len(marks)), marks, _SKIPPABLE.pack(SEEK_TABLE_MAGIC, len(table)), table)
    )


def encode_times(plain: bytes, raw: int) -> bytes:
    """The skippable frame of the marks of a text of `raw` bytes, empty where there is none."""
    if not plain:
        return b""
    body = stored_times.pack(plain)
    trailer = _TRAILER.pack(crc32(body), len(body), raw & _U32, _TIMES_NAME)
    return _SKIPPABLE.pack(TIMES_MAGIC, len(body) + len(trailer)) + body + trailer


def read_times(stream: BinaryIO, raw: int | None = None, end: int | None = None) -> tuple[bytes, int]:
    """The bytes of the marks at the end of a file, or of its first `end` bytes, and where their frame begins.

    Nothing and the end of the file: it has none, or those of a text that has not `raw` bytes: a version that does not
    know them merged segments. Raises OSError.
    """
    length = os.fstat(stream.fileno()).st_size if end is None else end
    trailer = _at(stream, length - _TRAILER.size, _TRAILER.size)
    if len(trailer) < _TRAILER.size:
        return b"", length
    crc, size, of_text, name = _TRAILER.unpack(trailer)
    begin = length - _TRAILER.size - size - _SKIPPABLE.size
    is_of_text = raw is None or of_text == raw & _U32
    if name != _TIMES_NAME or not is_of_text or size > MAX_TIMES_BYTES or begin < 0:
        return b"", length
    frame = _at(stream, begin, _SKIPPABLE.size + size)
    head, body = frame[: _SKIPPABLE.size], frame[_SKIPPABLE.size :]
    if head != _SKIPPABLE.pack(TIMES_MAGIC, size + _TRAILER.size) or crc32(body) != crc:
        return b"", length
    try:
        return stored_times.unpack(body), begin
    except ValueError:
        return b"", length


def read(stream: BinaryIO, end: int | None = None) -> FrameIndex | None:
    """The index at the end of a file, or of its first `end` bytes. None means that it has none that fits its length.

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
    index = _decoded(sizes, marks, begin)
    if index is None or index.frames[-1].raw:
        return index
    times, end = read_times(stream, index.raw, index.stored)
    return (
        replace(index, frames=index.frames[:-1], times=times) if times and end == index.stored - sizes[-1][0] else index
    )


def times_in(stream: BinaryIO, segment: Segment) -> StoredTimes:
    """When the text of a segment was stored. `stream` is its file. Raises OSError."""
    if segment.codec != "zstd":
        return times_listed(segment, stored_times.from_text(segment.times))
    index = read(stream)
    if index is not None and index.raw == segment.bytes_raw:
        return index.stored_times(nanoseconds(segment.first_time), nanoseconds(segment.last_time))
    return times_listed(segment, read_times(stream, segment.bytes_raw)[0])


def times_listed(segment: Segment, marks: bytes) -> StoredTimes:
    """When the text of a segment was stored that has these marks, between the two moments of its manifest line."""
    first_ns, last_ns = nanoseconds(segment.first_time), nanoseconds(segment.last_time)
    return StoredTimes.of(marks, first_ns=first_ns, last_ns=last_ns, raw=segment.bytes_raw)


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


def joined(parts: Iterable[tuple[FrameIndex, StoredTimes]]) -> FrameIndex:
    """The index of segments that become one, of their indexes and the times of their text."""
    indexes, times = zip(*parts, strict=True)
    frames = tuple(frame for index in indexes for frame in index.frames)
    whole = stored_times.joined(times)
    return FrameIndex(frames, whole.is_exact, whole.marks)


def frames_in(stream: BinaryIO, end: int) -> list[tuple[int, int]] | None:
    """Lengths of the frames of zstd at the beginning of a file, stored and of the text. 0 if its header lacks that.

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
