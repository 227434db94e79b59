"""Which file belongs to which source: begin a new generation, go on with a known one, or try again at the next scan.

Device numbers may change with a reboot or a mount: a file is the same if its inode number and its content are.
A renamed file that ended may still be open in a program that writes to it: its late lines are read.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from producer.checkpoint.ack_tracker import AckTracker
from producer.discovery import scanner
from producer.discovery.safe_open import OWN_DESCRIPTORS, ExcludedName, Links, NotFollowed
from producer.discovery.scanner import Key, Seen
from producer.discovery.symlinks import real_of
from producer.fingerprint import Mark, first_mark
from producer.model import Source, new_source
from producer.options import Following
from producer.tailer import decompress
from producer.tailer.cleanup import GONE, Fate, Finished, delete
from producer.tailer.decompress import Unfinished
from producer.tailer.file_reader import FileReader, holds
from producer.tailer.file_state import ENDED_STATES, Event, FileState
from producer.tailer.file_table import FileTable, TrackedFile
from producer.tailer.lost_file import ContentFinder
from producer.tailer.read_scheduler import ReadScheduler
from shipper import events
from shipper.model import End

LATE_SECONDS = 3600.0
"""For so long after its last block a file is polled for late lines: one stat a scan."""


def at_their_devices(sources: Iterable[Source], files: Iterable[Seen], links: Links) -> list[Source]:
    """`sources` with the device numbers that their files have now. `files`: what a look found."""
    by_inode: dict[int, list[Seen]] = {}
    for seen in files:
        by_inode.setdefault(seen.inode, []).append(seen)
    return [_at_its_device(source, by_inode.get(source.inode, []), links) for source in sources]


def has_first_name(source: Source, newest: Mapping[tuple[int, int], str], links: Links) -> bool:
    """Whether the file of a source has the name under which it was first seen; True also where that is unknown.

    An inode number may have come back with another file: `newest` says by key which source began last.
    """
    if source.ended_at or newest[source.key] != source.id:
        return False
    try:
        seen = scanner.seen_at(source.file)
        return seen is not None and seen.key == source.key and holds(seen, source.mark, links)
    except OSError:
        return True


def _at_its_device(source: Source, files: list[Seen], links: Links) -> Source:
    """A source that shipped nothing yet, or whose file cannot be found, stays as it is."""
    try:
        if not _has_moved(source, files):
            return source
        rotations = [seen for name in source.names for seen in (scanner.seen_at(name), *scanner.rotations(name))]
        for seen in (*files, *rotations):
            if seen is not None and seen.inode == source.inode and holds(seen, source.mark, links):
                events.device_changed(file=source.file, source=source.id)
                return replace(source, device=seen.device)
    except OSError as error:
        if not scanner.is_gone(error):
            events.file_unreadable(path=source.file, error=error.strerror or str(error))
    return source


def _has_moved(source: Source, files: list[Seen]) -> bool:
    known = bool(source.inode and source.mark.head_length)
    return known and not any(seen.key == source.key for seen in files) and _device_now(source) != source.device


def _device_now(source: Source) -> int:
    return os.stat(os.path.dirname(source.names[-1])).st_dev


class Resolver:
    """Finds and opens the files of sources. Owned by `Tailer`, which passes what the last scan found."""

    def __init__(
        self,
        following: Following,
        table: FileTable,
        scheduler: ReadScheduler,
        acks: AckTracker,
        finder: ContentFinder,
        wall: Callable[[], float],
    ) -> None:
        self._finder = finder
        self._following = following
        self._links = following.links
        self._wall = wall
        self._table = table
        self._scheduler = scheduler
        self._acks = acks
        self._files: Mapping[Key, Seen] = {}
        self.listing = scanner.Listing()  #: of the directories, since the last scan
        self._begin_at: dict[Key, int] = {}  # where files begin that are not tracked yet, if not at their first byte
        self._refused: dict[str, NotFollowed] = {}  # by name: why it is not read
        self._logged: set[str] = set()  # names whose refusal was logged

    def found(self, files: Mapping[Key, Seen]) -> None:
        """What a scan found."""
        self._files = files
        self._logged.intersection_update(self._refused)
        self._refused = {}
        self.list_again()

    def list_again(self) -> None:
        """List the directories of the files anew."""
        self.listing = scanner.Listing()

    @property
    def files(self) -> Mapping[Key, Seen]:
        """What the last scan found."""
        return self._files

    def begin_at_end(self) -> None:
        """The files that were found just now begin behind what they hold, also those that cannot be opened yet."""
        spools = self._following.spools
        self._begin_at = {seen.key: seen.size for seen in self._files.values() if seen.path not in spools}

    def end(self, source: Source) -> None:
        """The last block of a source is acknowledged. Its file may show up again; if it has none, it is forgotten."""
        file = self._table.add_known(source)
        if not source.inode:
            self._table.move(file, Event.DISMISSED)
            return
        self._table.move(file, Event.ACKNOWLEDGED)
        file.path = source.names[-1]
        self._table.set_key(file, source.key)
        self._table.take_inode(file)

    def exclude(self, source: Source) -> None:
        """The configuration does not name the file of a source; it goes on if its file gets a name that is watched."""
        file = self._table.add_known(source)
        self._table.move(file, Event.LEFT_OUT)
        self._table.take_inode(file)

    def may_show_up(self, reader: FileReader, why: End) -> bool:
        """Whether the file of a source that ends may show up again."""
        if reader.ends_as is not None:
            return scanner.lies_at(reader.path, self._acks.known[reader.id].key)
        is_named = reader.offset > 0 or reader.file in self._following.spools
        return why is not End.TRUNCATED and is_named and reader.has_name()

    def forget(self, source: Source) -> None:
        """A source ended so long ago that its file is a new one should it show up."""
        file = self._table.get(source.id)
        if file is not None and file.state in ENDED_STATES:
            self._table.move(file, Event.DISMISSED)

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        waiting, unopened = self._table.in_state(FileState.WAITING), self._table.in_state(FileState.UNOPENED)
        return [*(file.name for file in waiting), *(file.seen.path for file in unopened if file.seen is not None)]

    # -- a new generation ---------------------------------------------------------------------------------------

    def begin(self, seen: Seen, name: str) -> Source | None:
        """A new generation under the archive name `name`, with its reader; None: the next scan tries again."""
        self._skip_if_old(seen, name)
        file = self._table.add_seen(seen, name)
        descriptor = -1
        try:
            if name != seen.path and decompress.is_compressed(seen.path, self._links):
                return self._begin_compressed(file, seen)
            descriptor = self._links.open(seen.path)
            stat = os.fstat(descriptor)
            self._check_names(stat, seen.path)
            if _key(descriptor) == seen.key:
                origin = min(self._begin_at.get(seen.key, 0), stat.st_size)
                mark, real = first_mark(descriptor, origin), real_of(name, seen.path)
                source = new_source(name, stat, origin=origin, mark=mark, real=real)
                reader = self.reader(source, descriptor, seen.path)
                self._table.identify(file, source)
                self._table.open_file(file, reader)
                return source
        except Unfinished:
            self._table.move(file, Event.DISMISSED)
            return None
        except NotFollowed as refused:
            _close(descriptor)
            self._table.move(file, Event.DISMISSED)
            self.refuse(seen.path, refused)
            return None
        except OSError as error:
            if not scanner.is_gone(error):
                events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        _close(descriptor)
        self._table.move(file, Event.OPEN_FAILED)  # also if it was renamed since the scan
        return None

    def _begin_compressed(self, file: TrackedFile, seen: Seen) -> Source | None:
        """A generation that is compressed at `seen`: its content is decompressed and read in its turn."""
        head = self._finder.begins_with(seen)
        stat = os.stat(seen.path)
        if not head or (stat.st_dev, stat.st_ino) != seen.key:
            self._table.move(file, Event.DISMISSED)
            return None
        mark, real = Mark.of(0, head, b""), real_of(file.name, seen.path)
        source = replace(new_source(file.name, stat, origin=0, mark=mark, real=real), size=len(head))
        self._finder.claims[seen.key] = source.id
        self._table.identify(file, source)
        return source

    def _skip_if_old(self, seen: Seen, name: str) -> None:
        """Let an old file begin at its end; under a name that was shipped before it has what is missing there."""
        unknown = seen.key not in self._begin_at and self._acks.changed_before(name) is None
        if unknown and name not in self._following.spools and self._following.ignores(seen.mtime_ns, self._wall()):
            self._begin_at[seen.key] = seen.size
            events.file_ignored(path=seen.path, octets=seen.size)

    def retry_unopened(self) -> list[Source]:
        """Begin with what could not be opened before, wherever it is now; what is gone by now is lost."""
        begun = []
        for file in self._table.in_state(FileState.UNOPENED):
            seen, name = file.seen, file.name
            if seen is None:
                continue
            try:
                path = self._files[seen.key].path if seen.key in self._files else self._renamed(name, seen.key)
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
        """Read new generations once they are durable; where they cannot be made so, forget them until the next scan."""
        is_durable = self._acks.begin(begun)
        for source in begun:
            file = self._table.get(source.id)
            if file is None:
                continue
            if not is_durable:
                if file.reader is None:
                    self._finder.claims.pop(source.key, None)
                self._table.move(file, Event.DISMISSED)
                continue
            self._begin_at.pop(source.key, None)
            if file.reader is not None:
                self._follow(file, file.reader, source, Event.SAVED)
            else:
                self._scheduler.lost(file, source, End.ROTATED)  # its content is in a compressed file

    # -- a known one --------------------------------------------------------------------------------------------

    def resume(self, source: Source, *, or_lose: bool = True) -> bool:
        """Go on with a known source if its file is still the same; else it is lost, unless `or_lose` is false.

        False: the file is another one, or gone. True also where that is unknown: the next scan tries again.
        """
        file = self._table.add_known(source)
        descriptor, path = -1, None
        try:
            path = self._path_of(source)
            descriptor = self._links.open(path) if path else -1
            if path and not self._is_at(descriptor, path, source):  # renamed since it was found
                return self._put_off(file, source, descriptor)
            if path and _is_same(descriptor, path, source) and not self._may_be_compressed(source):
                if path == source.file:
                    source = replace(source, real=source.real or real_of(source.file, path))  # older versions: unknown
                reader = self.reader(source, descriptor, path)
                self._table.open_file(file, reader)
                self._follow(file, reader, source, Event.RESUMED)
                return True
        except ExcludedName as refused:
            _close(descriptor)
            self.refuse(source.file, refused)
            if file.state is FileState.WAITING:
                self._table.move(file, Event.DISMISSED)
            return True  # it goes on once it is not excluded any more
        except NotFollowed as refused:
            self.refuse(source.file, refused)
            return self._put_off(file, source, descriptor)
        except OSError as error:
            if not scanner.is_gone(error):
                events.file_unreadable(path=source.file, error=error.strerror or str(error))
            return self._put_off(file, source, descriptor)
        _close(descriptor)
        if or_lose:
            self.lose(source, End.TRUNCATED if path == source.file else End.DELETED)
        return False

    def _is_at(self, descriptor: int, path: str, source: Source) -> bool:
        """Whether an open file has the inode of a source. Raises NotFollowed: it may not be read."""
        self._check_way(source, path)
        self._check_names(os.fstat(descriptor), path)
        return _key(descriptor) == source.key

    def _check_way(self, source: Source, path: str) -> None:
        """A file to which a link led is read in its own directory only where that link is trusted. Raises NotFollowed.

        Older versions followed every link, and a rotation takes the file away from under it.
        """
        seen = self._files.get(source.key)
        is_watched = seen is not None and seen.path == path
        is_ours = path.startswith(OWN_DESCRIPTORS)
        if source.real and not is_watched and not is_ours and not self._links.belongs(source.file, path):
            raise NotFollowed(f"not followed: {path} of what the link {source.file} led to", source.file)

    def _check_names(self, stat: os.stat_result, path: str) -> None:
        """A file that is excluded under another name is not read under this one either. Raises ExcludedName."""
        watched = self._following.watched
        if watched.exclude and stat.st_nlink > 1 and path not in watched.own:
            twin = scanner.excluded_twin(path, (stat.st_dev, stat.st_ino), watched, self.listing)
            if twin:
                raise ExcludedName(path, twin)

    def refuse(self, path: str, refused: NotFollowed) -> None:
        """A name is not read, whatever is there: said once."""
        if path not in self._logged:
            self._logged.add(path)
            if isinstance(refused, ExcludedName):
                events.name_excluded(path=path, reason=refused.reason)
            else:
                events.link_not_followed(path=path, reason=refused.reason)
        self._refused[path] = refused

    @property
    def refused(self) -> Mapping[str, NotFollowed]:
        """The names that are not read, and why, as the last look found them."""
        return self._refused

    def _may_be_compressed(self, source: Source) -> bool:
        """Whether what came into a file that had no byte yet may lie compressed now, and its inode number be reused."""
        if source.mark.head_length:
            return False
        rotations = [seen for name in source.names for seen in self.listing.rotations(name)]
        return any(decompress.suffix_of(seen.path) and seen.mtime_ns >= source.mtime_ns for seen in rotations)

    def _put_off(self, file: TrackedFile, source: Source, descriptor: int) -> bool:
        """Whether a source goes on is unknown: the next scan tries again."""
        _close(descriptor)
        self._table.move(file, Event.OPEN_FAILED)
        self._table.set_key(file, source.key if source.inode else None)
        self._table.join_generations(file)
        file.source = source
        return True

    def lose(self, source: Source, why: End) -> None:
        """The file of a source is gone, or its inode has something else now."""
        if why is End.TRUNCATED:
            self._table.truncated.add(source.key)
        self._scheduler.lost(self._table.add_known(source), source, why)

    def retry_waiting(self) -> None:
        """Go on with the sources whose files could not be opened before."""
        for file in self._table.in_state(FileState.WAITING):
            if file.source is not None:
                self.resume(file.source)

    def resume_grown(self) -> None:
        """Go on with the files that ended a moment ago and got late lines; no longer than an hour after their end.

        What is under a watched name is scanned anyhow.
        """
        for file in self._table.in_state(FileState.LINGERING):
            source = self._acks.known.get(file.id)
            if source is None or file.key is None:
                self._table.move(file, Event.DISMISSED)
                continue
            is_over = file.key in self._files or self._wall() - source.ended_at >= LATE_SECONDS
            path = None if is_over else _path_now(file.path, file.key)
            if path is None:
                self._table.move(file, Event.EXPIRED)
                continue
            file.path = path
            if _size(path) <= source.offset:
                continue
            if self.resume(source.named_again(), or_lose=False):
                events.late_lines(file=source.file, source=source.id)
            if file.state is FileState.LINGERING:
                self._table.move(file, Event.EXPIRED)

    def delete(self, file: Finished) -> Fate:
        """Delete the file of a source that ended; if it got more bytes just then, go on with it. Raises OSError."""
        source = file.source
        descriptor = self._links.open(file.path)
        fate = Fate.CHANGED
        try:
            fate = delete(file, descriptor)
        finally:
            if fate is not Fate.LATE:
                _close(descriptor)
        if fate in GONE:
            self.forget(source)
            self._acks.ended(source.id, file_rests=False)  # its inode number is free for any other file
        if fate is Fate.LATE:
            source = replace(source, ended_at=0.0)
            late, reader = self._table.add_known(source), self.reader(source, descriptor, file.path)
            self._table.open_file(late, reader)
            self._follow(late, reader, source, Event.RESUMED)
        return fate

    def _path_of(self, source: Source) -> str | None:
        """Where a source's file is now: under a watched name, in place, renamed, or kept open."""
        for name in source.names:  # first: another name may be a link that a hostile user made to it
            seen = scanner.seen_at(name)
            if seen is not None and seen.key == source.key:
                return name
        if source.key in self._files:
            return self._files[source.key].path
        return self._renamed(source.file, source.key) or self._table.retained.path(source)

    def may_exist(self, source: Source) -> bool:
        """Whether the bytes of a source may still be read: from its file, a copy, or a compressed rotation."""
        if self._table.retained.path(source):
            return True
        try:
            return bool(source.inode and self._path_of(source)) or self._finder.has_candidates(source)
        except OSError:
            return True  # unknown is not gone

    def lies_on_disk(self, source: Source) -> bool:
        """Whether the file of a source has a name by which any process finds it; its inode may be another's by now."""
        try:
            path = self._path_of(source) if source.inode else None
            if path is None or path == self._table.retained.path(source):
                return False
            descriptor = self._links.open(path)
            try:
                return _key(descriptor) == source.key and _is_same(descriptor, path, source)
            finally:
                os.close(descriptor)
        except OSError:
            return False  # unknown is no promise

    def _renamed(self, name: str, key: Key) -> str | None:
        """Where a rotation put the file `key` that had a name."""
        return self._acks.targets.find(name, key, self.listing)

    def reader(self, source: Source, descriptor: int, path: str) -> FileReader:
        """Read an open file of a source; with `--once` to the end that it has now."""
        reader = FileReader(source, descriptor, path)
        if self._following.once and source.file not in self._following.spools:
            reader.limit = reader.size
        return reader

    def follow_late(self, source: Source, descriptor: int, path: str) -> None:
        """Read what a program still writes to a file that was replaced. The checkpoint has `source` already."""
        file = self._table.add_known(source)
        self._table.open_file(file, self.reader(source, descriptor, path))
        self._table.move(file, Event.RESUMED)
        self._scheduler.leave(file)

    def _follow(self, file: TrackedFile, reader: FileReader, source: Source, event: Event) -> None:
        self._acks.learn(source)
        self._acks.scanned(reader.id, reader.size, reader.mtime_ns, reader.start)
        self._table.take_inode(file)
        self._table.move(file, event)
        events.file_followed(path=reader.path, source=source.id, offset=source.offset)
        if reader.key not in self._files:  # renamed since the last scan
            self._scheduler.leave(file)


def _is_same(descriptor: int, path: str, source: Source) -> bool:
    """Whether an open file is the source's. One that had no byte yet is known by its inode and its name only."""
    renamed = any(scanner.is_sibling(path, name) for name in source.names) and not decompress.suffix_of(path)  # another
    named = source.mark.head_length > 0 or path in source.names or renamed
    return named and source.mark.agrees(descriptor)


def _key(descriptor: int) -> Key:
    stat = os.fstat(descriptor)
    return stat.st_dev, stat.st_ino


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def _path_now(path: str, key: Key) -> str | None:
    """Where a file is that was at `path`; None: not in that directory. Unknown counts as unchanged."""
    try:
        return path if scanner.lies_at(path, key) else scanner.find_inode(os.path.dirname(path), key)
    except OSError:
        return path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
