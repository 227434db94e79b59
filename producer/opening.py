"""Which file belongs to which source: begin a new generation, or go on with a known one, or find that unknown."""

import os
from collections.abc import Mapping

from producer import discover
from producer.discover import Seen
from producer.identity import first_mark
from producer.ledger import Ledger
from producer.reading import Following, Reading
from producer.source import Source, new_source
from producer.tail import Tail
from producer.tails import Key, Tails
from shipper import events
from shipper.model import End


class Opening:
    """Opens files for sources. Owned by `Sources`, which says what the last look found."""

    def __init__(self, following: Following, tails: Tails, reading: Reading, ledger: Ledger) -> None:
        self._once = following.once
        self._tails = tails
        self._reading = reading
        self._ledger = ledger
        self._files: Mapping[Key, Seen] = {}
        self._begin_at: dict[Key, int] = {}
        self._resting: dict[Key, Source] = {}  # ended, perhaps still on disk
        self._waiting: list[Source] = []  # could not be opened: unknown, not gone
        self._unopened: dict[Key, tuple[Seen, str]] = {}  # the same, of files that are no source yet

    def found(self, files: Mapping[Key, Seen]) -> None:
        """What a look found."""
        self._files = files

    def begin_at_end(self) -> None:
        """The files that were found just now begin behind what they hold, also those that cannot be opened yet."""
        self._begin_at = {seen.key: seen.size for seen in self._files.values()}

    def rest(self, source: Source) -> None:
        """A source ended; its file may show up again."""
        if source.inode:
            self._resting[source.key] = source

    def resting(self, key: Key) -> Source | None:
        """The ended source whose file this was."""
        return self._resting.get(key)

    def forget(self, source: Source) -> None:
        """A source ended so long ago that its file is a new one should it show up."""
        if self._resting.get(source.key) is source:
            del self._resting[source.key]

    def is_known(self, key: Key) -> bool:
        """Whether a file is read, was read, or could not be opened."""
        return self._tails.at(key) is not None or key in self._resting or self.is_put_off(key)

    def is_put_off(self, key: Key) -> bool:
        """Whether a file could not be opened; every look tries again."""
        return key in self._unopened or any(source.key == key for source in self._waiting)

    @property
    def unopened(self) -> list[str]:
        """The files that could not be opened."""
        return [*(source.file for source in self._waiting), *(seen.path for seen, _ in self._unopened.values())]

    # -- a new generation ---------------------------------------------------------------------------------------

    def begin(self, seen: Seen, file: str) -> Source | None:
        """A new generation under the archive name `file`, its tail ready; None: the next look tries again."""
        descriptor = -1
        try:
            descriptor = os.open(seen.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            stat = os.fstat(descriptor)
            if _key(descriptor) == seen.key:
                origin = min(self._begin_at.get(seen.key, 0), stat.st_size)
                source = new_source(file, stat, origin=origin, mark=first_mark(descriptor, origin))
                self._put(Tail(source, descriptor, seen.path))
                return source
        except OSError as error:
            if not discover.is_gone(error):
                events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        _close(descriptor)
        self._unopened[seen.key] = (seen, file)  # also if it was renamed since the look: it lies somewhere
        return None

    def retry_unopened(self) -> list[Source]:
        """Begin with what could not be opened before, wherever it lies now; what is gone by now is lost."""
        unopened, self._unopened = self._unopened, {}
        begun = []
        for key, (seen, file) in unopened.items():
            try:
                path = self._files[key].path if key in self._files else discover.find_inode(os.path.dirname(file), key)
            except OSError:
                path = seen.path
            if path is not None:
                begun.append(self.begin(seen._replace(path=path), file))
            elif seen.size:
                events.bytes_lost(file=file, lost=seen.size, reason=End.DELETED.value)
        return [source for source in begun if source is not None]

    def follow_all(self, begun: list[Source]) -> None:
        """Read new generations once they are durable; where they cannot be made so, forget them until the next look."""
        if self._ledger.begin(begun):
            for source in begun:
                self._begin_at.pop(source.key, None)
                self._follow(source, self._tail(source))
        else:
            for source in begun:
                self._tails.remove(self._tail(source))

    def _tail(self, source: Source) -> Tail:
        tail = self._tails.of(source.id)
        assert tail is not None, "begin() made it"  # noqa: S101 - for the type checker
        return tail

    # -- a known one --------------------------------------------------------------------------------------------

    def resume(self, source: Source, *, farewell: bool = True) -> bool:
        """Go on with a known source if its file is still the same; else say `farewell`.

        False: the file is another one, or gone. True also where that is unknown: it is asked again at the next look.
        """
        descriptor, path = -1, None
        try:
            path = self._path_of(source)
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK) if path else -1
            if path and _key(descriptor) != source.key:  # renamed since it was found: it lies somewhere else now
                return self._put_off(source, descriptor)
            if path and _is_same(descriptor, path, source):
                tail = Tail(source, descriptor, path)
                self._put(tail)
                self._follow(source, tail)
                return True
        except OSError as error:
            if not discover.is_gone(error):
                events.file_unreadable(path=source.file, error=error.strerror or str(error))
            return self._put_off(source, descriptor)
        _close(descriptor)
        if farewell:
            self._lose(source, End.TRUNCATED if path == source.file else End.DELETED)
        return False

    def _put_off(self, source: Source, descriptor: int) -> bool:
        """Whether a source goes on is unknown: the next look asks again."""
        _close(descriptor)
        self._waiting.append(source)
        return True

    def _lose(self, source: Source, why: End) -> None:
        if why is End.TRUNCATED:
            self._tails.truncated.add(source.key)
        self._reading.lost(source, why)

    def retry_waiting(self) -> None:
        """Go on with the sources whose files could not be opened before."""
        waiting, self._waiting = self._waiting, []
        for source in waiting:
            self.resume(source)

    def _path_of(self, source: Source) -> str | None:
        """Where a source's file lies now: under a name that is watched, in place, or renamed beside it."""
        if source.key in self._files:
            return self._files[source.key].path
        try:
            stat = os.stat(source.file)
        except discover.GONE:
            stat = None
        if stat is not None and (stat.st_dev, stat.st_ino) == source.key:
            return source.file
        return discover.find_inode(os.path.dirname(source.file), source.key)

    def _put(self, tail: Tail) -> None:
        if self._once:
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
    named = source.mark.head_length > 0 or path == source.file or discover.is_sibling(path, source.file)
    return named and source.mark.agrees(descriptor)


def _key(descriptor: int) -> Key:
    stat = os.fstat(descriptor)
    return stat.st_dev, stat.st_ino


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
