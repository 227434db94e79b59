"""Text of one log file as it is read from streams and archive, and the last lines of such text."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from consumer.archive.event_times import TimeOrigin


class Piece(NamedTuple):
    """Whole lines, except where a line is longer than a block, or its file ends without a newline."""

    time_ns: int  #: when JetStream stored it; by event the time in the line
    host: str
    file: str
    source: str  #: the generation of the file; empty: not known, as of plain messages
    offset: int | None  #: of the first byte in the source; None: not known
    text: bytes
    stored_ns: tuple[int, int] | None = None  #: of archived text: between which times it was stored
    time_from: TimeOrigin = TimeOrigin.STORED
    zone: str = ""  #: IANA name of the zone of its host; empty: UTC

    def part(self, start: int, end: int) -> "Piece":
        """Bytes `start` to `end` of the text."""
        offset = None if self.offset is None else self.offset + start
        return self._replace(offset=offset, text=self.text[start:end])

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
        lines = piece.text.count(b"\n") + (not piece.text.endswith(b"\n"))
        self._held.append((piece, lines))
        self._lines += lines
        while self._lines - self._held[0][1] >= self._count:
            self._lines -= self._held.popleft()[1]

    def pieces(self) -> Iterator[Piece]:
        """The last lines, oldest first."""
        surplus = max(0, self._lines - self._count)
        for piece, _ in self._held:
            start = 0
            for _ in range(surplus):
                start = piece.text.index(b"\n", start) + 1
            yield piece.part(start, len(piece.text))
            surplus = 0
