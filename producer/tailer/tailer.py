"""The tailer: what files there are, what state each is in, and what a scan of the file system means for them.

`file_table.py` has the files and their states; `startup.py` continues the sources of the checkpoint, `resolver.py`
opens the files of sources, `read_scheduler.py` reads them, `rotation.py` decides which generations begin, and
`ended_files.py` closes and deletes files.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from producer.checkpoint.store import Checkpoints
from producer.discovery import scanner
from producer.discovery.scanner import Key, Seen
from producer.model import Piece, Source
from producer.options import Following
from producer.tailer.ended_files import EndedFiles
from producer.tailer.file_reader import FileReader, ReadOutcome
from producer.tailer.file_table import FileState, FileTable, TrackedFile
from producer.tailer.read_scheduler import ReadScheduler
from producer.tailer.resolver import Resolver
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.rotation import Rotation
from producer.tailer.startup import Startup
from producer.transform.time_budget import OverBudget
from shipper import events
from shipper.model import End


class Tailer:
    """The files of one host. One caller at a time, from any thread; only `read` and `acknowledged` may overlap."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self.resolver = resolver
        self._scheduler = ReadScheduler(table, resolver.finder)
        self._rotation = Rotation(table, resolver)
        self._startup = Startup(table, resolver, self._rotation.blanks)
        self.ended_files = EndedFiles(table, resolver)
        self.acks = table.acks  #: how far each source is acknowledged
        self.retained = table.retained  #: files that stay open although they are not read
        self._first_scan = True
        self._fifos: set[str] = set()  # logged already
        self.found = scanner.ScanResult([], [], {}, set(), [])  #: the result of the last scan
        self.grew: dict[Key, str] = {}  #: files that were larger than before, with their paths
        self.is_unsettled = True  #: something that the last scan found is unknown: the next one must come soon

    def resume(self, sources: list[Source]) -> None:
        """Continue the sources of the checkpoint."""
        self._startup.resume(sources)

    @property
    def excluded_bytes(self) -> dict[str, int]:
        """By name: the files that are known and that the configuration does not name, with their unread bytes."""
        found: dict[str, int] = {}
        for file in self._table.in_state(FileState.EXCLUDED):
            source = self.acks.known.get(file.id)
            if source is not None and (source.excluded or not source.ended_at):
                found[source.file] = found.get(source.file, 0) + max(0, source.size - source.offset)
        return found

    def is_excluded(self, source: Source) -> bool:
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
        named = self._table.following.watched.patterns
        refused = [path for path in self.resolver.links_not_followed if path in named]
        lost = [file.name for file in self._table.in_state(FileState.LOST)]
        return [*held, *self.resolver.unopened, *lost, *refused]

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

        To be iterated to the end; each is read when the iterator reaches it.
        """
        return self._scheduler.pieces(budget_bytes)

    def put_back(self, error: OverBudget) -> None:
        """The last of the pieces cannot be edited: its file is held back, from that piece on."""
        self._scheduler.put_back(error)

    def read(self, budget_bytes: int) -> list[Piece]:
        """The same as a list."""
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
        found = self.found = scanner.scan(self._table.following.watched)
        for path in set(found.fifos) - self._fifos:
            events.fifo_not_read(path=path)
        self._fifos |= set(found.fifos)
        for path, error in found.unknown:
            events.file_unreadable(path=path, error=error.strerror or str(error))
        files = {seen.key: seen for seen in found.files}
        self.resolver.found(files, found.excluded)
        if self._first_scan and self._table.following.start_at_end:
            self.resolver.begin_at_end()
        self._first_scan = False
        self._check_changed(files)
        self.resolver.retry_waiting()
        self.resolver.resume_grown()
        begun = self.resolver.retry_unopened()
        for seen in found.files:
            file = self._table.at(seen.key)
            if file is not None and file.reader is not None:
                self._found_again(file, file.reader, seen.path)
            else:
                begun.extend(self._appeared(seen))
        begun.extend(self._rotation.vanished(found.names))
        self.resolver.follow_all(begun)  # durable before its first byte is read
        self._notice_lost_names(files)
        put_off = any(self._table.reader(source.id) is None for source in begun)
        is_lost = bool(self._table.in_state(FileState.LOST))
        self.is_unsettled = put_off or is_lost or bool(found.unknown or self.resolver.unopened)
        self.ended_files.forget_if_due(files, self._rotation.copies.sources)
        self.retained.settle(self.acks.known)
        self._rotation.scan_ends(files)

    def grown(self, paths: Iterable[str]) -> None:
        """Check the files that have `paths`, as far as the last scan found them; a hint from the watcher."""
        keys = {self.found.names.get(path) for path in paths}
        grown = [file for key in keys if key is not None and (file := self._table.at(key)) is not None]
        if any(file.reader is not None and file.reader.is_blank for file in grown):
            self.resolver.refresh_listing()
        late = {file.id for file in grown if self._rotation.must_wait(file)}
        self.is_unsettled |= bool(late)  # the next scan begins the missed ones first
        self._check([file for file in grown if file.id not in late], is_scan=False)

    def poll(self) -> None:
        """Check the files for which no hint comes: those that lost their names, and those that could not be read."""
        self._scheduler.scan_begins()
        self._check([file for file in self._table.open_files() if must_be_polled(file)], is_scan=False)
        self.resolver.resume_grown()

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
        self._check([file for file in changed if not self._rotation.dismissed_blank(file, files)], is_scan=True)

    def _check(self, files: Iterable[TrackedFile], *, is_scan: bool) -> None:
        checked = [file for file in files if file.is_reading and self._check_one(file, is_scan=is_scan)]
        readers = [file.reader for file in checked if file.reader is not None]
        starts = {each.id: each.start for each in readers if not each.marked and each.start.head_length}
        if self.acks.save_marks(starts):
            for reader in readers:
                reader.marked |= reader.id in starts
        for file in checked:
            if file.reader is not None and (file.reader.outcome is ReadOutcome.MORE or self._scheduler.is_due(file)):
                self._table.queue(file)

    def _check_one(self, file: TrackedFile, *, is_scan: bool) -> bool:
        """Check one file and note what was found; whether it goes on."""
        reader = file.reader
        if reader is None:
            return False
        try:
            lost = reader.check()
        except scanner.GONE:
            self._table.lose(file, End.DELETED)
            return False
        except OSError as error:
            events.file_unreadable(path=reader.path, error=error.strerror or str(error))
            return False
        if lost:
            events.bytes_lost(file=file.name, lost=lost, reason=End.TRUNCATED.value)
        if reader.outcome is ReadOutcome.REWRITTEN:
            self._table.lose(file, End.TRUNCATED)
            return False
        # between two scans it is unknown what came under the name that a file left
        if reader.ends_as is None and (is_scan or file.left_at is None):
            self.acks.note_scan(reader.id, reader.size, reader.mtime_ns, reader.start)
        else:
            self.acks.note_size(reader.id, reader.size)
        return True

    def is_copy(self, seen: Seen) -> bool:
        """Whether `seen` only has the content of another file that is read."""
        return self._rotation.is_copy(seen)

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because of a file, under the first of its names that may be opened."""
        begun: list[Source] = []
        for path in (seen.path, *self.found.others.get(seen.key, ())):
            begun += self._rotation.appeared(seen._replace(path=path))
            if path not in self.resolver.refused:
                break
        return begun

    def _found_again(self, file: TrackedFile, reader: FileReader, path: str) -> None:
        if path != reader.path and not scanner.is_at(reader.path, reader.key):
            reader.found_at(path)
        if reader.ends_as is not None:
            return
        file.is_named = True
        if path == file.name or scanner.is_at(file.name, reader.key):
            file.left_at = None
        elif file.left_at is None:  # renamed to another name that is watched: its old name may have a successor
            file.left_at = self._table.clock()

    def _notice_lost_names(self, found: Container[Key]) -> None:
        for file in self._table.open_files():
            gone = file.is_named and file.is_reading and file.key not in found
            if gone and file.reader is not None and not self._is_at_a_watched_name(file.reader):
                self._table.leave(file)

    def _is_at_a_watched_name(self, reader: FileReader) -> bool:
        """Whether a file is where a scan could find it if it had the right; a reader finds its file elsewhere, too."""
        return self._rotation.may_match(reader.path) and scanner.is_at(reader.path, reader.key)

    # -- what is acknowledged -----------------------------------------------------------------------------------

    def acknowledged(self, piece: Piece, sequence: int) -> None:
        """JetStream has stored `piece` and everything before it of its source."""
        self.ended_files.acknowledged(piece, sequence)

    def retire(self) -> None:
        """Close the files whose last block is acknowledged; one that got more bytes since then is read on."""
        self.ended_files.retire()

    def release(self, source: Source) -> None:
        """The file of a source that ended is deleted: its inode number is free for any other file."""
        self.ended_files.release(source)

    def may_be_read_again(self, source: Source) -> bool:
        """Whether bytes of a source that are acknowledged may still be found."""
        reader = self._table.reader(source.id)
        if self.is_excluded(source):
            return False
        return (reader is not None and reader.ends_as is None) or self.resolver.may_exist(source)

    def may_all_be_read_again(self, ids: Iterable[str]) -> bool:
        """Whether what is in flight of these sources may be forgotten: none of it is in memory only."""
        known = self.acks.known
        return all(id_ in known and self.is_on_disk(known[id_]) for id_ in ids)

    def is_on_disk(self, source: Source) -> bool:
        """Whether another process would find the bytes of a source, too: its file has a name and did not begin anew."""
        reader, at_its_inode = self._table.reader(source.id), self._table.at(source.key)
        if self.is_excluded(source) or (reader is not None and reader.ends_as is not None):
            return False
        is_its_own = (at_its_inode.reader if at_its_inode else None) is reader
        return is_its_own and self.resolver.is_on_disk(source)


def must_be_polled(file: TrackedFile) -> bool:
    """Whether a file is checked whatever was found at its name: it left that, or is not read to its end."""
    reader = file.reader
    is_unread = file.state in (FileState.ACTIVE, FileState.UNREADABLE)
    is_unmarked = reader is not None and reader.size > 0 and not reader.marked
    return is_unread or file.left_at is not None or not file.is_named or is_unmarked


def has_changed(reader: FileReader, seen: Seen | None) -> bool:
    """Whether a scan found something else than the last check of a file; `seen`: at its inode."""
    return seen is None or seen.size != reader.size or seen.mtime_ns != reader.mtime_ns


def new_tailer(
    following: Following,
    checkpoints: Checkpoints,
    retained: RetainedFiles | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Tailer:
    """The tailer of one host. `retained`: files that an earlier tailer of this process left open."""
    table = FileTable(following, checkpoints, RetainedFiles() if retained is None else retained, clock=clock, wall=wall)
    return Tailer(table, Resolver(table, checkpoints.directory))
