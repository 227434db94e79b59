"""The bytes of segments: packed, unpacked and counted on their way. Bounded memory, whatever they hold."""

import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import zstandard

from consumer.archive.frame_index import FRAME_BYTES, MAX_LINE_BYTES, Frame, FrameIndex, encode
from consumer.archive.stored_times import StoredTimes
from shipper.bytes_ops import count_lines, crc32

CHUNK_BYTES = 256 * 1024  # stays in the cache: a sixth less CPU than 1 MiB to unpack, count and sum
FRAMES_BYTES = 64 * 1024  # bytes per read where frames are separated: the bytes after a frame are copied
ZSTD_LEVEL = 3
GZIP_LEVEL = 6
BROKEN = (zstandard.ZstdError, zlib.error)
"""What unpacking raises where the bytes are no frames of their codec."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Reader(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end."""


class Writer(Protocol):
    """Where bytes go."""

    def write(self, chunk: bytes, /) -> object:
        """Take all of `chunk`."""


@dataclass(slots=True)
class ByteCounter:
    """Text that passed by."""

    lines: int = 0  #: newlines
    octets: int = 0
    crc: int = 0
    ends_open: bool = False  #: the last byte is no newline

    def add(self, text: bytes) -> None:
        """Count `text` after the text that was counted before."""
        if text:
            self.lines += count_lines(text)
            self.octets += len(text)
            self.crc = crc32(text, self.crc)
            self.ends_open = not text.endswith(b"\n")


class CountingWriter:
    """A stream, with the length and the CRC-32 of what was written to it."""

    def __init__(self, stream: Writer) -> None:
        self._stream = stream
        self.octets = 0
        self.crc = 0

    def write(self, chunk: bytes) -> int:
        """Write `chunk`, and return its length."""
        self._stream.write(chunk)
        self.octets += len(chunk)
        self.crc = crc32(chunk, self.crc)
        return len(chunk)


class CountingReader:
    """At most `limit` bytes of a stream, counted as they are read. `copy` gets them too."""

    def __init__(self, stream: Reader, limit: int, copy: Writer | None = None) -> None:
        self._stream = stream
        self._limit = limit
        self._copy = copy
        self.octets = 0
        self.crc = 0

    def allow(self, more: int) -> None:
        """So many bytes more may be read."""
        self._limit += more

    def read(self, size: int) -> bytes:
        """The next bytes."""
        chunk = self._stream.read(min(size, self._limit - self.octets))
        self.octets += len(chunk)
        self.crc = crc32(chunk, self.crc)
        if self._copy is not None:
            self._copy.write(chunk)
        return chunk


def pack(text: Reader, packed: CountingWriter, codec: str, times: StoredTimes | None = None) -> ByteCounter:
    """Write all of `text` in `codec`, and count it. With `times`, zstd has frames of 1 MiB and a frame index."""
    if codec == "zstd" and times is not None:
        return _pack_frames(text, packed, times)
    counted, packer = ByteCounter(), cast("Writer", packed)
    with contextlib.ExitStack() as stack:
        if codec == "zstd":
            compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)
            packer = stack.enter_context(compressor.stream_writer(packed, closefd=False))  # type: ignore[arg-type]
        elif codec == "gzip":  # one member without name and time, so that equal bytes give equal segments
            packer = stack.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, packed, mtime=0))  # type: ignore[call-overload]
        while chunk := text.read(CHUNK_BYTES):
            counted.add(chunk)
            packer.write(chunk)
    return counted


def _pack_frames(text: Reader, packed: CountingWriter, times: StoredTimes) -> ByteCounter:
    counted, begin = ByteCounter(), packed.octets
    frames, frame, start = list[Frame](), ByteCounter(), 0
    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)
    zst = compressor.stream_writer(packed, closefd=False)  # type: ignore[arg-type] # to close it adds an empty frame

    def end_frame() -> None:
        nonlocal frame, start
        zst.flush(zstandard.FLUSH_FRAME)
        stored = packed.octets - begin - start
        frames.append(Frame(stored, frame.octets, times.at(counted.octets - frame.octets), frame.lines))
        frame, start = ByteCounter(), start + stored

    def write(piece: bytes) -> None:
        if piece:
            counted.add(piece)
            frame.add(piece)
            zst.write(piece)

    while chunk := text.read(CHUNK_BYTES):
        cut = chunk.rfind(b"\n") + 1 if frame.octets + len(chunk) >= FRAME_BYTES else 0
        if not cut and frame.octets + len(chunk) >= MAX_LINE_BYTES:
            cut = len(chunk)
        if cut:
            write(chunk[:cut])
            end_frame()
        write(chunk[cut:])
    if frame.octets or not frames:
        end_frame()
    packed.write(encode(FrameIndex(tuple(frames), times.is_exact, times.marks)))
    return counted


def copy_frames(stored: Reader, packed: CountingWriter, codec: str, times: StoredTimes | None = None) -> ByteCounter:
    """Write the whole frames that `stored` begins with, as they are, and count their text. Zstd gets an index."""
    counted, found = ByteCounter(), list[Frame]()
    for frame, text in frames(stored, codec):
        packed.write(frame)
        before, lines = counted.octets, counted.lines
        counted.add(text)
        if times is not None:
            found.append(Frame(len(frame), len(text), times.at(before), counted.lines - lines))
    if codec == "zstd" and times is not None:
        packed.write(encode(FrameIndex(tuple(found), times.is_exact, times.marks)))
    return counted


def frames(stored: Reader, codec: str) -> Iterator[tuple[bytes, bytes]]:
    """Each frame with its text, to the first that is not whole: cut off, or damaged."""
    rest = b""
    while True:
        unpacker: Any = zlib.decompressobj(_GZIP_WINDOW)
        if codec == "zstd":
            unpacker = zstandard.ZstdDecompressor().decompressobj()
        frame, text = list[bytes](), list[bytes]()
        while not unpacker.eof:
            chunk = rest or stored.read(FRAMES_BYTES)
            try:
                text.append(unpacker.decompress(chunk))
            except BROKEN:
                return
            rest = unpacker.unused_data
            frame.append(chunk[: len(chunk) - len(rest)])
            if not chunk:
                return
        yield b"".join(frame), b"".join(text)


def whole_frames(path: Path, codec: str) -> tuple[int, ByteCounter]:
    """How many bytes of a file are whole frames, from its beginning, and the text in them. Raises OSError."""
    length, counted = 0, ByteCounter()
    with path.open("rb") as stored:
        for frame, text in frames(stored, codec):
            length += len(frame)
            counted.add(text)
    return length, counted


def texts(stored: Reader, codec: str) -> Iterator[bytes]:
    """The text of a segment, a piece at a time. Raises those of BROKEN. A cut-off frame may end without one."""
    if codec == "zstd":
        unpacked = zstandard.ZstdDecompressor().stream_reader(stored, CHUNK_BYTES, read_across_frames=True)  # type: ignore[arg-type]
        while text := unpacked.read(CHUNK_BYTES):
            yield text
    elif codec == "gzip":
        yield from _members(stored)
    else:
        while text := stored.read(CHUNK_BYTES):
            yield text


def count_content(path: Path, codec: str, copy: Writer | None = None) -> tuple[ByteCounter, CountingReader]:
    """The text in a segment, and its bytes on disk. Raises OSError, and those of BROKEN."""
    counted = ByteCounter()
    with path.open("rb") as stored:
        counting = CountingReader(stored, sys.maxsize, copy)
        for text in texts(counting, codec):
            counted.add(text)
    return counted, counting


def _members(stored: Reader) -> Iterator[bytes]:
    rest = b""
    while rest := rest or stored.read(CHUNK_BYTES):
        member = zlib.decompressobj(_GZIP_WINDOW)
        while not member.eof and rest:
            yield member.decompress(rest, CHUNK_BYTES)
            rest = member.unconsumed_tail or (b"" if member.eof else stored.read(CHUNK_BYTES))
        if not member.eof:
            raise zlib.error("the last member is cut off")
        rest = member.unused_data
