"""The open files of one partition: append, sync, truncate to the committed length. It owns every descriptor."""

import contextlib
import errno
import os
import resource
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from consumer.archive.directory import IDENTITY, changed
from consumer.archive.segment_io import whole_frames
from consumer.commit.direct_writer import DirectWriter
from consumer.commit.disk_io import (
    DiskSync,
    check_file,
    check_length,
    check_name,
    forget_cached,
    start_writing,
    write_all,
)
from consumer.commit.frame_cache import MOST_ON_DISK
from consumer.model import OpenFile
from shipper import events, layout

START_BYTES = 2 * 1024 * 1024  # bytes of a file after which their write to the disk is started
NO_SOURCE = "-"  # no source: the next append starts a new line
RESERVED_DESCRIPTORS = 256  # for connections, journals, sealing, metrics
MOST_OPEN = 16_384  # each descriptor uses memory of the kernel
NAMES_IN_TURN = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})
"""Why single names below `live/` cannot be links: `/a` and `/a/b` of one host in turn, or a path that is too long."""


def most_open(chosen: int, *, partitions: int = 0) -> int:
    """Maximum open files of all partitions together: `chosen` (0: the default), within the limit of the system.

    The usual soft limit of 1024 exists for programs with select(); it is raised. Frames on the disk need descriptors,
    too: at most half of a low limit.
    """
    frames = partitions * MOST_ON_DISK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = (chosen or MOST_OPEN) + RESERVED_DESCRIPTORS + frames
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    usable = (wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)) - RESERVED_DESCRIPTORS
    return usable - min(frames, usable // 2)


class Sink:
    """Files below `archive`. One call at a time, from any thread. Raises OSError where the archive fails."""

    def __init__(self, archive: Path, *, open_files: int, links: bool) -> None:
        self.archive = archive
        self._root = os.fspath(archive)
        self._open_files = open_files
        self._links = links
        self._links_failed = False
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._unsynced: set[str] = set()
        self._begun: dict[str, int] = {}  # by unsynced file: offset up to which the write to the disk was started
        # unsynced files whose descriptor is closed: only a sync of the file system covers them
        self._closed: set[str] = set()
        self._named: set[str] = set()  # directories in which a name may not be durable
        self._direct = DirectWriter()
        self._disk_sync = DiskSync(archive)
        self._identity = archive / IDENTITY
        self._content = self._identity.read_bytes() if self._identity.exists() else b""
        self._has_recovered = False

    def flush(self) -> None:
        """Make what was appended visible to readers of the files. It is not durable by that."""
        self._direct.finish()

    def create(self, file: OpenFile) -> None:
        """Create a file that is in the journal, and link it below `live/`. Its name is durable when `sync` returns."""
        self._disk_sync.begin()
        self._named.update(_directories(file.path))
        path = f"{self._root}/{file.path}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            self._check_archive()
            os.makedirs(os.path.dirname(path), exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, file.length)
        finally:
            os.close(descriptor)
        if self._links:
            self._link(file)

    def append(self, file: OpenFile, buffers: Sequence[bytes], *, at: int) -> None:
        """Write `buffers` at an offset at or after the committed length of `file`, so that a retry is safe."""
        self._direct.finish()
        descriptor = self._descriptor(file.path)
        check_length(descriptor, file.path, at)
        self._unsynced.add(file.path)
        offset = write_all(descriptor, buffers, at)
        begun = min(at, self._begun.setdefault(file.path, at))
        if offset - begun >= START_BYTES:
            start_writing(descriptor, begun, offset - begun)
            if begun == file.length:  # once a batch
                forget_cached(descriptor, file.length)
            self._begun[file.path] = offset

    def append_direct(self, file: OpenFile, buffers: Sequence[bytes], *, at: int) -> None:
        """As `append`, for large writes: needs less CPU time, and waits for the disk.

        The last bytes wait in memory until the next call for another offset or file, or another method.
        """
        if self._direct.is_refused:
            self.append(file, buffers, at=at)
            return
        if not self._direct.ends_at(file.path, at):
            self._direct.finish()
            self._direct.begin(file.path, self._descriptor(file.path), at)
        self._unsynced.add(file.path)
        self._direct.put(buffers[0] if len(buffers) == 1 else b"".join(buffers))

    def sync(self) -> None:
        """Make everything durable that was created and appended, under its name. Returns when it is."""
        self._direct.finish()
        opened = [(path, self._descriptors[path]) for path in self._unsynced if path in self._descriptors]
        self._disk_sync.sync([each for _, each in opened], list(self._named), closed=len(self._closed))
        for path, descriptor in opened:
            check_name(descriptor, f"{self._root}/{path}")
        self._unsynced.clear()
        self._begun.clear()
        self._closed.clear()
        self._named.clear()

    def recover(self, files: Iterable[OpenFile], *, partition: int) -> list[OpenFile]:
        """Truncate every file to its committed length. Returns the files that lack committed bytes, as they are."""
        self.close_files()
        self._check_archive()
        damaged = []
        for file in files:
            path = self.archive / file.path
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                size = 0
                self.create(replace(file, length=0))
            if file.length == 0:  # after a kill its name may not be durable
                self._named.update(_directories(file.path))
            if size > file.length:
                os.truncate(path, file.length)
                if not self._has_recovered:  # else these are bytes that this process wrote and did not commit
                    events.archive_repaired(file=file.path, cut=size - file.length)
            elif size < file.length:
                left = _left(path, file, size)
                events.archive_damaged(partition=partition, file=file.path, missing=file.raw - left.raw)
                damaged.append(left)
        self._has_recovered = True
        return damaged

    def check_files(self, files: Iterable[OpenFile]) -> None:
        """Raises OSError: another program removed, replaced or truncated one of `files`."""
        self._check_archive()
        for file in files:
            check_file(f"{self._root}/{file.path}", self._descriptors.get(file.path), file.length)

    def release(self, path: str) -> None:
        """Close a file that is not appended any more."""
        self._direct.drop(path)
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_files(self) -> None:
        """Close every file. Bytes that are not synced are ignored."""
        for path in list(self._descriptors):
            self.release(path)
        self._unsynced.clear()
        self._begun.clear()
        self._closed.clear()

    def close(self) -> None:
        """Close every file, and end the syncs."""
        self.close_files()
        self._disk_sync.close()

    def _check_archive(self) -> None:
        """Raises OSError: another archive is there than at the start, or none, as where it is not mounted."""
        if self._content and self._identity.read_bytes() != self._content:
            raise changed(str(self._identity))

    def _descriptor(self, path: str) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        can_sync_all = self._disk_sync.begin()
        while len(self._descriptors) >= self._open_files:
            oldest = next(iter(self._descriptors))
            if oldest in self._unsynced and can_sync_all:
                self._closed.add(oldest)
            elif oldest in self._unsynced:
                os.fdatasync(self._descriptors[oldest])
                self._unsynced.discard(oldest)
            self.release(oldest)
        descriptor = self._descriptors[path] = os.open(f"{self._root}/{path}", os.O_WRONLY | os.O_CLOEXEC)
        return descriptor

    def _link(self, file: OpenFile) -> None:
        """Link the open file below `live/`. A convenience: a name that cannot be linked must not stop the archive.

        Whatever the error is: if the archive itself cannot be written either, the next write fails, too.
        """
        live = layout.live_path(file.key)
        if {"", ".", ".."} & set(live.split("/")):  # possible names of a host, which would lead outside of `live/`
            return
        link, target = f"{self._root}/{live}", "../" * live.count("/") + file.path
        try:
            try:
                os.symlink(target, link)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.symlink(target, link)
            except FileExistsError:
                _point(link, target)
        except OSError as error:
            if error.errno not in NAMES_IN_TURN:
                events.live_link_failed(file=live, error=error.strerror or str(error), is_first=not self._links_failed)
                self._links_failed = True


def _point(link: str, target: str) -> None:
    """Make an existing link lead to `target` atomically: readers find the old or the new file."""
    if os.readlink(link) == target:
        return
    temporary = f"{os.path.dirname(link)}/.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(target, temporary)
        os.replace(temporary, link)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _directories(path: str) -> Iterator[str]:
    """The directories that lead to `path`, the archive itself as "", innermost first."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _left(path: Path, file: OpenFile, size: int) -> OpenFile:
    """What remains of a file that has only `size` bytes. A file of frames is truncated after its last whole frame."""
    left = replace(file, crc=None, last_source=NO_SOURCE)
    if file.codec == "none":
        with path.open("rb") as stream:
            stream.seek(max(0, size - 1))
            return replace(left, length=size, raw=size, ends_open=stream.read(1) not in {b"", b"\n"})
    length, text = whole_frames(path, file.codec)
    os.truncate(path, length)
    return replace(left, length=length, raw=text.octets, lines=text.lines, ends_open=text.ends_open)
