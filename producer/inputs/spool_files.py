"""The files of one spool: `log`, which grows, and what rotation made of it."""

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from producer.model import Source
from shipper.durable_files import replace_file

LOG = "log"
GONE = "gone-"
"""Begins the name of a segment that is being deleted: the checkpoint forgets its inode first."""
_ROTATED = re.compile(r"log-(\d{20})(?:\.lost-(\d+))?")
_BACK_BYTES = 64 * 1024
_STEP_BYTES = 8 * 1024

Key = tuple[int, int]


class Segment(NamedTuple):
    """One rotated file of a spool."""

    path: Path
    number: int
    key: Key  #: device and inode
    size: int
    lost: int  #: bytes after it that could never be read; at least so many

    @property
    def doomed(self) -> Path:
        """Its name while it is deleted."""
        return self.path.with_name(GONE + self.path.name)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the files of this host are shipped."""

    sources: Mapping[Key, Source]
    unsaved: frozenset[str]  #: sources whose newest state is not durable yet

    @classmethod
    def of(cls, sources: Iterable[Source], unsaved: Iterable[str]) -> "Progress":
        """The newest source of each file that is still there."""
        return cls({each.key: each for each in sources if each.inode}, frozenset(unsaved))

    def is_over(self, key: Key) -> bool:
        """Whether the last block of a file is acknowledged."""
        source = self.sources.get(key)
        return source is not None and source.ended_at > 0

    def is_over_for_good(self, key: Key) -> bool:
        """The same, and the checkpoint on disk has it."""
        return self.is_over(key) and self.sources[key].id not in self.unsaved

    def is_archived(self, key: Key) -> bool:
        """Whether an archive is known to have all that was acknowledged of a file."""
        source = self.sources.get(key)
        return source is not None and source.archived >= source.offset

    def has_begun(self, key: Key) -> bool:
        """Whether something of a file is acknowledged: everything that is older in its spool was read before it."""
        source = self.sources.get(key)
        return source is not None and source.offset > source.origin


def rotated(directory: Path) -> list[Segment]:
    """The rotated files of a spool, the oldest first."""
    return sorted(_found(directory, ""), key=lambda segment: segment.number)


def doomed(directory: Path) -> list[Segment]:
    """The files of a spool whose deletion has begun."""
    return _found(directory, GONE)


def rotated_name(number: int, lost: int) -> str:
    """The name of rotated file `number`; `lost`: bytes after it that could never be read."""
    return f"{LOG}-{number:020d}" + (f".lost-{lost}" if lost else "")


def held_bytes(directory: Path) -> int:
    """Bytes in the files that do not grow any more."""
    return sum(segment.size for segment in (*rotated(directory), *doomed(directory)))


def next_number(directory: Path) -> int:
    """After every number that there was; a file keeps it for when all rotated files are deleted. Durable."""
    path = directory / "number"
    kept = path.read_bytes().strip() if path.exists() else b""
    there = [segment.number + 1 for segment in (*rotated(directory), *doomed(directory))]
    number = max(int(kept) if kept.isdigit() else 1, *there, 1)
    if kept != b"%d" % number:
        replace_file(path, b"%d\n" % number, mode=0o600)
    return number


def lost_after(directory: str, key: Key) -> int:
    """The bytes after the file `key` of a spool that could never be read, by the name of that file."""
    return next((segment.lost for segment in _found(Path(directory), "") if segment.key == key), 0)


def _found(directory: Path, prefix: str) -> list[Segment]:
    segments = []
    for entry in directory.iterdir() if directory.is_dir() else ():
        name = _ROTATED.fullmatch(entry.name.removeprefix(prefix)) if entry.name.startswith(prefix) else None
        if name:
            with contextlib.suppress(FileNotFoundError):
                stat = entry.stat()
                key = (stat.st_dev, stat.st_ino)
                segments.append(Segment(entry, int(name[1]), key, stat.st_size, int(name[2] or 0)))
    return segments


def end_of_lines(descriptor: int, size: int) -> int:
    """Where the last whole line of an open file ends, by its last bytes; 0 if they have no newline."""
    start = max(0, size - _BACK_BYTES)
    return start + os.pread(descriptor, size - start, start).rfind(b"\n") + 1 if size else 0


def step_to_end_of_line(descriptor: int, size: int, *, due: int) -> int:
    """How many bytes a file of `size` may take next, that is to end at the first whole line after `due`.

    Byte by byte, so that nothing of the next line comes along; in a very long line that would take hours.
    """
    in_long_line = size - due >= _BACK_BYTES and b"\n" not in os.pread(descriptor, _BACK_BYTES, size - _BACK_BYTES)
    return _STEP_BYTES if in_long_line else 1
