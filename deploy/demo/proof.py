"""Is every byte of every source in the archive, once and in order? Reads the archive by its manifests alone.

_manifest/date=*/<collector>.jsonl    a line a segment: host, file, path, codec, first_seq; of a path twice the last
                                      `replaces`: paths of segments that were merged into it and count no more
in the order of (date, first_seq)     the segments of one log file are its bytes
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

CHUNK_BYTES = 1 << 20
AROUND_BYTES = 40
"""Bytes shown before and after the first difference."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What was written to one log file of one host, counted while it was written."""

    host: str
    file: str
    sources: Sequence[Path]  #: the generations on disk, oldest first
    octets: int
    lines: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between archive and source."""

    offset: int
    written: bytes  #: around it
    archived: bytes


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """What the archive holds of one log file."""

    expected: ExpectedFile
    octets: int
    lines: int
    sha256: str
    segments: int
    difference: Difference | None = None
    damage: str = ""

    @property
    def identical(self) -> bool:
        """Whether the archive holds what was written, byte for byte."""
        same = (self.octets, self.sha256) == (self.expected.octets, self.expected.sha256)
        return same and self.difference is None and not self.damage


def segments(archive: Path) -> list[dict[str, Any]]:
    """The manifests' lines in the order of (date, first_seq)."""
    found: dict[str, dict[str, Any]] = {}
    for manifest in sorted(archive.glob("_manifest/date=*/*.jsonl")):
        content = manifest.read_bytes()
        for line in content[: content.rfind(b"\n") + 1].splitlines():  # a kill may tear the last one
            segment = json.loads(line)
            found[segment["path"]] = segment
    merged = {path for segment in found.values() for path in segment.get("replaces", ())}
    counted = [segment for path, segment in found.items() if path not in merged]
    return sorted(counted, key=lambda segment: (segment["path"].partition("/")[0], segment["first_seq"]))


def sealed_bytes(archive: Path) -> int:
    """Bytes that the manifests list."""
    return sum(int(segment["bytes_raw"]) for segment in segments(archive))


def dates(archive: Path) -> list[str]:
    """The UTC days of which the archive holds something."""
    return sorted(path.name.removeprefix("date=") for path in archive.glob("_manifest/date=*"))


def proven(
    archive: Path, expected: Sequence[ExpectedFile], check: Callable[[], None] = lambda: None
) -> list[FileVerdict]:
    """A verdict for each log file that was written; `check` is called in between and may raise."""
    listed = segments(archive)
    verdicts = []
    for one in expected:
        check()
        own = [segment for segment in listed if (segment["host"], segment["file"]) == (one.host, one.file)]
        verdicts.append(_verdict(archive, one, own))
    return verdicts


def strangers(archive: Path, expected: Sequence[ExpectedFile]) -> list[str]:
    """Log files in the archive that the demo did not write."""
    known = {(one.host, one.file) for one in expected}
    found = {(segment["host"], segment["file"]) for segment in segments(archive)}
    return sorted(f"{host}:{file}" for host, file in found - known)


def _verdict(archive: Path, expected: ExpectedFile, own: list[dict[str, Any]]) -> FileVerdict:
    damages: list[str] = []
    archived = _chunks(((archive / segment["path"], segment["codec"]) for segment in own), damages)
    written = _chunks(((path, "none") for path in expected.sources), damages)
    total, octets, lines = hashlib.sha256(), 0, 0
    difference = None
    for want, got in zip_longest(_even(written), _even(archived), fillvalue=b""):
        if difference is None and want != got:
            shorter = min(len(want), len(got))
            at = next((index for index in range(shorter) if want[index] != got[index]), shorter)
            around = slice(max(0, at - AROUND_BYTES), at + AROUND_BYTES)
            difference = Difference(octets + at, want[around], got[around])
        total.update(got)
        octets += len(got)
        lines += got.count(b"\n")
    return FileVerdict(expected, octets, lines, total.hexdigest(), len(own), difference, "; ".join(damages))


def _even(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of CHUNK_BYTES, so that two streams can be compared side by side."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= CHUNK_BYTES:
            yield bytes(held[:CHUNK_BYTES])
            del held[:CHUNK_BYTES]
    if held:
        yield bytes(held)


def _chunks(files: Iterable[tuple[Path, str]], damages: list[str]) -> Iterator[bytes]:
    """The bytes of `files`, concatenated; files that cannot be read are listed in `damages`."""
    for path, codec in files:
        try:
            with path.open("rb") as raw, _unpacked(raw, codec) as stream:
                while chunk := stream.read(CHUNK_BYTES):
                    yield chunk
        except (OSError, EOFError, zstandard.ZstdError) as error:
            damages.append(f"{path.name}: {error}")


def _unpacked(raw: BinaryIO, codec: str) -> Any:
    if codec == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return gzip.open(raw) if codec == "gzip" else raw
