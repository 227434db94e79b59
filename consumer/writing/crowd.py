"""How much of a collector one host may take, so that what it sends cannot crowd out the others."""

from collections import Counter
from collections.abc import Iterable, Mapping

from consumer.writing.records import OpenFile
from consumer.writing.watermark import SourceKey
from shipper.errors import Poison

MAX_HOLES = 1000
"""Open holes of a host: each keeps the stream from being purged, is asked for, and takes memory.

What comes behind further ones is a dead letter; it comes again when its producer sends from the hole on.
"""
MAX_FILES = 10_000
"""Open files of a host in one partition. Lines of further ones go to `OVERFLOW`, once and in order as everything."""
OVERFLOW = "overflow.log"


class Crowd:
    """The counts of one batch; made when they are first asked for, which is seldom."""

    def __init__(self, files: Mapping[str, OpenFile], holes: Iterable[SourceKey]) -> None:
        self._files = files
        self._holes = holes
        self._admitted: set[str] = set()
        self._files_of: Counter[str] | None = None
        self._holes_of: Counter[str] | None = None

    def admit_file(self, host: str, path: str) -> bool:
        """Whether a host may have one more open file, `path`, which no journal row names; if so, it is counted."""
        if path in self._admitted:
            return True
        if self._files_of is None:
            self._files_of = Counter(file.key.host for file in self._files.values())
        if self._files_of[host] >= MAX_FILES:
            return False
        self._files_of[host] += 1
        self._admitted.add(path)
        return True

    def admit_hole(self, host: str) -> None:
        """Count one more open hole of a host. Raises Poison: it has too many."""
        if self._holes_of is None:
            self._holes_of = Counter(source.host for source in self._holes)
        if self._holes_of[host] >= MAX_HOLES:
            raise Poison(f"bytes before it are missing, as in {MAX_HOLES} other files of its host")
        self._holes_of[host] += 1

    def fill_hole(self, host: str) -> None:
        """A hole of a host is filled."""
        if self._holes_of is not None:
            self._holes_of[host] -= 1
