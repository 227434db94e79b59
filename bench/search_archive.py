"""An archive of one day with as many bytes of text as a search should read, and few on disk.

Each hour has one segment with frames and time marks, as a collector seals them. All hours have the same frames; the
hosts of an hour are links to one file.
"""

import datetime as dt
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard

from consumer.archive import frame_index
from consumer.archive.frame_index import FRAME_BYTES, Frame, FrameIndex
from shipper import layout, manifest
from shipper.layout import NANOSECONDS, FileKey

DATE = "2026-11-20"
DAY_NS = int(dt.datetime(2026, 11, 20, tzinfo=dt.UTC).timestamp()) * NANOSECONDS
HOURS = 24
HOSTS = 4
FILE = "/var/log/app.log"
LEVEL = 3  # what a collector seals with
NEEDLE = b"2026-11-20T23:30:00Z needle-of-the-newest-hour\n"


@dataclass(frozen=True)
class SearchArchive:
    """The directory, and what it holds."""

    directory: Path
    size: int  #: bytes of text
    stored: int  #: bytes of all files, each link counted
    segments: tuple[Path, ...]


def make(directory: Path, text: bytes, size: int) -> SearchArchive:
    """About `size` bytes of text, all from the beginning of `text`; one line of the newest hour has NEEDLE."""
    packer = zstandard.ZstdCompressor(level=LEVEL)
    frames = [(packer.compress(part), part) for part in _cut(text, size // (HOURS * HOSTS))]
    listed, segments = [], []
    for hour in range(HOURS):
        first = directory / _path(hour, 0)
        for host in range(HOSTS):
            is_newest = (hour, host) == (HOURS - 1, HOSTS - 1)
            parts = [_with_needle(packer, part) for part in frames[:1]] + frames[1:] if is_newest else frames
            path = directory / _path(hour, host)
            path.parent.mkdir(parents=True, exist_ok=True)
            if host and not is_newest:
                os.link(first, path)
            else:
                path.write_bytes(_segment(parts, hour))
            segments.append(path)
            listed.append(_listed(parts, hour, host, path.stat().st_size))
    lines = directory / layout.manifest_path(DATE, "bench")
    lines.parent.mkdir(parents=True)
    lines.write_bytes(b"".join(map(manifest.to_line, listed)))
    lines.with_suffix(".done").write_bytes(b"")
    raw = sum(each.bytes_raw for each in listed)
    return SearchArchive(directory, raw, sum(each.bytes_stored for each in listed), tuple(segments))


def _cut(text: bytes, size: int) -> list[bytes]:
    parts, at = [], 0
    while at < size:
        end = text.rfind(b"\n", at, at + FRAME_BYTES) + 1
        assert end > at, "the source is too short"
        parts.append(text[at:end])
        at = end
    return parts


def _with_needle(packer: zstandard.ZstdCompressor, frame: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    text = NEEDLE + frame[1]
    return packer.compress(text), text


def _segment(parts: list[tuple[bytes, bytes]], hour: int) -> bytes:
    begin, step = DAY_NS + hour * 3600 * NANOSECONDS, 3600 * NANOSECONDS // len(parts)
    frames = tuple(
        Frame(len(stored), len(part), begin + number * step, part.count(b"\n"))
        for number, (stored, part) in enumerate(parts)
    )
    return b"".join(stored for stored, _ in parts) + frame_index.encode(FrameIndex(frames, is_exact=True))


def _path(hour: int, host: int) -> str:
    return layout.segment_path(FileKey(DATE, 0, f"h{host}.example.net", FILE), 1 + hour * HOSTS + host, "zstd")


def _listed(parts: list[tuple[bytes, bytes]], hour: int, host: int, stored: int) -> manifest.Segment:
    text = [part for _, part in parts]
    number = 1 + hour * HOSTS + host
    return manifest.Segment(
        collector="bench", partition=0, host=f"h{host}.example.net", file=FILE, path=_path(hour, host), codec="zstd",
        lines=sum(part.count(b"\n") for part in text), bytes_raw=sum(map(len, text)), bytes_stored=stored,
        first_seq=number, last_seq=number, first_time=f"{DATE}T{hour:02}:00:00Z",
        last_time=f"{DATE}T{hour:02}:59:59.999999Z", crc32=f"{zlib.crc32(b''):08x}",
    )  # fmt: skip
