"""Files that ended and that no archive is known to hold: kept open, so that whoever deletes them frees nothing yet.

What the server acknowledged it may lose, with the power or with its disk; then only the file itself still has the
bytes. A file that lies somewhere is found there; one that was deleted lies behind its descriptor only.

Files that no watched name leads to, kept open from one pipeline to the next: their bytes may lie nowhere else.

A restart finds a file by its name or not at all. Within one process there is a better way: the descriptor.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from producer.discovery import scanner
from producer.discovery.scanner import Key
from producer.model import Source
from shipper import events

if TYPE_CHECKING:
    from producer.tailer.file_reader import FileReader

SHARE_OF_HANDLES = 4
"""One in so many descriptors may be of a file that is held: the others are needed to read."""
MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is held."""

    octets: int = 0  #: in all files together; 0: nothing is held
    seconds: float = 0.0  #: how long a file is held
    open_files: int = 1 << 30  #: most descriptors for files, those that are read too

    @property
    def files(self) -> int:
        """The most files that are held."""
        return max(1, min(self.open_files // SHARE_OF_HANDLES, MOST_FILES))


NOTHING = Bounds()


class _Holding(NamedTuple):
    """One file that is held."""

    file: str
    descriptor: int
    octets: int
    since: float


class Held:
    """The files that are held, by source, the oldest first. Owned by the process: they outlive a reload."""

    def __init__(self, bounds: Bounds = NOTHING, clock: Callable[[], float] = time.monotonic) -> None:
        self.bounds = bounds
        self._clock = clock
        self._holdings: dict[str, _Holding] = {}

    def __len__(self) -> int:
        return len(self._holdings)

    @property
    def octets(self) -> int:
        """Bytes in the files that are held."""
        return sum(holding.octets for holding in self._holdings.values())

    def hold(self, source: Source, descriptor: int) -> None:
        """Keep the open file of a source that ended; the descriptor is ours from now on."""
        self._close(source.id)
        size = os.fstat(descriptor).st_size
        self._holdings[source.id] = _Holding(source.file, descriptor, size, self._clock())

    def settle(self, known: Mapping[str, Source]) -> None:
        """Let go of what is archived or forgotten, and of the oldest ones where more is held than the bounds allow."""
        if not self._holdings:
            return
        for id_ in list(self._holdings):
            source = known.get(id_)
            if source is None or (source.ended_at and source.archived >= source.offset):  # else it went back
                self._close(id_)
        octets = self.octets
        for id_, holding in list(self._holdings.items()):
            too_much = octets > self.bounds.octets or len(self._holdings) > self.bounds.files
            if not too_much and self._clock() - holding.since < self.bounds.seconds:
                break
            octets -= holding.octets
            self._let_go(id_)
        events.files_held(files=len(self._holdings), octets=octets)

    def at_its_file(self, source: Source) -> Source:
        """A source that went back: its file is the one that is held, whatever its inode number is known as."""
        holding = self._holdings.get(source.id)
        if holding is None or source.ended_at:
            return source
        stat = os.fstat(holding.descriptor)
        return replace(source, device=stat.st_dev, inode=stat.st_ino)

    def path(self, source: str) -> str | None:
        """Where the file of a source can be opened, for this process only; None: it is not held."""
        holding = self._holdings.get(source)
        return None if holding is None else f"/dev/fd/{holding.descriptor}"

    def leave_out(self, source: str) -> None:
        """Close the file of a source that is not read any more: the configuration no longer names it."""
        self._close(source)

    def close(self) -> None:
        """The process ends: what has no name any more is gone with it."""
        nameless = [holding for holding in self._holdings.values() if not _has_name(holding.descriptor)]
        if nameless:
            events.held_files_end(files=len(nameless), octets=sum(holding.octets for holding in nameless))
        for id_ in list(self._holdings):
            self._close(id_)

    def _let_go(self, id_: str) -> None:
        holding = self._holdings[id_]
        if not _has_name(holding.descriptor):  # else it lies somewhere, and is found there
            events.held_file_let_go(file=holding.file, source=id_, octets=holding.octets)
        self._close(id_)

    def _close(self, id_: str) -> None:
        holding = self._holdings.pop(id_, None)
        if holding is not None:
            os.close(holding.descriptor)


def _has_name(descriptor: int) -> bool:
    try:
        return os.fstat(descriptor).st_nlink > 0
    except OSError:
        return False


class Heirs:
    """What `Sources` leave to those that come after them, over a reload or a step back. Owned by `Turns`."""

    def __init__(self) -> None:
        self._descriptors: dict[Key, int] = {}

    def keep(self, readers: "Iterable[FileReader]") -> None:
        """Keep the files open that lie at no known name any more."""
        for reader in readers:
            if reader.fd >= 0 and reader.key not in self._descriptors and not scanner.lies_at(reader.path, reader.key):
                with contextlib.suppress(OSError):  # no descriptor is left: what a restart finds, is found
                    self._descriptors[reader.key] = os.dup(reader.fd)

    def path(self, key: Key) -> str | None:
        """Where a kept file can be opened, for this process only."""
        descriptor = self._descriptors.get(key)
        return None if descriptor is None else f"/dev/fd/{descriptor}"

    def release(self) -> None:
        """Let go of what was kept: those who needed it have opened it."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
