"""Merges the small segments of a day to one per log file, so that Spark opens fewer files. Frames are copied.

build   check each part against its manifest line, append its bytes to the others under a temporary name, fsync
place   link, fsync the directory
        manifest line with the parts that it replaces, fsync    (from here on readers use it, and not its parts)
        remove the parts; fsync the directory before the day is closed

After a kill before the manifest line, the next start finds an unlisted segment and verifies it against its parts. After
a later kill, the next start removes the parts. A segment that is listed and not replaced is never removed.

The first part, which is pure, decides which segments are merged, and makes the manifest line.
"""

import contextlib
import errno
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from pathlib import Path

from consumer.archive import frame_index, stored_times
from consumer.archive.frame_index import Frame, FrameIndex
from consumer.archive.manifests import Listing
from consumer.archive.segment_io import (
    BROKEN,
    ByteCounter,
    CountingReader,
    CountingWriter,
    Writer,
    count_content,
    texts,
)
from consumer.archive.stored_times import StoredTimes
from consumer.segments.rewrite_segment import rewriting
from consumer.segments.sealer import Sealer, new_segment_file, now, number_of, split_name, times_for, unfinished_target
from shipper import events, layout, manifest
from shipper.durable_files import sync_directory
from shipper.layout import FileKey, date_of
from shipper.manifest import Gap, Segment, SourceSpan

_FEWEST = 2


def target_of(run: Sequence[Segment]) -> str:
    """The path of the merged `run`: numbered after its last part, so that names keep the order."""
    date, last = date_of(run[-1].path), run[-1]
    return layout.segment_path(FileKey(date, last.partition, last.host, last.file), number_of(last) + 1, last.codec)


def runs(segments: Sequence[Segment], taken: Set[int], *, below: int, most: int) -> list[list[Segment]]:
    """Neighbours of less than `below` bytes that become one of at most `most` bytes (of text).

    `segments` are in the order of their numbers. `taken` are all numbers of the file: where the number after a run is
    taken, the run is shorter, and its rest stays as it is.
    """
    found: list[list[Segment]] = []
    run: list[Segment] = []
    for segment in segments:
        small = segment.bytes_raw < below
        length = sum(each.bytes_raw for each in (*run, segment))
        if run and (not small or segment.codec != run[0].codec or length > most):
            found.append(run)
            run = []
        if small:
            run.append(segment)
    found.append(run)
    for each in found:
        while each and number_of(each[-1]) + 1 in taken:
            each.pop()
    return [each for each in found if len(each) >= _FEWEST]


def continues(earlier: Segment, later: Segment) -> bool:
    """Whether an unfinished last line of `earlier` goes on in `later`: both hold one source, the same."""
    sources = {span.source for span in earlier.spans}
    return len(sources) == 1 == len(sources.union(span.source for span in later.spans))


def joined(
    run: Sequence[Segment], text: ByteCounter, stored: CountingWriter | CountingReader, *, collector: str, now: str
) -> Segment:
    """The manifest line of `run` as one segment: `text` is in it, `stored` passed by."""
    times = stored_times.joined(frame_index.times_listed(part, stored_times.from_text(part.times)) for part in run)
    return replace(
        run[-1],
        collector=collector,
        sealed_at=now,
        path=target_of(run),
        lines=text.lines,
        bytes_raw=text.octets,
        bytes_stored=stored.octets,
        crc32=f"{text.crc:08x}",
        crc32_stored=f"{stored.crc:08x}",
        first_seq=min(part.first_seq for part in run),
        last_seq=max(part.last_seq for part in run),
        first_time=min(part.first_time for part in run),
        last_time=max(part.last_time for part in run),
        spans=_spans(run),
        gaps=_gaps(run),
        duplicates=sum(part.duplicates for part in run),
        joins=sum(part.joins for part in run),
        filtered=sum(part.filtered for part in run),
        edited=sum(part.edited for part in run),
        redacted=dict(sum((Counter(part.redacted) for part in run), Counter[str]())),
        labels=next((part.labels for part in reversed(run) if part.labels), {}),
        late=max(part.late for part in run),
        ahead=max(part.ahead for part in run),
        times=times_for(run[-1].codec, times),
        zone=next((part.zone for part in reversed(run) if part.zone), ""),
        replaces=tuple(part.path for part in run),
        redactions=tuple(redaction for part in run for redaction in part.redactions),
        removals=tuple(removal for part in run for removal in part.removals),
    )


def _spans(run: Iterable[Segment]) -> tuple[SourceSpan, ...]:
    """The spans of all parts in order. One that goes on where the last one of its source ended is one with it."""
    spans: list[SourceSpan] = []
    last: dict[str, int] = {}
    for span in (span for part in run for span in part.spans):
        at = last.get(span.source)
        if at is not None and spans[at].end == span.start:
            spans[at] = replace(spans[at], end=span.end)
        else:
            last[span.source] = len(spans)
            spans.append(span)
    return tuple(spans)


def _gaps(run: Iterable[Segment]) -> tuple[Gap, ...]:
    """The gaps of all parts. Those of no source are places in the text."""
    gaps: list[Gap] = []
    before = 0
    for part in run:
        gaps += [
            gap if gap.source else replace(gap, start=gap.start + before, end=gap.end + before) for gap in part.gaps
        ]
        before += part.bytes_raw
    return tuple(gaps)


LONGEST_NAP = 0.1


class _ApartError(Exception):
    """A part cannot follow the previous part."""

    def __init__(self, index: int, damage: str = "") -> None:
        super().__init__(damage)
        self.index = index
        self.damage = damage


class Merger:
    """Merges the segments of partitions whose one writer this collector is, on days that are over for it."""

    def __init__(self, archive: Path, sealer: Sealer, *, below: int, most: int) -> None:
        self._archive = archive
        self._sealer = sealer
        self._below = below
        self._most = most
        self._shrunk: set[Path] = set()  # directories of removed parts; the removal is not durable yet

    def merge(self, date: str, partition: int, listing: Listing, go_on: Callable[[], bool]) -> bool:
        """Merge a day of a partition. False means that a stop was requested before all was done, or a redaction runs.

        `go_on` is called before every permanent change. Raises OSError: try again later.
        """
        root = f"date={date}/partition={partition}"
        try:
            hosts = sorted(os.listdir(self._archive / root))
        except FileNotFoundError:
            return True
        with rewriting(self._archive, partition) as alone:
            try:
                return alone and all(go_on() and self._merge_host(f"{root}/{host}", listing, go_on) for host in hosts)
            finally:  # one write to the disk is enough for the removal of many parts
                for directory in self._shrunk:
                    sync_directory(directory)
                self._shrunk.clear()

    def _merge_host(self, directory: str, listing: Listing, go_on: Callable[[], bool]) -> bool:
        began = time.thread_time()
        names = os.listdir(self._archive / directory)
        by_file: dict[str, list[tuple[int, str]]] = {}
        for name in names:
            if found := split_name(name) if name[0] not in "._" else None:
                by_file.setdefault(found[0], []).append((found[1], f"{directory}/{name}"))
        for numbered in by_file.values():
            self._merge_file([path for _, path in sorted(numbered)], listing, go_on)
        for name in filter(unfinished_target, names):  # left by kills; a running process has to retry
            (self._archive / directory / name).unlink(missing_ok=True)
        time.sleep(min(time.thread_time() - began, LONGEST_NAP))  # gives time to the threads that read the streams
        return go_on()

    def _merge_file(self, paths: list[str], listing: Listing, go_on: Callable[[], bool]) -> None:
        """Merge the segments of one log file, which are `paths` in the order of their numbers."""
        replaced = [path for path in paths if self._is_replaced(path, listing)]
        self._remove(replaced)
        there = [path for path in paths if path not in replaced]
        listed = {path: segment for path in there if (segment := listing.find(path)) is not None}
        unlisted = [path for path in there if path not in listed]
        segments = list(listed.values())
        if len(unlisted) == 1:
            segments = self._adopted(unlisted[0], segments, go_on)
        if len(unlisted) > 1 or not segments or not all(map(_is_in_place, segments)):
            return  # a foreign file, or the manifest is damaged: the audit reports it
        self._merge_all(segments, {number_of(segment) for segment in segments}, go_on)

    def _merge_all(self, segments: Sequence[Segment], taken: Set[int], go_on: Callable[[], bool]) -> None:
        for run in runs(segments, taken, below=self._below, most=self._most):
            try:
                self._merge_run(run, go_on)
            except _ApartError as apart:
                at, rest = apart.index, apart.index + bool(apart.damage)
                if apart.damage:
                    events.segment_damaged(partition=run[at].partition, path=run[at].path, reason=apart.damage)
                self._merge_all(run[:at], taken, go_on)
                self._merge_all(run[rest:], taken, go_on)

    def _merge_run(self, run: Sequence[Segment], go_on: Callable[[], bool]) -> None:
        target = target_of(run)
        before = self._sealer.listed_bytes(target)
        with new_segment_file(self._archive / target) as fresh:
            stored = CountingWriter(fresh.stream)
            indexes = list[FrameIndex | None]()
            text = self._join(run, stored, indexes)
            known = [(index, _times_of(part, index)) for part, index in zip(run, indexes, strict=True) if index]
            if len(known) == len(run):
                stored.write(frame_index.encode(frame_index.joined(known)))
            with self._sealer.naming:
                are_there = all((self._archive / part.path).exists() for part in run)
                if not go_on() or not are_there or not fresh.publish():
                    return
            self._list(run, text, stored, since=before)
        self._remove([part.path for part in run])

    def _join(
        self, run: Sequence[Segment], into: Writer | None, indexes: list[FrameIndex | None] | None = None
    ) -> ByteCounter:
        """The text of all parts. Their bytes go `into`. Raises _ApartError: a part is damaged, or cannot follow."""
        whole = ByteCounter()
        for index, part in enumerate(run):
            if whole.ends_open and not continues(run[index - 1], part):
                raise _ApartError(index)
            of_part = index_of(self._archive, part) if into is not None else None
            if damage := self._damage(part, whole, into and _FramesOnly(into, of_part)):
                raise _ApartError(index, damage)
            if indexes is not None:
                indexes.append(of_part)
        return whole

    def _damage(self, part: Segment, whole: ByteCounter, into: Writer | None) -> str:
        """Add the text of `part` to `whole`. Returns the difference from its manifest line, or an empty text."""
        alone = ByteCounter()
        try:
            with (self._archive / part.path).open("rb") as stream:
                stored = CountingReader(stream, part.bytes_stored + 1, into)
                for text in texts(stored, part.codec):
                    alone.add(text)
                    whole.add(text)
        except BROKEN as error:
            return str(error)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return str(error)
        found = (stored.octets, alone.octets, alone.lines, f"{alone.crc:08x}")
        sound = found == (part.bytes_stored, part.bytes_raw, part.lines, part.crc32)
        sound = sound and part.crc32_stored in {"", f"{stored.crc:08x}"}
        return "" if sound else "its bytes are not those that the manifest lists"

    def _adopted(self, path: str, segments: list[Segment], go_on: Callable[[], bool]) -> list[Segment]:
        """Continue with an unlisted segment: a kill interrupted the merge of the segments before it.

        Returns the segments after that; none if it is another file, which is not changed.
        """
        codec = layout.codec_of(path)
        try:
            text, stored = count_content(self._archive / path, codec)
        except BROKEN:
            return []
        for first, end in itertools.combinations(range(len(segments) + 1), 2):
            run = segments[first:end]
            is_target = len(run) >= _FEWEST and target_of(run) == path
            if is_target and sum(part.bytes_raw for part in run) == text.octets:
                with contextlib.suppress(_ApartError):
                    if self._join(run, None) == text and go_on():
                        whole = self._list(run, text, stored, since=0)
                        self._remove(whole.replaces)
                        return [*segments[:first], whole, *segments[end:]]
                return []
        return []

    def _list(
        self, run: Sequence[Segment], text: ByteCounter, stored: CountingWriter | CountingReader, *, since: int
    ) -> Segment:
        whole = joined(run, text, stored, collector=self._sealer.collector, now=now())
        self._sealer.record(whole, since=since)
        events.segments_merged(partition=whole.partition, path=whole.path, parts=len(run))
        return whole

    def _is_replaced(self, path: str, listing: Listing) -> bool:
        whole = listing.replacing(path)
        return whole is not None and ((self._archive / whole.path).exists() or self._is_replaced(whole.path, listing))

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            (self._archive / path).unlink(missing_ok=True)
            self._shrunk.add((self._archive / path).parent)


class _FramesOnly:
    """Writes the frames of a segment, and not the index after them."""

    def __init__(self, into: Writer, index: FrameIndex | None) -> None:
        self._into = into
        self._left = sys.maxsize if index is None else index.stored

    def write(self, chunk: bytes) -> None:
        part = chunk[: self._left]
        self._left -= len(part)
        if part:
            self._into.write(part)


def index_of(archive: Path, part: Segment) -> FrameIndex | None:
    """The frames of a part, of its index or as they are found. None means that not all of them are known."""
    if part.codec != "zstd":
        return None
    with contextlib.suppress(*BROKEN, OSError), (archive / part.path).open("rb") as stream:
        if (index := frame_index.read(stream)) is not None:
            return index
        times, end = frame_index.read_times(stream, part.bytes_raw)
        found = frame_index.frames_in(stream, end) or []
        if len(found) == 1:
            found = [(found[0][0], part.bytes_raw)]
        if found and all(raw for _, raw in found) and sum(raw for _, raw in found) == part.bytes_raw:
            stored = frame_index.times_listed(part, times)
            begins = itertools.accumulate((raw for _, raw in found), initial=0)
            lines = part.lines if len(found) == 1 else frame_index.UNKNOWN_LINES
            frames = (Frame(*sizes, stored.at(at), lines) for sizes, at in zip(found, begins, strict=False))
            return FrameIndex(tuple(frames), stored.is_exact, times)
    return None


def _times_of(part: Segment, index: FrameIndex) -> StoredTimes:
    first_ns, last_ns = manifest.nanoseconds(part.first_time), manifest.nanoseconds(part.last_time)
    return index.stored_times(first_ns, last_ns)


def _is_in_place(segment: Segment) -> bool:
    """Whether a manifest line lists its file where its host and name belong."""
    date = date_of(segment.path)
    key = layout.FileKey(date, segment.partition, segment.host, segment.file)
    return segment.path == layout.segment_path(key, number_of(segment), segment.codec)
