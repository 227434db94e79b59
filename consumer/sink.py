"""The open files of one partition: append, sync, cut back to what is committed. It owns every descriptor."""

import contextlib
import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from consumer.records import OpenFile
from shipper import events, layout
from shipper.files import make_directory, sync_directory

IOV_MAX = 1024  # buffers that one pwritev takes (limits.h)
SYNCS_AT_ONCE = 8  # the file system groups what is asked for together
NOBODY = "-"  # no source: whatever is appended next begins a line of its own
UNLINKABLE = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL})


class Sink:
    """Files below `archive`. One call at a time, from any thread; raises OSError where the archive fails."""

    def __init__(self, archive: Path, *, open_files: int, links: bool) -> None:
        self._archive = archive
        self._open_files = open_files
        self._links = links
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._unsynced: set[str] = set()
        self._syncers = ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="sync")

    def create(self, file: OpenFile) -> None:
        """Make the (journaled) file and its name durable, and link it under `live/`."""
        path = self._archive / file.path
        make_directory(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, file.length)
        finally:
            os.close(descriptor)
        sync_directory(path.parent)
        if self._links:
            self._link(file)

    def append(self, file: OpenFile, buffers: Sequence[bytes]) -> None:
        """Write `buffers` behind the committed length of `file`; at that offset, so that trying again is harmless."""
        descriptor, offset = self._descriptor(file.path), file.length
        self._unsynced.add(file.path)
        for first in range(0, len(buffers), IOV_MAX):
            offset = _write_all(descriptor, list(buffers[first : first + IOV_MAX]), offset)

    def sync(self) -> None:
        """Make everything that was appended durable. Returns when it is."""
        descriptors = [self._descriptors[path] for path in self._unsynced if path in self._descriptors]
        if len(descriptors) == 1:
            os.fdatasync(descriptors[0])
        else:
            list(self._syncers.map(os.fdatasync, descriptors))
        self._unsynced.clear()

    def recover(self, files: Iterable[OpenFile], *, partition: int) -> list[OpenFile]:
        """Cut every file back to what is committed; returns those of which committed bytes are missing, as they are."""
        self.close_files()
        damaged = []
        for file in files:
            path = self._archive / file.path
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                size = 0
                self.create(replace(file, length=0))
            if size > file.length:
                os.truncate(path, file.length)
                events.archive_repaired(file=file.path, cut=size - file.length)
            elif size < file.length:
                events.archive_damaged(partition=partition, file=file.path, missing=file.length - size)
                damaged.append(
                    replace(file, length=size, raw=size, crc=None, last_source=NOBODY, ends_open=_ends_open(path))
                )
        return damaged

    def release(self, path: str) -> None:
        """Close a file that is appended no more."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_files(self) -> None:
        """Close every file; what is not synced does not count."""
        for path in list(self._descriptors):
            self.release(path)
        self._unsynced.clear()

    def close(self) -> None:
        """Close everything for good."""
        self.close_files()
        self._syncers.shutdown()

    def _descriptor(self, path: str) -> int:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is None:
            self._make_room()
            descriptor = os.open(self._archive / path, os.O_WRONLY | os.O_CLOEXEC)
        self._descriptors[path] = descriptor
        return descriptor

    def _make_room(self) -> None:
        while len(self._descriptors) >= self._open_files:
            path = next(iter(self._descriptors))
            if path in self._unsynced:
                os.fdatasync(self._descriptors[path])
                self._unsynced.discard(path)
            self.release(path)

    def _link(self, file: OpenFile) -> None:
        """Let `live/` follow the open file. A convenience: a name that cannot be linked must not stop the archive."""
        link = self._archive / layout.live_path(file.key)
        if ".." in link.relative_to(self._archive).parts:
            return
        target = os.path.relpath(self._archive / file.path, link.parent)
        temporary = link.with_name(f".{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(target)
            temporary.replace(link)
        except OSError as error:  # `/a` and `/a/b` of one host in turn, or a path that is too long with `live/`
            if error.errno not in UNLINKABLE:
                raise
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _write_all(descriptor: int, buffers: list[bytes], offset: int) -> int:
    """Write every byte of `buffers` at `offset`; returns the offset behind them."""
    end = offset + sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, offset)
    if offset + written < end:  # a short write: rare, so a copy is fine
        rest = b"".join(buffers)
        while offset + written < end:
            written += os.pwrite(descriptor, rest[written:], offset + written)
    return end


def _ends_open(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
