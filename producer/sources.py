"""Every source of this host: which are read now, in which order, and how far each is acknowledged.

A family is the line of generations that were seen under one name: an older one is read to its end before a younger
one, so the archive has them in the order in which they were written.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from producer import discover
from producer.checkpoints import CHECKPOINT_ERRORS, Checkpoints
from producer.discover import Seen, Watched
from producer.identity import Mark, read_ends
from producer.source import Point, Source, new_source
from producer.tail import Cut, Piece, Tail, Tip
from shipper import events
from shipper.model import End, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How files are followed."""

    watched: Watched
    cut: Cut
    start_at_end: bool = False  #: files that are there at the first look begin at their end
    once: bool = False  #: ship to the end that the files have at the first look, unterminated last lines too
    rotate_wait: float = 5.0  #: seconds of silence before a renamed or deleted file is let go


class Sources:
    """The sources of one host. One caller at a time, from any thread: the pipeline sees to it."""

    def __init__(
        self, following: Following, checkpoints: Checkpoints, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._following = following
        self._checkpoints = checkpoints
        self._clock = clock
        self._known: dict[str, Source] = {}
        self._tails: dict[str, Tail] = {}  # by source
        self._by_key: dict[tuple[int, int], Tail] = {}
        self._families: dict[str, list[Tail]] = {}  # by the name in the archive, oldest first
        self._resting: dict[tuple[int, int], Source] = {}  # ended, perhaps still on disk
        self._waiting: list[Source] = []  # could not be opened: unknown, not gone
        self._seen_until: dict[str, int] = {}  # by the name in the archive: newest change that we know of, ns
        self._active: dict[str, Tail] = {}  # may have bytes to read
        self._farewells: list[Piece] = []
        self._dirty: set[str] = set()
        self._first_look = True

    def adopt(self, sources: Iterable[Source]) -> None:
        """Begin with what is known: find each source's file again, or say farewell to it."""
        files = {seen.key: seen for seen in discover.look(self._following.watched).files}
        for source in sources:
            self._known[source.id] = source
            self._seen_until[source.file] = max(source.mtime_ns, self._seen_until.get(source.file, 0))
            if source.ended_at:
                self._resting[source.device, source.inode] = source
            else:
                self._resume(source, files)

    @property
    def sequence(self) -> int:
        """The newest stream sequence that acknowledged anything of this host."""
        return max((source.sequence for source in self._known.values()), default=0)

    @property
    def known(self) -> Mapping[str, Source]:
        """Every source by its id, as far as it is acknowledged."""
        return self._known

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last look found."""
        return not self._farewells and not any(map(self._may_read, self._active.values()))

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        return sum(max(0, tail.size - tail.offset) for tail in list(self._active.values()))

    # -- looking ------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Look at the file system and decide: new, grown, renamed, deleted, truncated."""
        found = discover.look(self._following.watched)
        for path, error in found.unknown:
            events.file_unreadable(path=path, error=error.strerror or str(error))
        self._look_at(self._tails.values())
        files = {seen.key: seen for seen in found.files}
        self._retry_waiting(files)
        self._begin_all([source for seen in found.files for source in self._appeared(seen)])
        if not found.unknown:
            self._mark_left(files)
        self._first_look = False

    def _begin_all(self, begun: list[Source]) -> None:
        try:
            self._checkpoints.save(begun)  # a generation is durable before its first byte is read
        except CHECKPOINT_ERRORS as error:
            events.checkpoint_failed(error=str(error))
            for source in begun:
                self._drop(self._tails[source.id])
            return
        for source in begun:
            self._follow(source)

    def grown(self, paths: Iterable[str]) -> None:
        """Look at the files that now lie at `paths`; a hint from the watcher."""
        wanted = set(paths)
        self._look_at([tail for tail in self._tails.values() if tail.path in wanted])

    def _look_at(self, tails: Iterable[Tail]) -> None:
        for tail in list(tails):
            if tail.ending:
                continue
            try:
                tail.look()
            except OSError as error:
                events.file_unreadable(path=tail.path, error=error.strerror or str(error))
                continue
            self._seen_until[tail.file] = max(tail.mtime_ns, self._seen_until.get(tail.file, 0))
            if tail.tip is Tip.REWRITTEN:
                self._let_go(tail, End.TRUNCATED)
            elif tail.tip is Tip.MORE or self._due(tail):
                self._active[tail.id] = tail

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because `seen` is there: none if it is known, perhaps some that were missed."""
        tail = self._by_key.get(seen.key)
        if tail is not None:
            self._found_again(tail, seen.path)
            return []
        if any((source.device, source.inode) == seen.key for source in self._waiting):
            return []
        resting = self._resting.get(seen.key)
        if resting is not None and self._resume(replace(resting, ended_at=0.0), {seen.key: seen}, farewell=False):
            return []
        fresh = [self._begin(missed, seen.path) for missed in self._missed(seen)]
        fresh.append(self._begin(seen, seen.path))
        return [source for source in fresh if source is not None]

    def _found_again(self, tail: Tail, path: str) -> None:
        tail.path, tail.present = path, True
        if path == tail.file:
            tail.left_at = None
        elif tail.left_at is None:  # renamed to another name that is watched: its old name may have a successor
            tail.left_at = self._clock()

    def _missed(self, seen: Seen) -> list[Seen]:
        """Generations that came and were renamed between two looks or while we were down: newer than all we know."""
        known_until = self._seen_until.get(seen.path)
        if known_until is None:
            return []
        return [
            sibling
            for sibling in discover.siblings(seen.path)
            if sibling.key != seen.key
            and sibling.key not in self._by_key
            and sibling.key not in self._resting
            and sibling.mtime_ns >= known_until
        ]

    def _begin(self, seen: Seen, file: str) -> Source | None:
        """A new generation under the archive name `file`, its tail ready; None when it cannot be opened now."""
        try:
            descriptor = os.open(seen.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if not discover.is_gone(error):
                events.file_unreadable(path=seen.path, error=error.strerror or str(error))
            return None
        stat = os.fstat(descriptor)
        at_end = self._following.start_at_end and self._first_look
        origin = stat.st_size if at_end else 0
        source = new_source(
            file,
            device=stat.st_dev,
            inode=stat.st_ino,
            origin=origin,
            mark=Mark.of(origin, *read_ends(descriptor, origin)),
            size=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
        )
        self._put(Tail(source, descriptor, seen.path))
        return source

    def _resume(self, source: Source, files: Mapping[tuple[int, int], Seen], *, farewell: bool = True) -> bool:
        """Go on with a known source if its file is still the same; else say `farewell`.

        False: the file is another one, or gone. True also where that is unknown: it is asked again at the next look.
        """
        key = (source.device, source.inode)
        descriptor = -1
        try:
            path = files[key].path if key in files else self._path_of(source)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if path else -1
            if descriptor >= 0 and _is_same(descriptor, source):
                self._put(Tail(source, descriptor, path or source.file))
                self._follow(source)
                return True
        except OSError as error:
            _close(descriptor)
            if not discover.is_gone(error):
                self._waiting.append(source)
                events.file_unreadable(path=source.file, error=error.strerror or str(error))
                return True
        _close(descriptor)
        if farewell:
            self._lost(source, End.DELETED if descriptor < 0 else End.TRUNCATED)
        return False

    def _path_of(self, source: Source) -> str | None:
        """Where a source's file lies now when no pattern names it: in place, or renamed beside it."""
        key = (source.device, source.inode)
        try:
            stat = os.stat(source.file)
        except FileNotFoundError:
            stat = None
        if stat is not None and (stat.st_dev, stat.st_ino) == key:
            return source.file
        return discover.find_inode(os.path.dirname(source.file), key)

    def _retry_waiting(self, files: Mapping[tuple[int, int], Seen]) -> None:
        waiting, self._waiting = self._waiting, []
        for source in waiting:
            self._resume(source, files)

    def _mark_left(self, files: Mapping[tuple[int, int], Seen]) -> None:
        for tail in self._tails.values():
            if tail.key not in files and tail.present and not tail.ending:
                tail.present = False
                tail.left_at = self._clock()
                tail.left_by = End.ROTATED if os.fstat(tail.descriptor).st_nlink else End.DELETED
                self._active[tail.id] = tail
                events.file_left(path=tail.path, how=tail.left_by.value)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, budget_bytes: int) -> list[Piece]:
        """The next pieces, about `budget_bytes` in all, one block of each file in turn so that none starves."""
        pieces, self._farewells = self._farewells, []
        room = budget_bytes
        while room > 0 and (turn := [tail for tail in self._active.values() if self._may_read(tail)]):
            for tail in turn:
                read = self._read_one(tail, min(room, self._following.cut.block_bytes))
                pieces.extend(read)
                room -= sum(piece.span.length for piece in read) or 1
                if room <= 0:
                    break
                if self._active.pop(tail.id, None):
                    self._active[tail.id] = tail  # to the end of the line
        return pieces

    def _read_one(self, tail: Tail, budget: int) -> list[Piece]:
        """One block of `tail`, or lines for as much where a line is a piece; what ends it, if it ends."""
        pieces: list[Piece] = []
        flush = self._following.once or self._due(tail)
        try:
            while budget > 0 and (piece := tail.read(self._following.cut, flush=flush)):
                pieces.append(piece)
                budget -= piece.span.length
                if tail.left_at is not None:
                    tail.left_at = self._clock()  # late lines: the silence begins anew
        except OSError as error:
            events.file_unreadable(path=tail.path, error=error.strerror or str(error))
            self._active.pop(tail.id, None)
            return pieces
        if tail.tip is Tip.MORE:
            return pieces
        self._active.pop(tail.id, None)
        if tail.tip is Tip.REWRITTEN:
            self._let_go(tail, End.TRUNCATED)
        elif tail.tip is Tip.NOTHING and not pieces and not tail.present and self._due(tail):
            self._let_go(tail, tail.left_by)
        return pieces

    def _due(self, tail: Tail) -> bool:
        """Whether a file that left its name has been silent for so long that it is let go."""
        return tail.left_at is not None and self._clock() - tail.left_at >= self._following.rotate_wait

    def _may_read(self, tail: Tail) -> bool:
        """Whether every older generation under the same name is read to its end."""
        for older in self._families.get(tail.file, ()):
            if older is tail:
                return True
            if older.id in self._active or older.tip is not Tip.NOTHING:
                return False
        return True

    def _let_go(self, tail: Tail, why: End) -> None:
        """Read no more of a source; its last piece goes on its way, its file is closed when that is acknowledged."""
        piece = tail.finish(why)
        if piece.gap:
            events.bytes_lost(file=tail.file, lost=piece.gap, reason=why.value)
        self._farewells.append(piece)
        self._active.pop(tail.id, None)
        self._by_key.pop(tail.key, None)
        self._families[tail.file].remove(tail)

    def _lost(self, source: Source, why: End) -> None:
        """Say farewell to a source whose file is gone or rewritten since the checkpoint was written."""
        gap = max(0, source.size - source.offset)
        if gap:
            events.bytes_lost(file=source.file, lost=gap, reason=why.value)
        span = Span(source.offset, source.offset)
        piece = Piece(source.id, source.file, source.origin, span, b"", source.crc, source.mark, why, gap)
        self._farewells.append(piece)

    # -- what is acknowledged -----------------------------------------------------------------------------------

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        source = self._known[piece.source].acknowledged(Point(sequence, piece.span.end, piece.source_crc), piece.mark)
        tail = self._tails.get(source.id)
        if tail is not None:
            source = replace(source, size=tail.size, mtime_ns=tail.mtime_ns)
        if piece.end is not None:
            source = replace(source, ended_at=time.time())
            self._retire(source, piece.end)
        self._known[source.id] = source
        self._dirty.add(source.id)

    def _retire(self, source: Source, why: End) -> None:
        tail = self._tails.pop(source.id, None)
        if tail is not None:
            tail.close()
        if why is not End.TRUNCATED:
            self._resting[source.device, source.inode] = source

    def unsaved(self) -> list[Source]:
        """The sources that changed since the last call, to be made durable."""
        changed, self._dirty = [self._known[id_] for id_ in self._dirty], set()
        return changed

    @property
    def has_unsaved(self) -> bool:
        """Whether `unsaved` would return something."""
        return bool(self._dirty)

    def unsave(self, sources: Iterable[Source]) -> None:
        """Saving `sources` failed: they are due again."""
        self._dirty.update(source.id for source in sources)

    def go_back(self, offsets: Mapping[str, int]) -> None:
        """Let the sources in `offsets` begin again at most there, durably."""
        self._checkpoints.save(self._known[id_].back_to(offset) for id_, offset in offsets.items())

    def rewound(self, *, sequence: int, archived: Mapping[str, int]) -> list[Source]:
        """The sources at what the server (up to `sequence`) or the archive (`archived` bytes) still has, durable."""
        after = [
            source.rewound(sequence=sequence, archived=archived.get(source.id, 0)) for source in self._known.values()
        ]
        self._checkpoints.save(source for source in after if source != self._known[source.id])
        return after

    def close(self) -> None:
        """Close every file."""
        for tail in self._tails.values():
            tail.close()

    def _put(self, tail: Tail) -> None:
        if self._following.once:
            tail.limit = tail.size
        self._tails[tail.id] = tail
        self._by_key[tail.key] = tail
        self._families.setdefault(tail.file, []).append(tail)

    def _drop(self, tail: Tail) -> None:
        tail.close()
        del self._tails[tail.id], self._by_key[tail.key]
        self._families[tail.file].remove(tail)

    def _follow(self, source: Source) -> None:
        tail = self._tails[source.id]
        self._known[source.id] = source
        self._seen_until[source.file] = max(tail.mtime_ns, self._seen_until.get(source.file, 0))
        self._resting.pop(tail.key, None)
        self._active[source.id] = tail
        events.file_followed(path=tail.path, source=source.id, offset=source.offset)


def _is_same(descriptor: int, source: Source) -> bool:
    stat = os.fstat(descriptor)
    return (stat.st_dev, stat.st_ino) == (source.device, source.inode) and source.mark.agrees(descriptor)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
