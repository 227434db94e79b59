"""An archive of one closed day, as a collector leaves it: log files of some hosts, and the manifest that lists them."""

import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard
from source import SAMPLES, generated

from shipper import layout, manifest
from shipper.layout import FileKey

DATE = "2026-11-20"
COLLECTOR = "bench"
PARTITIONS = 8
SEALED_LEVEL = 3  # what a collector seals with


@dataclass(frozen=True)
class Archive:
    """The directory, and what it holds."""

    directory: Path
    lines: int
    size: int  #: bytes of text
    files: int


@dataclass(frozen=True)
class _Text:
    name: str
    lines: int
    size: int
    crc32: str
    stored: bytes


def make(directory: Path, most_bytes: int, files: int) -> Archive:
    """`files` log files of a host each, together of `most_bytes` at most: each is one of the samples over and over.

    Lines end with a newline alone. Without samples they are generated ones.
    """
    samples = {path.name: path.read_bytes() for path in sorted(SAMPLES.glob("*.log"))} or {"app.log": generated()}
    texts = [_text(name, content, most_bytes // files) for name, content in samples.items()]
    listed = [_sealed(directory, texts[number % len(texts)], number) for number in range(files)]
    path = directory / layout.manifest_path(DATE, COLLECTOR)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(map(manifest.to_line, listed)))
    path.with_suffix(".done").write_bytes(b"")
    return Archive(directory, sum(one.lines for one in listed), sum(one.bytes_raw for one in listed), files)


def _text(name: str, sample: bytes, most_bytes: int) -> _Text:
    sample = sample.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    content = (sample * (most_bytes // len(sample) + 1))[:most_bytes]
    content = content[: content.rfind(b"\n") + 1]
    stored = zstandard.ZstdCompressor(level=SEALED_LEVEL).compress(content)
    return _Text(name, content.count(b"\n"), len(content), f"{zlib.crc32(content):08x}", stored)


def _sealed(directory: Path, text: _Text, number: int) -> manifest.Segment:
    host, partition, file = f"h{number:05d}.example.net", number % PARTITIONS, f"/var/log/{text.name}"
    path = layout.segment_path(FileKey(DATE, partition, host, file), 1 + number, "zstd")
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    (directory / path).write_bytes(text.stored)
    return manifest.Segment(
        collector=COLLECTOR, partition=partition, host=host, file=file, path=path, codec="zstd",
        lines=text.lines, bytes_raw=text.size, bytes_stored=len(text.stored), first_seq=1 + number,
        last_seq=1 + number, first_time=f"{DATE}T05:17:00Z", last_time=f"{DATE}T06:00:00Z", crc32=text.crc32,
    )  # fmt: skip
