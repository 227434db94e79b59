"""Which file belongs to which source: begin a new generation, go on with a known one, or try again at the next scan.

Device numbers may change with a reboot or a mount: a file is the same if its inode number and its content are.
A renamed file that ended may still be open in a program that writes to it: its late lines are read.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from producer.discovery import scanner
from producer.discovery.safe_open import ExcludedName, NotFollowed, close_on_exit
from producer.discovery.scanner import Key, Seen, resolved_path
from producer.fingerprint import Mark, first_mark
from producer.model import Source, new_source
from producer.padding import content_end
from producer.tailer import decompress
from producer.tailer.decompress import IncompleteFile
from producer.tailer.file_reader import FileReader
from producer.tailer.file_table import Event, FileState, FileTable, TrackedFile
from producer.tailer.lost_file import ContentFinder
from shipper import events
from shipper.model import End

LATE_SECONDS = 3600.0
"""For so long after its last block a file is polled for late lines: one stat a scan."""


class Resolver:
    """Finds and opens the files of sources. Owned by `Tailer`. `directory`: for decompressed content."""

    def __init__(self, table: FileTable, directory: Path) -> None:
        self._table = table
        self._acks = table.acks
        self.finder = ContentFinder(table, directory)
        self.files: Mapping[Key, Seen] = {}  #: what the last scan found
        self.listing = scanner.Listing()  #: of the directories, since the last scan
        self._begin_at: dict[Key, int] = {}  # where files begin that are not tracked yet, if not at their first byte
        self._is_named = scanner.name_filter(table.following.watched)
        self.begin_after: Mapping[Key, int] = {}  #: where files begin whose first bytes are known from another one
        self.refused: dict[str, NotFollowed] = {}  #: by name: why the last scan does not read it
        self._logged: set[str] = set()  # names whose refusal was logged

    def found(self, files: Mapping[Key, Seen], excluded: Mapping[str, str]) -> None:
        """What a scan found. `excluded`: names that are not read, and the excluded names of their files."""
        self.files = files
        self.finder.watched = files.values()
        self._logged.intersection_update(self.refused)
        self.refused = {}
        self.refresh_listing()
        for path, name in excluded.items():
            self.refuse(path, ExcludedName(path, name))

    def refresh_listing(self) -> None:
        """List the directories of the files anew."""
        self.listing = scanner.Listing()

    def is_named(self, source: Source) -> bool:
        """Whether the configuration names the file of a source. Later names, given by a rotation, do not count."""
        return source.file in self._table.following.spools or self._is_named(source.file)

    def begin_at_end(self) -> None:
        """Files that this scan found begin at their present end, also those that cannot be opened yet."""
        spools = self._table.following.spools
        self._begin_at = {seen.key: seen.size for seen in self.files.values() if seen.path not in spools}

    def may_reappear(self, reader: FileReader, why: End) -> bool:
        """Whether the file of a source that ends may show up again."""
        if reader.ends_as is not None:
            return scanner.is_at(reader.path, self._acks.known[reader.id].key)
        is_named = reader.offset > 0 or reader.file in self._table.following.spools
        return why is not End.TRUNCATED and is_named and reader.has_name()

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        waiting, unopened = self._table.in_state(FileState.WAITING), self._table.in_state(FileState.UNOPENED)
        return [*(file.name for file in waiting), *(file.seen.path for file in unopened if file.seen is not None)]

    # -- a new generation ---------------------------------------------------------------------------------------

    def begin(self, seen: Seen, name: str) -> Source | None:
        """A new generation under the archive name `name`, with its reader. None: the next scan tries again."""
        self._skip_if_old(seen, name)
        file = self._table.add_new(seen, name)
        try:
            descriptor = self.open(name, seen.path, seen.key)
            with close_on_exit(descriptor) as closing:
                if descriptor is not None and name != seen.path and decompress.is_compressed(seen.path, descriptor):
                    return self._begin_compressed(file, seen)
                if descriptor is not None:
                    stat = os.fstat(descriptor)
                    self._check_names(stat, seen.path)
                    begin_at = max(self._begin_at.get(seen.key, 0), self.begin_after.get(seen.key, 0))
                    origin = min(begin_at, content_end(descriptor, 0, stat.st_size)) if begin_at else 0
                    mark, real = first_mark(descriptor, origin), resolved_path(name, seen.path)
                    source = new_source(name, stat, origin=origin, mark=mark, real=real)
                    reader = self.reader(source, descriptor, seen.path)
                    source = replace(source, size=reader.size)
                    self._table.identify(file, source)
                    self._table.open_file(file, reader)
                    closing.pop_all()
                    return source
        except IncompleteFile:
            self._table.move(file, Event.DISMISSED)
            return None
        except NotFollowed as refused:
            self._table.move(file, Event.DISMISSED)
            self.refuse(seen.path, refused)
            return None
        except OSError as error:
            if not isinstance(error, scanner.GONE):
                events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        self._table.move(file, Event.OPEN_FAILED)  # also if it was renamed since the scan
        return None

    def _begin_compressed(self, file: TrackedFile, seen: Seen) -> Source | None:
        """A generation that is compressed at `seen`: its content is decompressed and read in its turn."""
        head = self.finder.head_of(file.name, seen)
        stat = os.stat(seen.path)
        if not head or (stat.st_dev, stat.st_ino) != seen.key:
            self._table.move(file, Event.DISMISSED)
            return None
        mark, real = Mark.of(0, head, b""), resolved_path(file.name, seen.path)
        source = replace(new_source(file.name, stat, origin=0, mark=mark, real=real), size=len(head))
        self.finder.claims[seen.version] = source.id
        self._table.identify(file, source)
        return source

    def _skip_if_old(self, seen: Seen, name: str) -> None:
        """Let an old file begin at its end. Under a name that was shipped before it has what is missing there."""
        following = self._table.following
        is_known = seen.key in self._begin_at or name in self._acks.changed_before or name in following.spools
        if not is_known and following.ignores(seen.mtime_ns, self._table.wall()):
            self._begin_at[seen.key] = seen.size
            events.file_ignored(path=seen.path, octets=seen.size)

    def retry_unopened(self) -> list[Source]:
        """Begin with what could not be opened before, wherever it is now. What is gone by now is lost."""
        begun = []
        for file in self._table.in_state(FileState.UNOPENED):
            seen, name = file.seen, file.name
            if seen is None:
                continue
            try:
                found = self.files.get(seen.key)
                path = found.path if found else self._acks.targets.find(name, seen.key, self.listing)
            except OSError:
                path = seen.path
            if path is not None:
                begun.append(self.begin(seen._replace(path=path), name))
                continue
            self._table.move(file, Event.DISMISSED)
            if lost := seen.size - self._begin_at.pop(seen.key, 0):
                events.bytes_lost(file=name, lost=lost, reason=End.DELETED.value)
        return [source for source in begun if source is not None]

    def follow_all(self, begun: list[Source]) -> None:
        """Read new generations once they are durable. Where they cannot be made so, forget them until the next scan."""
        is_durable = self._acks.add_durably(begun)
        for source in begun:
            file = self._table.get(source.id)
            if file is None:
                continue
            if not is_durable:
                if file.reader is None:
                    self.finder.claims.pop((*source.key, source.mtime_ns), None)
                self._table.move(file, Event.DISMISSED)
                continue
            self._begin_at.pop(source.key, None)
            if file.reader is not None:
                self._follow(file, file.reader, source, Event.SAVED)
            else:
                self._table.mark_lost(file, source, End.ROTATED)  # its content is in a compressed file

    # -- a known one --------------------------------------------------------------------------------------------

    def resume(self, source: Source, *, or_lose: bool = True) -> bool:
        """Go on with a known source if its file is still the same. Else it is lost, unless `or_lose` is false.

        False: the file is another one, or gone. True also where that is unknown: the next scan tries again.
        """
        file, path = self._table.add_known(source), None
        try:
            path = self._path_of(source)
            descriptor = self.open(source.file, path, source.key) if path else None
            if path and descriptor is None:  # renamed since it was found
                return self._postpone(file, source)
            with close_on_exit(descriptor) as closing:
                if path and descriptor is not None and self._is_still(descriptor, path, source):
                    if path == source.file and not source.real:  # older versions: unknown
                        source = replace(source, real=resolved_path(source.file, path))
                    self.resume_open(source, descriptor, path)
                    closing.pop_all()
                    return True
        except ExcludedName as refused:
            self.refuse(source.file, refused)
            if file.state is FileState.WAITING:
                self._table.move(file, Event.DISMISSED)
            return True  # it goes on once it is not excluded any more
        except NotFollowed as refused:
            self.refuse(source.file, refused)
            return self._postpone(file, source)
        except OSError as error:
            if not isinstance(error, scanner.GONE):
                events.file_unreadable(path=source.file, error=error.strerror or str(error))
            return self._postpone(file, source)
        if or_lose:
            self._table.lose_source(source, End.TRUNCATED if path == source.file else End.DELETED)
        return False

    def _is_still(self, descriptor: int, path: str, source: Source) -> bool:
        """Whether an open file is the source's. Raises ExcludedName: it may not be read."""
        self._check_names(os.fstat(descriptor), path)
        return _is_same(descriptor, path, source) and not self._may_be_compressed(source)

    def open(self, name: str, path: str, key: Key) -> int | None:
        """A descriptor of the file `key` at `path`, which is read as `name`. None: another file is there, or none.

        Every file whose bytes are shipped is opened here or by `ContentFinder` or its reader. Raises NotFollowed.
        """
        return self._table.following.links.open_as(self._name_of(name, path, key), path, key)

    def _name_of(self, name: str, path: str, key: Key) -> str:
        """The name as which `path` is opened: itself, if the configuration names it. Else links led there from `name`.

        Older versions followed every link, and a rotation renames the file that a link led to.
        """
        seen = self.files.get(key)
        return path if seen is not None and seen.path == path else name

    def _check_names(self, stat: os.stat_result, path: str) -> None:
        """A file that is excluded under another name is not read under this one either. Raises ExcludedName."""
        watched = self._table.following.watched
        if watched.exclude and stat.st_nlink > 1 and path not in watched.own:
            twin = scanner.excluded_twin(path, (stat.st_dev, stat.st_ino), watched, self.listing)
            if twin:
                raise ExcludedName(path, twin)

    def refuse(self, path: str, refused: NotFollowed) -> None:
        """Do not read a name, whatever is there. Logged once."""
        if path not in self._logged:
            self._logged.add(path)
            if isinstance(refused, ExcludedName):
                events.name_excluded(path=path, reason=refused.reason)
            else:
                events.link_not_followed(path=path, reason=refused.reason)
        self.refused[path] = refused

    @property
    def links_not_followed(self) -> list[str]:
        """The names that are not read because a hostile user can have made the link there."""
        return [path for path, why in self.refused.items() if not isinstance(why, ExcludedName)]

    def _may_be_compressed(self, source: Source) -> bool:
        """Whether the bytes of a file that was empty may be compressed by now, and its inode number be reused."""
        if source.mark.head_length:
            return False
        rotations = [seen for name in source.names for seen in self.listing.rotations(name)]
        return any(decompress.suffix_of(seen.path) and seen.mtime_ns >= source.mtime_ns for seen in rotations)

    def _postpone(self, file: TrackedFile, source: Source) -> bool:
        """Whether a source goes on is unknown: the next scan tries again."""
        self._table.move(file, Event.OPEN_FAILED)
        self._table.set_key(file, source.key if source.inode else None)
        self._table.join_generations(file)
        file.source = source
        return True

    def retry_waiting(self) -> None:
        """Go on with the sources whose files could not be opened before."""
        for file in self._table.in_state(FileState.WAITING):
            if file.source is not None:
                self.resume(file.source)

    def resume_grown(self) -> None:
        """Go on with the files that ended less than an hour ago and got late lines, unless a scan finds them anyhow."""
        for file in self._table.in_state(FileState.LINGERING):
            source = self._acks.known.get(file.id)
            if source is None or file.key is None:
                self._table.move(file, Event.DISMISSED)
                continue
            is_over = file.key in self.files or self._table.wall() - source.ended_at >= LATE_SECONDS
            path = None if is_over else _path_now(file.path, file.key)
            if path is None:
                self._table.move(file, Event.EXPIRED)
                continue
            file.path = path
            if not self._has_late_lines(source, path, file.key):
                continue
            if self.resume(source.named_again(), or_lose=False):
                events.late_lines(file=source.file, source=source.id)
            if file.state is FileState.LINGERING:
                self._table.move(file, Event.EXPIRED)

    def _has_late_lines(self, source: Source, path: str, key: Key) -> bool:
        """Whether a file that ended has content after its last block."""
        size = scanner.size_at(path, key)
        if size <= source.offset:
            return False
        try:
            descriptor = self.open(source.file, path, key)
            with close_on_exit(descriptor):
                return descriptor is not None and content_end(descriptor, source.offset, size) > source.offset
        except OSError:
            return True  # resuming it meets the same error and logs it

    def _path_of(self, source: Source) -> str | None:
        """Where a source's file is now: under a watched name, in place, renamed, or kept open."""
        for name in source.names:  # first: another name may be a link that a hostile user made to it
            seen = scanner.scan_file(name)
            if seen is not None and seen.key == source.key:
                return name
        if source.key in self.files:
            return self.files[source.key].path
        renamed = self._acks.targets.find(source.file, source.key, self.listing)
        return renamed or self._table.retained.path(source)

    def may_exist(self, source: Source) -> bool:
        """Whether the bytes of a source may still be read: from its file, a copy, or a compressed rotation."""
        if self._table.retained.path(source):
            return True
        try:
            return bool(source.inode and self._path_of(source)) or self.finder.has_candidates(source)
        except OSError:
            return True  # unknown is not gone

    def is_on_disk(self, source: Source) -> bool:
        """Whether the file of a source has a name by which any process finds it. Its inode may be another's by now."""
        try:
            path = self._path_of(source) if source.inode else None
            if path is None or path == self._table.retained.path(source):
                return False
            descriptor = self.open(source.file, path, source.key)
            with close_on_exit(descriptor):
                return descriptor is not None and _is_same(descriptor, path, source)
        except OSError:
            return False  # unknown is no promise

    def reader(self, source: Source, descriptor: int, path: str) -> FileReader:
        """Read an open file of a source. With `--once` to the end that it has now."""
        reader = FileReader(source, descriptor, path, self._name_of(source.file, path, source.key))
        if self._table.following.once and source.file not in self._table.following.spools:
            reader.limit = reader.size
        return reader

    def resume_open(self, source: Source, descriptor: int, path: str) -> None:
        """Continue a source in its file, which is open already."""
        file, reader = self._table.add_known(source), self.reader(source, descriptor, path)
        self._table.open_file(file, reader)
        self._follow(file, reader, source, Event.RESUMED)

    def follow_late(self, source: Source, descriptor: int, path: str) -> None:
        """Read what a program still writes to a file that was replaced. The checkpoint has `source` already."""
        file = self._table.add_known(source)
        self._table.open_file(file, self.reader(source, descriptor, path))
        self._table.move(file, Event.RESUMED)
        self._table.leave(file)

    def _follow(self, file: TrackedFile, reader: FileReader, source: Source, event: Event) -> None:
        self._acks.add(source)
        self._acks.note_scan(reader.id, reader.size, reader.mtime_ns, reader.start)
        self._table.take_inode(file)
        self._table.move(file, event)
        events.file_followed(path=reader.path, source=source.id, offset=source.offset)
        if reader.key not in self.files:  # renamed since the last scan
            self._table.leave(file)


def _is_same(descriptor: int, path: str, source: Source) -> bool:
    """Whether an open file is the source's. One that had no byte yet is known by its inode and its name only."""
    renamed = any(scanner.is_sibling(path, name) for name in source.names) and not decompress.suffix_of(path)  # another
    named = source.mark.head_length > 0 or path in source.names or renamed
    return named and source.mark.agrees(descriptor)


def _path_now(path: str, key: Key) -> str | None:
    """Where a file is that was at `path`. None: not in that directory. Unknown counts as unchanged."""
    try:
        return path if scanner.is_at(path, key) else scanner.Listing().find_renamed([path], key)
    except OSError:
        return path
