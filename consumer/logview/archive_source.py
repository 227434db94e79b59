"""The text of an archive's files as pieces in the order of time: of time marks, else an estimate by position."""

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from consumer.logview.file_index import Part
from consumer.logview.query import Piece, Wanted
from consumer.logview.segment_reader import RemovedError, open_part
from consumer.segment_io import BROKEN, CHUNK_BYTES

PIECES = 64
"""Into about so many a file is cut, so that those of other hosts come between them."""
LEAST_BYTES = 4096
UNPACKER_BYTES = 2 * 1024 * 1024
"""What unpacking a file of some size holds at most, about: the window of its frames."""
MOST_BYTES = 128 * 1024 * 1024
"""Of unpackers at a time: beyond it a file is read in one go, and text of other files of that time comes after it."""
MOST_FILES = 200

Trouble = Callable[[str], None]


class _Next(NamedTuple):
    """A file's next piece; a file that was not opened so far has none."""

    time_ns: int
    number: int
    piece: Piece | None
    rest: Iterator[Piece]
    cost: int


class ArchiveReader:
    """The pieces of some files, oldest first. `trouble` gets a message for each file that cannot be read."""

    def __init__(self, archive: Path, parts: Sequence[Part], wanted: Wanted, trouble: Trouble) -> None:
        self._archive = archive
        self._parts = parts
        self._wanted = wanted
        self._trouble = trouble
        self._cost = self._files = 0

    def __iter__(self) -> Iterator[Piece]:
        waiting = [
            _Next(part.first_ns, number, None, self._read(part), _cost(part)) for number, part in enumerate(self._parts)
        ]
        heapq.heapify(waiting)
        while waiting:
            first = heapq.heappop(waiting)
            if first.piece is not None:
                yield first.piece
            elif not self._take(first.cost):
                yield from first.rest
                continue
            following = next(first.rest, None)
            if following is None:
                self._give_back(first.cost)
            else:
                heapq.heappush(waiting, first._replace(time_ns=following.time_ns, piece=following))

    def _take(self, cost: int) -> bool:
        if self._files >= MOST_FILES or self._cost + cost > MOST_BYTES:
            return False
        self._files, self._cost = self._files + 1, self._cost + cost
        return True

    def _give_back(self, cost: int) -> None:
        self._files, self._cost = self._files - 1, self._cost - cost

    def _read(self, part: Part) -> Iterator[Piece]:
        """The pieces that were stored in the requested time, by the time at which each begins and ends."""
        since, until = self._wanted.since_ns, self._wanted.until_ns
        try:
            for piece, behind in itertools.pairwise(itertools.chain(self._pieces(part), [None])):
                if piece is None or (until is not None and piece.time_ns >= until):
                    return
                if behind is None or behind.time_ns >= since:
                    yield piece
        except RemovedError:
            return
        except (OSError, *BROKEN) as error:
            self._trouble(f"{part.path}: {getattr(error, 'strerror', None) or error}")

    def _pieces(self, part: Part) -> Iterator[Piece]:
        only = part.spans[0] if len(part.spans) == 1 and part.is_as_it_was else None
        with open_part(self._archive, part, self._wanted.since_ns, self._wanted.until_ns) as reader:
            at = reader.text_start
            for text in _cut(iter(reader), min(CHUNK_BYTES, max(LEAST_BYTES, part.raw // PIECES))):
                offset = only.start + at if only else None
                source = only.source if only else ""
                yield Piece(reader.time_at(at), part.host, part.file, source, offset, text)
                at += len(text)


def _cost(part: Part) -> int:
    return min(part.raw, UNPACKER_BYTES) + 2 * min(part.raw, CHUNK_BYTES)


def _cut(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Whole lines, about `size` bytes at a time; a longer line is not held back."""
    rest = b""
    for text in pieces:
        data, start = rest + text, 0
        while len(data) - start >= size:
            end = data.rfind(b"\n", start, start + size) + 1 or data.find(b"\n", start + size) + 1 or len(data)
            yield data[start:end]
            start = end
        rest = data[start:]
    if rest:
        yield rest
