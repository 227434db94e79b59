"""Which generations begin: files that nobody knew, and older ones that were missed and come before them.

Generations that came and were renamed between two looks, or while no producer ran: their names tell whose.

Sources that never had a byte: nothing tells their files from others, so at a start they are looked for anew.
"""

import contextlib
import os
from collections.abc import Container, Iterable, Mapping

from producer.checkpoint.ack_tracker import Ledger
from producer.discovery import scanner
from producer.discovery.patterns import ways
from producer.discovery.scanner import Seen
from producer.model import Source
from producer.tailer import decompress
from producer.tailer.atomic_replace import Replaced
from producer.tailer.copytruncate import Copies, Packed
from producer.tailer.decompress import Unfinished
from producer.tailer.file_reader import Tail
from producer.tailer.file_table import Key, Tails
from producer.tailer.lost_file import Rests
from producer.tailer.read_scheduler import Following, Reading
from producer.tailer.resolver import Opening
from shipper import events


class Missed:
    """Finds them. Owned by `Sources`."""

    def __init__(
        self, following: Following, opening: Opening, ledger: Ledger, copies: Copies, packed: Packed, rests: Rests
    ) -> None:
        self._following = following
        self._opening = opening
        self._ledger = ledger
        self._copies = copies
        self._packed = packed
        self._rests = rests

    def first_name(self, seen: Seen) -> str:
        """The name that a new file had before it was renamed since the last look, if nothing came in its place yet."""
        for name in () if self._packed.is_named(seen) else scanner.originals(seen.path):
            known_until = self._ledger.changed_before(name)
            if known_until is not None and seen.mtime_ns >= known_until and not os.path.lexists(name):
                return name
        return seen.path

    def before(self, name: str) -> list[Seen]:
        """The files that had `name` and are newer than all that is known of it, the oldest first.

        Raises Unfinished: what a compressed one holds is unknown yet.
        """
        known_until = 0 if name in self._following.spools else self._ledger.changed_before(name)
        if known_until is None:
            return []
        return [
            sibling
            for sibling in self._ledger.targets.rotations(name, self._opening.listing)
            if sibling.mtime_ns >= known_until
            and not self._opening.is_known(sibling)
            and self._is_readable(sibling)
            and not self._is_copy(sibling)
        ]

    def is_copy(self, seen: Seen) -> bool:
        """Whether what `seen` holds is known under another name; unknown counts as no."""
        try:
            return not self._packed.is_named(seen) and self._is_copy(seen)
        except Unfinished:
            return False

    def _is_copy(self, seen: Seen) -> bool:
        """The same. Raises Unfinished."""
        try:
            return self._copies.is_copy(seen)
        except OSError:
            return False  # opening it meets the same error and says so

    def _is_readable(self, sibling: Seen) -> bool:
        """Whether a rotation is plain, or compressed in a way that can be read. Raises Unfinished."""
        suffix = decompress.suffix_of(sibling.path)
        if not suffix:
            return True
        if self._packed.is_named(sibling) or os.path.lexists(sibling.path.removesuffix(suffix)):
            return False  # shipped as it is; or its original still lies beside it
        try:
            if not decompress.is_compressed(sibling.path, self._following.links) or self._rests.begins_with(sibling):
                return True
        except OSError as error:
            events.file_unreadable(path=sibling.path, error=error.strerror or str(error))
            return False
        self._rests.claims[sibling.key] = ""  # nobody's: empty, or damaged, which was said
        return False


class Blanks:
    """The blank sources of the checkpoint. Owned by `Sources`.

    An inode number alone would lend them any later file. Only the name is kept: a file that had it and was renamed
    while nobody looked is found by that. They stay in the checkpoint until a source of the same name is there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._left: list[Source] = []

    def without(self, sources: Iterable[Source]) -> list[Source]:
        """`sources` less the blank ones, whose names are known from now on."""
        kept = []
        for source in sources:
            if is_blank(source):
                self._ledger.learn_name(source)
                self.add(source)
            else:
                kept.append(source)
        return kept

    def add(self, source: Source) -> None:
        """One that is in the checkpoint and known no more."""
        self._left.append(source)

    def name_of(self, seen: Seen) -> str | None:
        """The name that a file had which is empty and renamed; what it will hold belongs there."""
        for source in self._left:
            if source.key == seen.key and seen.size == 0 and scanner.is_sibling(seen.path, source.file):
                return source.file
        return None

    def look_ends(self) -> None:
        """Forget those whose name has a source again."""
        if self._left:
            names = {source.file for source in self._ledger.known.values()}
            over = [source for source in self._left if source.file in names]
            if over and self._ledger.forget(over):
                self._left = [source for source in self._left if source.file not in names]


def is_blank(source: Source) -> bool:
    """Whether nothing was ever seen of a source."""
    return not (source.ended_at or source.size or source.mark.head_length or source.offset > source.origin)


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
            seen = scanner.seen_at(tail.path)
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
