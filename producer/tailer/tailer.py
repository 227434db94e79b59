"""The tailer: what files there are, what state each is in, and what a scan of the file system means for them.

`file_table.py` has the files and their states; `startup.py` continues the sources of the checkpoint, `resolver.py`
opens the files of sources, `read_scheduler.py` reads them, `rotation.py` decides which generations begin, and
`ended_files.py` closes and deletes files.
"""

import errno
import time
from collections.abc import Callable, Container, Iterable, Mapping

from producer.checkpoint.store import Checkpoints
from producer.discovery import scanner
from producer.discovery.scanner import Key, Seen
from producer.model import Source
from producer.options import Following
from producer.tailer.ended_files import EndedFiles
from producer.tailer.file_reader import FileReader, ReadOutcome
from producer.tailer.file_table import Event, FileState, FileTable, TrackedFile
from producer.tailer.read_scheduler import ReadScheduler
from producer.tailer.resolver import Resolver
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.rotation import Rotation
from producer.tailer.startup import Startup
from shipper import events
from shipper.model import End


class Tailer:
    """The files of one host. One caller at a time, from any thread. Only reading and acknowledgements may overlap."""

    def __init__(self, table: FileTable, resolver: Resolver) -> None:
        self._table = table
        self.resolver = resolver
        self.read_scheduler = ReadScheduler(table, resolver.finder)  #: reads the files in turn
        self.rotation = Rotation(table, resolver)
        self.ended_files = EndedFiles(table, resolver)  #: takes acknowledgements; closes and deletes files
        self.acks = table.acks  #: how far each source is acknowledged
        self.retained = table.retained  #: files that stay open although they are not read
        self._first_scan = True
        self._fifos: set[str] = set()  # logged already
        self.found = scanner.ScanResult([], [], {}, set(), [])  #: the result of the last scan
        self.grew: dict[Key, str] = {}  #: files that were larger than before, with their paths
        self.is_unsettled = True  #: something that the last scan found is unknown: the next one must come soon

    def resume(self, sources: list[Source]) -> None:
        """Continue the sources of the checkpoint."""
        Startup(self._table, self.resolver, self.rotation.blanks).resume(sources)

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
        return self.read_scheduler.idle

    @property
    def unread(self) -> list[str]:
        """The files of which something that the last scan found could not be read."""
        held = [reader.path for reader in self.reading if reader.unread_bytes]
        named = self._table.following.watched.patterns
        refused = [path for path in self.resolver.links_not_followed if path in named]
        lost = [file.name for file in self._table.in_state(FileState.LOST)]
        return [*held, *self.unreadable, *lost, *refused]

    @property
    def unreadable(self) -> list[str]:
        """What the last scan could not read, check or list: files, names and directories."""
        unknown = (path for path, error in self.found.unknown if error.errno != errno.ELOOP)  # a broken link for ever
        return list(dict.fromkeys((*self.resolver.unopened, *unknown, *self.found.unlisted)))

    @property
    def readers(self) -> list[FileReader]:
        """The open files, also those whose last block is not acknowledged yet. Not to be changed."""
        return [reader for _, reader in self._table.open_files()]

    @property
    def reading(self) -> list[FileReader]:
        """The open files whose end was not read yet. Not to be changed."""
        return [reader for file, reader in self._table.open_files() if file.is_reading]

    def file_of(self, source: str) -> TrackedFile | None:
        """The file of a source. Not to be changed."""
        return self._table.get(source)

    def file_at(self, key: Key) -> TrackedFile | None:
        """The file that has, or had last, this device and inode. Not to be changed."""
        return self._table.at(key) or self._table.ended_at(key)

    def nameless(self) -> dict[str, Seen]:
        """By source: the open files that no name leads to, where this process can open them again."""
        readers = [reader for reader in self.readers if reader.fd >= 0 and not reader.has_name()]
        return {each.id: Seen(f"/dev/fd/{each.fd}", *each.key, each.size, each.mtime_ns) for each in readers}

    def close(self) -> None:
        """Close every file, except those that are handed over to the tailer after this one."""
        self.retained.hand_over(self.readers)
        self._table.close()

    # -- scanning -----------------------------------------------------------------------------------------------

    def scan(self) -> None:
        """Scan the file system and decide: new, grown, renamed, deleted, truncated."""
        self.ended_files.retire()
        self.read_scheduler.scan_begins()
        found = self.found = scanner.scan(self._table.following.watched)
        for path in set(found.fifos) - self._fifos:
            events.fifo_not_read(path=path)
        self._fifos |= set(found.fifos)
        for path, error in (*found.unknown, *found.unlisted.items()):
            events.file_unreadable(path=path, error=error.strerror or str(error))
        files = {seen.key: seen for seen in found.files}
        self.resolver.found(files, found.excluded)
        if self._first_scan and self._table.following.start_at_end:
            self.resolver.begin_at_end()
        self._first_scan = False
        self._check_changed(files)
        self.rotation.scan_begins()
        self.resolver.retry_waiting()
        self.resolver.resume_grown()
        begun = self.resolver.retry_unopened()
        for seen in found.files:
            file = self._table.at(seen.key)
            if file is not None and file.reader is not None:
                self._found_again(file, file.reader, seen.path)
            else:
                begun.extend(self._appeared(seen))
        begun.extend(self.rotation.vanished(found.names))
        self.resolver.follow_all(begun)  # durable before its first byte is read
        self._notice_lost_names(files)
        put_off = any(self._table.reader(source.id) is None for source in begun)
        lost = self._table.in_state(FileState.LOST)
        self.is_unsettled = put_off or bool(lost or found.unknown or self.resolver.unopened)
        self.is_unsettled |= self.rotation.copies.waits
        self.ended_files.forget_if_due(files, self.rotation.copies.sources)
        self.retained.settle(self.acks.known)
        self.rotation.scan_ends(files)

    def grown(self, paths: Iterable[str]) -> bool:
        """Check the files that have `paths`, as far as the last scan found them. A hint from the watcher.

        Returns whether a scan must come soon: only that begins with what is in place of a file that is lost.
        """
        grown = self._open_at(paths)
        if any(reader.is_blank for _, reader in grown):
            self.resolver.refresh_listing()
        late = {file.id for file, reader in grown if self.rotation.must_wait(file, reader)}
        self.is_unsettled |= bool(late)  # the next scan begins the missed ones first
        self._check([each for each in grown if each[0].id not in late], is_scan=False)
        return bool(late) or _is_any_lost(grown)

    def written_bytes(self, paths: Iterable[str]) -> int:
        """Bytes that were written to the files that have `paths` since these were checked."""
        return sum(max(0, reader.size_on_disk - reader.size) for _, reader in self._open_at(paths))

    def _open_at(self, paths: Iterable[str]) -> list[tuple[TrackedFile, FileReader]]:
        """The open files that have `paths`, as far as the last scan found them."""
        files = [self._table.at(key) for key in {self.found.names.get(path) for path in paths} if key is not None]
        return [(file, file.reader) for file in files if file is not None and file.reader is not None]

    def poll(self) -> bool:
        """Check the files for which no hint comes: those that lost their names, and those that could not be read.

        Returns the same as `grown`.
        """
        self.read_scheduler.scan_begins()
        polled = [each for each in self._table.open_files() if self._must_be_polled(*each)]
        self._check(polled, is_scan=False)
        self.resolver.resume_grown()
        return _is_any_lost(polled)

    def _check_changed(self, files: Mapping[Key, Seen]) -> None:
        """Check the files that changed since the last scan, and those that must be polled."""
        changed, grew = [], {}
        for file, reader in self._table.open_files():
            seen = files.get(file.key) if file.key else None
            if seen is not None:
                reader.moved_to(seen.path)
            is_changed = seen is None or (seen.size, seen.mtime_ns) != (reader.stat_size, reader.mtime_ns)
            if is_changed or self._must_be_polled(file, reader):
                changed.append((file, reader))
                if seen is not None and seen.size > reader.stat_size:
                    grew[seen.key] = reader.path
        self.grew = grew
        self._check([each for each in changed if not self.rotation.dismissed_blank(*each, files)], is_scan=True)

    def _check(self, files: Iterable[tuple[TrackedFile, FileReader]], *, is_scan: bool) -> None:
        checked = [each for each in files if each[0].is_reading and self._check_one(*each, is_scan=is_scan)]
        starts = {each.id: each.start for _, each in checked if not each.marked and each.start.head_length}
        if self.acks.save_marks(starts):
            for _, reader in checked:
                reader.marked |= reader.id in starts
        for file, reader in checked:
            is_due = self.read_scheduler.is_due(file) or self.read_scheduler.is_line_due(file)
            if reader.outcome is ReadOutcome.MORE or is_due:
                self._table.move(file, Event.GREW)

    def _check_one(self, file: TrackedFile, reader: FileReader, *, is_scan: bool) -> bool:
        """Check one file and note what was found. Whether it goes on."""
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

    def _must_be_polled(self, file: TrackedFile, reader: FileReader) -> bool:
        """Whether a file is checked whatever was found at its name: it left that, or is not read to its end."""
        is_unread = file.state in (FileState.ACTIVE, FileState.UNREADABLE) or self.read_scheduler.is_line_due(file)
        is_unmarked = reader.size > 0 and not reader.marked
        return is_unread or file.left_at is not None or not file.is_named or is_unmarked or reader.is_padded

    def _appeared(self, seen: Seen) -> list[Source]:
        """The generations that begin because of a file, under the first of its names that may be opened."""
        begun: list[Source] = []
        for path in (seen.path, *self.found.others.get(seen.key, ())):
            begun += self.rotation.appeared(seen._replace(path=path))
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
        for file, reader in self._table.open_files():
            is_gone = file.is_named and file.is_reading and file.key not in found
            # a scan without the right to list its directory does not find it; a reader finds it elsewhere, too
            if is_gone and not (self.rotation.may_match(reader.path) and scanner.is_at(reader.path, reader.key)):
                self._table.leave(file)

    # -- what is acknowledged -----------------------------------------------------------------------------------

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


def _is_any_lost(files: Iterable[tuple[TrackedFile, FileReader]]) -> bool:
    return any(file.state is FileState.LOST for file, _ in files)


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
