"""Which file is read next, and when one has come to its end."""

import enum
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from producer.discovery import scanner
from producer.discovery.safe_open import FOLLOWED_BY_OWNER, Links
from producer.discovery.scanner import Watched
from producer.inputs.spool_files import lost_behind
from producer.model import Piece, Source
from producer.tailer.descriptor_cache import UNBOUNDED
from producer.tailer.file_reader import Tail, Tip
from producer.tailer.file_table import Tails
from producer.tailer.lost_file import Orphans, Rests
from producer.tailer.retained_files import Heirs, Held
from producer.transform.line_cut import Cut
from producer.transform.time_budget import OverBudget
from shipper import events
from shipper.model import End, Span

PIECE_BYTES = 1024
"""What a piece costs of the budget beside its bytes: a megabyte of empty lines must not become a million messages."""

DEFECTS = {errno.EIO, errno.ESTALE}
"""Errors that may never go away."""
PATIENCE_WAITS = 12
PATIENCE_SECONDS = 60.0
"""So many `rotate_wait`, and at least so long, a younger generation waits for one of which nothing can be known."""


class Order(enum.Enum):
    """Which of the files that have unread bytes is read next."""

    FAIR = "fair"  #: one block of each in turn
    OLDEST = "oldest"  #: the one whose last change is the oldest, to its end; one that is written to is young again


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How files are followed."""

    watched: Watched
    cut: Cut
    start_at_end: bool = False  #: files that are there at the first look begin at their end
    once: bool = False  #: ship to the end that the files have at the first look, unterminated last lines too
    rotate_wait: float = 5.0  #: seconds of silence before a renamed or deleted file is let go
    ignore_older: float = 0.0  #: seconds; a file that is unchanged for longer when first seen begins at its end
    order: Order = Order.FAIR
    open_files: int = UNBOUNDED  #: most descriptors for files
    spools: Mapping[str, str] = field(default_factory=dict)  #: archive names of the files that inputs append to
    heirs: Heirs | None = None  #: where the next sources of this process find the files that have no name
    links: Links = FOLLOWED_BY_OWNER  #: which links are followed
    held: Held = field(default_factory=Held)  #: where files that ended stay open until they are archived

    def ignores(self, mtime_ns: int, now: float) -> bool:
        """Whether a file that nobody knows is too old to be read; `now`: seconds since 1970."""
        return 0 < self.ignore_older < now - mtime_ns / 1e9

    def named(self, piece: Piece) -> Piece:
        """A piece under the name that it has in the archive."""
        name = self.spools.get(piece.file)
        return piece._replace(file=name) if name else piece


class Reading:
    """The files that may have bytes to read, and the last words of those that ended. Owned by `Sources`."""

    def __init__(
        self,
        following: Following,
        tails: Tails,
        known: Mapping[str, Source],
        rests: Rests,
        clock: Callable[[], float],
    ) -> None:
        self._following = following
        self._tails = tails
        self._known = known
        self._clock = clock
        self._patience = max(PATIENCE_SECONDS, PATIENCE_WAITS * following.rotate_wait)
        self._orphans = Orphans(tails, rests, clock, self._patience)
        self._failing: dict[str, float] = {}  # by source: since when its file cannot be read
        self._passed_over: set[str] = set()  # those that no younger generation waits for any more
        self._active: dict[str, Tail] = {}
        self._farewells: list[Piece] = []
        self._sent: dict[str, dict[str, int]] = {}  # by name: the sources that were read, and up to where
        self._last_read: Tail | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last look found."""
        return not (self._farewells or self._readable() or self._orphans.due(self._holds_up))

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        return sum(max(0, tail.size - tail.offset) for tail in list(self._active.values()))

    @property
    def waiting(self) -> list[str]:
        """The names of the sources of which it is unknown where the rest lies."""
        return self._orphans.files

    def look_again(self) -> None:
        """What was unknown may be known now."""
        self._orphans.look_again()

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
        wait = 0.0 if tail.file in self._following.spools else self._following.rotate_wait
        left = tail.left_at is not None and self._clock() - tail.left_at >= wait
        return left or tail.ends_as is not None

    def pieces(self, budget_bytes: int) -> Iterator[Piece]:
        """The next pieces, about `budget_bytes` in all; FAIR: one block of each file in turn so that none starves.

        To be asked to the end. Each piece is read when it is asked for: what is done with it then finds it in the
        core's cache.
        """
        self._settle_orphans()
        yield from (farewells := self._take_farewells())
        room, is_silent = budget_bytes, not farewells
        while room > 0 and (turn := self._turn()):
            for tail in turn:
                before = room
                for piece in self._read_one(tail, min(room, self._following.cut.block_bytes)):
                    room -= _cost(piece)
                    yield self._sending(piece)
                    del piece  # its memory is used for the next one
                room, is_silent = min(room, before - 1), is_silent and room == before
                if self._active.pop(tail.id, None):
                    self._active[tail.id] = tail  # to the end of the line
                if room <= 0:
                    break
        if is_silent:  # else the next call does
            self._settle_orphans()
        yield from self._take_farewells()

    def _turn(self) -> list[Tail]:
        """The files to read a block of before the question is asked again."""
        readable = self._readable()
        turn = [tail for tail in self._active.values() if tail.id in readable]
        if turn and self._following.order is Order.OLDEST:
            return [min(turn, key=lambda tail: (tail.mtime_ns, tail.path))]
        return turn

    def _take_farewells(self) -> list[Piece]:
        farewells, self._farewells = self._farewells, []
        return [self._sending(piece) for piece in farewells]

    def _sending(self, piece: Piece) -> Piece:
        """Remember what is on its way until it is acknowledged."""
        self._sent.setdefault(piece.file, {})[piece.source] = piece.span.end
        return piece

    def _read_one(self, tail: Tail, budget: int) -> Iterator[Piece]:
        """One block of `tail`, or lines for as much where a line is a piece; what ends it, if it ends."""
        is_silent = True
        once = self._following.once and tail.file not in self._following.spools
        flush = once or self.is_due(tail)
        try:
            while budget > 0 and (piece := tail.read(self._following.cut, flush=flush)):
                is_silent = False
                self._last_read = tail
                budget -= _cost(piece)
                if tail.left_at is not None:
                    tail.left_at = self._clock()  # late lines: the silence begins anew
                yield piece
                del piece
                if self._must_wait(tail):  # it was put back
                    return
            self._works(tail)
        except scanner.GONE:
            self.bereave(tail, End.DELETED)
            return
        except OSError as error:
            self._fails(tail, error)
            return
        except OverBudget as error:  # in the middle of an over-long line, before anything of it was read
            self._hold_back(tail, error)
            return
        finally:
            tail.forget_ahead()
        if tail.tip is not Tip.MORE:
            self._active.pop(tail.id, None)
            self._end_if_over(tail, silent=is_silent)

    def put_back(self, error: OverBudget) -> None:
        """The piece that was read last cannot be edited: its file is held back, from that piece on."""
        tail = self._last_read
        if tail is not None:
            tail.put_back()
            self._sent.setdefault(tail.file, {})[tail.id] = tail.offset
            self._hold_back(tail, error)

    def _hold_back(self, tail: Tail, error: OverBudget) -> None:
        if budget := self._following.cut.budget:
            budget.hold(tail.id, tail.path, tail.offset, error)

    def _must_wait(self, tail: Tail) -> bool:
        """Whether the next block of a file takes its patterns too long."""
        budget = self._following.cut.budget
        return budget is not None and budget.must_wait(tail.id)

    def _end_if_over(self, tail: Tail, *, silent: bool) -> None:
        if tail.tip is Tip.REWRITTEN:
            self.bereave(tail, End.TRUNCATED)
        elif tail.ends_as is not None and tail.tip is Tip.NOTHING:
            self.let_go(tail, tail.ends_as)
        elif tail.tip is Tip.NOTHING and silent and not tail.present and self.is_due(tail):
            self.let_go(tail, _how_left(tail))

    def _fails(self, tail: Tail, error: OSError) -> None:
        """A file cannot be read now: the next look tries again, but its successors do not wait for ever."""
        events.file_unreadable(path=tail.path, error=error.strerror or str(error))
        tail.tip = Tip.MORE
        self._active.pop(tail.id, None)
        if error.errno not in DEFECTS:
            return
        since = self._failing.setdefault(tail.id, self._clock())
        if self._clock() - since >= self._patience and tail.id not in self._passed_over:
            self._passed_over.add(tail.id)
            events.file_passed_over(path=tail.path, source=tail.id, error=error.strerror or str(error))

    def _works(self, tail: Tail) -> None:
        self._failing.pop(tail.id, None)
        self._passed_over.discard(tail.id)

    def _readable(self) -> set[str]:
        """The active sources of which every older generation under the same name is read to its end."""
        readable = set()
        for name in {tail.file for tail in self._active.values()}:
            for tail in self._tails.family(name):
                if self._tails.awaits_before(name, tail.id) or self._must_not_begin(tail):
                    break
                if tail.id in self._active and not self._must_wait(tail):
                    readable.add(tail.id)
                if self._holds_up(tail):
                    break
        return readable

    def _must_not_begin(self, tail: Tail) -> bool:
        """Whether a generation has to wait until what was read of others under its name is acknowledged.

        A stream that is nearly full refuses a large block and takes a small one behind it: of one source that is a
        hole, but the first block of the next source would be in the archive before the last ones of this.
        """
        if tail.offset > tail.origin:
            return False
        sent = self._sent.get(tail.file, {})
        for source, end in list(sent.items()):
            known = self._known.get(source)
            if known is None or known.offset >= end:
                del sent[source]
        return any(source != tail.id for source in sent)

    def _holds_up(self, older: Tail) -> bool:
        """Whether `older` has bytes that must come first.

        A line that its writer has yet to end does not count once the file is back under its own name.
        """
        if older.id in self._passed_over:
            return False
        if older.tip is Tip.REST:
            return older.left_at is not None
        return older.id in self._active or older.tip is not Tip.NOTHING

    def let_go(self, tail: Tail, why: End) -> None:
        """Read no more of a source; its last piece goes on its way, its file is closed when that is acknowledged."""
        piece = tail.finish(why)
        if tail.file in self._following.spools:
            piece = piece._replace(gap=piece.gap + lost_behind(os.path.dirname(tail.file), tail.key))
        if piece.gap:
            events.bytes_lost(file=tail.file, lost=piece.gap, reason=why.value)
        self._farewells.append(piece)
        self._active.pop(tail.id, None)
        self._works(tail)
        self._tails.finish(tail, key_is_free=why is End.TRUNCATED and tail.ends_as is None)

    def bereave(self, tail: Tail, why: End) -> None:
        """The file of a source is gone, or holds something else: what was not read of it may lie elsewhere."""
        if tail.file in self._following.spools:
            self.let_go(tail, why)
            return
        self._active.pop(tail.id, None)
        self._works(tail)
        self.lost(tail.as_read(self._known[tail.id]), tail.ends_as or why)
        if why is End.TRUNCATED and tail.ends_as is None:
            self._tails.free(tail)
        self._tails.remove(tail)

    def deleted(self, file: str) -> list[Source]:
        """The sources of a name whose files are gone, as far as they are read, of which nothing else is known yet."""
        return self._orphans.of(file, End.DELETED)

    def found_again(self, source: Source) -> None:
        """A source whose file was gone goes on in another one."""
        self._orphans.found(source)

    def drop(self, tail: Tail) -> None:
        """Know a file no more, of which nothing was read."""
        self._active.pop(tail.id, None)
        self._works(tail)
        self._tails.remove(tail)

    def lost(self, source: Source, why: End) -> None:
        """The file of a source is not there any more, or was rewritten: go on in its rest, or say farewell."""
        self._orphans.add(source, why)

    def left_out(self, source: Source) -> None:
        """The configuration no longer names the file of a source: nothing more is read, and the archive is told so."""
        self._farewells.append(_last_piece(source, End.EXCLUDED, max(0, source.size - source.offset)))

    def _settle_orphans(self) -> None:
        for orphan in self._orphans.due(self._holds_up):
            tail = self._orphans.settle(orphan)
            if tail is not None:
                self.add(tail)
            elif not self._orphans.is_waiting(orphan.source):
                self._say_farewell(orphan.source, orphan.why)

    def _say_farewell(self, source: Source, why: End) -> None:
        """Nothing more of a source can be read; what was seen and not read is its gap."""
        gap = max(0, source.size - source.offset)
        if gap:
            events.bytes_lost(file=source.file, lost=gap, reason=why.value)
        self._farewells.append(_last_piece(source, why, gap))


def _last_piece(source: Source, why: End, gap: int) -> Piece:
    """The last, empty piece of a source that has no open file."""
    span = Span(source.offset, source.offset)
    piece = Piece(source.id, source.file, source.origin, span, b"", source.crc, source.mark, why, gap)
    return piece._replace(handoff=source.handoff)


def _cost(piece: Piece) -> int:
    return piece.span.length + PIECE_BYTES


def _how_left(tail: Tail) -> End:
    return End.ROTATED if tail.may_come_back() else End.DELETED
