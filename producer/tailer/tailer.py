"""The tailer: what files there are, what state each is in, and what a scan of the file system means for them.

`file_state.py` has the states and their transitions; `resolver.py` opens the files of sources, `read_scheduler.py`
reads them, and `AckTracker` knows how far each is acknowledged.
"""

import contextlib
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.store import Checkpoints
from producer.discovery import scanner
from producer.discovery.safe_open import ExcludedName, Links, NotFollowed
from producer.discovery.scanner import Key, Look, Seen, wanted
from producer.model import Piece, Source
from producer.options import Following
from producer.tailer.cleanup import GONE, Fate, Finished, delete, finished
from producer.tailer.decompress import Unfinished
from producer.tailer.descriptor_cache import DescriptorCache
from producer.tailer.file_reader import FileReader, ReadOutcome
from producer.tailer.file_state import FileState
from producer.tailer.file_table import FileTable, TrackedFile
from producer.tailer.lost_file import ContentFinder
from producer.tailer.read_scheduler import ReadScheduler
from producer.tailer.resolver import Resolver, at_their_devices, has_first_name
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.rotation import Rotation
from producer.transform.time_budget import OverBudget
from shipper import events
from shipper.control import ReceiptsReply
from shipper.model import End

FORGET_SECONDS = 3600.0
"""Between two searches for ended sources that are old enough to be forgotten."""


class Tailer:
    """The files of one host. One caller at a time, from any thread; only `read` and `acknowledged` may overlap."""

    def __init__(
        self,
        following: Following,
        checkpoints: Checkpoints,
        retained: RetainedFiles | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._following = following
        self._clock = clock
        self.retained = RetainedFiles() if retained is None else retained
        cache = DescriptorCache(following.open_files, self.retained, following.links)
        self._table = table = FileTable(cache, self.retained)
        self.ledger = acks = AckTracker(checkpoints, wall, following.may_hold)
        finder = ContentFinder(following, table, acks.known, checkpoints.directory, clock)
        self._finder = finder
        self._scheduler = ReadScheduler(following, table, acks.known, finder, clock)
        self._resolver = Resolver(following, table, self._scheduler, acks, finder, wall)
        self._rotation = Rotation(following, table, self._resolver, acks, finder)
        self._over: list[tuple[str, End]] = []  # last blocks that are acknowledged
        self._first_scan = True
        self._fifos: set[str] = set()  # logged already
        self._is_wanted = wanted(following.watched)
        self.found = Look([], [], {}, set(), [])  #: what the last scan found
        self.grew: dict[Key, str] = {}  #: files that were larger than before, with their paths
        self.is_unsettled = True  #: something that the last scan found is unknown: the next one must come soon
        self._forget_at = clock() + FORGET_SECONDS

    # -- the start --------------------------------------------------------------------------------------------------

    def adopt(self, sources: list[Source]) -> None:
        """Begin with the sources of the checkpoint: find each one's file again, or end it.

        A source whose file the configuration does not name is not read, and its file is not opened.
        """
        found = scanner.look(self._following.watched)
        self._resolver.found({seen.key: seen for seen in found.files})
        sources = [self.retained.at_its_file(source) for source in sources]
        names = {source.file for source in sources if self._is_named(source) and not self._is_twin(source, found)}
        unnamed = [source for source in sources if source.file not in names]
        before = [source for source in sources if source.file in names]
        sources = [*unnamed, *at_their_devices(before, self._resolver.files.values(), self._following.links)]
        newest = {source.key: source.id for source in sources if not source.ended_at}
        sources = self._rotation.blanks.without(sources)
        for source in sources:
            self.ledger.learn(source)
        for source in set(sources) - {*before, *unnamed}:
            self.ledger.moved(source)
        self.ledger.scan_ends(())
        # the youngest generation of a name comes last, whenever it was first seen
        for source in unnamed:
            self._leave_out(source, newest)
        named = [source for source in sources if source.file in names]
        for source in sorted(named, key=lambda source: has_first_name(source, newest, self._following.links)):
            if source.excluded:
                self._name_again(source)
            elif source.ended_at:
                self._resolver.end(source)
            elif not source.inode:  # went back, and its file was gone when it ended
                self._resolver.lose(source, End.DELETED)
            elif newest[source.key] != source.id:  # the same inode was truncated, and its last block not acknowledged
                self._resolver.lose(source, End.TRUNCATED)
            else:
                self._resolver.resume(source)
        self.retained.taken_over()

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
            return bool(scanner.excluded_twin(source.file, source.key, watched, self._resolver.listing))
        except OSError:
            return False  # opening it meets the same error

    def _name_again(self, source: Source) -> None:
        """Go on with a source that was excluded, in its file or in a copy; what is gone by now was excluded."""
        living = source.named_again()
        if self._resolver.resume(living, or_lose=False):
            return
        found = None
        with contextlib.suppress(OSError, Unfinished):  # the next start tries again
            found = self._finder.find(living) if living.mark.head_length else None
        if found is None:
            self._resolver.exclude(source)
            return
        os.close(found.descriptor)
        self.ledger.learn(living)
        self._resolver.lose(living, End.DELETED)

    def _is_under_another_name(self, source: Source) -> bool:
        """Whether a file that lost its name in the configuration has another one there: then it is read as before."""
        if source.key not in self._resolver.files or not source.inode:
            return False
        if source.ended_at and not source.excluded:
            self._resolver.end(source)
            return True
        return self._resolver.resume(source.named_again(), or_lose=False)

    def _leave_out(self, source: Source, newest: Mapping[Key, str]) -> None:
        """Read nothing more of a source, and record that: it is excluded, and not lost."""
        if self._is_under_another_name(source):
            return
        self.retained.drop(source.id)
        self._resolver.exclude(source)  # it goes on if its file comes back under a name that is watched
        if source.excluded or source.ended_at:
            if source.excluded:
                self.ledger.seen_at_least(source.id, _size_at(source.file, source.key))
            return
        if newest.get(source.key) == source.id:
            source = replace(source, size=max(source.size, _size_at(source.file, source.key)))
            self.ledger.seen_at_least(source.id, source.size)
        events.file_excluded(path=source.file, source=source.id, unread=max(0, source.size - source.offset))
        if source.offset > source.origin:
            self._scheduler.left_out(source)
        else:  # no archive has anything of it
            self.ledger.left_out(source.id)

    @property
    def left_out(self) -> dict[str, int]:
        """By name: the files that are known and that the configuration does not name, with their unread bytes."""
        found: dict[str, int] = {}
        for file in self._table.in_state(FileState.EXCLUDED):
            source = self.ledger.known.get(file.id)
            if source is not None and (source.excluded or not source.ended_at):
                found[source.file] = found.get(source.file, 0) + max(0, source.size - source.offset)
        return found

    def is_left_out(self, source: Source) -> bool:
        """Whether a source is not read because the configuration does not name its file."""
        file = self._table.get(source.id)
        return file is not None and file.state is FileState.EXCLUDED

    @property
    def idle(self) -> bool:
        """Whether nothing is left to read that the last scan found."""
        return self._scheduler.idle

    @property
    def backlog_bytes(self) -> int:
        """Bytes seen in the files and not read yet."""
        return self._scheduler.backlog_bytes

    @property
    def unread(self) -> list[str]:
        """The files of which something that the last scan found could not be read."""
        held = [reader.path for reader in self.reading if reader.unread_bytes]
        named = self._following.watched.patterns
        refused = [
            path for path, why in self._resolver.refused.items() if path in named and not isinstance(why, ExcludedName)
        ]
        lost = [file.name for file in self._table.in_state(FileState.LOST)]
        return [*held, *self._resolver.unopened, *lost, *refused]

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        return self._resolver.unopened

    @property
    def readers(self) -> list[FileReader]:
        """The open files, also those whose last block is not acknowledged yet; not to be changed."""
        return self._table.readers()

    @property
    def reading(self) -> list[FileReader]:
        """The open files whose end was not read yet; not to be changed."""
        return [file.reader for file in self._table.open_files() if file.reader is not None and file.is_reading]

    def nameless(self) -> dict[str, Seen]:
        """By source: the open files that no name leads to, where this process can open them again."""
        readers = [reader for reader in self._table.readers() if reader.fd >= 0 and not reader.has_name()]
        return {each.id: Seen(f"/dev/fd/{each.fd}", *each.key, each.size, each.mtime_ns) for each in readers}

    def pieces(self, budget_bytes: int) -> Iterator[Piece]:
        """The next pieces, about `budget_bytes` in all, one block of each file in turn so that none starves.

        To be iterated to the end; each is read when it is asked for.
        """
        return self._scheduler.pieces(budget_bytes)

    def put_back(self, error: OverBudget) -> None:
        """The last of the pieces cannot be edited: its file is held back, from that piece on."""
        self._scheduler.put_back(error)

    def read(self, budget_bytes: int) -> list[Piece]:
        """All of them at once."""
        return list(self.pieces(budget_bytes))

    def close(self) -> None:
        """Close every file, except those that are handed over to the tailer after this one."""
        self.retained.hand_over(self._table.readers())
        self._table.close()

    # -- scanning -----------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Scan the file system and decide: new, grown, renamed, deleted, truncated."""
        self.retire()
        self._scheduler.scan_begins()
        found = self.found = scanner.look(self._following.watched)
        for path in set(found.fifos) - self._fifos:
            events.fifo_not_read(path=path)
        self._fifos |= set(found.fifos)
        for path, error in found.unknown:
            events.file_unreadable(path=path, error=error.strerror or str(error))
        files = {seen.key: seen for seen in found.files}
        self._resolver.found(files)
        for path, name in found.excluded.items():
            self._resolver.refuse(path, ExcludedName(path, name))
        if self._first_scan and self._following.start_at_end:
            self._resolver.begin_at_end()
        self._first_scan = False
        self._check_changed(files)
        self._resolver.retry_waiting()
        self._resolver.resume_grown()
        begun = self._resolver.retry_unopened()
        for seen in found.files:
            file = self._table.at(seen.key)
            if file is not None and file.reader is not None:
                self._found_again(file, file.reader, seen.path)
            else:
                begun.extend(self._appeared(seen))
        begun.extend(self._rotation.vanished(found.names))
        self._resolver.follow_all(begun)  # durable before its first byte is read
        self._notice_who_left(files)
        put_off = any(self._table.reader(source.id) is None for source in begun)
        is_lost = bool(self._table.in_state(FileState.LOST))
        self.is_unsettled = put_off or is_lost or bool(found.unknown or self._resolver.unopened)
        self._forget_if_due(files)
        self.retained.settle(self.ledger.known)
        self._rotation.scan_ends(files)

    def grown(self, paths: Iterable[str]) -> None:
        """Check the files that have `paths`, as far as the last scan found them; a hint from the watcher."""
        keys = {self.found.names.get(path) for path in paths}
        grown = [file for key in keys if key is not None and (file := self._table.at(key)) is not None]
        if any(file.reader is not None and file.reader.is_blank for file in grown):
            self._resolver.list_again()
        late = {file.id for file in grown if self._rotation.must_wait(file)}
        self.is_unsettled |= bool(late)  # the next scan begins the missed ones first
        self._check([file for file in grown if file.id not in late], is_scan=False)

    def poll(self) -> None:
        """Check the files of which no hint tells: those that left their names, and those that could not be read."""
        self._scheduler.scan_begins()
        self._check([file for file in self._table.open_files() if must_be_polled(file)], is_scan=False)
        self._resolver.resume_grown()

    def _check_changed(self, files: Mapping[Key, Seen]) -> None:
        """Check the files that changed since the last scan, and those that must be polled."""
        changed, grew = [], {}
        for file in self._table.open_files():
            seen = files.get(file.key) if file.key else None
            if file.reader is not None and (must_be_polled(file) or has_changed(file.reader, seen)):
                changed.append(file)
                if seen is not None and seen.size > file.reader.size:
                    grew[seen.key] = file.reader.path
        self.grew = grew
        self._check([file for file in changed if not self._rotation.gave_way(file, files)], is_scan=True)

    def _check(self, files: Iterable[TrackedFile], *, is_scan: bool) -> None:
        checked = [file for file in files if file.is_reading and self._check_one(file, is_scan=is_scan)]
        readers = [file.reader for file in checked if file.reader is not None]
        starts = {each.id: each.start for each in readers if not each.marked and each.start.head_length}
        if self.ledger.mark(starts):
            for reader in readers:
                reader.marked |= reader.id in starts
        for file in checked:
            if file.reader is not None and (file.reader.outcome is ReadOutcome.MORE or self._scheduler.is_due(file)):
                self._scheduler.queue(file)

    def _check_one(self, file: TrackedFile, *, is_scan: bool) -> bool:
        """Check one file and note what was found; whether it goes on."""
        reader = file.reader
        if reader is None:
            return False
        try:
            lost = reader.check()
        except scanner.GONE:
            self._scheduler.lose(file, End.DELETED)
            return False
        except OSError as error:
            events.file_unreadable(path=reader.path, error=error.strerror or str(error))
            return False
        if lost:
            events.bytes_lost(file=file.name, lost=lost, reason=End.TRUNCATED.value)
        if reader.outcome is ReadOutcome.REWRITTEN:
            self._scheduler.lose(file, End.TRUNCATED)
            return False
        # between two scans it is unknown what came under the name that a file left
        if reader.ends_as is None and (is_scan or file.left_at is None):
            self.ledger.scanned(reader.id, reader.size, reader.mtime_ns, reader.start)
        else:
            self.ledger.seen_at_least(reader.id, reader.size)
        return True

    def is_copy(self, seen: Seen) -> bool:
        """Whether `seen` only has the content of another file that is read."""
        return self._rotation.is_copy(seen)

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because of a file, under the first of its names that may be opened."""
        begun: list[Source] = []
        for path in (seen.path, *self.found.others.get(seen.key, ())):
            begun += self._rotation.appeared(seen._replace(path=path))
            if path not in self._resolver.refused:
                break
        return begun

    @property
    def links_not_followed(self) -> int:
        """How many names are not read because a hostile user can have made the link there."""
        return sum(not isinstance(why, ExcludedName) for why in self._resolver.refused.values())

    @property
    def links(self) -> Links:
        """Which links are followed."""
        return self._following.links

    @property
    def refused(self) -> Mapping[str, NotFollowed]:
        """The names that are watched and not read because of links, and why."""
        return self._resolver.refused

    def _found_again(self, file: TrackedFile, reader: FileReader, path: str) -> None:
        if path != reader.path and not scanner.lies_at(reader.path, reader.key):
            reader.path = path
        if reader.ends_as is not None:
            return
        file.is_named = True
        if path == file.name or scanner.lies_at(file.name, reader.key):
            file.left_at = None
        elif file.left_at is None:  # renamed to another name that is watched: its old name may have a successor
            file.left_at = self._clock()

    def _notice_who_left(self, found: Container[Key]) -> None:
        for file in self._table.open_files():
            gone = file.is_named and file.is_reading and file.key not in found
            if gone and file.reader is not None and not self._is_at_a_watched_name(file.reader):
                self._scheduler.leave(file)

    def _is_at_a_watched_name(self, reader: FileReader) -> bool:
        """Whether a file is where a scan could find it if it had the right; a reader finds its file elsewhere, too."""
        return self._rotation.may_match(reader.path) and scanner.lies_at(reader.path, reader.key)

    def _forget_if_due(self, files: Mapping[Key, Seen]) -> None:
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_SECONDS
            ended = (self._table.ended_at(key) for key in files)
            kept = self._rotation.copied | {file.id for file in ended if file is not None}
            left_out = [source for source in self.ledger.known.values() if source.excluded]
            kept |= {source.id for source in left_out if scanner.lies_at(source.file, source.key)}
            for source in self.ledger.forget_old(kept):  # else what is still there would be shipped again
                self._resolver.forget(source)

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
            file, reader = self._table.get(source), self._table.reader(source)
            if why is End.EXCLUDED:
                self.ledger.left_out(source)
            elif file is None or reader is None:
                self._resolver.end(self.ledger.ended(source, file_rests=False))
            elif why is End.TRUNCATED or not self._goes_on(file, reader):
                ended = self.ledger.ended(source, file_rests=self._resolver.may_show_up(reader, why))
                self._retain(ended, reader)
                self._resolver.end(ended)
        if over:
            self.retained.settle(self.ledger.known)

    def _retain(self, ended: Source, reader: FileReader) -> None:
        """Keep the file of a source that ended open until an archive has it. A copy, or a spool, is no own file."""
        if self.retained.bounds.octets and reader.ends_as is None and reader.file not in self._following.spools:
            with contextlib.suppress(OSError):
                self.retained.retain(ended, reader.detach())

    def told(self, told: ReceiptsReply) -> None:
        """An archive holds so much."""
        self.ledger.told(told)
        self.retained.settle(self.ledger.known)

    def heard(self, told: ReceiptsReply) -> list[str]:
        """The same of a message that nobody asked for; the sources of which it proves nothing."""
        unproven = self.ledger.heard(told)
        self.retained.settle(self.ledger.known)
        return unproven

    def may_be_read_again(self, source: Source) -> bool:
        """Whether bytes of a source that are acknowledged may still be found."""
        reader = self._table.reader(source.id)
        if self.is_left_out(source):
            return False
        return (reader is not None and reader.ends_as is None) or self._resolver.may_exist(source)

    def may_all_be_read_again(self, ids: Iterable[str]) -> bool:
        """Whether what is in flight of these sources may be forgotten: none of it is in memory only."""
        known = self.ledger.known
        return all(id_ in known and self.lies_on_disk(known[id_]) for id_ in ids)

    def lies_on_disk(self, source: Source) -> bool:
        """Whether another process would find the bytes of a source, too: its file has a name and did not begin anew."""
        reader, at_its_inode = self._table.reader(source.id), self._table.at(source.key)
        if self.is_left_out(source) or (reader is not None and reader.ends_as is not None):
            return False
        is_its_own = (at_its_inode.reader if at_its_inode else None) is reader
        return is_its_own and self._resolver.lies_on_disk(source)

    def finished(self) -> list[Finished]:
        """The files that may be deleted once the archive has them."""
        named = [source for source in self.ledger.known.values() if self._is_named(source) and not source.excluded]
        return finished(named, self._table, self._following.watched)

    def delete(self, finished_file: Finished) -> Fate:
        """Delete a file unless it changed; what is written in that moment is read all the same. Raises OSError."""
        file = self._table.get(finished_file.source.id)
        if file is None or file.reader is None:
            return self._resolver.delete(finished_file)
        fate = delete(finished_file, file.reader.descriptor)
        if fate in GONE:
            self._scheduler.leave(file)
        return fate

    def release(self, source: Source) -> None:
        """The file of a source that ended is deleted: its inode number is free for any other file."""
        self._resolver.forget(source)
        self.ledger.release(source)

    def _goes_on(self, file: TrackedFile, reader: FileReader) -> bool:
        """Whether a program wrote to a file after its last block was read; then it is read on."""
        if not reader.has_grown():
            return False
        file.left_at = self._clock()
        self._scheduler.queue(file)
        return True


def _size_at(path: str, key: Key) -> int:
    """How long the file `key` is, if it lies at `path`; 0: that is not known."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if (found.st_dev, found.st_ino) == key else 0


def must_be_polled(file: TrackedFile) -> bool:
    """Whether a file is checked whatever was found at its name: it left that, or is not read to its end."""
    reader = file.reader
    is_unread = file.state in (FileState.ACTIVE, FileState.UNREADABLE)
    is_unmarked = reader is not None and reader.size > 0 and not reader.marked
    return is_unread or file.left_at is not None or not file.is_named or is_unmarked


def has_changed(reader: FileReader, seen: Seen | None) -> bool:
    """Whether a scan found something else than the last check of a file; `seen`: at its inode."""
    return seen is None or seen.size != reader.size or seen.mtime_ns != reader.mtime_ns
