"""Whether somebody else changed the archive under us: a file deleted, renamed, replaced or cut while it is open.

What is written to a deleted file is lost, and a file that was cut would get a run of NULs: so whoever finds a change
ends the session. The next one begins as at a start, where what is missing is recorded and a fresh file begun.
"""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from consumer.archive import IDENTITY


class Inode(NamedTuple):
    """Which file, whatever its name."""

    device: int
    number: int


class PinnedPath:
    """A path that has to go on leading to the file that it leads to now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = inode_of(os.stat(path))

    def check(self) -> None:
        """Raises OSError: the path leads to another file, or to none."""
        if inode_of(os.stat(self._path)) != self._inode:
            raise changed(str(self._path))


class ArchiveDirectory:
    """The archive that a collector began with. An empty mount point in its place is not it."""

    def __init__(self, archive: Path) -> None:
        self._identity = archive / IDENTITY
        self._content = self._read() if self._identity.exists() else b""

    def check(self) -> None:
        """Raises OSError: another archive is there, or none."""
        if self._content and self._read() != self._content:
            raise changed(str(self._identity))

    def _read(self) -> bytes:
        return self._identity.read_bytes()


def inode_of(found: os.stat_result) -> Inode:
    """The identity of a file that was looked at."""
    return Inode(found.st_dev, found.st_ino)


def check_length(descriptor: int, path: str, committed: int) -> None:
    """Raises OSError: the open file lost committed bytes."""
    if os.fstat(descriptor).st_size < committed:
        raise changed(path)


def check_name(descriptor: int, path: str) -> None:
    """Raises OSError: `path` does not lead to the open file any more."""
    named, opened = os.stat(path), os.fstat(descriptor)
    if named.st_ino != opened.st_ino or named.st_dev != opened.st_dev:
        raise changed(path)


def check_file(path: str, descriptor: int | None, committed: int) -> None:
    """Raises OSError: `path` is gone, is shorter than `committed` bytes, or leads elsewhere than the open file."""
    found = os.stat(path)
    if found.st_size < committed or (descriptor is not None and inode_of(found) != inode_of(os.fstat(descriptor))):
        raise changed(path)


def changed(path: str) -> OSError:
    """Somebody else did something to `path`."""
    return OSError(errno.ESTALE, "somebody else removed, replaced or cut it", path)
