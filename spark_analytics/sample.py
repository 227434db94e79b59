"""How the day's log files are written, by the first lines of each. Read here: no Spark job reads but a beginning."""

import contextlib
import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from shipper.manifest import Segment
from spark_analytics import families
from spark_analytics.families import Writing

HEAD_BYTES = 32 * 1024
"""Of one segment that are looked at: some 200 lines."""

MOST_SEGMENTS = 3
"""Of a log file that are looked at, while they have fewer than `families.QUICK_LINES` lines together."""

LogFile = tuple[int, str, str]
"""(partition, host, file)."""


def writings(archive: Path, segments: Iterable[Segment]) -> dict[LogFile, Writing]:
    """How each log file of `segments` is written; one that cannot be read is left to `any`."""
    by_file: dict[LogFile, list[Segment]] = defaultdict(list)
    for segment in sorted(segments, key=lambda segment: segment.first_seq):
        by_file[segment.partition, segment.host, segment.file].append(segment)
    return {name: families.chosen(_lines(archive, parts)) for name, parts in by_file.items()}


def _lines(archive: Path, segments: list[Segment]) -> list[str]:
    lines: list[str] = []
    for segment in segments[:MOST_SEGMENTS]:
        lines += _head(archive / segment.path, segment.codec)
        if len(lines) >= families.QUICK_LINES:
            break
    return lines


def _head(path: Path, codec: str) -> list[str]:
    """The whole lines among the first bytes of a segment; of a damaged one those before the damage."""
    content = b""
    with contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError), _opened(path, codec) as stream:
        while len(content) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(content))):
            content += more
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(lines) > 1:  # else a line longer than the head
        lines.pop()
    return [line.decode("utf-8", "replace") for line in lines[: families.SAMPLE_LINES]]


def blocks(path: Path, codec: str) -> Iterator[bytes]:
    """The text of a segment, in pieces; of a damaged one up to the damage."""
    with contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError), _opened(path, codec) as stream:
        while piece := stream.read(HEAD_BYTES):
            yield piece


@contextlib.contextmanager
def _opened(path: Path, codec: str) -> Iterator[Any]:
    with path.open("rb") as raw:
        if codec == "gzip":
            with gzip.open(raw) as stream:
                yield stream
        elif codec == "zstd":
            yield zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        else:
            yield raw
