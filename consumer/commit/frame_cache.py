"""Frames of busy files, kept as received: a segment is made of them without compressing the text again.

This only saves time: compressing 128 MiB takes 0.3 CPU seconds, and the producer has done it already. A file that is
not completely in the cache is read and compressed.

Frames are in memory. Where they need too much of it, those of the file that waited longest move to a file without a
name: a segment of 128 MiB of unique lines has frames of 35 to 65 MiB.
"""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from consumer.archive.frame_index import Frame
from consumer.commit.disk_io import write_all
from shipper.bytes_ops import crc32

MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of frames in the memory of one partition: twice the size of a usual segment."""
LEAST_TEXT_BYTES = 64 * 1024
"""Minimum average bytes of text per frame: many small frames take more space than one new frame."""
FEW_FRAMES = 16  # number of frames that may be smaller
LEAST_DISK_BYTES = 1024 * 1024
"""Minimum bytes of the frames of one file that move to the disk. Fewer are dropped: their text is compressed fast."""
MOST_ON_DISK = 8
"""Maximum files whose frames are on the disk, of one partition: each needs a descriptor of its own."""
CHUNK_BYTES = 1024 * 1024  # read at a time


class Frames(NamedTuple):
    """All text of a file, as frames of one codec."""

    frames: Iterable[bytes]
    lines: int  #: as the producers counted them
    marks: tuple[Frame, ...] = ()  #: one for each frame
    crc: int | None = None  #: of the bytes of all frames, if they were on the disk


class _DiskFrames:
    """Frames in a file that has no name: nothing is left of it after a kill. Closed when nothing refers to it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._sums: list[tuple[int, int]] = []  # after each frame: the bytes so far, and their CRC

    def __del__(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        """Bytes of all frames."""
        return self._sums[-1][0] if self._sums else 0

    @property
    def crc(self) -> int:
        """CRC-32 of all frames, as they came."""
        return self._sums[-1][1] if self._sums else 0

    def add(self, frames: Sequence[bytes]) -> None:
        """Add frames after the others. Raises OSError."""
        write_all(self._descriptor, frames, self.size)
        for frame in frames:
            self._sums.append((self.size + len(frame), crc32(frame, self.crc)))

    def cut(self, count: int) -> None:
        """Remove the frames after the first `count`."""
        del self._sums[count:]

    def __iter__(self) -> Iterator[bytes]:
        for offset in range(0, self.size, CHUNK_BYTES):
            yield os.pread(self._descriptor, min(CHUNK_BYTES, self.size - offset), offset)


@dataclass(slots=True)
class _Chain:
    """The frames of one file from its first byte on, with the sums of their lengths."""

    marks: list[Frame] = field(default_factory=list)
    in_memory: list[bytes] = field(default_factory=list)  #: all frames, or none
    on_disk: _DiskFrames | None = None
    stored_bytes: int = 0
    text_bytes: int = 0

    def add(self, frame: bytes, mark: Frame) -> None:
        """Add a frame after the others. Raises OSError."""
        if self.on_disk is None:
            self.in_memory.append(frame)
        else:
            self.on_disk.add([frame])
        self.marks.append(mark)
        self.stored_bytes += mark.stored
        self.text_bytes += mark.raw

    def cut(self, end: int) -> None:
        """Remove the frames after `end`: they were written and never committed."""
        while self.text_bytes > end:
            mark = self.marks.pop()
            self.stored_bytes -= mark.stored
            self.text_bytes -= mark.raw
        del self.in_memory[len(self.marks) :]
        if self.on_disk is not None:
            self.on_disk.cut(len(self.marks))

    def move_to_disk(self, directory: Path) -> None:
        """Move the frames out of memory. Raises OSError."""
        on_disk = _DiskFrames(os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600))
        on_disk.add(self.in_memory)
        self.on_disk, self.in_memory = on_disk, []


class FrameCache:
    """The frames of one partition's open files, by path. Used only by the thread of the partition's worker.

    Frames for which there is no memory move to `directory`. A file system without unnamed files, or without space,
    keeps none.
    """

    def __init__(self, codec: str, directory: Path, most_bytes: int = MOST_BYTES) -> None:
        self.codec = codec  #: of the segments; frames of another codec are not cached
        self._directory = directory
        self._most_bytes = most_bytes
        self._in_memory: OrderedDict[str, _Chain] = OrderedDict()  # the chain that grew last is last
        self._on_disk: OrderedDict[str, _Chain] = OrderedDict()
        self._bytes = 0  # in memory

    def add(self, path: str, at: int, frame: bytes, *, text_bytes: int, lines: int, time_ns: int = 0) -> None:
        """Add a frame with the `text_bytes` that were appended to a file after `at` bytes of text."""
        chain = self._removed(path) or _Chain()
        chain.cut(at)
        is_small = (len(chain.marks) - FEW_FRAMES) * LEAST_TEXT_BYTES > chain.text_bytes
        if chain.text_bytes != at or is_small:
            return
        with contextlib.suppress(OSError):
            chain.add(frame, Frame(len(frame), text_bytes, time_ns, lines))
            self._keep(path, chain)

    def take(self, path: str, text_bytes: int) -> Frames | None:
        """Remove and return the frames of a file of `text_bytes`.

        None means that the cache does not have all of them.
        """
        chain = self._removed(path)
        if chain is None:
            return None
        chain.cut(text_bytes)
        if not chain.text_bytes == text_bytes > 0:
            return None
        marks, on_disk = tuple(chain.marks), chain.on_disk
        lines = sum(mark.lines for mark in marks)
        return Frames(on_disk, lines, marks, on_disk.crc) if on_disk else Frames(tuple(chain.in_memory), lines, marks)

    def _removed(self, path: str) -> _Chain | None:
        if (chain := self._in_memory.pop(path, None)) is not None:
            self._bytes -= chain.stored_bytes
            return chain
        return self._on_disk.pop(path, None)

    def _keep(self, path: str, chain: _Chain) -> None:
        if chain.on_disk is not None:
            self._on_disk[path] = chain
            return
        self._in_memory[path] = chain
        self._bytes += chain.stored_bytes
        while self._bytes > self._most_bytes:
            oldest, chain = self._in_memory.popitem(last=False)
            self._bytes -= chain.stored_bytes
            if chain.stored_bytes >= LEAST_DISK_BYTES:
                chain.move_to_disk(self._directory)
                self._on_disk[oldest] = chain
        while len(self._on_disk) > MOST_ON_DISK:
            self._on_disk.popitem(last=False)
