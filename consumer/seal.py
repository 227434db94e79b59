"""Close a file for good: compress, list in the manifest, remove the raw bytes. Idempotent: kill it anywhere.

begin   journal: the file becomes <segment>, nothing is appended any more
        rename it aside, fsync the directory                    (its open name is free for what comes next)
finish  compress to a temporary name, fsync, rename, fsync the directory  (a reader sees all of it or nothing)
        manifest line, fsync                                    (from here on Spark counts it)
        remove the raw bytes                                    (killed before: done again, with the same result)
then    journal: forget the file
"""

import contextlib
import datetime as dt
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from consumer.journal import Journal
from consumer.records import OpenFile
from consumer.sink import Sink
from shipper import events, layout, manifest
from shipper.files import make_directory, replace_file, sync_directory
from shipper.layout import NANOSECONDS
from shipper.manifest import Gap, Segment, SourceSpan

CHUNK_BYTES = 1024 * 1024
ZSTD_LEVEL = 3
GZIP_LEVEL = 6
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Counted:
    """What a file holds, counted while it was compressed."""

    lines: int
    octets: int
    crc: int


class Sealer:
    """Seals the files of one collector. The manifest is shared by its partitions, hence the lock on it."""

    def __init__(self, archive: Path, *, collector: str, codec: str) -> None:
        self._archive = archive
        self._collector = collector
        self._codec = codec

    def begin(self, file: OpenFile, journal: Journal, sink: Sink) -> OpenFile:
        """Take `file` out of appending; what it is called from now on. Raises OSError, sqlite3.Error."""
        sink.release(file.path)
        sealing = journal.begin_sealing(file, self._free_name(file, journal))
        self.put_aside(sealing, journal)
        return sealing

    def put_aside(self, sealing: OpenFile, journal: Journal) -> None:
        """Rename the raw bytes aside, unless that was done before a kill: then the open name is free or another's."""
        opened = sealing.opened or layout.open_path(sealing.key)  # before version 3 the journal did not say it
        source, target = self._archive / opened, self._archive / sealing.path
        if opened not in journal.files and source.exists() and not target.exists():
            self._unlink_live(sealing)
            source.rename(target)
            sync_directory(target.parent)

    def finish(self, sealing: OpenFile, spans: tuple[SourceSpan, ...], gaps: tuple[Gap, ...]) -> None:
        """Make the segment. Runs beside the worker; touches only what is put aside. Raises OSError: try again later."""
        source, target = self._archive / sealing.path, self._archive / sealing.sealing
        if not source.exists():
            if not target.exists():
                events.archive_damaged(partition=sealing.key.partition, file=sealing.path, missing=sealing.length)
            return
        counted = self._compress(source, target)
        if counted.octets < sealing.length:
            missing = sealing.length - counted.octets
            events.archive_damaged(partition=sealing.key.partition, file=sealing.path, missing=missing)
        self._list(self._segment(sealing, counted, target.stat().st_size, spans, gaps))
        source.unlink()
        sync_directory(source.parent)
        events.segment_sealed(
            partition=sealing.key.partition, path=sealing.sealing, lines=counted.lines, octets=counted.octets
        )

    def close_day(self, date: str) -> None:
        """Mark that this collector adds nothing to `date` any more."""
        path = self._archive / layout.done_path(date, self._collector)
        if not path.exists():
            make_directory(path.parent)
            replace_file(path, f'{{"v":1,"closed_at":"{_now()}"}}\n'.encode())
            events.day_closed(date=date)

    def dates(self) -> list[str]:
        """The days for which this collector has sealed something and which are not closed."""
        found = (self._archive / layout.MANIFEST_DIRECTORY).glob(f"date=*/{layout.escape(self._collector)}.jsonl")
        return sorted(
            path.parent.name.removeprefix("date=") for path in found if not path.with_suffix(".done").exists()
        )

    def _free_name(self, file: OpenFile, journal: Journal) -> str:
        """The segment's path: numbered by its first sequence, but always behind the earlier ones of the same file.

        A stream that was created anew, or is read again for a hole, would count back: names tell the order of bytes.
        """
        parent, _, name = layout.segment_path(file.key, 0, "none").rpartition("/")
        earlier = re.compile(re.escape(name.removesuffix(f"{0:020d}")) + r"(\d{20})(\.zst|\.gz)?")
        names = [other.sealing.rpartition("/")[2] for other in journal.files.values() if other.key == file.key]
        with os.scandir(self._archive / parent) as entries:
            names += [entry.name for entry in entries]
        numbers = [int(found[1]) for name in names if (found := earlier.fullmatch(name))]
        return layout.segment_path(file.key, max([file.first_seq, *(number + 1 for number in numbers)]), self._codec)

    def _compress(self, source: Path, target: Path) -> Counted:
        temporary = target.with_name(f".{target.name}.tmp")
        with source.open("rb") as raw, temporary.open("wb") as packed:
            counted = _copy(raw, packed, self._codec)
            packed.flush()
            os.fsync(packed.fileno())
        temporary.replace(target)
        sync_directory(target.parent)
        return counted

    def _segment(
        self, file: OpenFile, counted: Counted, stored: int, spans: tuple[SourceSpan, ...], gaps: tuple[Gap, ...]
    ) -> Segment:
        return Segment(
            collector=self._collector,
            partition=file.key.partition,
            host=file.key.host,
            file=file.key.file,
            path=file.sealing,
            codec=self._codec,
            lines=counted.lines,
            bytes_raw=counted.octets,
            bytes_stored=stored,
            first_seq=file.first_seq,
            last_seq=file.last_seq,
            first_time=_rfc3339(file.first_ns),
            last_time=_rfc3339(file.last_ns),
            spans=spans,
            gaps=gaps,
            duplicates=file.duplicates,
            joins=file.joins,
            crc32=f"{counted.crc:08x}",
            sealed_at=_now(),
            filtered=file.filtered,
            edited=file.edited,
            labels=dict(file.labels),
        )

    def _list(self, segment: Segment) -> None:
        """Append the manifest line unless it is there; a torn last line, as a kill leaves it, is cut off first."""
        date = segment.path.partition("/")[0].removeprefix("date=")
        path = self._archive / layout.manifest_path(date, self._collector)
        make_directory(path.parent)
        with path.open("a+b") as lines:
            fcntl.flock(lines, fcntl.LOCK_EX)  # other partitions, and other processes that were given the same name
            lines.seek(0)
            content = lines.read()
            whole = content[: content.rfind(b"\n") + 1]
            if _is_listed(segment.path, whole):
                return
            lines.truncate(len(whole))
            lines.write(manifest.to_line(segment))
            lines.flush()
            os.fsync(lines.fileno())
        sync_directory(path.parent)

    def _unlink_live(self, file: OpenFile) -> None:
        link = self._archive / layout.live_path(file.key)
        with contextlib.suppress(OSError):
            if link.is_symlink() and link.resolve() == (self._archive / layout.open_path(file.key)).resolve():
                link.unlink()


def _is_listed(path: str, lines: bytes) -> bool:
    if json.dumps(path).encode() not in lines:  # quick, and nearly always the answer: a day may have many segments
        return False
    return any(_path_of(line) == path for line in lines.splitlines())


def _path_of(line: bytes) -> str:
    try:
        return manifest.from_line(line).path
    except ValueError:
        return ""


def _copy(raw: BinaryIO, packed: BinaryIO, codec: str) -> Counted:
    lines = octets = crc = 0
    with _packer(packed, codec) as pack:
        while chunk := raw.read(CHUNK_BYTES):
            lines += chunk.count(b"\n")
            octets += len(chunk)
            crc = zlib.crc32(chunk, crc)
            pack.write(chunk)
    return Counted(lines, octets, crc)


class _Packer(Protocol):
    def write(self, chunk: bytes, /) -> object: ...


@contextlib.contextmanager
def _packer(packed: BinaryIO, codec: str) -> Iterator[_Packer]:
    if codec == "zstd":
        with zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).stream_writer(
            packed, closefd=False
        ) as zst:
            yield zst
    elif codec == "gzip":
        gz = _Gzip(packed)
        yield gz
        gz.finish()
    else:
        yield packed


class _Gzip:
    """One gzip member without name and time, so that equal bytes give equal segments."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def write(self, chunk: bytes) -> None:
        self._packed.write(self._packer.compress(chunk))

    def finish(self) -> None:
        self._packed.write(self._packer.flush())


def _rfc3339(time_ns: int) -> str:
    when = dt.datetime.fromtimestamp(time_ns // NANOSECONDS, tz=dt.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S") + f".{time_ns % NANOSECONDS // 1000:06d}Z"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
