"""Detects changes of the archive by other programs: an open file that was deleted, renamed, replaced or truncated.

Bytes that are written to a deleted file are lost, and a truncated file would get a run of NULs. Therefore a change
ends the session. The next session recovers as at a start: it records the missing bytes and creates a new file.
"""

import errno
import os
from pathlib import Path
from typing import NamedTuple

from consumer.archive import IDENTITY


class Inode(NamedTuple):
    """The identity of a file, independent of its name."""

    device: int
    number: int


class PinnedPath:
    """A path that must keep leading to the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = inode_of(os.stat(path))

    def check(self) -> None:
        """Raises OSError: the path leads to another file, or to none."""
        if inode_of(os.stat(self._path)) != self._inode:
            raise changed(str(self._path))


class ArchiveDirectory:
    """The archive directory at the start of a collector. An empty mount point in its place is another directory."""

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
    """The identity of a file, from its status."""
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
    """The error for a file that another program changed."""
    return OSError(errno.ESTALE, "another program removed, replaced or truncated it", path)
