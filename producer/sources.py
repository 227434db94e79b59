"""Every source of this host: what is there, what became of it, and what that means.

Looking and deciding is here; `opening.py` finds the file of a source, `reading.py` says what is read next, `ledger.py`
knows how far each is acknowledged.
"""

import os
import time
from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from producer import discover
from producer.checkpoints import Checkpoints
from producer.copies import is_copy
from producer.discover import Seen
from producer.ledger import Ledger
from producer.opening import Opening
from producer.reading import Following, Reading
from producer.source import Source
from producer.tail import Piece, Tail, Tip
from producer.tails import Key, Tails
from shipper import events
from shipper.model import End

FORGET_SECONDS = 3600.0


class Sources:
    """The sources of one host. One caller at a time, from any thread; only `read` and `acknowledged` may overlap."""

    def __init__(
        self, following: Following, checkpoints: Checkpoints, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._following = following
        self._clock = clock
        self._tails = Tails()
        self._reading = Reading(following, self._tails, clock)
        self.ledger = Ledger(checkpoints)
        self._opening = Opening(following, self._tails, self._reading, self.ledger)
        self._copies: set[Key] = set()
        self._over: list[tuple[str, End]] = []  # last blocks that are acknowledged
        self._first_look = True
        self._forget_at = clock() + FORGET_SECONDS

    def adopt(self, sources: list[Source]) -> None:
        """Begin with what is known: find each source's file again, or say farewell to it."""
        self._opening.found({seen.key: seen for seen in discover.look(self._following.watched).files})
        newest = {source.key: source.id for source in sources if not source.ended_at}
        for source in sources:
            self.ledger.learn(source)
        self.ledger.look_ends()
        for source in sources:
            if source.ended_at:
                self._opening.rest(source)
            elif newest[source.key] != source.id:  # the same inode was truncated, and the farewell is not acknowledged
                self._reading.lost(source, End.TRUNCATED)
            else:
                self._opening.resume(source)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last look found."""
        return self._reading.idle

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        return self._reading.backlog_bytes

    @property
    def unread(self) -> list[str]:
        """The files of which something that the last look found could not be read."""
        held = [tail.path for tail in self._tails if not tail.ending and tail.unread_bytes]
        return [*held, *self._opening.unopened]

    def read(self, budget_bytes: int) -> list[Piece]:
        """The next pieces, about `budget_bytes` in all, one block of each file in turn so that none starves."""
        return self._reading.read(budget_bytes)

    def close(self) -> None:
        """Close every file."""
        self._tails.close()

    # -- looking ------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Look at the file system and decide: new, grown, renamed, deleted, truncated."""
        self.retire()
        found = discover.look(self._following.watched)
        for path, error in found.unknown:
            events.file_unreadable(path=path, error=error.strerror or str(error))
        files = {seen.key: seen for seen in found.files}
        self._opening.found(files)
        if self._first_look and self._following.start_at_end:
            self._opening.begin_at_end()
        self._first_look = False
        self._look_at(self._tails)
        self._opening.retry_waiting()
        begun = self._opening.retry_unopened()
        for seen in found.files:
            begun.extend(self._appeared(seen))
        self._opening.follow_all(begun)  # durable before its first byte is read
        self._notice_who_left(files)
        self._copies &= files.keys()  # no longer: an inode number may come back with another file
        self._forget_if_due()
        self.ledger.look_ends()

    def grown(self, paths: Iterable[str]) -> None:
        """Look at the files that now lie at `paths`; a hint from the watcher."""
        wanted = set(paths)
        self._look_at(tail for tail in self._tails if tail.path in wanted)

    def _look_at(self, tails: Iterable[Tail]) -> None:
        looked = [tail for tail in tails if not tail.ending and self._look(tail)]
        self.ledger.mark([tail for tail in looked if not tail.marked and tail.start.head_length])
        for tail in looked:
            if tail.tip is Tip.MORE or self._reading.is_due(tail):
                self._reading.add(tail)

    def _look(self, tail: Tail) -> bool:
        """Look at one file; whether it goes on."""
        try:
            lost = tail.look()
        except OSError as error:
            events.file_unreadable(path=tail.path, error=error.strerror or str(error))
            return False
        if lost:
            events.bytes_lost(file=tail.file, lost=lost, reason=End.TRUNCATED.value)
        if tail.tip is Tip.REWRITTEN:
            self._reading.let_go(tail, End.TRUNCATED)
            return False
        self.ledger.looked(tail)
        return True

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because `seen` is there: none if it is known, perhaps some that were missed."""
        tail = self._tails.at(seen.key)
        if tail is not None:
            self._found_again(tail, seen.path)
            return []
        resting = self._opening.resting(seen.key)
        if resting is not None and self._opening.resume(replace(resting, ended_at=0.0), farewell=False):
            return []
        if self._opening.is_put_off(seen.key) or self._is_copy(seen):
            return []
        name = self._first_name(seen)
        begun = [self._opening.begin(missed, name) for missed in self._missed(name)]
        if name == seen.path and None not in begun:  # else the next look begins with it: the older generation is first
            begun.append(self._opening.begin(seen, name))
        return [source for source in begun if source is not None]

    def _found_again(self, tail: Tail, path: str) -> None:
        tail.path, tail.present = path, True
        if path == tail.file or discover.lies_at(tail.file, tail.key):
            tail.left_at = None
        elif tail.left_at is None:  # renamed to another name that is watched: its old name may have a successor
            tail.left_at = self._clock()

    def _is_copy(self, seen: Seen) -> bool:
        if seen.key in self._copies:
            return True
        try:
            copied = is_copy(seen, self._tails, self.ledger.known.values())
        except OSError:
            return False  # opening it meets the same error and says so
        if copied:
            self._copies.add(seen.key)
        return copied

    def _first_name(self, seen: Seen) -> str:
        """The name that a new file had before it was renamed since the last look, if nothing came in its place yet."""
        for name in discover.originals(seen.path):
            known_until = self.ledger.changed_before(name)
            if known_until is not None and seen.mtime_ns >= known_until and not os.path.lexists(name):
                return name
        return seen.path

    def _missed(self, name: str) -> list[Seen]:
        """Generations that came and were renamed between two looks or while we were down: newer than all we know."""
        known_until = self.ledger.changed_before(name)
        if known_until is None:
            return []
        return [
            sibling
            for sibling in discover.siblings(name)
            if sibling.mtime_ns >= known_until
            and not self._opening.is_known(sibling.key)
            and not self._is_copy(sibling)
        ]

    def _notice_who_left(self, found: Container[Key]) -> None:
        for tail in self._tails:
            gone = tail.present and not tail.ending and tail.key not in found
            if gone and not discover.lies_at(tail.path, tail.key):  # glob finds nothing where it has no right to look
                self._reading.leave(tail)

    def _forget_if_due(self) -> None:
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_SECONDS
            for source in self.ledger.forget_old():
                self._opening.forget(source)

    # -- what is acknowledged -----------------------------------------------------------------------------------

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        self.ledger.acknowledged(piece, sequence)
        if piece.end is not None:
            self._over.append((piece.source, piece.end))

    def retire(self) -> None:
        """Close the files whose last block is acknowledged; one that got more bytes meanwhile goes on."""
        over, self._over = self._over, []
        for source, why in over:
            tail = self._tails.of(source)
            if tail is None:
                self.ledger.ended(source, file_rests=False)
            elif why is End.TRUNCATED or not self._has_more(tail):
                rests = why is not End.TRUNCATED and tail.offset > 0 and tail.may_come_back()
                self._tails.remove(tail)
                self._opening.rest(self.ledger.ended(source, file_rests=rests))

    def _has_more(self, tail: Tail) -> bool:
        """Whether somebody wrote while the last block was on its way; then the file is read on."""
        if not tail.has_more():
            return False
        tail.ending = False
        tail.left_at = self._clock()
        self._tails.revive(tail)
        self._reading.add(tail)
        return True
