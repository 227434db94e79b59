"""Write to files through the page cache, sync them, and check that no other program changed them.

Files are synced one by one, or together with their whole file system, whichever is measured to be faster.

10,000 hosts write to 10,000 files a second: one `syncfs` took 0.1 s where 10,000 `fdatasync` took 2 s (measured).
`syncfs` is used only on file systems that report afterwards whether all data reached the disk.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from consumer.archive.directory import changed
from shipper.durable_files import sync_directory

IOV_MAX = 1024  # buffers that one pwritev takes (limits.h)


def write_all(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
    """Write every byte of `buffers` at `offset`. Returns the offset after them."""
    for first in range(0, len(buffers), IOV_MAX):
        offset = _write_few(descriptor, buffers[first : first + IOV_MAX], offset)
    return offset


def _write_few(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
    end = offset + sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, offset)
    if offset + written < end:  # a short write: rare, so a copy is fine
        rest = b"".join(buffers)
        while offset + written < end:
            written += os.pwrite(descriptor, rest[written:], offset + written)
    return end


AT_ONCE = 8  # concurrent syncs: the file system groups them
FEW = 8  # maximum files that are always synced one by one, so that they do not wait for the data of other programs
EACH_SECONDS = 0.0005  # assumed seconds per file until it is measured, and when the measurement is old
ALL_SECONDS = 0.005
FORGETTING = 0.05  # weight by which a measurement decays at each use of the other way
REPORTS_SINCE = (5, 8)  # first Linux version whose syncfs reports data that could not be written
EXT4, XFS, BTRFS = 0xEF53, 0x58465342, 0x9123683E
REPORTING = frozenset({EXT4, XFS, BTRFS})

SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h

_C = ctypes.CDLL(None, use_errno=True)
_C.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def start_writing(descriptor: int, offset: int, length: int) -> None:
    """Start the write of these bytes to the disk, so that a later sync has less to do. Measured: a third faster.

    It is a hint: the sync reports errors, and a system without this call is only slower.
    """
    _C.sync_file_range(descriptor, offset, length, SYNC_FILE_RANGE_WRITE)


def forget_cached(descriptor: int, length: int) -> None:
    """Drop the first `length` bytes of a file, which are durable, from the page cache. Later writes reuse the pages.

    Without it a busy collector displaces the cached files of other programs, and new pages are slow: 2 CPU seconds per
    GiB of pages that a hypervisor provides, 0.25 of pages that were just dropped (measured). Dirty pages stay cached.
    """
    if length:  # 0 stands for all there is
        with contextlib.suppress(OSError, AttributeError):  # of systems that lack it
            os.posix_fadvise(descriptor, 0, length, os.POSIX_FADV_DONTNEED)


class FileSystem:
    """The file system of a directory. It has its own descriptor: the kernel reports a failed write once to each."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError: it cannot be used, or does not report what could not be written."""
        if not _reports(directory):
            raise OSError(f"the file system of {directory} does not report what syncfs could not write")
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._probe = os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError:
            os.close(self._directory)
            raise
        self._probe_bytes = 0

    def sync(self) -> None:
        """Make everything in it durable, including the data of other programs.

        Raises OSError: something is not. After an aborted ext4 journal the call may still return 0 (measured: 8 of 200
        files lost committed bytes), so this also changes a file, which shows whether changes are accepted.
        """
        if _C.syncfs(self._directory) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._probe_bytes ^= 1
        os.ftruncate(self._probe, self._probe_bytes)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._directory)
        os.close(self._probe)


class DiskSync:
    """Syncs files the faster way, which it measures: it depends on the load that other programs put on the disk."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._file_system: FileSystem | None = None
        self._has_opened = False
        self._each, self._all = EACH_SECONDS, ALL_SECONDS
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sync")

    def begin(self) -> bool:
        """Whether the whole file system can be synced, including files that are closed again.

        Call it before the first write: errors are reported from then on.
        """
        if not self._has_opened:
            self._has_opened = True
            with contextlib.suppress(OSError):
                self._file_system = FileSystem(self._archive)
        return self._file_system is not None

    def sync(self, descriptors: Sequence[int], directories: Sequence[str], *, closed: int) -> None:
        """Make files, names in directories and `closed` files that have no descriptor any more durable.

        Raises OSError: some are not.
        """
        count, began = len(descriptors) + len(directories), time.monotonic()
        if self._file_system is not None and (closed or (count > FEW and count * self._each > self._all)):
            self._file_system.sync()
            self._all += (time.monotonic() - began - self._all) / 2
            self._each += (EACH_SECONDS - self._each) * FORGETTING
        elif count:
            self._sync_each(descriptors, directories)
            self._each += ((time.monotonic() - began) / count - self._each) / 2
            self._all += (ALL_SECONDS - self._all) * FORGETTING

    def close(self) -> None:
        """Wait for running syncs, and close the file system."""
        self._threads.shutdown()
        if self._file_system is not None:
            self._file_system.close()

    def _sync_each(self, descriptors: Sequence[int], directories: Sequence[str]) -> None:
        if len(descriptors) == 1:
            os.fdatasync(descriptors[0])
        else:
            list(self._threads.map(os.fdatasync, descriptors))
        list(self._threads.map(lambda path: sync_directory(self._archive / path), directories))


def _reports(directory: Path) -> bool:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    found = ctypes.create_string_buffer(512)  # struct statfs; its first member is the type
    if release < REPORTS_SINCE or _C.statfs(os.fsencode(directory), found) != 0:
        return False
    return ctypes.c_long.from_buffer(found).value in REPORTING


# -- changes by other programs -------------------------------------------------------------------------------------
#
# An open file may be deleted, renamed, replaced or truncated. Bytes that are written to a deleted file are lost, and a
# truncated file would get a run of NULs. Therefore a change ends the session. The next session recovers as at a start:
# it records the missing bytes and creates a new file.


def check_length(descriptor: int, path: str, committed: int) -> None:
    """Raises OSError: the open file lost committed bytes."""
    if os.fstat(descriptor).st_size < committed:
        raise changed(path)


def check_name(descriptor: int, path: str) -> None:
    """Raises OSError: `path` does not lead to the open file any more."""
    if not os.path.samestat(os.stat(path), os.fstat(descriptor)):
        raise changed(path)


def check_file(path: str, descriptor: int | None, committed: int) -> None:
    """Raises OSError: `path` is gone, is shorter than `committed` bytes, or leads elsewhere than the open file."""
    found = os.stat(path)
    if found.st_size < committed or (descriptor is not None and not os.path.samestat(found, os.fstat(descriptor))):
        raise changed(path)
