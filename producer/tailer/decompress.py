"""What a compressed file holds, as a stream with bounded memory: gzip, bzip2, xz and zstandard."""

import bz2
import errno
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO, Protocol

import zstandard

from producer.discovery.safe_open import Links, close_on_exit
from producer.discovery.scanner import Seen
from producer.fingerprint import HEAD_BYTES, TAIL_BYTES, Mark

CHUNK_BYTES = 256 * 1024
ZSTD_INPUT_BYTES = 1024  # a zstd frame may swell 30 000 times
_MAGIC = {
    ".gz": b"\x1f\x8b",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\x00",
    ".lz4": b"\x04\x22\x4d\x18",
    ".Z": b"\x1f\x9d",
}


class CorruptFile(Exception):  # noqa: N818 - the name says what the file is
    """The bytes are not what the format allows."""


class IncompleteFile(Exception):  # noqa: N818 - the same
    """The compressed file is not complete, or may be another one by now: a program may still be writing it."""


class _Reader(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Zstd:
    """Frames one after the other, as the other formats read them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._rest = b""

    def read1(self, _size: int, /) -> bytes:
        while True:
            packed = self._rest or self._file.read(ZSTD_INPUT_BYTES)
            self._rest = b""
            if self._frame.eof:
                if not packed:
                    return b""
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            elif not packed:
                raise EOFError
            data = self._frame.decompress(packed)
            self._rest = self._frame.unused_data if self._frame.eof else b""
            if data:
                return data


_READERS: Mapping[str, Callable[[BinaryIO], _Reader]] = {
    ".gz": lambda file: gzip.GzipFile(fileobj=file),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _Zstd,
}


def suffix_of(path: str) -> str:
    """The suffix of `path` that names a compression. Empty if there is none."""
    suffix = os.path.splitext(path)[1]
    return suffix if suffix in _MAGIC else ""


def is_compressed(path: str, descriptor: int) -> bool:
    """Whether an open file is compressed by its suffix and first bytes, or too short to decide. Raises OSError."""
    magic = _MAGIC.get(suffix_of(path))
    return magic is not None and magic.startswith(os.pread(descriptor, len(magic), 0))


def is_compressed_file(name: str, seen: Seen, links: Links) -> bool:
    """The same for a file that is not open, which would be read as `name`. Raises OSError."""
    if not suffix_of(seen.path):
        return False
    descriptor = links.open_as(name, seen.path, seen.key)
    if descriptor is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), seen.path)
    with close_on_exit(descriptor):
        return is_compressed(seen.path, descriptor)


def content(file: BinaryIO, suffix: str) -> Iterator[bytes]:
    """The content of `file` in chunks. Raises OSError, CorruptFile; IncompleteFile after the last chunk."""
    if os.fstat(file.fileno()).st_size == 0:
        raise IncompleteFile
    if suffix not in _READERS:
        raise CorruptFile(f"{suffix} cannot be read")
    try:
        reader = _READERS[suffix](file)
        while data := reader.read1(CHUNK_BYTES):
            yield data
    except EOFError:
        raise IncompleteFile from None
    except (zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise CorruptFile(str(error)) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise CorruptFile(str(error)) from None  # gzip and bz2 raise this for bytes of another format


def head_of(file: BinaryIO, suffix: str) -> bytes:
    """The first bytes of the content of `file`, as many as a mark covers. Raises the same as `content`."""
    head = b""
    for data in content(file, suffix):
        head += data
        if len(head) >= HEAD_BYTES:
            break
    return head[:HEAD_BYTES]


def agreeing(pieces: Iterable[bytes], marks: Iterable[Mark]) -> Iterator[Mark]:
    """The marks that agree with a stream that holds at least their offsets. Raises what the stream raises."""
    head, recent, position = b"", b"", 0
    open_ = set(marks)
    for data in pieces:
        head += data[: max(0, HEAD_BYTES - len(head))]
        recent, position = recent + data, position + len(data)
        for mark in [mark for mark in open_ if mark.offset <= position and mark.head_length <= len(head)]:
            open_.discard(mark)
            end = mark.offset - (position - len(recent))
            tail = recent[max(0, end - mark.tail_length) : max(0, end)] if mark.tail_length else b""
            if Mark.of(mark.offset, head[: mark.head_length], tail) == mark:
                yield mark
        if not open_:
            return
        recent = recent[-TAIL_BYTES:]
