"""Files that stay open although the tailer does not read them: no name may lead to their bytes any more.

* Files that ended and that no archive is known to have. The server may lose what it acknowledged, with the power or
  with its disk; then only the file itself still has the bytes, and a deleted one only while it is open.
* Over a reload: open files without a name. A restart finds a file by its name or not at all.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from producer.discovery import scanner
from producer.discovery.scanner import Key
from producer.model import Source
from producer.options import UNBOUNDED
from producer.tailer.file_reader import FileReader, is_linked
from shipper import events

SHARE_OF_DESCRIPTORS = 4
"""One in so many descriptors may be of a file that is retained: the others are needed to read."""
MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is retained of files that ended."""

    octets: int = 0  #: in all files together; 0: nothing is retained
    seconds: float = 0.0  #: how long a file is retained
    open_files: int = UNBOUNDED  #: most descriptors for files, those that are read too

    @property
    def files(self) -> int:
        """The most files that are retained."""
        return max(1, min(self.open_files // SHARE_OF_DESCRIPTORS, MOST_FILES))


NOTHING = Bounds()


class _Retained(NamedTuple):
    """One file that ended."""

    file: str
    descriptor: int
    octets: int
    since: float


class RetainedFiles:
    """Owned by the process: it outlives a reload. Its length is the number of files that ended.

    `hands_over`: a tailer that closes leaves its open files without a name to the next one.
    """

    def __init__(
        self, bounds: Bounds = NOTHING, clock: Callable[[], float] = time.monotonic, *, hands_over: bool = False
    ) -> None:
        self.bounds = bounds
        self._clock = clock
        self._hands_over = hands_over
        self._ended: dict[str, _Retained] = {}  # by source, the oldest first
        self._handed_over: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._ended)

    @property
    def octets(self) -> int:
        """Bytes in the files that ended."""
        return sum(each.octets for each in self._ended.values())

    def path(self, source: Source) -> str | None:
        """Where the file of a source can be opened, for this process only. None: it is not retained."""
        ended = self._ended.get(source.id)
        descriptor = self._handed_over.get(source.key, -1 if ended is None else ended.descriptor)
        return None if descriptor < 0 else f"/dev/fd/{descriptor}"

    def retain(self, source: Source, descriptor: int) -> None:
        """Keep the open file of a source that ended. This object closes the descriptor."""
        self.drop(source.id)
        size = os.fstat(descriptor).st_size
        self._ended[source.id] = _Retained(source.file, descriptor, size, self._clock())

    def settle(self, known: Mapping[str, Source]) -> None:
        """Close what is archived or forgotten, and the oldest ones where more is retained than the bounds allow."""
        if not self._ended:
            return
        for id_ in list(self._ended):
            source = known.get(id_)
            if source is None or (source.ended_at and source.archived >= source.offset):  # else it went back
                self.drop(id_)
        octets = self.octets
        for id_, each in list(self._ended.items()):
            too_much = octets > self.bounds.octets or len(self._ended) > self.bounds.files
            if not too_much and self._clock() - each.since < self.bounds.seconds:
                break
            octets -= each.octets
            if not is_linked(each.descriptor):  # else a restart finds it
                events.held_file_let_go(file=each.file, source=id_, octets=each.octets)
            self.drop(id_)
        events.files_held(files=len(self._ended), octets=octets)

    def with_retained_inode(self, source: Source) -> Source:
        """A source that went back: its file is the one that is retained, whatever its inode number is known as."""
        each = self._ended.get(source.id)
        if each is None or source.ended_at:
            return source
        stat = os.fstat(each.descriptor)
        return replace(source, device=stat.st_dev, inode=stat.st_ino)

    def drop(self, source: str) -> None:
        """Close the file of a source."""
        each = self._ended.pop(source, None)
        if each is not None:
            os.close(each.descriptor)

    def hand_over(self, readers: Iterable[FileReader]) -> None:
        """The tailer closes: keep its files open that have no known name, for the next one."""
        for reader in readers if self._hands_over else ():
            nameless = reader.fd >= 0 and not scanner.is_at(reader.path, reader.key)
            if nameless and reader.key not in self._handed_over:
                with contextlib.suppress(OSError):  # no descriptor is left
                    self._handed_over[reader.key] = os.dup(reader.fd)

    def close_handed_over(self) -> None:
        """The next tailer has opened what it needs: close what was handed over."""
        for descriptor in self._handed_over.values():
            os.close(descriptor)
        self._handed_over.clear()

    def close(self) -> None:
        """The process ends: the bytes of files without a name are lost with it."""
        nameless = [each for each in self._ended.values() if not is_linked(each.descriptor)]
        if nameless:
            events.held_files_end(files=len(nameless), octets=sum(each.octets for each in nameless))
        for id_ in list(self._ended):
            self.drop(id_)
