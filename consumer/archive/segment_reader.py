"""Read the text of one file of an archive, from the frames that were stored in a span of time.

A file may be renamed, sealed, merged, redacted or removed while others read. An open descriptor keeps its bytes; before
that, the manifests name the segment that holds the text now.
"""

import errno
import glob
import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from consumer.archive import frame_index, manifests
from consumer.archive.event_times import SAMPLE_BYTES
from consumer.archive.frame_index import FRAME_BYTES, FrameIndex
from consumer.archive.lines import Block, whole_lines, without_first_line
from consumer.archive.manifests import listed_segments
from consumer.archive.parts import FileState, Part
from consumer.archive.segment_io import CHUNK_BYTES, CountingReader, texts
from consumer.archive.stored_times import StoredTimes
from shipper import layout
from shipper.manifest import Segment, nanoseconds

MAX_ATTEMPTS = 20
"""A file is replaced at most so often while one reader opens it."""


class RemovedError(FileNotFoundError):
    """Retention removed the day or the host: its lines are no longer part of the archive."""


@dataclass(slots=True)
class SegmentReader:
    """The lines of a part, a block at a time."""

    path: str  #: relative to the archive, where it was found
    text_start: int  #: where the first line begins in the text of the part
    times: StoredTimes  #: when the text of the part was stored
    stored: CountingReader  #: counts the bytes that were read
    blocks: Iterator[Block]
    sample: bytes  #: the beginning of the text that is read


@dataclass(frozen=True, slots=True)
class _Location:
    """Where the text of a part is now: bytes `start` to `end` of the text in the file `path`."""

    path: str
    start: int
    end: int


@contextmanager
def open_part(archive: Path, part: Part, since_ns: int, until_ns: int | None) -> Iterator[SegmentReader]:
    """Read whole lines of a part: those that may have been stored in that time, and some before them.

    Raises:
        RemovedError: retention removed it.
        OSError: it cannot be read.
    """
    location, stream = _opened(archive, part)
    with stream:
        start, times, stored, chunks = _chunks(stream, part, location, since_ns, until_ns)
        blocks = whole_lines(chunks, start)
        if start:
            blocks = without_first_line(blocks)
        if (first := next(blocks, None)) is None:
            yield SegmentReader(location.path, start, times, stored, blocks, b"")
        else:
            sample = first.text[first.start : first.start + SAMPLE_BYTES]
            blocks = itertools.chain([first], blocks)
            yield SegmentReader(location.path, first.at + first.start, times, stored, blocks, sample)


@contextmanager
def open_text(archive: Path, part: Part, start: int, end: int) -> Iterator[Iterator[bytes]]:
    """Bytes `start` to `end` of the text of a part, in chunks. Raises as `open_part`."""
    location, stream = _opened(archive, part)
    inner = _Location(location.path, location.start + start, min(location.end, location.start + end))
    with stream:
        yield _text(stream, part, inner)


class _Chunks(NamedTuple):
    """Text of a part that may begin within a line, and ends at the end of one."""

    start: int  #: where the first chunk begins in the text of the part
    times: StoredTimes
    stored: CountingReader
    text: Iterator[bytes]


def _chunks(stream: BinaryIO, part: Part, location: _Location, since_ns: int, until_ns: int | None) -> _Chunks:
    is_sealed, codec, index = _form(stream, part, location)
    times = _times(stream, part, location, index) if is_sealed and codec == "zstd" else part.stored_times()
    if codec == "none":
        return _plain_chunks(stream, location, times, times.within(since_ns, until_ns))
    if index is None:
        stored = CountingReader(stream, _stored_bytes(part, location, is_sealed=is_sealed))
        chunks = _cut(texts(stored, codec), location.start, location.end, location.end)
        return _Chunks(0, times, stored, chunks)
    wanted = range(len(index.frames))
    if index.has_times:
        of_all = index.stored_times(part.first_ns, part.last_ns)
        wanted = index.within(of_all, since_ns, until_ns)
        if of_all.bounds(sum(frame.raw for frame in index.frames[: wanted.start]))[1] >= since_ns:
            wanted = range(max(0, wanted.start - 1), wanted.stop)  # its first line may begin in the frame before
    raw, raw_end, stored = _of_frames(stream, index, wanted)
    start, end = max(raw, location.start), min(raw_end, location.end)
    following = (frame.stored for frame in index.frames[wanted.stop :]) if wanted else ()
    chunks = _cut(
        _to_line_end(stored, codec, following), start - raw, max(start, end) - raw, max(start, location.end) - raw
    )
    return _Chunks(start - location.start, times, stored, chunks)


def _text(stream: BinaryIO, part: Part, location: _Location) -> Iterator[bytes]:
    """Just the text of a location."""
    is_sealed, codec, index = _form(stream, part, location)
    raw, stored = 0, CountingReader(stream, _stored_bytes(part, location, is_sealed=is_sealed))
    if codec == "none":
        raw, stored = location.start, CountingReader(stream, max(0, location.end - location.start))
        stream.seek(raw)
    elif index is not None:
        raw, _, stored = _of_frames(stream, index, index.holding(location.start, location.end))
    return _cut(texts(stored, codec), location.start - raw, location.end - raw, location.end - raw)


def _form(stream: BinaryIO, part: Part, location: _Location) -> tuple[bool, str, FrameIndex | None]:
    """Whether a file is sealed, its codec, and the index of its frames."""
    is_sealed = layout.epoch_of(location.path) is None and "/" + layout.SEALING_PREFIX not in location.path
    codec = layout.codec_of(location.path) if is_sealed else part.codec
    return is_sealed, codec, frame_index.read(stream) if is_sealed and codec == "zstd" else None


def _stored_bytes(part: Part, location: _Location, *, is_sealed: bool) -> int:
    """How many bytes of a file are of the archive: what was appended to a segment that a manifest lists is not."""
    is_listed = part.state is FileState.SEALED and location.path == part.path
    return part.stored if is_listed or not is_sealed else sys.maxsize


def _of_frames(stream: BinaryIO, index: FrameIndex, wanted: range) -> tuple[int, int, CountingReader]:
    """Where the text of some frames begins and ends, and their bytes."""
    before, frames = index.frames[: wanted.start], index.frames[wanted.start : wanted.stop]
    raw = sum(frame.raw for frame in before)
    stream.seek(sum(frame.stored for frame in before))
    return raw, raw + sum(frame.raw for frame in frames), CountingReader(stream, sum(frame.stored for frame in frames))


def _plain_chunks(stream: BinaryIO, location: _Location, times: StoredTimes, wanted: tuple[int, int]) -> _Chunks:
    """The bytes of the text that are wanted, and about as much before them as of frames."""
    start, end = max(0, wanted[0] - FRAME_BYTES), wanted[1]
    length, rest = (end - start, times.raw - end) if wanted[0] < end else (0, 0)
    stream.seek(location.start + start)
    stored = CountingReader(stream, length)
    following = itertools.repeat(CHUNK_BYTES, -(-rest // CHUNK_BYTES))
    chunks = _cut(_to_line_end(stored, "none", following), 0, length, length + rest)
    return _Chunks(start, times, stored, chunks)


def _to_line_end(stored: CountingReader, codec: str, following: Iterable[int]) -> Iterator[bytes]:
    """The text of the bytes to which `stored` is limited, and of as many of the `following` as end its last line."""
    text = b"\n"
    for text in texts(stored, codec):
        yield text
    for more in following:
        if text.endswith(b"\n"):
            return
        stored.allow(more)
        for text in texts(stored, codec):
            end = text.find(b"\n") + 1
            yield text[: end or len(text)]
            if end:
                return


def _times(stream: BinaryIO, part: Part, location: _Location, index: FrameIndex | None) -> StoredTimes:
    """When the text of a part was stored that is now in a segment, which may hold that of other parts, too."""
    is_own = location.path in {part.path, *part.others}
    marks = index.times if index else frame_index.read_times(stream, part.raw if is_own else None)[0]
    if index is not None:
        return index.stored_times(part.first_ns, part.last_ns).part(location.start, location.end)
    if marks:
        whole = StoredTimes.of(marks, first_ns=part.first_ns, last_ns=part.last_ns, raw=location.end)
        return whole.part(location.start, location.end)
    return part.stored_times()


def _cut(chunks: Iterator[bytes], start: int, end: int, most: int) -> Iterator[bytes]:
    """Bytes `start` to `end` of a text that comes in chunks, and what comes after them, up to `most`."""
    at = 0
    for chunk in chunks:
        if at + len(chunk) > start:
            first, last = max(0, start - at), most - at
            yield chunk if first == 0 and last >= len(chunk) else chunk[first:last]
        at += len(chunk)
        if at >= most:
            return
    if at < end:
        raise OSError(errno.EIO, f"it ends after {at} of {end} bytes of text")


def _opened(archive: Path, part: Part) -> tuple[_Location, BinaryIO]:
    whole = _Location(part.path, 0, part.raw)
    candidates = [whole, *(_Location(path, 0, part.raw) for path in part.others)]
    for _ in range(MAX_ATTEMPTS):
        for location in candidates:
            try:
                return location, (archive / location.path).open("rb")
            except FileNotFoundError:
                continue
        candidates = _successors(archive, part)
    raise FileNotFoundError(errno.ENOENT, "it was replaced again and again", part.path)


def _successors(archive: Path, part: Part) -> list[_Location]:
    """Where the text of a part that is gone may be now. Raises RemovedError, or FileNotFoundError: it is nowhere."""
    date, key = layout.date_of(part.path), (part.partition, part.host, part.file)
    listed = listed_segments(archive, date, f"{part.path.rpartition('/')[0]}/")
    segments = {each.path: each for each in listed if (each.partition, each.host, each.file) == key}
    start = next((path for path in (part.path, *part.others) if path in segments), "")
    if not start:
        first = (part.first_seq, part.first_ns // 1000)  # manifests have microseconds
        begins = {path: (each.first_seq, nanoseconds(each.first_time) // 1000) for path, each in segments.items()}
        start = next((path for path, message in begins.items() if message == first), "")
    location, seen = _Location(start, 0, part.raw), {""}
    while location.path not in seen:
        seen.add(location.path)
        if (archive / location.path).exists():
            return [location]
        location = _replaced(location, segments)
    if unlisted := _unlisted(archive, part):
        return [_Location(unlisted, 0, part.raw)]
    gone = manifests.removed_hosts(archive).get(date, ())
    if date in manifests.removed_days(archive) or part.host in gone:
        raise RemovedError(errno.ENOENT, "retention removed it", part.path)
    raise FileNotFoundError(errno.ENOENT, "the file is not there", part.path)


def _replaced(location: _Location, segments: dict[str, Segment]) -> _Location:
    """The same text in the segment that replaced this one."""
    for segment in segments.values():
        if location.path not in segment.replaces:
            continue
        if len(segment.replaces) == 1:  # redacted, or doubled bytes were removed: its length may be another
            old = segments.get(location.path)
            is_whole = old is None or (location.start, location.end) == (0, old.bytes_raw)
            return _Location(segment.path, location.start, segment.bytes_raw if is_whole else location.end)
        before = segment.replaces[: segment.replaces.index(location.path)]
        if all(path in segments for path in before):
            shift = sum(segments[path].bytes_raw for path in before)
            return _Location(segment.path, location.start + shift, location.end + shift)
    return _Location("", 0, 0)


def _unlisted(archive: Path, part: Part) -> str:
    """The segment of an open file, after the rename and before its manifest line."""
    parent = (archive / part.path).parent
    name = layout.file_name(part.file)
    for segment in sorted(parent.glob(f"{glob.escape(name)}-{'[0-9]' * 20}*")):
        if part.path.rpartition("/")[2][:1] == "_" and int(segment.name[len(name) + 1 :][:20]) >= part.first_seq:
            return segment.relative_to(archive).as_posix()
    return ""
