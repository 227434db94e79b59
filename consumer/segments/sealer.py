"""Seals a file: compress it, list it in the manifest, remove the raw bytes. Idempotent after a kill at any line.

begin   journal: the file becomes <segment>, nothing is appended any more
        rename it aside, fsync the directory                    (its open name is free for what comes next)
finish  compress to a temporary name, fsync, link, fsync the directory    (a reader sees all of it or nothing)
        manifest line, fsync                                    (from here on Spark counts it)
        remove the temporary name, then the raw bytes           (killed before: done again, with the same result)
then    journal: forget the file

Two collectors may finish the same file, if one of them was paused. An existing name is never replaced, and the raw
bytes end at the committed length, without what a paused collector wrote after it.
"""

import contextlib
import datetime as dt
import errno
import io
import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from consumer.archive import frame_index, manifests, stored_times
from consumer.archive.event_times import Lag, lag_of
from consumer.archive.frame_index import FrameIndex
from consumer.archive.journal import REASON_CHANGED, Journal
from consumer.archive.segment_io import (
    BROKEN,
    CHUNK_BYTES,
    ByteCounter,
    CountingReader,
    CountingWriter,
    copy_frames,
    count_content,
    frames,
    pack,
)
from consumer.archive.stored_times import StoredTimes
from consumer.commit.disk_io import forget_cached
from consumer.commit.frame_cache import Frames
from consumer.commit.sink import Sink
from consumer.model import OpenFile
from shipper import events, layout, manifest
from shipper.durable_files import make_directory, name_if_free, replace_file, sync_directory
from shipper.layout import NANOSECONDS
from shipper.manifest import Gap, Segment, SourceSpan

LARGE_BYTES = 1024 * 1024
"""A segment of this size leaves the page cache: it is read tomorrow, if at all."""
_TEMPORARY = re.compile(r"\.(?P<target>.+-\d{20}(\.zst|\.gz)?)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_SEGMENT = re.compile(r"(?P<file>.+)-(?P<number>\d{20})(\.zst|\.gz)?", re.DOTALL)


def split_name(name: str) -> tuple[str, int] | None:
    """The file and the number of a segment, by its name. None means that it is not the name of a segment."""
    found = _SEGMENT.fullmatch(name)
    return (found["file"], int(found["number"])) if found else None


def times_for(codec: str, times: StoredTimes) -> str:
    """When the text of a segment was stored, as its manifest line has it. A zstd segment has that in its file."""
    return "" if codec == "zstd" else stored_times.to_text(times.marks)


def number_of(segment: Segment) -> int:
    """The number in a segment's name."""
    return int(_SEGMENT.fullmatch(segment.path)["number"])  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class NewSegmentFile:
    """A temporary file next to its target, which readers ignore. It gets its name only when all of it is durable."""

    target: Path
    path: Path
    stream: BinaryIO

    def publish(self) -> bool:
        """Give it the target's name, durably. False means that the name is taken."""
        self._sync()
        if not name_if_free(self.path, self.target):
            return False
        sync_directory(self.target.parent)
        return True

    def replace(self) -> None:
        """Give it the target's name, durably, whatever had it."""
        self._sync()
        self.path.replace(self.target)
        sync_directory(self.target.parent)

    def _sync(self) -> None:
        self.stream.flush()
        descriptor = self.stream.fileno()
        os.fsync(descriptor)
        if (size := os.fstat(descriptor).st_size) >= LARGE_BYTES:
            forget_cached(descriptor, size)


@contextlib.contextmanager
def new_segment_file(target: Path) -> Iterator[NewSegmentFile]:
    """A file under a name of its own in the target's directory. That name is gone at the end."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with path.open("xb") as stream:
            yield NewSegmentFile(target, path, stream)
    finally:
        path.unlink(missing_ok=True)


def unfinished_target(name: str) -> str:
    """The segment that the file `name` was to become. Empty means that it is not one of ours."""
    found = _TEMPORARY.fullmatch(name)
    return found["target"] if found else ""


def sweep(segment: Path) -> None:
    """Remove what kills left of attempts to make `segment`. A process that is still at it has to try again."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(segment.parent):
            if unfinished_target(name) == segment.name:
                segment.with_name(name).unlink(missing_ok=True)


class Recorded(NamedTuple):
    """What the journal has of a file besides its row."""

    spans: tuple[SourceSpan, ...]
    gaps: tuple[Gap, ...]
    marks: bytes  #: when its text was stored
    redacted: Mapping[str, int]  #: how often each rule of the host fired

    @classmethod
    def of(cls, journal: Journal, path: str) -> "Recorded":
        """What `journal` has of the file at `path`."""
        return cls(journal.spans(path), journal.gaps(path), journal.marks(path), journal.redacted_in(path))


DAMAGED_PREFIX = "_damaged-"
"""Name of a file with frames that cannot be read, next to the segment of the frames before them."""


class Sealer:
    """Seals the files of one collector."""

    def __init__(self, archive: Path, *, collector: str, codec: str) -> None:
        self._archive = archive
        self.collector = collector  #: the name in its manifests
        self.codec = codec  #: of the segments of plain text
        self.sealed = 0  #: segments, since the collector began
        self._counting = threading.Lock()  # each partition seals in a thread of its own
        self.naming = threading.Lock()  #: held from finding a free name until it is taken

    def begin(self, file: OpenFile, journal: Journal, sink: Sink) -> OpenFile:
        """Take `file` out of appending. Returns it under its new name. Raises OSError, sqlite3.Error."""
        sink.release(file.path)
        with self.naming:
            sealing = journal.begin_sealing(file, self._free_name(file, journal))
        self.move_aside(sealing, journal)
        return sealing

    def take_up(self, sealing: OpenFile, journal: Journal) -> None:
        """Continue where a kill, or an error of the archive, interrupted the sealing.

        If the segment is listed, the raw bytes at the open name are the next file of the log: the journal may have lost
        the commits after the sealing.
        """
        if not self._is_settled(sealing.sealing):
            self.move_aside(sealing, journal)
        sweep(self._archive / sealing.sealing)

    def move_aside(self, sealing: OpenFile, journal: Journal) -> None:
        """Rename the raw bytes aside, unless that was done before a kill: then the open name is free or another's."""
        opened = sealing.opened or layout.open_path(sealing.key)  # before version 3 the journal did not record it
        source = self._archive / opened
        if not (self._archive / sealing.path).exists() and opened not in journal.files and source.exists():
            link = self._archive / layout.live_path(sealing.key)
            with contextlib.suppress(OSError):
                if link.is_symlink() and link.resolve() == source.resolve():
                    link.unlink()
            self._rename(source, sealing)

    def _rename(self, source: Path, sealing: OpenFile) -> None:
        target = self._archive / sealing.path
        source.rename(target)
        sync_directory(target.parent)

    def find(self, sealing: OpenFile, journal: Journal) -> None:
        """Find raw bytes that an earlier owner renamed before it was fenced: this journal does not record that name.

        Call it after the lease is proved: a fenced collector would take the file that the next owner is sealing.
        """
        if not sealing.length or (self._archive / sealing.path).exists() or self._is_settled(sealing.sealing):
            return
        parent, names = _numbered(layout.sealing_path(layout.segment_path(sealing.key, 0, "none")))
        directory, entries = self._archive / parent, list[str]()
        with contextlib.suppress(FileNotFoundError):
            entries = sorted(os.listdir(directory))
        for entry in entries:
            is_unknown = names.fullmatch(entry) and f"{parent}/{entry}" not in journal.files
            if is_unknown and _holds(directory / entry, sealing):
                self._rename(directory / entry, sealing)
                return

    def finish(self, sealing: OpenFile, recorded: Recorded, frames: Frames | None = None) -> None:
        """Create the segment, from `frames` if they contain all of its text.

        Runs in parallel with the worker; touches only files that were renamed for sealing.
        Raises OSError: try again later.
        """
        source, target = self._archive / sealing.path, self._archive / sealing.sealing
        with contextlib.ExitStack() as stack:
            try:
                raw: BinaryIO = stack.enter_context(source.open("rb"))
            except FileNotFoundError:  # done before a kill, or by another collector, or another program removed it
                if self._is_settled(sealing.sealing) or not (sealing.length or recorded.gaps):
                    return
                raw = io.BytesIO()
            segment, lost = self._make(sealing, raw, target, recorded, frames)
        is_whole = sealing.codec == "none" or segment.bytes_raw >= sealing.raw
        with contextlib.suppress(FileNotFoundError):  # another collector was faster
            if is_whole:
                source.unlink()
            else:  # frames that are not in the segment are kept for a manual repair
                source.rename(target.with_name(DAMAGED_PREFIX + target.name))
        sync_directory(source.parent)
        for gap in lost:
            events.archive_damaged(partition=segment.partition, file=segment.path, missing=gap.end - gap.start)
        with self._counting:
            self.sealed += 1
        events.segment_sealed(
            partition=segment.partition, path=segment.path, lines=segment.lines, octets=segment.bytes_raw
        )

    def _make(
        self, sealing: OpenFile, raw: BinaryIO, target: Path, recorded: Recorded, frames: Frames | None
    ) -> tuple[Segment, tuple[Gap, ...]]:
        """The segment, durable and listed, and what is not in it as it was committed."""
        make_directory(target.parent)
        before = self.listed_bytes(sealing.sealing)
        with new_segment_file(target) as fresh:
            packed = CountingWriter(fresh.stream)
            times = StoredTimes.of(
                recorded.marks, first_ns=sealing.first_ns, last_ns=sealing.last_ns, raw=sealing.raw or sealing.length
            )
            text = _packed(sealing, raw, packed, frames, times)
            lost = _lost(sealing, text)
            lag = _lag(sealing, raw, times)
            is_new = fresh.publish()
            stored = packed if is_new else self._settle(fresh, target, text, packed)
            segment = Segment(
                collector=self.collector,
                partition=sealing.key.partition,
                host=sealing.key.host,
                file=sealing.key.file,
                path=sealing.sealing,
                codec=layout.codec_of(sealing.sealing),
                lines=text.lines,
                bytes_raw=text.octets,
                bytes_stored=stored.octets,
                first_seq=sealing.first_seq,
                last_seq=sealing.last_seq,
                first_time=_rfc3339(sealing.first_ns),
                last_time=_rfc3339(sealing.last_ns),
                spans=recorded.spans,
                gaps=(*recorded.gaps, *lost),
                duplicates=sealing.duplicates,
                joins=sealing.joins,
                crc32=f"{text.crc:08x}",
                sealed_at=now(),
                filtered=sealing.filtered,
                edited=sealing.edited,
                redacted=dict(recorded.redacted),
                labels=dict(sealing.labels),
                zone=sealing.zone,
                late=lag.late,
                ahead=lag.ahead,
                times=times_for(layout.codec_of(sealing.sealing), times),
                crc32_stored=f"{stored.crc:08x}",
            )
            if is_new or not manifests.is_listed(self._archive, segment.path):
                self.record(segment, since=before if is_new else 0)
        return segment, lost

    def listed_bytes(self, segment: str) -> int:
        """Bytes that the manifest has in which `segment` is to be listed."""
        try:
            return self._manifest(segment).stat().st_size
        except FileNotFoundError:
            return 0

    def record(self, segment: Segment, *, since: int) -> None:
        """Append the manifest line, unless it is listed after the first `since` bytes."""
        manifests.append(self._manifest(segment.path), manifest.to_line(segment), once=segment.path, since=since)

    def close_day(self, date: str, collector: str = "") -> None:
        """Mark that this collector, or `collector` that is dead, adds nothing to `date` any more."""
        path = self._archive / layout.done_path(date, collector or self.collector)
        if not path.exists():
            make_directory(path.parent)
            for left in path.parent.glob(f".{path.name}.*.tmp"):  # of a kill while this was done
                left.unlink(missing_ok=True)
            replace_file(path, f'{{"v":1,"closed_at":"{now()}"}}\n'.encode())
            events.day_closed(date=date)

    def dates(self, collector: str = "") -> list[str]:
        """The days for which this collector, or `collector`, has sealed something and which are not closed."""
        name = layout.escape(collector or self.collector)
        found = (self._archive / layout.MANIFEST_DIRECTORY).glob(f"date=*/{name}.jsonl")
        return sorted(
            path.parent.name.removeprefix("date=") for path in found if not path.with_suffix(".done").exists()
        )

    def _manifest(self, segment: str) -> Path:
        date = layout.date_of(segment)
        return self._archive / layout.manifest_path(date, self.collector)

    def _is_settled(self, segment: str) -> bool:
        """Whether a segment is listed, if only as a part of another one, or its day was removed, or its host's."""
        date = layout.date_of(segment)
        if manifests.is_listed(self._archive, segment) or date in manifests.removed_days(self._archive):
            return True
        hosts = manifests.removed_hosts(self._archive).get(date, ())
        return any(f"/host={layout.escape(host)}/" in segment for host in hosts)

    def _free_name(self, file: OpenFile, journal: Journal) -> str:
        """The segment's path: numbered by its first sequence, but always after the earlier ones of the same file.

        A stream that was created anew, or is read again for a hole, has lower sequences: names keep the order.
        """
        parent, earlier = _numbered(layout.segment_path(file.key, 0, "none"))
        names = [other.sealing.rpartition("/")[2] for other in journal.files.values() if other.key == file.key]
        names += os.listdir(self._archive / parent)
        numbers = [int(found[1]) for name in names if (found := earlier.fullmatch(name))]
        codec = self.codec if file.codec == "none" else file.codec
        return layout.segment_path(file.key, max([file.first_seq, *(number + 1 for number in numbers)]), codec)

    def _settle(
        self, fresh: NewSegmentFile, target: Path, text: ByteCounter, packed: CountingWriter
    ) -> CountingWriter | CountingReader:
        """The name is taken, by an attempt before a kill or by another collector: the same text stays as it is."""
        path = str(target.relative_to(self._archive))
        with contextlib.suppress(*BROKEN):
            there, stored = count_content(target, layout.codec_of(path))
            if there == text:
                return stored
        if manifests.is_listed(self._archive, path):
            raise FileExistsError(errno.EEXIST, "another text has the name of this segment", path)
        fresh.replace()
        return packed


def _numbered(first: str) -> tuple[str, re.Pattern[str]]:
    """The directory of the path with number 0, and the names there that differ in number or codec alone."""
    parent, _, name = first.rpartition("/")
    return parent, re.compile(re.escape(name.removesuffix(f"{0:020d}")) + r"(\d{20})(\.zst|\.gz)?")


def _packed(
    sealing: OpenFile, raw: BinaryIO, packed: CountingWriter, ready: Frames | None, times: StoredTimes
) -> ByteCounter:
    """Pack what is committed of a file. Frames are copied as they are, to the first that cannot be read.

    Those that are `ready` were unpacked and summed when they came, and so was the text that the file should hold.
    Raises OSError: they are not what came, because the disk changed them.
    """
    if ready is not None and sealing.crc is not None and sealing.codec == "none":
        for frame in ready.frames:
            packed.write(frame)
        if ready.crc not in (None, packed.crc):
            raise OSError(errno.EIO, "frames of blocks changed on the disk; the text is compressed again", sealing.path)
        if layout.codec_of(sealing.sealing) == "zstd":
            packed.write(frame_index.encode(FrameIndex(ready.marks, times.is_exact, times.marks)))
        return ByteCounter(ready.lines, sealing.raw, sealing.crc, sealing.ends_open)
    committed, codec = CountingReader(raw, sealing.length), layout.codec_of(sealing.sealing)
    copy = pack if sealing.codec == "none" else copy_frames
    return copy(committed, packed, codec, times)


def _lag(sealing: OpenFile, raw: BinaryIO, times: StoredTimes) -> Lag:
    """How far stored times and the times in lines are apart. A file of frames is not unpacked for it."""
    if sealing.codec != "none" or not sealing.length or not isinstance(raw, io.BufferedReader):
        return Lag()
    return lag_of(raw, times, dt.date.fromisoformat(sealing.key.date), sealing.zone)


def _holds(raw: Path, sealing: OpenFile) -> bool:
    """Whether a file has what was committed of `sealing`: there may be others of the same log file."""
    if raw.stat().st_size < sealing.length:
        return False
    text = ByteCounter()
    with raw.open("rb") as stream:
        committed = CountingReader(stream, sealing.length)
        whole = iter(lambda: committed.read(CHUNK_BYTES), b"")
        for piece in whole if sealing.codec == "none" else (each for _, each in frames(committed, sealing.codec)):
            text.add(piece)
    return not _lost(sealing, text)


def _lost(sealing: OpenFile, text: ByteCounter) -> tuple[Gap, ...]:
    """The difference from the committed bytes, caused by another program or the disk: a gap without a source."""
    committed = sealing.length if sealing.codec == "none" else sealing.raw
    if text.octets < committed:
        return (Gap(source="", start=text.octets, end=committed, reason=REASON_CHANGED),)
    if sealing.crc is not None and text.crc != sealing.crc:  # it is unknown which bytes differ
        return (Gap(source="", start=0, end=committed, reason=REASON_CHANGED),)
    return ()


def _rfc3339(time_ns: int) -> str:
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=dt.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S") + f".{time_ns % NANOSECONDS // 1000:06d}Z"


def now() -> str:
    """The time as manifests have it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
