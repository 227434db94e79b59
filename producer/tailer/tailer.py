"""Every source of this host: what is there, what became of it, and what that means.

Looking and deciding is here; `opening.py` finds the file of a source, `reading.py` says what is read next, `ledger.py`
knows how far each is acknowledged.
"""

import contextlib
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from producer.checkpoint.ack_tracker import Ledger
from producer.checkpoint.store import Checkpoints
from producer.discovery import scanner
from producer.discovery.safe_open import ExcludedName, Links, NotFollowed
from producer.discovery.scanner import Look, Seen, wanted
from producer.model import Source
from producer.tailer.cleanup import GONE, Fate, Finished, delete, finished
from producer.tailer.decompress import Unfinished
from producer.tailer.descriptor_cache import Handles
from producer.tailer.file_reader import Piece, Tail, Tip
from producer.tailer.file_table import Key, Tails
from producer.tailer.lost_file import Rests
from producer.tailer.read_scheduler import Following, Reading
from producer.tailer.resolver import Late, Opening, at_their_devices, lies_at_its_name
from producer.tailer.rotation import Beginning
from producer.transform.time_budget import OverBudget
from shipper import events
from shipper.control import ReceiptsReply
from shipper.model import End

FORGET_SECONDS = 3600.0


class Sources:
    """The sources of one host. One caller at a time, from any thread; only `read` and `acknowledged` may overlap."""

    def __init__(
        self,
        following: Following,
        checkpoints: Checkpoints,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._following = following
        self._heirs = following.heirs
        self._clock = clock
        self._tails = Tails(Handles(following.open_files, following.held, following.links))
        self.ledger = Ledger(checkpoints, wall, self._may_hold)
        self._rests = Rests(checkpoints.directory, clock, self._is_known, following.links, self._may_hold)
        self._reading = Reading(following, self._tails, self.ledger.known, self._rests, clock)
        self._opening = Opening(following, self._tails, self._reading, self.ledger, self._rests, wall)
        self._beginning = Beginning(following, self._tails, self._reading, self._opening, self.ledger, self._rests)
        self._late = Late(self._opening, self.ledger.known, wall)
        self._over: list[tuple[str, End]] = []  # last blocks that are acknowledged
        self._first_look = True
        self._fifos: set[str] = set()  # said already
        self._is_wanted = wanted(following.watched)
        self._left_out: dict[str, int] = {}  # by source: bytes of its file that are not read, as it is excluded
        self.found = Look([], [], {}, set(), [])  #: what the last look found
        self.grew: dict[Key, str] = {}  #: files that were larger than before, with their paths
        self.is_unsettled = True  #: something that the last look found is unknown: it must be asked again soon
        self._forget_at = clock() + FORGET_SECONDS

    def adopt(self, sources: list[Source]) -> None:
        """Begin with what is known: find each source's file again, or say farewell to it.

        A source whose file the configuration no longer names is not read, and its file is not opened.
        """
        found = scanner.look(self._following.watched)
        self._opening.found({seen.key: seen for seen in found.files})
        sources = [self._following.held.at_its_file(source) for source in sources]
        names = {source.file for source in sources if self._is_named(source) and not self._is_twin(source, found)}
        unnamed = [source for source in sources if source.file not in names]
        before = [source for source in sources if source.file in names]
        sources = [*unnamed, *at_their_devices(before, self._opening.files.values(), self._following.links)]
        newest = {source.key: source.id for source in sources if not source.ended_at}
        sources = self._beginning.blanks.without(sources)
        for source in sources:
            self.ledger.learn(source)
        for source in set(sources) - {*before, *unnamed}:
            self.ledger.moved(source)
        self.ledger.look_ends(())
        # the youngest of a family comes last, whenever it was first seen
        for source in unnamed:
            self._leave_out(source, newest)
        named = [source for source in sources if source.file in names]
        for source in sorted(named, key=lambda source: lies_at_its_name(source, newest, self._following.links)):
            if source.excluded:
                self._name_again(source)
            elif source.ended_at:
                self._opening.rest(source)
                self._late.remember(source)
            elif not source.inode:  # went back, and its file was gone when it ended
                self._opening.lose(source, End.DELETED)
            elif newest[source.key] != source.id:  # the same inode was truncated, and the farewell is not acknowledged
                self._opening.lose(source, End.TRUNCATED)
            else:
                self._opening.resume(source)
        if self._heirs:
            self._heirs.release()

    def _is_named(self, source: Source) -> bool:
        """Whether the configuration names the file of a source, whatever name a rotation gave to it since."""
        return source.file in self._following.spools or self._is_wanted(source.file)

    def _is_twin(self, source: Source, found: Look) -> bool:
        """Whether the file of a source is excluded under another name, to which a link leads or which it has, too."""
        if source.file in found.excluded:
            return True
        watched = self._following.watched
        try:
            stat = os.stat(source.file) if watched.exclude else None
            if stat is None or stat.st_nlink <= 1 or (stat.st_dev, stat.st_ino) != source.key:
                return False
            return bool(scanner.excluded_twin(source.file, source.key, watched, self._opening.listing))
        except OSError:
            return False  # opening it tells

    def _name_again(self, source: Source) -> None:
        """Go on with a source that was excluded, in its file or in its rest; what is gone by now was excluded."""
        living = source.named_again()
        if self._opening.resume(living, farewell=False):
            return
        rest = None
        with contextlib.suppress(OSError, Unfinished):  # the next start looks again
            rest = self._rests.find(living) if living.mark.head_length else None
        if rest is None:
            self._opening.rest(source)
            return
        os.close(rest.descriptor)
        self.ledger.learn(living)
        self._opening.lose(living, End.DELETED)

    def _is_under_another_name(self, source: Source) -> bool:
        """Whether a file that lost its name in the configuration has another one there: then it is read as before."""
        if source.key not in self._opening.files or not source.inode:
            return False
        if source.ended_at and not source.excluded:
            self._opening.rest(source)
            return True
        return self._opening.resume(source.named_again(), farewell=False)

    def _leave_out(self, source: Source, newest: Mapping[Key, str]) -> None:
        """Read nothing more of a source, and record that: it is excluded, and not lost."""
        if self._is_under_another_name(source):
            return
        self._following.held.leave_out(source.id)
        self._opening.rest(source)  # it goes on if its file comes back under a name that is watched
        self._left_out[source.id] = 0
        if source.ended_at and not source.excluded:
            return
        if newest.get(source.key) == source.id or source.excluded:
            source = replace(source, size=max(source.size, _size_at(source.file, source.key)))
            self.ledger.seen_at_least(source.id, source.size)
        self._left_out[source.id] = unread = max(0, source.size - source.offset)
        if source.excluded:
            return
        events.file_excluded(path=source.file, source=source.id, unread=unread)
        if source.offset > source.origin:
            self._reading.left_out(source)
        else:  # the archive knows nothing of it, and needs to know nothing
            self._opening.rest(self.ledger.left_out(source.id))

    @property
    def left_out(self) -> dict[str, int]:
        """By name: the files that are known and that the configuration no longer names, with their unread bytes."""
        found: dict[str, int] = {}
        for id_, unread in self._left_out.items():
            source = self.ledger.known.get(id_)
            if source is not None and (source.excluded or not source.ended_at) and self._tails.of(id_) is None:
                found[source.file] = found.get(source.file, 0) + unread
        return found

    def is_left_out(self, source: Source) -> bool:
        """Whether a source is not read because the configuration does not name its file."""
        return source.id in self._left_out and self._tails.of(source.id) is None

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
        named = self._following.watched.patterns
        refused = [
            path for path, why in self._opening.refused.items() if path in named and not isinstance(why, ExcludedName)
        ]
        return [*held, *self._opening.unopened, *self._reading.waiting, *refused]

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        return self._opening.unopened

    @property
    def tails(self) -> Tails:
        """The files that are followed; to be looked at, not changed."""
        return self._tails

    def nameless(self) -> dict[str, Seen]:
        """By source: the open files that no name leads to, where this process can open them again."""
        tails = [tail for tail in self._tails if tail.held >= 0 and not tail.may_come_back()]
        return {tail.id: Seen(f"/dev/fd/{tail.held}", *tail.key, tail.size, tail.mtime_ns) for tail in tails}

    def pieces(self, budget_bytes: int) -> Iterator[Piece]:
        """The next pieces, about `budget_bytes` in all, one block of each file in turn so that none starves.

        To be asked to the end; each is read when it is asked for.
        """
        return self._reading.pieces(budget_bytes)

    def put_back(self, error: OverBudget) -> None:
        """The last of the pieces cannot be edited: its file is held back, from that piece on."""
        self._reading.put_back(error)

    def read(self, budget_bytes: int) -> list[Piece]:
        """All of them at once."""
        return list(self.pieces(budget_bytes))

    def close(self) -> None:
        """Close every file, save for those that the sources after these inherit."""
        if self._heirs:
            self._heirs.keep(self._tails)
        self._tails.close()

    # -- looking ------------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Look at the file system and decide: new, grown, renamed, deleted, truncated."""
        self.retire()
        self._reading.look_again()
        found = self.found = scanner.look(self._following.watched)
        for path in set(found.fifos) - self._fifos:
            events.fifo_not_read(path=path)
        self._fifos |= set(found.fifos)
        for path, error in found.unknown:
            events.file_unreadable(path=path, error=error.strerror or str(error))
        files = {seen.key: seen for seen in found.files}
        self._opening.found(files)
        for path, name in found.excluded.items():
            self._opening.refuse(path, ExcludedName(path, name))
        if self._first_look and self._following.start_at_end:
            self._opening.begin_at_end()
        self._first_look = False
        restless = set(_restless(self._tails))
        changed = [tail for tail in self._tails if tail in restless or _has_changed(tail, files.get(tail.key))]
        self.grew = {tail.key: tail.path for tail in changed if _is_larger(tail, files.get(tail.key))}
        self._look_at([tail for tail in changed if not self._beginning.gave_way(tail, files)], self.ledger.looked)
        self._opening.retry_waiting()
        self._late.go_on()
        begun = self._opening.retry_unopened()
        for seen in found.files:
            if (tail := self._tails.at(seen.key)) is not None:
                self._found_again(tail, seen.path)
            else:
                begun.extend(self._appeared(seen))
        begun.extend(self._beginning.vanished(found.names))
        self._opening.follow_all(begun)  # durable before its first byte is read
        self._notice_who_left(files)
        put_off = any(self._tails.of(source.id) is None for source in begun)
        self.is_unsettled = put_off or bool(found.unknown or self._opening.unopened or self._reading.waiting)
        self._forget_if_due(files)
        self._following.held.settle(self.ledger.known)
        self._beginning.look_ends(files)

    def grown(self, paths: Iterable[str]) -> None:
        """Look at the files that lie at `paths`, as far as the last look knew them; a hint from the watcher."""
        keys = {self.found.names.get(path) for path in paths}
        grown = [tail for key in keys if key is not None and (tail := self._tails.at(key)) is not None]
        if any(tail.is_blank for tail in grown):
            self._opening.list_again()
        late = {tail.id for tail in grown if self._beginning.must_wait(tail)}
        self.is_unsettled |= bool(late)  # the next look begins the missed ones first
        self._look_at([tail for tail in grown if tail.id not in late], self.ledger.glanced)

    def glance(self) -> None:
        """Look at the files that no hint will tell of: those on their way out, and those that could not be read."""
        self._reading.look_again()
        self._look_at(_restless(self._tails), self.ledger.glanced)
        self._late.go_on()

    def _look_at(self, tails: Iterable[Tail], keep: Callable[[Tail], None]) -> None:
        looked = [tail for tail in tails if not tail.ending and self._look(tail, keep)]
        self.ledger.mark([tail for tail in looked if not tail.marked and tail.start.head_length])
        for tail in looked:
            if tail.tip is Tip.MORE or self._reading.is_due(tail):
                self._reading.add(tail)

    def _look(self, tail: Tail, keep: Callable[[Tail], None]) -> bool:
        """Look at one file and `keep` what was found; whether it goes on."""
        try:
            lost = tail.look()
        except scanner.GONE:
            self._reading.bereave(tail, End.DELETED)
            return False
        except OSError as error:
            events.file_unreadable(path=tail.path, error=error.strerror or str(error))
            return False
        if lost:
            events.bytes_lost(file=tail.file, lost=lost, reason=End.TRUNCATED.value)
        if tail.tip is Tip.REWRITTEN:
            self._reading.bereave(tail, End.TRUNCATED)
            return False
        if tail.ends_as is None:
            keep(tail)
        else:
            self.ledger.seen_at_least(tail.id, tail.size)
        return True

    def is_copy(self, seen: Seen) -> bool:
        """Whether `seen` only holds what is read from another file."""
        return self._beginning.is_copy(seen)

    def _is_known(self, seen: Seen) -> bool:
        return self._opening.is_known(seen)

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because of a file, under the first of its names that may be opened."""
        begun: list[Source] = []
        for path in (seen.path, *self.found.others.get(seen.key, ())):
            begun += self._beginning.appeared(seen._replace(path=path))
            if path not in self._opening.refused:
                break
        return begun

    def _may_hold(self, name: str, seen: Seen) -> bool:
        """Whether a file may be read as a rotation of `name`."""
        excluded = self._following.watched.excludes(seen.path) and not scanner.is_rotated_name(seen.path)
        return not excluded and self._following.links.belongs(name, seen.path)

    @property
    def links_not_followed(self) -> int:
        """How many names are not read because a hostile user can have made the link there."""
        return sum(not isinstance(why, ExcludedName) for why in self._opening.refused.values())

    @property
    def links(self) -> Links:
        """Which links are followed."""
        return self._following.links

    @property
    def refused(self) -> Mapping[str, NotFollowed]:
        """The names that are watched and not read because of links, and why."""
        return self._opening.refused

    def _found_again(self, tail: Tail, path: str) -> None:
        if path != tail.path and not scanner.lies_at(tail.path, tail.key):
            tail.path = path
        if tail.ends_as is not None:
            return
        tail.present = True
        if path == tail.file or scanner.lies_at(tail.file, tail.key):
            tail.left_at = None
        elif tail.left_at is None:  # renamed to another name that is watched: its old name may have a successor
            tail.left_at = self._clock()

    def _notice_who_left(self, found: Container[Key]) -> None:
        for tail in self._tails:
            gone = tail.present and not tail.ending and tail.key not in found
            if gone and not self._is_at_a_watched_name(tail):
                self._reading.leave(tail)

    def _is_at_a_watched_name(self, tail: Tail) -> bool:
        """Whether a file lies where a look could find it if it had the right; a tail finds its file elsewhere too."""
        return self._beginning.may_match(tail.path) and scanner.lies_at(tail.path, tail.key)

    def _forget_if_due(self, files: Mapping[Key, Seen]) -> None:
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_SECONDS
            resting = (self._opening.resting(key) for key in files)
            kept = self._beginning.copied | {source.id for source in resting if source is not None}
            left_out = [source for source in self.ledger.known.values() if source.excluded]
            kept |= {source.id for source in left_out if scanner.lies_at(source.file, source.key)}
            for source in self.ledger.forget_old(kept):  # else what still lies there would be shipped again
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
            if why is End.EXCLUDED:
                self._opening.rest(self.ledger.left_out(source))
            elif tail is None:
                self.ledger.ended(source, file_rests=False)
            elif why is End.TRUNCATED or not self._has_more(tail):
                ended = self.ledger.ended(source, file_rests=self._opening.file_rests(tail, why))
                self._hold(ended, tail)
                self._tails.remove(tail)
                self._opening.rest(ended)
                self._late.remember(ended)
        if over:
            self._following.held.settle(self.ledger.known)

    def _hold(self, ended: Source, tail: Tail) -> None:
        """Keep the file of a source that ended open until an archive has it. A rest, or a spool, is no own file."""
        held = self._following.held
        if held.bounds.octets and tail.ends_as is None and tail.file not in self._following.spools:
            with contextlib.suppress(OSError):
                held.hold(ended, tail.taken_over())

    def told(self, told: ReceiptsReply) -> None:
        """An archive holds so much."""
        self.ledger.told(told)
        self._following.held.settle(self.ledger.known)

    def heard(self, told: ReceiptsReply) -> list[str]:
        """The same of a message that nobody asked for; the sources of which it proves nothing."""
        unproven = self.ledger.heard(told)
        self._following.held.settle(self.ledger.known)
        return unproven

    def may_be_read_again(self, source: Source) -> bool:
        """Whether bytes of a source that are acknowledged may still be found."""
        tail = self._tails.of(source.id)
        if self.is_left_out(source):
            return False
        return (tail is not None and tail.ends_as is None) or self._opening.may_lie_somewhere(source)

    def may_all_be_read_again(self, ids: Iterable[str]) -> bool:
        """Whether what is in flight of these sources may be forgotten: none of it is in memory only."""
        known = self.ledger.known
        return all(id_ in known and self.lies_on_disk(known[id_]) for id_ in ids)

    def lies_on_disk(self, source: Source) -> bool:
        """Whether another process would find the bytes of a source, too: its file has a name and did not begin anew."""
        tail = self._tails.of(source.id)
        if self.is_left_out(source):
            return False
        is_rest = tail is not None and tail.ends_as is not None
        return not is_rest and self._tails.at(source.key) is tail and self._opening.lies_on_disk(source)

    def finished(self) -> list[Finished]:
        """The files that may be deleted once the archive has them."""
        named = [source for source in self.ledger.known.values() if self._is_named(source) and not source.excluded]
        return finished(named, self._tails, self._following.watched)

    def delete(self, file: Finished) -> Fate:
        """Delete a file unless it changed; what is written in that moment is read all the same. Raises OSError."""
        tail = self._tails.of(file.source.id)
        if tail is None:
            return self._opening.delete(file)
        fate = delete(file, tail.descriptor)
        if fate in GONE:
            self._reading.leave(tail)
        return fate

    def release(self, source: Source) -> None:
        """The file of a source that ended is deleted: its inode number is free for any other file."""
        self._opening.forget(source)
        self.ledger.release(source)

    def _has_more(self, tail: Tail) -> bool:
        """Whether somebody wrote while the last block was on its way; then the file is read on."""
        if not tail.has_more():
            return False
        tail.ending = False
        tail.left_at = self._clock()
        self._tails.revive(tail)
        self._reading.add(tail)
        return True


def _size_at(path: str, key: Key) -> int:
    """How long the file `key` is, if it lies at `path`; 0: that is not known."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if (found.st_dev, found.st_ino) == key else 0


def _restless(tails: Iterable[Tail]) -> list[Tail]:
    """The files that must be looked at, whatever was found at their names: those on their way out, or not all read.

    In one go, for this is asked every second, of 10,000 files.
    """
    more = Tip.MORE
    return [
        tail
        for tail in tails
        if tail.left_at is not None or not tail.present or tail.tip is more or (tail.size > 0 and not tail.marked)
    ]


def _is_larger(tail: Tail, seen: Seen | None) -> bool:
    return seen is not None and seen.size > tail.size


def _has_changed(tail: Tail, seen: Seen | None) -> bool:
    return seen is None or seen.size != tail.size or seen.mtime_ns != tail.mtime_ns
