"""An input without a file gets one: appended here, followed by the ordinary tailer, and shipped with its promises.

`log` grows; it is renamed to `log-<number>` where it is long enough *and the checkpoint knows it*, so that no rotated
file is ever unknown. A rotated file is deleted when its last block is acknowledged, the checkpoint has that, and the
archive has it or space is short. What is written here survives `kill -9`, not a power failure.
"""

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from producer.model import Source
from shipper import events
from shipper.durable_files import make_directory, replace_file

# -- the files of one spool: `log`, which grows, and what rotation made of it ------------------------------------------

SPOOLS = "spool"
"""Name of the directory of the spools in the state directory of a host."""
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
    """The name of rotated file `number`. `lost`: bytes after it that could never be read."""
    return f"{LOG}-{number:020d}" + (f".lost-{lost}" if lost else "")


def next_number(directory: Path) -> int:
    """After every number that there was. A file keeps it for when all rotated files are deleted. Durable."""
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


# -- the spool ---------------------------------------------------------------------------------------------------------

SEGMENT_BYTES = 16 * 1024 * 1024
PARTS = 4
"""Minimum number of segments of a spool. It is short of space when only one of them would fit."""
RETRY_SECONDS = 1.0
"""Between two attempts to write to a full disk."""

Hint = Callable[[str | None], None]


class Space:
    """The bytes that the spools of one input may hold together. Each of them changes it under `changed`."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self.changed = threading.Condition()
        self.free = limit_bytes  #: bytes that fit; negative: too many were appended
        self.spools = 0
        self.hint: Hint = lambda _path: None  #: called when a log grew, or, with None, when names changed


class SpoolNames(Mapping[str, str]):
    """Archive names by the local path of the spool: any thread may add one while another one reads."""

    def __init__(self, spools: "Iterable[Spool]" = ()) -> None:
        self._names = {str(spool.log): spool.name for spool in spools}
        self._lock = threading.Lock()

    def add(self, spool: "Spool") -> None:
        """Before anything is written to it."""
        with self._lock:
            self._names = {**self._names, str(spool.log): spool.name}

    def remove(self, spool: "Spool") -> None:
        """After it was deleted."""
        with self._lock:
            self._names = {path: name for path, name in self._names.items() if path != str(spool.log)}

    def __getitem__(self, path: str) -> str:
        return self._names[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Spool:
    """The spool of one input. One thread appends, the pipeline tends. One process at a time (the state's lock)."""

    def __init__(self, directory: Path, name: str, *, limit_bytes: int, space: Space | None = None) -> None:
        make_directory(directory, mode=0o700)
        replace_file(directory / "name", os.fsencode(name), mode=0o600)
        self.name = name  #: in the archive
        self.directory = directory
        self.log = directory / LOG
        self._space = space or Space(limit_bytes)
        self._segment_bytes = min(SEGMENT_BYTES, self._space.limit // PARTS)
        self._changed = self._space.changed
        self._held = 0  # bytes, as counted in the space
        self._stopped = self._finishing = False
        self._holders = 0
        self._cut: int | None = None  # rotate with this many lost bytes in the name
        self._full = False
        self._released: dict[Path, str] = {}  # files that are deleted once the checkpoint has forgotten this source
        self.number = next_number(directory)  #: of the `log`: what rotation will call it
        self._descriptor, self._size = -1, 0
        if self.log.exists():
            self._opened()
        with self._changed:
            self._space.spools += 1
            self._count()

    # -- the input's thread -------------------------------------------------------------------------------------

    def wait_for_space(self) -> int:
        """Bytes that fit. Waits until some do. 0: the spool is stopped."""
        with self._changed:
            while not self._stopped and self._space.free <= 0:
                if not self._full:
                    self._full = True
                    events.spool_full(input=self.name, limit=self._space.limit)
                self._changed.wait()
            if self._full and not self._stopped:
                self._full = False
                events.spool_has_room(input=self.name)
            return 0 if self._stopped else self._space.free

    def wait_for_bytes(self) -> int:
        """The same for a stream of bytes: how many may come before a file must end, which it does after a whole line.

        Byte for byte then: the content of a pipe cannot be inspected, and bytes taken out of it must be in a file.
        Within a very long line that would take hours.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._is_at_end_of_file)
            if (past := self._size - self._segment_bytes) >= 0 and not self._stopped:
                start = self._size - _BACK_BYTES
                is_long = past >= _BACK_BYTES and b"\n" not in os.pread(self._descriptor, _BACK_BYTES, start)
                return _STEP_BYTES if is_long else 1
        free = self.wait_for_space()
        return min(free, max(1, self._segment_bytes - self._size))

    def append(self, data: bytes) -> int:
        """Write all of `data`. A full disk is waited for. How many bytes a stop left unwritten."""
        view = memoryview(data)
        while view:
            try:
                with self._changed:
                    written = os.write(self._opened(), view)
                    self._size += written
                    self._note_size()
                view = view[written:]
            except OSError as error:
                if not self._wait_for_disk(error):
                    return len(view)
        if data:
            self._space.hint(str(self.log))
        return 0

    def move(self, source: int, most: int) -> int:
        """Move at most `most` bytes out of an open pipe without a copy in between that a kill could lose. 0: its end.

        Raises BlockingIOError where there is nothing now, and OSError (EINVAL) where `source` is no pipe.
        """
        while True:
            try:
                with self._changed:
                    moved = os.splice(source, self._opened(), most, flags=os.SPLICE_F_NONBLOCK)
                    self._size += moved
                    self._note_size()
            except OSError as error:
                is_full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}
                if not is_full or not self._wait_for_disk(error):
                    raise
            else:
                self._space.hint(str(self.log))
                return moved

    def news(self) -> None:
        """End the sleep of the pipeline."""
        self._space.hint(None)

    def sync(self) -> None:
        """Make what was appended survive a power failure, too."""
        if self._descriptor >= 0:
            os.fdatasync(self._descriptor)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No rotation inside the block."""
        with self._changed:
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1

    def cut(self, lost: int) -> bool:
        """Rotate now, with `lost` bytes in the name: they could never be read. Waits for it. False: stopped first."""
        with self._changed:
            self._opened()
            self._cut = lost
        self._space.hint(None)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._cut is None)
            return self._cut is None

    @property
    def is_torn(self) -> bool:
        """Whether the last line has no newline."""
        return self._size > 0 and os.pread(self._descriptor, 1, self._size - 1) != b"\n"

    def unrecorded(self, number: int, length: int) -> bytes:
        """The bytes after byte `length` of the file with `number`, in it and in all later files."""
        parts = [(segment.number, segment.path) for segment in rotated(self.directory)]
        if self.log.exists():
            parts.append((self.number, self.log))
        later = [(found, path.read_bytes()) for found, path in parts if found >= number]
        return b"".join(data[length:] if found == number else data for found, data in later)

    @property
    def position(self) -> tuple[int, int]:
        """Number and length of the file that grows."""
        return self.number, self._size

    def finish(self) -> None:
        """Nothing more will be appended: rotate what there is, so that an unterminated last line is shipped too."""
        with self._changed:
            if self._finishing:
                return
            self._finishing = True
        self._space.hint(None)

    def resume(self) -> None:
        """After `finish`: more will be appended."""
        with self._changed:
            self._finishing = False

    # -- the pipeline -------------------------------------------------------------------------------------------

    def hint_to(self, hint: Hint) -> None:
        """Set the function that is called when the `log` grew, or, with None, when names changed."""
        self._space.hint = hint
        hint(None)

    def stop(self) -> None:
        """End all waiting."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def tend(self, progress: Progress, release: Callable[[Source], None]) -> None:
        """Rotate and delete what is due. `release`: the checkpoint forgets the inode of a source before it is free."""
        with self._changed:
            if self.is_empty and self._descriptor < 0:
                return
            self._rotate_if_due(progress)
            self._delete_what_may_go(progress, release)
            self._count()
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether it holds no byte, and no file."""
        return self._size == 0 and not self._older

    def is_over(self, progress: Progress) -> bool:
        """Whether nothing more will come and all that came is acknowledged."""
        left = rotated(self.directory)
        return self._finishing and self._size == 0 and all(progress.is_over(each.key) for each in left)

    def is_settled(self, progress: Progress) -> bool:
        """Whether every whole line is acknowledged, or everything if nothing more will come."""
        if self._finishing:
            return self.is_over(progress)
        if not all(progress.is_over(each.key) for each in rotated(self.directory)):
            return False
        with self._changed:
            if self._size == 0:
                return True
            source = progress.sources.get(_key(self._descriptor))
            start = max(0, self._size - _BACK_BYTES)
            last_bytes = os.pread(self._descriptor, self._size - start, start)
            return source is not None and source.offset >= start + last_bytes.rfind(b"\n") + 1

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1

    def leave(self) -> None:
        """It is deleted: its space belongs to the others."""
        with self._changed:
            self._space.spools -= 1

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _is_at_end_of_file(self) -> bool:
        return self._size >= self._segment_bytes and not self.is_torn

    def _count(self) -> None:
        """Count what it holds in the space that it shares. After a change of names."""
        self._older = [*rotated(self.directory), *doomed(self.directory)]
        self._note_size()

    def _note_size(self) -> None:
        held = self._size + sum(segment.size for segment in self._older)
        self._space.free += self._held - held
        self._held = held

    @property
    def _rotates_early(self) -> bool:
        """Whether space is short and this spool has its part of it: many logs, each of them short, must not fill it."""
        is_shared = self._space.spools > 1 and self._space.free <= self._segment_bytes
        return is_shared and self._size >= max(1, self._segment_bytes // self._space.spools) and not self.is_torn

    def _opened(self) -> int:
        """The descriptor of the `log`. Not O_APPEND: splice() refuses that, and there is no other writer."""
        if self._descriptor < 0:
            self._descriptor = os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._size = os.lseek(self._descriptor, 0, os.SEEK_END)
            self._space.hint(None)
        return self._descriptor

    def _wait_for_disk(self, error: OSError) -> bool:
        """Whether to try again."""
        events.spool_failed(input=self.name, error=error.strerror or str(error))
        with self._changed:
            return not self._changed.wait_for(lambda: self._stopped, RETRY_SECONDS)

    def _rotate_if_due(self, progress: Progress) -> None:
        if self._descriptor < 0 or self._holders or _key(self._descriptor) not in progress.sources:
            return
        due = self._is_at_end_of_file or (self._finishing and self._size > 0) or self._rotates_early
        if due or self._cut is not None:
            self.log.rename(self.directory / rotated_name(self.number, self._cut or 0))
            os.close(self._descriptor)
            self._descriptor, self._size, self._cut = -1, 0, None
            self.number += 1
            next_number(self.directory)  # keeps it
            self._space.hint(None)

    def _delete_what_may_go(self, progress: Progress, release: Callable[[Source], None]) -> None:
        self._delete_the_doomed(progress, release)
        left = rotated(self.directory)
        others = self._space.free + self._held  # what this spool may hold
        free = others - self._size - sum(segment.size for segment in left)  # the doomed are as good as gone
        for index, segment in enumerate(left):
            if not self._may_go(segment, left[index + 1 :], progress, short=free <= self._segment_bytes):
                return
            segment.path.rename(segment.doomed)
            free += segment.size
            self._release(segment.doomed, progress.sources.get(segment.key), release)

    def _delete_the_doomed(self, progress: Progress, release: Callable[[Source], None]) -> None:
        """Delete what the checkpoint on disk does not know by its inode any more. A kill may have come between."""
        for segment in doomed(self.directory):
            if segment.path not in self._released:
                self._release(segment.path, progress.sources.get(segment.key), release)
            elif self._released[segment.path] not in progress.unsaved:
                segment.path.unlink()
                del self._released[segment.path]

    def _release(self, path: Path, source: Source | None, release: Callable[[Source], None]) -> None:
        self._released[path] = source.id if source else ""
        if source:
            release(source)

    def _may_go(self, segment: Segment, later: list[Segment], progress: Progress, *, short: bool) -> bool:
        if segment.key not in progress.sources:  # forgotten, or the checkpoint was lost after it
            keys = [each.key for each in later] + ([_key(self._descriptor)] if self._descriptor >= 0 else [])
            return short and any(map(progress.has_begun, keys))
        is_saved = progress.is_over(segment.key) and progress.sources[segment.key].id not in progress.unsaved
        return is_saved and (short or progress.is_archived(segment.key))


def _key(descriptor: int) -> Key:
    stat = os.fstat(descriptor)
    return stat.st_dev, stat.st_ino
