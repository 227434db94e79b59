"""One record for each tracked file, and the table of them: by source, by inode, by name and by state.

The generations of a name are the files that had it, one after the other. An older one is read to its end before a
younger one, so the archive has them in the order in which they were written.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from producer.discovery.safe_open import Links
from producer.discovery.scanner import Key, Seen
from producer.model import Source
from producer.tailer.descriptor_cache import DescriptorCache
from producer.tailer.file_reader import FileReader, content_matches
from producer.tailer.file_state import ENDED_STATES, TRANSITIONS, Event, FileState
from producer.tailer.retained_files import RetainedFiles
from shipper.model import End


@dataclass(eq=False, slots=True, kw_only=True)
class TrackedFile:
    """Everything that the tailer knows of one file; how far it is acknowledged is in the checkpoint's `AckTracker`."""

    id: str  #: of the source; of a file that never was opened: device and inode
    name: str  #: in the archive
    state: FileState
    key: Key | None = None  #: device and inode of its file; None: unknown, or another file has them
    generation: int = 0  #: its order among the files of the same name; 0: it has none
    reader: FileReader | None = None  #: while its file is open, or may be opened again at any time
    is_named: bool = True  #: some name that is watched leads to its file
    left_at: float | None = None  #: monotonic time of the last news since it left its first name
    sent: int = -1  #: what was read of it goes up to this offset; -1: nothing was
    failing_since: float | None = None  #: monotonic; since when it cannot be read, or its content not be searched
    passed_over: bool = False  #: that is so long ago that younger generations do not wait any more
    searched: bool = False  #: LOST: since the last scan
    source: Source | None = None  #: WAITING: as it is to be resumed; LOST: as far as it was read
    end: End | None = None  #: LOST: how its file was lost
    seen: Seen | None = None  #: UNOPENED: as the last scan found it
    path: str = ""  #: LINGERING: where its file was last

    @property
    def is_reading(self) -> bool:
        """Whether it has a file whose end was not read yet."""
        return self.reader is not None and self.state is not FileState.ENDING

    @property
    def blocks_younger(self) -> bool:
        """Whether younger generations of its name must wait for it.

        A line that its writer has yet to end does not count once the file has its own name again.
        """
        if self.passed_over:
            return False
        if self.state is FileState.HOLDING_LINE:
            return self.left_at is not None
        return self.state in BLOCKING_STATES


BLOCKING_STATES = frozenset({FileState.NEW, FileState.ACTIVE, FileState.UNREADABLE, FileState.LOST})
_WITHOUT_GENERATION = ENDED_STATES | {FileState.FORGOTTEN}


class FileTable:
    """Every file that is tracked on this host. Owned by `Tailer`; the only one that changes a file's state."""

    def __init__(self, descriptors: DescriptorCache, retained: RetainedFiles) -> None:
        self._descriptors = descriptors
        self.retained = retained
        self._by_id: dict[str, TrackedFile] = {}
        self._by_key: dict[Key, list[TrackedFile]] = {}
        self._by_name: dict[str, list[TrackedFile]] = {}  # generations, the oldest first
        self._by_state: dict[FileState, dict[str, TrackedFile]] = {state: {} for state in FileState}
        self._next_generation = itertools.count(1)
        self.truncated: set[Key] = set()  #: inodes that began anew in place

    # -- lookup ---------------------------------------------------------------------------------------------------

    def readers(self) -> list[FileReader]:
        """The files that are open, also those whose last block is not acknowledged yet."""
        return [file.reader for file in list(self._by_id.values()) if file.reader is not None]

    def open_files(self) -> list[TrackedFile]:
        """Those that have a reader."""
        return [file for file in list(self._by_id.values()) if file.reader is not None]

    def get(self, source: str) -> TrackedFile | None:
        """The file of a source."""
        return self._by_id.get(source)

    def reader(self, source: str) -> FileReader | None:
        """The open file of a source."""
        file = self._by_id.get(source)
        return None if file is None else file.reader

    def at(self, key: Key) -> TrackedFile | None:
        """The open file with this device and inode, also while its last block is not acknowledged yet."""
        return next((file for file in reversed(self._by_key.get(key, ())) if file.reader is not None), None)

    def ended_at(self, key: Key) -> TrackedFile | None:
        """The file that ended, or is excluded, and had this device and inode last."""
        return next((file for file in reversed(self._by_key.get(key, ())) if file.state in ENDED_STATES), None)

    def waits_for_open(self, key: Key) -> bool:
        """Whether a file could not be opened; every scan tries again."""
        not_open = (FileState.UNOPENED, FileState.WAITING)
        return any(file.state in not_open for file in self._by_key.get(key, ()))

    def is_tracked(self, seen: Seen, known: Mapping[str, Source], links: Links) -> bool:
        """Whether a file is read, was read, or could not be opened.

        The inode number of a file that is not open, or that ended, may be another file's by now.
        """
        file, ended = self.at(seen.key), self.ended_at(seen.key)
        if self.waits_for_open(seen.key):
            return True
        mark = None
        if file is not None and file.reader is not None:
            if file.reader.fd >= 0 or file.reader.path == seen.path:
                return True
            mark = file.reader.mark
        elif ended is not None and ended.id in known:
            mark = known[ended.id].mark
        try:
            return mark is not None and content_matches(seen, mark, links)
        except OSError:
            return True

    def in_state(self, state: FileState) -> list[TrackedFile]:
        """The files in a state, in the order in which they came to it."""
        return list(self._by_state[state].values())

    def generations(self, name: str) -> list[TrackedFile]:
        """The generations of a name that did not end yet, the oldest first."""
        return list(self._by_name.get(name, ()))

    def older(self, file: TrackedFile) -> Iterator[TrackedFile]:
        """The generations before a file."""
        return itertools.takewhile(lambda other: other is not file, self.generations(file.name))

    # -- change ---------------------------------------------------------------------------------------------------

    def move(self, file: TrackedFile, event: Event) -> None:
        """The only way to change a state. Raises RuntimeError: `TRANSITIONS` does not have it."""
        before = file.state
        after = TRANSITIONS.get((before, event))
        if after is None:
            raise RuntimeError(f"{file.name}: a file that is {before.value} cannot have: {event.value}")
        if after is before:
            return
        del self._by_state[before][file.id]
        file.state = after
        if after in _WITHOUT_GENERATION:
            self.close_file(file)
            self._leave_generations(file)
        if after is FileState.FORGOTTEN:
            self.set_key(file, None)
            del self._by_id[file.id]
        else:
            self._by_state[after][file.id] = file

    def add_new(self, seen: Seen, name: str) -> TrackedFile:
        """Track a file that is new: UNOPENED."""
        id_ = f"{seen.device}:{seen.inode}"
        file = self._by_id.get(id_) or self._add(TrackedFile(id=id_, name=name, state=FileState.UNOPENED))
        file.seen, file.name = seen, name
        self.set_key(file, seen.key)
        return file

    def add_known(self, source: Source) -> TrackedFile:
        """Track a source of the checkpoint: WAITING, if it is not tracked already."""
        file = self._by_id.get(source.id)
        if file is None:
            file = self._add(TrackedFile(id=source.id, name=source.file, state=FileState.WAITING))
            self.set_key(file, source.key if source.inode else None)
        return file

    def identify(self, file: TrackedFile, source: Source) -> None:
        """A new file is opened, or found compressed: it has a source now."""
        del self._by_id[file.id], self._by_state[file.state][file.id]
        file.id, file.seen = source.id, None
        self._add(file)
        self.move(file, Event.OPENED)
        self.join_generations(file)

    def open_file(self, file: TrackedFile, reader: FileReader) -> None:
        """A file is open: it is the youngest of its name, unless it has a generation there."""
        self.close_file(file)
        reader.use(self._descriptors)
        file.reader, file.is_named, file.left_at = reader, reader.ends_as is None, None
        file.failing_since, file.passed_over, file.searched, file.source, file.end = None, False, False, None, None
        self.set_key(file, reader.key)
        self.join_generations(file)

    def close_file(self, file: TrackedFile) -> None:
        """Close the file, if it is open."""
        if file.reader is not None:
            file.reader.close()
            file.reader = None

    def join_generations(self, file: TrackedFile) -> None:
        """Make a file the youngest of its name, unless it has a generation there."""
        if not file.generation:
            file.generation = next(self._next_generation)
            self._by_name.setdefault(file.name, []).append(file)  # the numbers only rise: it stays sorted

    def renew_generation(self, file: TrackedFile) -> None:
        """Make a file the youngest of its name."""
        self._leave_generations(file)
        self.join_generations(file)

    def requeue(self, file: TrackedFile) -> None:
        """Put a file that still may have unread bytes at the end of the read queue."""
        queue = self._by_state[FileState.ACTIVE]
        if queue.pop(file.id, None):
            queue[file.id] = file

    def free_inode(self, file: TrackedFile) -> None:
        """The inode of a file content_matches a new generation: it was truncated in place."""
        if file.key is not None:
            self.truncated.add(file.key)
        self.set_key(file, None)

    def set_key(self, file: TrackedFile, key: Key | None) -> None:
        """Device and inode of a file are these now."""
        if file.key == key:
            return
        if file.key is not None:
            others = self._by_key[file.key]
            others.remove(file)
            if not others:
                del self._by_key[file.key]
        file.key = key
        if key is not None:
            self._by_key.setdefault(key, []).append(file)

    def take_inode(self, file: TrackedFile) -> None:
        """No file that ended before has the inode of this one any more."""
        for other in list(self._by_key.get(file.key, ())) if file.key else ():
            if other is file or other.state not in ENDED_STATES:
                continue
            if other.state is FileState.EXCLUDED:
                self.set_key(other, None)
            else:
                self.move(other, Event.DISMISSED)

    def close(self) -> None:
        """Close every file."""
        for reader in self.readers():
            reader.close()

    def _add(self, file: TrackedFile) -> TrackedFile:
        self._by_id[file.id] = file
        self._by_state[file.state][file.id] = file
        return file

    def _leave_generations(self, file: TrackedFile) -> None:
        if file.generation:
            file.generation = 0
            generations = self._by_name[file.name]
            generations.remove(file)
            if not generations:
                del self._by_name[file.name]
