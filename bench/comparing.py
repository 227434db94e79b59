"""Is the destination what the source is? Piece by piece, so that 8 GiB take no memory."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import zstandard
from feed import FILE
from harness.fleet import Fleet
from programs import HOST, FailedError
from source import Source

CHUNK_BYTES = 1 << 20


def same(fleet: Fleet, source: Source, host: str = HOST) -> None:
    """The archive's copy of a source is the source, byte for byte.

    Raises:
        FailedError: it is not; a number of a wrong result is no number.
    """
    at = 0
    with source.path.open("rb") as original:
        for text in archived(fleet, host, source.path):
            if original.read(len(text)) != text:
                raise FailedError(f"the archive differs from the source within {len(text)} bytes from {at}")
            at += len(text)
    if at != source.size:
        raise FailedError(f"the archive has {at} of {source.size} bytes")


def as_fed(fleet: Fleet, fed: Mapping[str, Sequence[int]]) -> int:
    """What hosts fed (by subject: length and CRC-32 of the file of each) is what the archive has; how many bytes.

    Raises:
        FailedError: a host's file differs.
    """
    total = 0
    for subject, (length, crc) in fed.items():
        host, size, found = subject.split(".", 2)[2], 0, 0
        for text in archived(fleet, host, Path(FILE)):
            size, found = size + len(text), zlib.crc32(text, found)
        if (size, found) != (length, crc):
            raise FailedError(f"the archive of {host} differs from what was sent: {size} of {length} bytes")
        total += size
    return total


def archived(fleet: Fleet, host: str, file: Path) -> Iterator[bytes]:
    """The text of a file in the archive: its segments, then what is being sealed, then what is open."""
    for path in fleet.pieces(host, file):
        yield from _text(path)


def _text(path: Path) -> Iterator[bytes]:
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(path.open("rb"))
        match path.suffix if not path.name.startswith("_") else "":
            case ".zst":
                reader = zstandard.ZstdDecompressor().stream_reader(reader, read_across_frames=True)
            case ".gz":
                reader = stack.enter_context(gzip.open(reader))
        while text := reader.read(CHUNK_BYTES):
            yield text
