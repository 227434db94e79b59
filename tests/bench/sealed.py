"""An archive of one closed day, as a collector leaves it: segments of some hosts, and the manifest that lists them."""

import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard
from source import Source

from shipper import layout, manifest
from shipper.layout import FileKey

DATE = "2026-11-20"
FILE = "/var/log/app.log"
COLLECTOR = "bench"
HOSTS = 4
SEGMENT_BYTES = 8_000_000
SEALED_LEVEL = 3  # what a collector seals with


@dataclass(frozen=True)
class Archive:
    """The directory, and what it holds."""

    directory: Path
    lines: int
    size: int  #: bytes of text


def make(directory: Path, source: Source, most_bytes: int) -> Archive:
    """Segments of whole lines from the beginning of a source, host after host; lines end with a newline alone."""
    listed, lines, size = [], 0, 0
    with source.path.open("rb") as text:
        while size < most_bytes and (content := _whole_lines(text.read(SEGMENT_BYTES), text)):
            content = content.replace(b"\r\n", b"\n")
            listed.append(_sealed(directory, content, number=len(listed)))
            lines, size = lines + content.count(b"\n"), size + len(content)
    path = directory / layout.manifest_path(DATE, COLLECTOR)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(map(manifest.to_line, listed)))
    path.with_suffix(".done").write_bytes(b"")
    return Archive(directory, lines, size)


def _whole_lines(content: bytes, text) -> bytes:
    return content + text.readline() if content else b""


def _sealed(directory: Path, content: bytes, *, number: int) -> manifest.Segment:
    host, partition = f"h{number % HOSTS}.example.net", number % HOSTS
    path = layout.segment_path(FileKey(DATE, partition, host, FILE), 1 + number, "zstd")
    stored = zstandard.ZstdCompressor(level=SEALED_LEVEL).compress(content)
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_bytes(stored)
    return manifest.Segment(
        collector=COLLECTOR, partition=partition, host=host, file=FILE, path=path, codec="zstd",
        lines=content.count(b"\n"), bytes_raw=len(content), bytes_stored=len(stored), first_seq=1 + number,
        last_seq=1 + number, first_time=f"{DATE}T05:17:00Z", last_time=f"{DATE}T06:00:00Z",
        crc32=f"{zlib.crc32(content):08x}",
    )  # fmt: skip
