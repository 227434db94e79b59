"""A new segment gets its name only when all of it is durable, and takes no name away from another."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from consumer.commit.disk_io import forget_cached
from shipper.durable_files import sync_directory
from shipper.manifest import Segment

LARGE_BYTES = 1024 * 1024
"""A segment of this size leaves the page cache: it is read tomorrow, if at all."""
_TEMPORARY = re.compile(r"\.(?P<target>.+-\d{20}(\.zst|\.gz)?)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_SEGMENT = re.compile(r"(?P<file>.+)-(?P<number>\d{20})(\.zst|\.gz)?", re.DOTALL)


def split_name(name: str) -> tuple[str, int] | None:
    """The file and the number of a segment, by its name; None: it is no segment's."""
    found = _SEGMENT.fullmatch(name)
    return (found["file"], int(found["number"])) if found else None


def number_of(segment: Segment) -> int:
    """The number in a segment's name."""
    return int(_SEGMENT.fullmatch(segment.path)["number"])  # type: ignore[index]


class NewSegmentFile:
    """A temporary file next to its target, which readers ignore."""

    def __init__(self, target: Path, path: Path, stream: BinaryIO) -> None:
        self._target = target
        self._path = path
        self.stream = stream

    def publish(self) -> bool:
        """Give it the target's name, durably; False: that is taken."""
        self._sync()
        try:
            os.link(self._path, self._target)
        except FileExistsError:
            return False
        sync_directory(self._target.parent)
        return True

    def replace(self) -> None:
        """Give it the target's name, durably, whatever had it."""
        self._sync()
        self._path.replace(self._target)
        sync_directory(self._target.parent)

    def _sync(self) -> None:
        self.stream.flush()
        descriptor = self.stream.fileno()
        os.fsync(descriptor)
        if (size := os.fstat(descriptor).st_size) >= LARGE_BYTES:
            forget_cached(descriptor, size)


@contextlib.contextmanager
def new_segment_file(target: Path) -> Iterator[NewSegmentFile]:
    """A file under a name of its own in the target's directory; that name is gone at the end."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with path.open("xb") as stream:
            yield NewSegmentFile(target, path, stream)
    finally:
        path.unlink(missing_ok=True)


def target_of(name: str) -> str:
    """The segment that the file `name` was to become; none: it is not one of ours."""
    found = _TEMPORARY.fullmatch(name)
    return found["target"] if found else ""


def sweep(directory: Path, segment: str) -> None:
    """Remove what kills left of attempts to make `segment`. Who is still at it has to try again."""
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if target_of(entry.name) == segment]
    for name in names:
        (directory / name).unlink(missing_ok=True)
