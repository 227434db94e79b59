"""Which generations begin: files that nobody knew, and older ones that were missed and come before them."""

import contextlib
import os
from collections.abc import Container, Mapping

from producer.following.blanks import Blanks
from producer.following.copies import Copies
from producer.following.ledger import Ledger
from producer.following.missed import Missed
from producer.following.opening import Opening
from producer.following.packed import Packed
from producer.following.reading import Following, Reading
from producer.following.replaced import Replaced
from producer.following.rest import Rests
from producer.following.source import Source
from producer.following.tail import Tail
from producer.following.tails import Key, Tails
from producer.following.unpack import Unfinished
from producer.looking import discover
from producer.looking.discover import Seen
from producer.looking.places import ways


class Beginning:
    """Decides it for each look. Owned by `Sources`."""

    def __init__(
        self, following: Following, tails: Tails, reading: Reading, opening: Opening, ledger: Ledger, rests: Rests
    ) -> None:
        self._following = following
        self._reading = reading
        self._opening = opening
        self._ledger = ledger
        self._may_match = ways(following.watched.patterns)
        self._copies = Copies(tails, ledger.known, rests)
        self._packed = Packed(following.watched, following.links)
        self._missed = Missed(following, opening, ledger, self._copies, self._packed, rests)
        self._replaced = Replaced(tails, reading, opening, ledger, rests)
        self.blanks = Blanks(ledger)

    def is_copy(self, seen: Seen) -> bool:
        """Whether `seen` only holds what is read from another file."""
        return self._missed.is_copy(seen)

    @property
    def copied(self) -> set[str]:
        """The sources whose copies the last looks found."""
        return self._copies.sources

    def may_match(self, path: str) -> bool:
        """Whether a path is watched."""
        return self._may_match(path) and not self._following.watched.excludes(path)

    def look_ends(self, files: Mapping[Key, Seen]) -> None:
        """What was found is what the next look compares with."""
        self._copies.forget(files.keys())
        self.blanks.look_ends()
        self._ledger.look_ends({seen.path for seen in files.values()})
        self._packed.look_ends(files.keys(), is_known=lambda name: self._ledger.changed_before(name) is not None)

    def appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because `seen` is there, which nobody reads: perhaps some that were missed."""
        resting = self._opening.resting(seen.key)
        if resting is not None and self._opening.resume(resting.named_again(), farewell=False):
            return []
        if self._opening.is_put_off(seen.key) or self._packed.leaves_out(seen) or self._missed.is_copy(seen):
            return []
        if (blank := self.blanks.name_of(seen)) is not None:
            renamed = self._opening.begin(seen, blank)
            return [renamed] if renamed else []
        name = self._missed.first_name(seen)
        try:
            missed = [each for each in self._missed.before(name) if name != seen.path or each.key != seen.key]  # a link
        except Unfinished:
            return []  # an older generation may be on its way into a compressed file: the next look knows
        if name == seen.path and not missed and self._replaced.goes_on(seen):
            return []
        begun, waits = list[Source | None](), False
        for each in missed:
            begun.append(older := self._opening.begin(each, name))
            waits |= older is None and each.path not in self._opening.refused
        if name == seen.path and not waits:  # else the next look begins with it: the older generation is first
            begun.append(self._opening.begin(seen, name))
        return [source for source in begun if source is not None]

    def vanished(self, present: Container[str]) -> list[Source]:
        """The generations that begin although nothing lies under their name now: they came and were renamed."""
        begun: list[Source | None] = []
        for name in [name for name in self._ledger.names if name not in present]:
            if os.path.lexists(name) or not self.may_match(name):
                continue
            with contextlib.suppress(Unfinished):
                begun.extend(self._opening.begin(each, name) for each in self._missed.before(name))
        return [source for source in begun if source is not None]

    def gave_way(self, tail: Tail, files: Mapping[Key, Seen]) -> bool:
        """Whether a file that was empty until now is begun anew behind generations that were missed, or is a copy.

        It may be empty again: what came and was copied between two looks is found now, or never.
        """
        seen = files.get(tail.key)
        if seen is None or not tail.is_blank:
            return False
        if is_copy := self._is_copy_now(tail, seen):
            self._reading.drop(tail)
            self._ledger.forget([self._ledger.drop(tail.id)])
        elif comes_later := self._comes_after_missed(tail):
            self._reading.drop(tail)
            self.blanks.add(self._ledger.drop(tail.id))
        return is_copy or comes_later

    def must_wait(self, tail: Tail) -> bool:
        """Whether only a look at everything can tell what comes into an empty file."""
        if not tail.is_blank:
            return False
        try:
            seen = discover.seen_at(tail.path)
        except OSError:
            return True
        return self._comes_after_missed(tail) or (seen is not None and self._is_copy_now(tail, seen))

    def _comes_after_missed(self, tail: Tail) -> bool:
        """Whether what comes into an empty file is younger than a copy of what was there between two looks."""
        if tail.file in self._following.spools:
            return False
        with contextlib.suppress(Unfinished):
            return bool(self._missed.before(tail.file))
        return True

    def _is_copy_now(self, tail: Tail, seen: Seen) -> bool:
        """Whether what comes into an empty file is a copy of another, which was seen before its first byte."""
        return tail.file not in self._following.spools and seen.size > 0 and self._missed.is_copy(seen)
