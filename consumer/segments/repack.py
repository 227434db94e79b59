"""Compresses the segments of closed days again, at a higher level, while the collector has nothing else to do.

read    unpack frame by frame, compare with the manifest line, compress each frame, into a file without a name
place   as `rewrite_segment` does: a temporary name, fsync, link, manifest line
remove  the old file an hour later: a report or a search that read the manifest before goes on with it

A frame stays a frame with the same text, so the index keeps its times and line counts. A kill at any step leaves the
old segment or the new one counted.
"""

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from consumer.archive import frame_index, manifests
from consumer.archive.directory import LOCKS, manifests_of_day, try_lock
from consumer.archive.manifests import current_segments, removed_days
from consumer.archive.segment_io import BROKEN, ByteCounter, CountingReader, CountingWriter
from consumer.segments.compaction import index_of
from consumer.segments.rewrite_segment import list_in_place_of, remove_replaced, rewriting, stands
from shipper import events
from shipper.durable_files import make_directory
from shipper.errors import Unavailable
from shipper.layout import NANOSECONDS, date_of
from shipper.manifest import Segment, nanoseconds

LEAST_GAIN = 0.03
"""Minimum share of its bytes that a segment must save."""
LEAST_BYTES = 64 * 1024
"""Smaller segments take blocks of the file system, not bytes."""
MOST_FRAME_BYTES = 16 * 1024 * 1024
"""Maximum text of a frame, which is in memory twice."""
GRACE_SECONDS = 3600.0
"""Time that a segment stays on the disk after another one has replaced it."""
LEAST_FREE = 0.1
"""Minimum free share of the file system: for an hour, segments are there twice."""
BUSY_SECONDS = 1.0
"""Time between two checks whether the collector is idle."""


class Pace:
    """Slows a thread down to a share of a core, and holds it up while the collector has work. Owned by its thread.

    `clock` and `cpu` are seconds of the machine and of the thread.
    """

    def __init__(
        self,
        share: float,
        is_idle: Callable[[], bool],
        ending: threading.Event,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._share = share
        self._is_idle = is_idle
        self._ending = ending
        self._clock = clock
        self._cpu = cpu
        self._before = (clock(), cpu())

    def may_go_on(self) -> bool:
        """Wait until more may be done. False: the collector ends."""
        at, cpu = self._clock(), self._cpu()
        owed = (cpu - self._before[1]) / self._share - (at - self._before[0])
        if owed > 0:
            self._ending.wait(owed)
        while not self._ending.is_set() and not self._is_idle():
            self._ending.wait(BUSY_SECONDS)
        self._before = (self._clock(), cpu)
        return not self._ending.is_set()


class _Packed(NamedTuple):
    """A segment that was compressed again, in a file without a name."""

    stream: BinaryIO
    text: ByteCounter
    octets: int


class Repacker:
    """Compresses the closed days of one archive again. One call at a time.

    `level`: of zstd. Segments that were redacted or repaired stay as they are.
    """

    def __init__(self, archive: Path, level: int, grace_seconds: float = GRACE_SECONDS) -> None:
        self._archive = archive
        self._level = level
        self._grace_seconds = grace_seconds
        self._finished: set[str] = set()  # days that have nothing to compress any more

    def run(self, partitions: Collection[int], may_go_on: Callable[[], bool]) -> None:
        """Compress what closed days hold of `partitions`, the newest day first. Raises OSError."""
        for date in sorted(manifests.days(self._archive) - removed_days(self._archive) - self._finished, reverse=True):
            if not may_go_on():
                return
            if _is_closed(self._archive, date) and self._repack_day(date, partitions, may_go_on):
                self._finished.add(date)

    def _repack_day(self, date: str, partitions: Collection[int], may_go_on: Callable[[], bool]) -> bool:
        """Compress one day. Returns whether nothing is left to do."""
        mine = [each for each in current_segments(self._archive, date) if each.partition in partitions]
        old = [self._remove_old(segment) for segment in mine if len(segment.replaces) == 1]
        is_whole = all(old)
        for segment in filter(_is_candidate, mine):
            if not (self._has_space() and may_go_on()):
                return False
            is_whole &= self._repack(segment, may_go_on)
        return is_whole

    def _remove_old(self, segment: Segment) -> bool:
        """Remove what a segment replaced, once no reader needs it. Returns whether it is gone."""
        is_old = time.time() - nanoseconds(segment.sealed_at) / NANOSECONDS >= self._grace_seconds
        if is_old:
            remove_replaced(self._archive, [segment])
        return is_old

    def _has_space(self) -> bool:
        usage = shutil.disk_usage(self._archive)
        return usage.free >= LEAST_FREE * usage.total

    def _repack(self, segment: Segment, may_go_on: Callable[[], bool]) -> bool:
        """Compress one segment. Returns whether nothing is left to do."""
        index = index_of(self._archive, segment)
        if index is None or any(frame.raw > MOST_FRAME_BYTES for frame in index.frames):
            return True
        make_directory(self._archive / LOCKS)
        with tempfile.TemporaryFile(dir=self._archive / LOCKS) as stream:
            try:
                packed = self._packed(segment, index, stream, may_go_on)
            except FileNotFoundError:  # another process replaced or removed it
                return True
            if packed is None:
                return False
            found = (packed.text.octets, packed.text.lines, f"{packed.text.crc:08x}")
            if found != (segment.bytes_raw, segment.lines, segment.crc32):
                reason = "its text is not that which the manifest lists"
                events.segment_damaged(partition=segment.partition, path=segment.path, reason=reason)
                return True
            if packed.octets > segment.bytes_stored * (1 - LEAST_GAIN):
                return True
            self._place(segment, packed)
        return False  # the old one is there

    def _packed(
        self, segment: Segment, index: frame_index.FrameIndex, into: BinaryIO, may_go_on: Callable[[], bool]
    ) -> _Packed | None:
        """The frames of a segment with its index, compressed `into` a file. None: the collector ends."""
        packer = zstandard.ZstdCompressor(level=self._level, write_checksum=True)
        unpacker = zstandard.ZstdDecompressor()
        packed, text, frames = CountingWriter(into), ByteCounter(), list[frame_index.Frame]()
        with (self._archive / segment.path).open("rb") as stream:
            stored = CountingReader(stream, segment.bytes_stored)
            for frame in index.frames:
                if not may_go_on():
                    return None
                try:
                    content = unpacker.decompress(stored.read(frame.stored), max_output_size=frame.raw)
                except BROKEN:
                    content = b""  # the sums differ
                text.add(content)
                length = packed.write(packer.compress(content))
                frames.append(frame._replace(stored=length))
        packed.write(frame_index.encode(replace(index, frames=tuple(frames))))
        return _Packed(into, text, packed.octets)

    def _place(self, segment: Segment, packed: _Packed) -> None:
        """List it in the place of the old one, unless another process changes the day now: then the next pass does."""
        retention = try_lock(self._archive / LOCKS / "retention.lock", f"the retention of {self._archive}")
        with retention or contextlib.nullcontext(), rewriting(self._archive, segment.partition) as is_alone:
            is_removed = date_of(segment.path) in removed_days(self._archive)
            if retention is None or not is_alone or is_removed or not stands(self._archive, segment):
                return

            def write(into: CountingWriter) -> ByteCounter:
                packed.stream.seek(0)
                shutil.copyfileobj(packed.stream, into)
                return packed.text

            with contextlib.suppress(Unavailable):  # no number is free next to it: it stays as it is
                list_in_place_of(self._archive, segment, write)
                saved = segment.bytes_stored - packed.octets
                events.segment_repacked(partition=segment.partition, path=segment.path, saved=saved)


def _is_candidate(segment: Segment) -> bool:
    """Whether a segment may become smaller. One that replaces a single one was compressed again already."""
    is_changed = segment.redactions or segment.removals or len(segment.replaces) == 1
    return segment.codec == "zstd" and segment.bytes_stored >= LEAST_BYTES and not is_changed


def _is_closed(archive: Path, date: str) -> bool:
    """Whether no collector adds anything to a day any more."""
    listed = manifests_of_day(archive, date)
    return bool(listed) and all(path.with_suffix(".done").exists() for path in listed)
