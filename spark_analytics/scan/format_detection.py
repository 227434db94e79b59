"""Detects the format of each log file from its first lines. Read by the driver: a Spark job would read whole files."""

import codecs
import contextlib
import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import zstandard

from shipper import line_times, line_zones
from shipper.manifest import Segment
from spark_analytics.lines import log_formats
from spark_analytics.lines.log_formats import LogFormat
from spark_analytics.patterns import mask
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

HEAD_BYTES = 32 * 1024
"""Bytes at the start of a segment that are sampled: some 200 lines."""

STORED_BYTES = 132 * 1024
"""Bytes of a segment that are fetched from a store for the sample: a block of zstd can only be read as a whole."""

MAX_SAMPLED_SEGMENTS = 3
"""Segments of a log file that are sampled while they have fewer than `line_times.QUICK_LINES` lines together."""


def detect_formats(archive: Location, segments: Iterable[Segment]) -> dict[str, LogFormat]:
    """The format of each segment by its path; a log file that cannot be read gets the family `any`."""
    by_file: dict[tuple[int, str, str], list[Segment]] = defaultdict(list)
    for segment in sorted(segments, key=lambda segment: segment.first_seq):
        by_file[segment.partition, segment.host, segment.file].append(segment)
    lines: dict[tuple[int, str, str], list[str]] = {name: [] for name in by_file}
    for number in range(MAX_SAMPLED_SEGMENTS):
        short = {name: parts for name, parts in by_file.items() if len(lines[name]) < line_times.QUICK_LINES}
        sampled = {name: parts[number] for name, parts in short.items() if len(parts) > number}
        streams = locations.heads(archive, [segment.path for segment in sampled.values()], STORED_BYTES)
        for (name, segment), stream in zip(sampled.items(), streams, strict=True):
            lines[name] += _head(stream, segment.codec)
    formats: dict[str, LogFormat] = {}
    for name, found in lines.items():
        detected, quick = log_formats.detect(found), found[: line_times.QUICK_LINES]
        detected = replace(detected, varies=mask.varies(quick, detected.family), uneven=mask.uneven(quick))
        for segment in by_file[name]:
            formats[segment.path] = replace(detected, zone=line_zones.host_zone(segment.zone))
    return formats


def _head(stored: BinaryIO, codec: str) -> list[str]:
    """The complete lines among the first bytes of a segment; of a damaged one those before the damage."""
    content = b""
    with contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError), unpacked(stored, codec) as stream:
        while len(content) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(content))):
            content += more
    text = content.removeprefix(codecs.BOM_UTF8)
    complete, newline, _ = text.rpartition(b"\n")
    sample = complete if newline else text  # a line longer than the head
    return sample.decode("utf-8", "replace").split("\n", line_times.SAMPLE_LINES)[: line_times.SAMPLE_LINES]


def blocks(path: Location, codec: str) -> Iterator[bytes]:
    """The text of a segment in blocks; of a damaged one up to the damage."""
    with (
        contextlib.suppress(OSError, EOFError, zlib.error, zstandard.ZstdError),
        path.open("rb") as stored,
        unpacked(stored, codec) as stream,
    ):
        while block := stream.read(HEAD_BYTES):
            yield block


def ends(path: Location, codec: str) -> tuple[bool, bool]:
    """Whether a segment begins with a byte order mark, and whether its last line has no newline."""
    first = last = b""
    for block in blocks(path, codec):
        first, last = first or block, block
    return first.startswith(codecs.BOM_UTF8), bool(last) and not last.endswith(b"\n")


@contextlib.contextmanager
def unpacked(stored: BinaryIO, codec: str) -> Iterator[Any]:
    """The text of a segment as a stream; the end of truncated zstd is not an error."""
    if codec == "gzip":
        with gzip.open(stored) as stream:
            yield stream
    elif codec == "zstd":
        yield zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True)
    else:
        yield stored
