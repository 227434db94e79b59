"""Bytes on their way into a file: through the page cache, or past it, which is less to do for a core.

Past it the disk takes them out of memory itself, but only in whole units, from aligned memory to an aligned offset, and
whoever writes waits meanwhile.

Make what was written durable, the cheaper way: file by file, or the whole file system at once.

10,000 hosts touch 10,000 files a second; one `syncfs` made them durable here in a tenth of a second where as many
`fdatasync` took two. It is asked only of file systems that say afterwards whether all of it came to the disk.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from consumer.commit.external_changes import check_length
from shipper.durable_files import sync_directory

UNIT = 4096  # of memory, offset and length: no disk asks for more
PIECE_BYTES = 4 * 1024 * 1024  # written at once: each is waited for, and whoever waited finds the cache cold
REFUSED = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


def write_all(descriptor: int, buffers: Sequence[bytes | memoryview], offset: int) -> int:
    """Write every byte of `buffers` at `offset`; returns the offset behind them."""
    end = offset + sum(map(len, buffers))
    written = os.pwritev(descriptor, buffers, offset)
    if offset + written < end:  # a short write: rare, so a copy is fine
        rest = b"".join(buffers)
        while offset + written < end:
            written += os.pwrite(descriptor, rest[written:], offset + written)
    return end


class PastCache:
    """A run of bytes of one file at a time, of which the last ones, less than a piece, wait in memory.

    Each byte is written once: whole units past the page cache, what is before the first and behind the last through
    it. So no page is written both ways while it is dirty, and nothing that is committed is written again.
    """

    def __init__(self) -> None:
        self.is_refused = False  #: here the page cache is the only way
        self._memory: memoryview | None = None
        self._path = ""  # of the file; empty: there is no run
        self._descriptor = -1
        self._base = 0  # the offset in the file of the memory's first byte, a whole number of units
        self._start = self._end = 0  # offsets in the file of what waits

    def begin(self, path: str, descriptor: int, at: int) -> None:
        """A run of bytes of the open file `path`, from offset `at` on. There must be none."""
        self._path, self._descriptor = path, descriptor
        self._start = self._end = at
        self._base = _whole(at)

    def ends_at(self, path: str, at: int) -> bool:
        """Whether what comes at `at` continues the run."""
        return self._path == path and self._end == at

    def put(self, data: bytes) -> None:
        """Lengthen the run. Raises OSError: a piece cannot be written."""
        if self._memory is None:
            self._memory = memoryview(mmap.mmap(-1, PIECE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        left = memoryview(data)
        while left:
            filled = self._end - self._base
            taken = left[: PIECE_BYTES - filled]
            self._memory[filled : filled + len(taken)] = taken
            self._end += len(taken)
            left = left[len(taken) :]
            if self._end - self._base == PIECE_BYTES:
                self._flush()

    def finish(self) -> None:
        """Write what waits, and end the run. Raises OSError: it cannot be written."""
        if self._path:
            self._flush()
            self._path = ""

    def drop(self, path: str) -> None:
        """What waits for `path` does not count, and its descriptor is closed."""
        if self._path == path:
            self._path = ""

    def _flush(self) -> None:
        check_length(self._descriptor, self._path, self._start)
        first = min(_whole(self._start + UNIT - 1), self._end)
        last = max(_whole(self._end), first)
        for end, write in ((first, write_all), (last, self._write_past), (self._end, write_all)):
            if self._memory is not None and end > self._start:
                write(self._descriptor, [self._memory[self._start - self._base : end - self._base]], self._start)
                self._start = end
        self._base = _whole(self._start)

    def _write_past(self, descriptor: int, units: list[memoryview], offset: int) -> int:
        """Write whole units; through the page cache what the file system does not take, or not at once."""
        written = 0
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
            try:
                written = os.pwritev(descriptor, units, offset)
            finally:
                fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            self.is_refused = True
        rest = units[0][written:]
        return write_all(descriptor, [rest], offset + written) if rest else offset + written


def _whole(offset: int) -> int:
    """The last border between units up to `offset`."""
    return offset - offset % UNIT


AT_ONCE = 8  # the file system groups what is asked for together
FEW = 8  # files that are synced one by one, whatever that costs: they are not to wait for what others write
EACH_SECONDS = 0.0005  # what is believed before it is measured, and again when it was not measured for long
ALL_SECONDS = 0.005
FORGETTING = 0.05  # of what was measured, at each use of the other way
REPORTS_SINCE = (5, 8)  # the version of Linux since which syncfs tells of data that could not be written
EXT4, XFS, BTRFS = 0xEF53, 0x58465342, 0x9123683E
REPORTING = frozenset({EXT4, XFS, BTRFS})

SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h

_C = ctypes.CDLL(None, use_errno=True)
_C.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


def start_writing(descriptor: int, offset: int, length: int) -> None:
    """Let the disk begin with these bytes: whoever makes them durable later waits for less. Measured: a third faster.

    A hint: what cannot be written is told where it is synced, and a system that lacks it is only slower.
    """
    _C.sync_file_range(descriptor, offset, length, SYNC_FILE_RANGE_WRITE)


def forget_cached(descriptor: int, length: int) -> None:
    """Let go of the pages of the first `length` bytes of a file, which are durable: what is written next takes them.

    Else a busy collector drives out of memory what others use, and pays for it: 2 CPU seconds a GiB of pages that a
    hypervisor has to give first, 0.25 of those that were just let go (measured). A hint: what is not durable stays.
    """
    if length:  # 0 stands for all there is
        with contextlib.suppress(OSError, AttributeError):  # of systems that lack it
            os.posix_fadvise(descriptor, 0, length, os.POSIX_FADV_DONTNEED)


class FileSystem:
    """The file system of a directory. A descriptor of its own: each hears once of every write that failed."""

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
        """Make everything in it durable, whoever wrote it.

        Raises:
            OSError: something is not. An aborted ext4 journal may still give 0 (tried here: 8 of 200 files lost
                committed bytes), so a change of our own asks whether it takes changes at all.
        """
        if _C.syncfs(self._directory) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._probe_bytes ^= 1
        os.ftruncate(self._probe, self._probe_bytes)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._directory)
        os.close(self._probe)


class Syncing:
    """Which way is cheaper is measured: on a disk that others keep busy it is another one than on a quiet one."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._file_system: FileSystem | None = None
        self._is_asked = False
        self._each, self._all = EACH_SECONDS, ALL_SECONDS
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sync")

    def begin(self) -> bool:
        """Whether all can be synced at once, files that are closed again too.

        To be asked before the first write: what fails is heard of from then on.
        """
        if not self._is_asked:
            self._is_asked = True
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
        """Wait for what was begun, and let go of the file system."""
        self._threads.shutdown()
        if self._file_system is not None:
            self._file_system.close()

    def _sync_each(self, descriptors: Sequence[int], directories: Sequence[str]) -> None:
        if len(descriptors) == 1:
            os.fdatasync(descriptors[0])
        else:
            list(self._threads.map(os.fdatasync, descriptors))
        list(self._threads.map(self._sync_directory, directories))

    def _sync_directory(self, path: str) -> None:
        sync_directory(self._archive / path)


def _reports(directory: Path) -> bool:
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    found = ctypes.create_string_buffer(512)  # struct statfs; its first member is the type
    if release < REPORTS_SINCE or _C.statfs(os.fsencode(directory), found) != 0:
        return False
    return ctypes.c_long.from_buffer(found).value in REPORTING
