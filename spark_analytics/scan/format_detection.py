"""How the day's log files are written, by the first lines of each. Read here: no Spark job reads but a beginning."""

import codecs
import contextlib
import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import zstandard

from shipper.manifest import Segment
from spark_analytics.lines import log_formats
from spark_analytics.lines.log_formats import Writing
from spark_analytics.patterns import mask
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

HEAD_BYTES = 32 * 1024
"""Of one segment that are looked at: some 200 lines."""

STORED_BYTES = 132 * 1024
"""Of one segment that are fetched from afar for that: a block of zstd, which is read whole or not at all."""

MOST_SEGMENTS = 3
"""Of a log file that are looked at, while they have fewer than `families.QUICK_LINES` lines together."""

LogFile = tuple[int, str, str]
"""(partition, host, file)."""


def writings(archive: Location, segments: Iterable[Segment]) -> dict[LogFile, Writing]:
    """How each log file of `segments` is written; one that cannot be read is left to `any`."""
    by_file: dict[LogFile, list[Segment]] = defaultdict(list)
    for segment in sorted(segments, key=lambda segment: segment.first_seq):
        by_file[segment.partition, segment.host, segment.file].append(segment)
    lines: dict[LogFile, list[str]] = {name: [] for name in by_file}
    for turn in range(MOST_SEGMENTS):
        few = {name: parts for name, parts in by_file.items() if len(lines[name]) < log_formats.QUICK_LINES}
        asked = {name: parts[turn] for name, parts in few.items() if len(parts) > turn}
        streams = locations.beginnings(archive, [segment.path for segment in asked.values()], STORED_BYTES)
        for (name, segment), stream in zip(asked.items(), streams, strict=True):
            lines[name] += _head(stream, segment.codec)
    return {name: _chosen(found) for name, found in lines.items()}


def _chosen(lines: list[str]) -> Writing:
    writing, quick = log_formats.chosen(lines), lines[: log_formats.QUICK_LINES]
    return replace(writing, varies=mask.varies(quick, writing.family), uneven=mask.uneven(quick))


def _head(stored: BinaryIO, codec: str) -> list[str]:
    """The whole lines among the first bytes of a segment; of a damaged one those before the damage."""
    content = b""
    with contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError), _unpacked(stored, codec) as stream:
        while len(content) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(content))):
            content += more
    text = content.removeprefix(codecs.BOM_UTF8)
    whole, newline, _ = text.rpartition(b"\n")
    known = whole if newline else text  # a line longer than the head
    return known.decode("utf-8", "replace").split("\n", log_formats.SAMPLE_LINES)[: log_formats.SAMPLE_LINES]


def blocks(path: Location, codec: str) -> Iterator[bytes]:
    """The text of a segment, in pieces; of a damaged one up to the damage."""
    with (
        contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError),
        locations.opened(path) as stored,
        _unpacked(stored, codec) as stream,
    ):
        while piece := stream.read(HEAD_BYTES):
            yield piece


def ends(path: Location, codec: str) -> tuple[bool, bool]:
    """Whether a segment begins with a byte order mark, and whether its last line has no newline."""
    first = last = b""
    for piece in blocks(path, codec):
        first, last = first or piece, piece
    return first.startswith(codecs.BOM_UTF8), bool(last) and not last.endswith(b"\n")


@contextlib.contextmanager
def _unpacked(stored: BinaryIO, codec: str) -> Iterator[Any]:
    if codec == "gzip":
        with gzip.open(stored) as stream:
            yield stream
    elif codec == "zstd":
        yield zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True)
    else:
        yield stored
