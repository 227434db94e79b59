"""Some text of one file of one host, as it goes to whoever reads. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class Piece(NamedTuple):
    """Whole lines, except where a line is longer than a block, or its file ends without a newline."""

    time_ns: int  #: when JetStream stored it; of archived text an estimate
    host: str
    file: str
    source: str  #: the generation of the file; empty: nobody knows, as of plain messages
    offset: int | None  #: of the first byte in the source; None: nobody knows
    text: bytes

    def part(self, start: int, end: int) -> "Piece":
        """Bytes `start` to `end` of the text."""
        offset = None if self.offset is None else self.offset + start
        return Piece(self.time_ns, self.host, self.file, self.source, offset, self.text[start:end])

    def lines(self) -> Iterator["Piece"]:
        """A piece for each line."""
        start = 0
        while start < len(self.text):
            end = self.text.find(b"\n", start) + 1 or len(self.text)
            yield self.part(start, end)
            start = end


class Last:
    """The last lines of all that comes by: at most `count`, and the rest of the piece that the oldest is of."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: deque[tuple[Piece, int]] = deque()
        self._lines = 0

    @property
    def full(self) -> bool:
        """Whether there were that many lines."""
        return self._lines >= self._count

    def add(self, piece: Piece) -> None:
        """Take what follows."""
        if not self._count:
            return
        lines = _count(piece.text)
        self._held.append((piece, lines))
        self._lines += lines
        while self._lines - self._held[0][1] >= self._count:
            self._lines -= self._held.popleft()[1]

    def pieces(self) -> Iterator[Piece]:
        """The last lines, oldest first."""
        surplus = max(0, self._lines - self._count)
        for piece, _ in self._held:
            yield _without_first(piece, surplus) if surplus else piece
            surplus = 0


def _count(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n"))


def _without_first(piece: Piece, lines: int) -> Piece:
    start = 0
    for _ in range(lines):
        start = piece.text.index(b"\n", start) + 1
    return piece.part(start, len(piece.text))
