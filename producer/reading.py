"""Which file is read next, and when one has come to its end."""

from collections.abc import Callable
from dataclasses import dataclass

from producer.discover import Watched
from producer.source import Source
from producer.tail import Cut, Piece, Tail, Tip
from producer.tails import Tails
from shipper import events
from shipper.model import End, Span

PIECE_BYTES = 1024
"""What a piece costs of the budget beside its bytes: a megabyte of empty lines must not become a million messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How files are followed."""

    watched: Watched
    cut: Cut
    start_at_end: bool = False  #: files that are there at the first look begin at their end
    once: bool = False  #: ship to the end that the files have at the first look, unterminated last lines too
    rotate_wait: float = 5.0  #: seconds of silence before a renamed or deleted file is let go


class Reading:
    """The files that may have bytes to read, and the last words of those that ended. Owned by `Sources`."""

    def __init__(self, following: Following, tails: Tails, clock: Callable[[], float]) -> None:
        self._following = following
        self._tails = tails
        self._clock = clock
        self._active: dict[str, Tail] = {}
        self._farewells: list[Piece] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last look found."""
        return not self._farewells and not any(map(self._may_read, self._active.values()))

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        return sum(max(0, tail.size - tail.offset) for tail in list(self._active.values()))

    def add(self, tail: Tail) -> None:
        """A file may have bytes to read."""
        self._active[tail.id] = tail

    def leave(self, tail: Tail) -> None:
        """No name that is watched leads to a file any more: it is read to its end, then let go."""
        tail.present = False
        tail.left_at = self._clock()
        self.add(tail)
        events.file_left(path=tail.path, how=_how_left(tail).value)

    def is_due(self, tail: Tail) -> bool:
        """Whether a file that left its name has been silent for so long that it is let go."""
        return tail.left_at is not None and self._clock() - tail.left_at >= self._following.rotate_wait

    def read(self, budget_bytes: int) -> list[Piece]:
        """The next pieces, about `budget_bytes` in all, one block of each file in turn so that none starves."""
        pieces = self._take_farewells()
        room = budget_bytes
        while room > 0 and (turn := [tail for tail in self._active.values() if self._may_read(tail)]):
            for tail in turn:
                read = self._read_one(tail, min(room, self._following.cut.block_bytes))
                pieces.extend(read)
                room -= sum(map(_cost, read)) or 1
                if self._active.pop(tail.id, None):
                    self._active[tail.id] = tail  # to the end of the line
                if room <= 0:
                    break
        return pieces + self._take_farewells()

    def _take_farewells(self) -> list[Piece]:
        farewells, self._farewells = self._farewells, []
        return farewells

    def _read_one(self, tail: Tail, budget: int) -> list[Piece]:
        """One block of `tail`, or lines for as much where a line is a piece; what ends it, if it ends."""
        pieces: list[Piece] = []
        flush = self._following.once or self.is_due(tail)
        try:
            while budget > 0 and (piece := tail.read(self._following.cut, flush=flush)):
                pieces.append(piece)
                budget -= _cost(piece)
                if tail.left_at is not None:
                    tail.left_at = self._clock()  # late lines: the silence begins anew
        except OSError as error:
            events.file_unreadable(path=tail.path, error=error.strerror or str(error))
            tail.tip = Tip.MORE  # unknown: the next look tries again
            self._active.pop(tail.id, None)
            return pieces
        finally:
            tail.forget_ahead()
        if tail.tip is not Tip.MORE:
            self._active.pop(tail.id, None)
            self._end_if_over(tail, silent=not pieces)
        return pieces

    def _end_if_over(self, tail: Tail, *, silent: bool) -> None:
        if tail.tip is Tip.REWRITTEN:
            self.let_go(tail, End.TRUNCATED)
        elif tail.tip is Tip.NOTHING and silent and not tail.present and self.is_due(tail):
            self.let_go(tail, _how_left(tail))

    def _may_read(self, tail: Tail) -> bool:
        """Whether every older generation under the same name is read to its end."""
        return not any(self._holds_up(older) for older in self._tails.older(tail))

    def _holds_up(self, older: Tail) -> bool:
        """Whether `older` has bytes that must come first.

        A line that its writer has yet to end does not count once the file is back under its own name.
        """
        if older.tip is Tip.REST:
            return older.left_at is not None
        return older.id in self._active or older.tip is not Tip.NOTHING

    def let_go(self, tail: Tail, why: End) -> None:
        """Read no more of a source; its last piece goes on its way, its file is closed when that is acknowledged."""
        piece = tail.finish(why)
        if piece.gap:
            events.bytes_lost(file=tail.file, lost=piece.gap, reason=why.value)
        self._farewells.append(piece)
        self._active.pop(tail.id, None)
        self._tails.finish(tail, key_is_free=why is End.TRUNCATED)

    def lost(self, source: Source, why: End) -> None:
        """Say farewell to a source whose file is gone or rewritten since the checkpoint was written."""
        gap = max(0, source.size - source.offset)
        if gap:
            events.bytes_lost(file=source.file, lost=gap, reason=why.value)
        span = Span(source.offset, source.offset)
        piece = Piece(source.id, source.file, source.origin, span, b"", source.crc, source.mark, why, gap)
        self._farewells.append(piece)


def _cost(piece: Piece) -> int:
    return piece.span.length + PIECE_BYTES


def _how_left(tail: Tail) -> End:
    return End.ROTATED if tail.may_come_back() else End.DELETED
