"""The log file that is shipped: lines with the redundancy of real ones."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "loghub"
"""Real samples, where they are at hand."""

COPIED_BYTES = 1 << 20


@dataclass(frozen=True)
class Source:
    """A log file, written and synced."""

    path: Path
    size: int
    kind: str  #: what its lines are


def make(path: Path, megabytes: int, samples: Path = SAMPLES) -> Source:
    """A file of at least `megabytes` (10^6 bytes): whole samples in turn, so that no block is like its neighbour."""
    texts = [sample.read_bytes().rstrip(b"\n") + b"\n" for sample in sorted(samples.glob("*.log"))]
    kind = f"{len(texts)} real samples in turn" if texts else "generated lines"
    size = 0
    with path.open("wb") as out:
        for text in _in_turn(texts or [generated()]):
            if size >= megabytes * 1_000_000:
                break
            size += out.write(text)
        out.flush()
        os.fsync(out.fileno())
    return Source(path, size, kind)


def part(source: Source, megabytes: int, path: Path) -> Source:
    """The first `megabytes` of a source as a file of its own, ending with a whole line."""
    with source.path.open("rb") as whole:
        text = whole.read(megabytes * 1_000_000)
    text = text[: text.rfind(b"\n") + 1]
    path.write_bytes(text)
    return Source(path, len(text), source.kind)


def repeated(source: Source, count: int, path: Path) -> Source:
    """A source `count` times over, as one file."""
    with path.open("wb") as out:
        for _ in range(count):
            with source.path.open("rb") as whole:
                shutil.copyfileobj(whole, out, COPIED_BYTES)
        out.flush()
        os.fsync(out.fileno())
    return Source(path, source.size * count, source.kind)


def _in_turn(texts: list[bytes]):
    while True:
        yield from texts


def generated() -> bytes:
    """Lines of a made-up service."""
    words = ("accepted", "closed", "request", "served", "in", "from", "upstream", "timed out", "user", "session")
    lines = [
        f"2026-11-20T10:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}Z app[{n % 97}]: {words[n % 10]} "
        f"{words[n * 7 % 10]} 10.0.{n % 13}.{n % 251} id={n * 2654435761 % 2**32:08x} {n % 1500} ms\n"
        for n in range(20_000)
    ]
    return "".join(lines).encode()
