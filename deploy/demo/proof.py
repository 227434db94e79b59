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

Verdict = dict[str, Any]
"""What the archive holds of one log file against what was written, as in `result.json`."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What was written to one log file of one host, counted while it was written."""

    host: str
    file: str
    sources: Sequence[Path]  #: the generations on disk, oldest first
    octets: int
    lines: int
    sha256: str


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


def compared(
    archive: Path, expected: Sequence[ExpectedFile], check: Callable[[], None] = lambda: None
) -> tuple[list[Verdict], list[str]]:
    """A verdict for each log file that was written, and the log files of the archive that were not.

    `check` is called in between and may raise.
    """
    own: dict[tuple[str, str], list[dict[str, Any]]] = {(one.host, one.file): [] for one in expected}
    strangers = set()
    for segment in segments(archive):
        key = segment["host"], segment["file"]
        if key in own:
            own[key].append(segment)
        else:
            strangers.add(f"{key[0]}:{key[1]}")
    verdicts = []
    for one in expected:
        check()
        verdicts.append(_verdict(archive, one, own[one.host, one.file]))
    return verdicts, sorted(strangers)


def _verdict(archive: Path, expected: ExpectedFile, own: list[dict[str, Any]]) -> Verdict:
    damages: list[str] = []
    archived = _chunks(((archive / segment["path"], segment["codec"]) for segment in own), damages)
    written = _chunks(((path, "none") for path in expected.sources), damages)
    total, octets, lines, difference = hashlib.sha256(), 0, 0, None
    for want, got in zip_longest(written, archived, fillvalue=b""):
        if difference is None and want != got:
            shorter = min(len(want), len(got))
            at = next((index for index in range(shorter) if want[index] != got[index]), shorter)
            around = slice(max(0, at - AROUND_BYTES), at + AROUND_BYTES)
            difference = {"offset": octets + at, "written": repr(want[around]), "archived": repr(got[around])}
        total.update(got)
        octets += len(got)
        lines += got.count(b"\n")
    same = (octets, total.hexdigest()) == (expected.octets, expected.sha256)
    return {
        "host": expected.host,
        "file": expected.file,
        "identical": same and not difference and not damages,
        "bytes": expected.octets,
        "bytes_archived": octets,
        "lines": expected.lines,
        "lines_archived": lines,
        "sha256": expected.sha256,
        "sha256_archived": total.hexdigest(),
        "generations": len(expected.sources),
        "segments": len(own),
        "damage": "; ".join(damages),
        "difference": difference,
    }


def _chunks(files: Iterable[tuple[Path, str]], damages: list[str]) -> Iterator[bytes]:
    """The bytes of `files` in chunks of CHUNK_BYTES, wherever a file ends; unreadable files are listed in `damages`."""
    held = bytearray()
    for path, codec in files:
        try:
            with path.open("rb") as raw, _unpacked(raw, codec) as stream:
                while part := stream.read(CHUNK_BYTES):
                    held += part
                    while len(held) >= CHUNK_BYTES:
                        yield bytes(held[:CHUNK_BYTES])
                        del held[:CHUNK_BYTES]
        except (OSError, EOFError, zstandard.ZstdError) as error:
            damages.append(f"{path.name}: {error}")
    if held:
        yield bytes(held)


def _unpacked(raw: BinaryIO, codec: str) -> Any:
    if codec == "zstd":
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return gzip.open(raw) if codec == "gzip" else raw
