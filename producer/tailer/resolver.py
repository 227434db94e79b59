"""Device numbers may change with a reboot or a mount; the file is the same if its inode number and its content are.

Which file belongs to which source: begin a new generation, or go on with a known one, or find that unknown.

Late lines: a renamed file that was let go may still be open in a program that writes to it.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from producer.checkpoint.ack_tracker import Ledger
from producer.discovery import scanner
from producer.discovery.safe_open import OWN_DESCRIPTORS, ExcludedName, Links, NotFollowed
from producer.discovery.scanner import Seen
from producer.discovery.symlinks import real_of
from producer.fingerprint import Mark, first_mark
from producer.model import Source, new_source
from producer.tailer import decompress
from producer.tailer.cleanup import GONE, Fate, Finished, delete
from producer.tailer.decompress import Unfinished
from producer.tailer.file_reader import Tail, holds
from producer.tailer.file_table import Key, Tails
from producer.tailer.lost_file import Rests
from producer.tailer.read_scheduler import Following, Reading
from shipper import events
from shipper.model import End


def at_their_devices(sources: Iterable[Source], files: Iterable[Seen], links: Links) -> list[Source]:
    """`sources` with the device numbers that their files have now. `files`: what a look found."""
    by_inode: dict[int, list[Seen]] = {}
    for seen in files:
        by_inode.setdefault(seen.inode, []).append(seen)
    return [_at_its_device(source, by_inode.get(source.inode, []), links) for source in sources]


def lies_at_its_name(source: Source, newest: Mapping[tuple[int, int], str], links: Links) -> bool:
    """Whether a source lives under the name under which it was first seen; True also where that is unknown.

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
        beside = [seen for name in source.names for seen in (scanner.seen_at(name), *scanner.rotations(name))]
        for seen in (*files, *beside):
            if seen is not None and seen.inode == source.inode and holds(seen, source.mark, links):
                events.device_changed(file=source.file, source=source.id)
                return replace(source, device=seen.device)
    except OSError as error:
        if not scanner.is_gone(error):
            events.file_unreadable(path=source.file, error=error.strerror or str(error))
    return source


def _has_moved(source: Source, files: list[Seen]) -> bool:
    known = bool(source.inode and source.mark.head_length)
    return known and not any(seen.key == source.key for seen in files) and _device_beside(source) != source.device


def _device_beside(source: Source) -> int:
    return os.stat(os.path.dirname(source.names[-1])).st_dev


class Opening:
    """Opens files for sources. Owned by `Sources`, which says what the last look found."""

    def __init__(
        self,
        following: Following,
        tails: Tails,
        reading: Reading,
        ledger: Ledger,
        rests: Rests,
        wall: Callable[[], float],
    ) -> None:
        self._rests = rests
        self._following = following
        self._links = following.links
        self._wall = wall
        self._tails = tails
        self._reading = reading
        self._ledger = ledger
        self._files: Mapping[Key, Seen] = {}
        self.listing = scanner.Listing()  #: of the directories, since the last look
        self._begin_at: dict[Key, int] = {}
        self._resting: dict[Key, Source] = {}  # ended, perhaps still on disk
        self._waiting: list[Source] = []  # could not be opened: unknown, not gone
        self._waiting_keys: set[Key] = set()
        self._refused: dict[str, NotFollowed] = {}  # by name: why it is not read
        self._said: set[str] = set()
        self._unopened: dict[Key, tuple[Seen, str]] = {}  # the same, of files that are no source yet

    def found(self, files: Mapping[Key, Seen]) -> None:
        """What a look found."""
        self._files = files
        self._said.intersection_update(self._refused)
        self._refused = {}
        self.list_again()

    def list_again(self) -> None:
        """What lies beside the files is asked anew."""
        self.listing = scanner.Listing()

    @property
    def files(self) -> Mapping[Key, Seen]:
        """What the last look found."""
        return self._files

    def begin_at_end(self) -> None:
        """The files that were found just now begin behind what they hold, also those that cannot be opened yet."""
        spools = self._following.spools
        self._begin_at = {seen.key: seen.size for seen in self._files.values() if seen.path not in spools}

    def rest(self, source: Source) -> None:
        """A source ended; its file may show up again."""
        if source.inode:
            self._resting[source.key] = source

    def file_rests(self, tail: Tail, why: End) -> bool:
        """Whether the file of a source that ends may show up again."""
        if tail.ends_as is not None:
            return scanner.lies_at(tail.path, self._ledger.known[tail.id].key)
        is_named = tail.offset > 0 or tail.file in self._following.spools
        return why is not End.TRUNCATED and is_named and tail.may_come_back()

    def resting(self, key: Key) -> Source | None:
        """The ended source whose file this was."""
        return self._resting.get(key)

    def forget(self, source: Source) -> None:
        """A source ended so long ago that its file is a new one should it show up."""
        if self._resting.get(source.key) is source:
            del self._resting[source.key]

    def is_known(self, seen: Seen) -> bool:
        """Whether a file is read, was read, or could not be opened.

        The inode number of a file that rests, or of which the source ended, may be another file's by now.
        """
        tail, ended = self._tails.at(seen.key), self._resting.get(seen.key)
        if self.is_put_off(seen.key) or (tail is not None and (tail.held >= 0 or tail.path == seen.path)):
            return True
        mark = tail.mark if tail else ended.mark if ended else None
        try:
            return mark is not None and holds(seen, mark, self._links)
        except OSError:
            return True

    def is_put_off(self, key: Key) -> bool:
        """Whether a file could not be opened; every look tries again."""
        return key in self._unopened or key in self._waiting_keys

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        return [*(source.file for source in self._waiting), *(seen.path for seen, _ in self._unopened.values())]

    # -- a new generation ---------------------------------------------------------------------------------------

    def begin(self, seen: Seen, file: str) -> Source | None:
        """A new generation under the archive name `file`, its tail ready; None: the next look tries again."""
        self._skip_if_old(seen, file)
        descriptor = -1
        try:
            if file != seen.path and decompress.is_compressed(seen.path, self._links):
                return self._begin_packed(seen, file)
            descriptor = self._links.open(seen.path)
            stat = os.fstat(descriptor)
            self._check_names(stat, seen.path)
            if _key(descriptor) == seen.key:
                origin = min(self._begin_at.get(seen.key, 0), stat.st_size)
                mark, real = first_mark(descriptor, origin), real_of(file, seen.path)
                source = new_source(file, stat, origin=origin, mark=mark, real=real)
                self.put(Tail(source, descriptor, seen.path))
                return source
        except Unfinished:
            return None
        except NotFollowed as refused:
            _close(descriptor)
            self.refuse(seen.path, refused)
            return None
        except OSError as error:
            if not scanner.is_gone(error):
                events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        _close(descriptor)
        self._unopened[seen.key] = (seen, file)  # also if it was renamed since the look: it lies somewhere
        return None

    def _begin_packed(self, seen: Seen, file: str) -> Source | None:
        """A generation that lies compressed at `seen`: what it holds is unpacked and read when its turn comes."""
        head = self._rests.begins_with(seen)
        stat = os.stat(seen.path)
        if not head or (stat.st_dev, stat.st_ino) != seen.key:
            return None
        mark, real = Mark.of(0, head, b""), real_of(file, seen.path)
        source = replace(new_source(file, stat, origin=0, mark=mark, real=real), size=len(head))
        self._rests.claims[seen.key] = source.id
        self._tails.place(source.id)
        return source

    def _skip_if_old(self, seen: Seen, file: str) -> None:
        """Let an old file begin at its end; under a name that was shipped before it holds what is missing there."""
        unknown = seen.key not in self._begin_at and self._ledger.changed_before(file) is None
        if unknown and file not in self._following.spools and self._following.ignores(seen.mtime_ns, self._wall()):
            self._begin_at[seen.key] = seen.size
            events.file_ignored(path=seen.path, octets=seen.size)

    def retry_unopened(self) -> list[Source]:
        """Begin with what could not be opened before, wherever it lies now; what is gone by now is lost."""
        unopened, self._unopened = self._unopened, {}
        begun = []
        for key, (seen, file) in unopened.items():
            try:
                path = self._files[key].path if key in self._files else self._beside(file, key)
            except OSError:
                path = seen.path
            if path is not None:
                begun.append(self.begin(seen._replace(path=path), file))
            elif lost := seen.size - self._begin_at.pop(key, 0):
                events.bytes_lost(file=file, lost=lost, reason=End.DELETED.value)
        return [source for source in begun if source is not None]

    def follow_all(self, begun: list[Source]) -> None:
        """Read new generations once they are durable; where they cannot be made so, forget them until the next look."""
        if self._ledger.begin(begun):
            for source in begun:
                self._begin_at.pop(source.key, None)
                tail = self._tails.of(source.id)
                if tail is not None:
                    self._follow(source, tail)
                else:
                    self._reading.lost(source, End.ROTATED)  # lies in a compressed file
        else:
            for source in begun:
                tail = self._tails.of(source.id)
                if tail is not None:
                    self._tails.remove(tail)
                else:
                    self._rests.claims.pop(source.key, None)

    # -- a known one --------------------------------------------------------------------------------------------

    def resume(self, source: Source, *, farewell: bool = True) -> bool:
        """Go on with a known source if its file is still the same; else say `farewell`.

        False: the file is another one, or gone. True also where that is unknown: it is asked again at the next look.
        """
        descriptor, path = -1, None
        try:
            path = self._path_of(source)
            descriptor = self._links.open(path) if path else -1
            if path:
                self._check_way(source, path)
                self._check_names(os.fstat(descriptor), path)
            if path and _key(descriptor) != source.key:  # renamed since it was found: it lies somewhere else now
                return self._put_off(source, descriptor)
            if path and _is_same(descriptor, path, source) and not self._may_be_packed(source):
                if path == source.file:
                    source = replace(source, real=source.real or real_of(source.file, path))  # older versions: unknown
                tail = Tail(source, descriptor, path)
                self.put(tail)
                self._follow(source, tail)
                return True
        except ExcludedName as refused:
            _close(descriptor)
            self.refuse(source.file, refused)
            return True  # it goes on once it is not excluded any more
        except NotFollowed as refused:
            self.refuse(source.file, refused)
            return self._put_off(source, descriptor)
        except OSError as error:
            if not scanner.is_gone(error):
                events.file_unreadable(path=source.file, error=error.strerror or str(error))
            return self._put_off(source, descriptor)
        _close(descriptor)
        if farewell:
            self.lose(source, End.TRUNCATED if path == source.file else End.DELETED)
        return False

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
        if path not in self._said:
            self._said.add(path)
            if isinstance(refused, ExcludedName):
                events.name_excluded(path=path, reason=refused.reason)
            else:
                events.link_not_followed(path=path, reason=refused.reason)
        self._refused[path] = refused

    @property
    def refused(self) -> Mapping[str, NotFollowed]:
        """The names that are not read, and why, as the last look found them."""
        return self._refused

    def _may_be_packed(self, source: Source) -> bool:
        """Whether what came into a file that had no byte yet may lie compressed now, and its inode number be reused."""
        if source.mark.head_length:
            return False
        rotations = [seen for name in source.names for seen in self.listing.rotations(name)]
        return any(decompress.suffix_of(seen.path) and seen.mtime_ns >= source.mtime_ns for seen in rotations)

    def _put_off(self, source: Source, descriptor: int) -> bool:
        """Whether a source goes on is unknown: the next look asks again."""
        _close(descriptor)
        self._tails.place(source.id)
        self._waiting.append(source)
        self._waiting_keys.add(source.key)
        return True

    def lose(self, source: Source, why: End) -> None:
        """The file of a source is gone, or its inode holds something else now."""
        if why is End.TRUNCATED:
            self._tails.truncated.add(source.key)
        self._reading.lost(source, why)

    def retry_waiting(self) -> None:
        """Go on with the sources whose files could not be opened before."""
        waiting, self._waiting, self._waiting_keys = self._waiting, [], set()
        for source in waiting:
            self.resume(source)

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
            self._ledger.ended(source.id, file_rests=False)  # its inode number is free for any other file
        if fate is Fate.LATE:
            source = replace(source, ended_at=0.0)
            tail = Tail(source, descriptor, file.path)
            self.put(tail)
            self._follow(source, tail)
        return fate

    def _path_of(self, source: Source) -> str | None:
        """Where a source's file lies now: under a name that is watched, in place, or renamed beside it."""
        for name in source.names:  # first: another name may be a link that a hostile user made to it
            seen = scanner.seen_at(name)
            if seen is not None and seen.key == source.key:
                return name
        if source.key in self._files:
            return self._files[source.key].path
        beside = self._beside(source.file, source.key)
        if beside is None and self._following.heirs:
            beside = self._following.heirs.path(source.key)
        return beside or self._following.held.path(source.id)

    def may_lie_somewhere(self, source: Source) -> bool:
        """Whether the bytes of a source may still be read: from its file, a copy, or a compressed rotation."""
        if self._following.held.path(source.id):
            return True
        try:
            return bool(source.inode and self._path_of(source)) or self._rests.has_candidates(source)
        except OSError:
            return True  # unknown is not gone

    def lies_on_disk(self, source: Source) -> bool:
        """Whether the file of a source has a name by which any process finds it; its inode may be another's by now."""
        try:
            path = self._path_of(source) if source.inode else None
            if path is None or path == self._following.held.path(source.id):
                return False
            descriptor = self._links.open(path)
            try:
                return _key(descriptor) == source.key and _is_same(descriptor, path, source)
            finally:
                os.close(descriptor)
        except OSError:
            return False  # unknown is no promise

    def _beside(self, file: str, key: Key) -> str | None:
        return self._ledger.targets.find(file, key, self.listing)

    def put(self, tail: Tail) -> None:
        """Keep an open file of a source; with `--once` it is read to the end that it has now."""
        if self._following.once and tail.file not in self._following.spools:
            tail.limit = tail.size
        self._tails.add(tail)

    def _follow(self, source: Source, tail: Tail) -> None:
        self._ledger.learn(source)
        self._ledger.looked(tail)
        self._resting.pop(tail.key, None)
        self._reading.add(tail)
        events.file_followed(path=tail.path, source=source.id, offset=source.offset)
        if tail.key not in self._files:  # renamed while nobody looked
            self._reading.leave(tail)


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


LATE_SECONDS = 3600.0
"""So long after its last block a file is asked whether it grew: one stat a look."""


class Late:
    """Where the files of sources that ended a moment ago lie. Owned by `Sources`."""

    def __init__(self, opening: Opening, known: Mapping[str, Source], wall: Callable[[], float]) -> None:
        self._opening = opening
        self._known = known
        self._wall = wall
        self._ended: dict[Key, tuple[Source, str]] = {}  # with the last path

    def remember(self, source: Source) -> None:
        """A source ended, its file may lie somewhere."""
        if source.inode and self._wall() - source.ended_at < LATE_SECONDS:
            self._ended[source.key] = (source, source.names[-1])

    def go_on(self) -> None:
        """Go on with the sources whose files are longer than what was shipped."""
        for ended in self._grown():
            source = self._known.get(ended.id, ended)
            if source.ended_at and self._opening.resume(source.named_again(), farewell=False):
                events.late_lines(file=source.file, source=source.id)

    def _grown(self) -> list[Source]:
        """Those that grew; what lies under a watched name is looked at anyhow."""
        grown = []
        for key, (source, path) in list(self._ended.items()):
            lies = _lies_at(path, key)
            if key in self._opening.files or lies is None or self._wall() - source.ended_at >= LATE_SECONDS:
                del self._ended[key]
                continue
            self._ended[key] = (source, lies)
            if _size(lies) > source.offset:
                del self._ended[key]
                grown.append(source)
        return grown


def _lies_at(path: str, key: Key) -> str | None:
    """Where a file lies that was seen at `path`; None: nowhere in that directory. Unknown counts as unchanged."""
    try:
        return path if scanner.lies_at(path, key) else scanner.find_inode(os.path.dirname(path), key)
    except OSError:
        return path


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
