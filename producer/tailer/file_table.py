"""One record for each tracked file, the table of them, the states, and the one table of transitions between states.

`docs/development/tailer.md` draws the transitions; a test holds the drawing to them. Only `FileTable` changes a state.

The generations of a name are the files that had it, one after the other. An older one is read to its end before a
younger one, so the archive has them in the order in which they were written.
"""

import enum
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Key, Seen
from producer.inputs.spool import SPOOLS, lost_after
from producer.model import Piece, Source
from producer.options import Following
from producer.tailer.file_reader import DescriptorCache, FileReader, content_matches, last_piece
from producer.tailer.retained_files import RetainedFiles
from shipper import events
from shipper.model import End


class FileState(enum.Enum):
    """What the tailer waits for, or does next, with one file."""

    UNOPENED = "unopened"  #: new, and not opened yet; every scan tries again
    WAITING = "waiting"  #: known from the checkpoint, and not opened yet; every scan tries again
    NEW = "new"  #: the checkpoint does not have it yet; nothing is read before it does
    ACTIVE = "active"  #: in the read queue: it may have unread bytes
    IDLE = "idle"  #: read to its end
    HOLDING_LINE = "holding_line"  #: read to its last line, which has no newline yet
    UNREADABLE = "unreadable"  #: the last read failed; every scan tries again
    LOST = "lost"  #: deleted or rewritten before it was read to its end: its content is searched in other files
    ENDING = "ending"  #: its last block was read and is not acknowledged yet
    LINGERING = "lingering"  #: ended; its file is polled for late lines
    ENDED = "ended"  #: ended; a scan may find its file again
    EXCLUDED = "excluded"  #: the configuration does not name it; it is not read
    FORGOTTEN = "forgotten"  #: not tracked any more


class Event(enum.Enum):
    """What happens to a file."""

    OPEN_FAILED = "open failed"
    OPENED = "opened"
    SAVED = "saved"  #: the checkpoint has it
    RESUMED = "resumed"  #: its file is open again, at the acknowledged offset
    GREW = "grew"  #: a scan found unread bytes, or its last line is due
    END_REACHED = "end reached"
    LINE_INCOMPLETE = "line incomplete"
    READ_FAILED = "read failed"
    FILE_GONE = "file gone"  #: deleted or rewritten
    NOT_FOUND_YET = "not found yet"  #: the search for its content met an error
    CONTENT_FOUND = "content found"  #: in a copy, a compressed rotation or the file that replaced it
    LAST_BLOCK = "last block"
    ACKNOWLEDGED = "acknowledged"  #: its last block
    EXPIRED = "expired"  #: no late lines are expected any more
    LEFT_OUT = "left out"  #: the configuration does not name it
    DISMISSED = "dismissed"  #: nothing of it is to be read, or its file cannot show up again


OPEN_STATES = frozenset({FileState.ACTIVE, FileState.IDLE, FileState.HOLDING_LINE, FileState.UNREADABLE})
"""A file in one of these is read until it ends."""
ENDED_STATES = frozenset({FileState.LINGERING, FileState.ENDED, FileState.EXCLUDED})
"""A file in one of these is not open. If a scan finds it, it goes on."""

S, E = FileState, Event
TRANSITIONS: Mapping[tuple[FileState, Event], FileState] = {
    (S.UNOPENED, E.OPEN_FAILED): S.UNOPENED,
    (S.UNOPENED, E.OPENED): S.NEW,
    (S.UNOPENED, E.DISMISSED): S.FORGOTTEN,
    (S.NEW, E.SAVED): S.ACTIVE,
    (S.NEW, E.FILE_GONE): S.LOST,  # its content is in a compressed file
    (S.NEW, E.DISMISSED): S.FORGOTTEN,  # the checkpoint cannot be written: the next scan finds it again
    (S.WAITING, E.OPEN_FAILED): S.WAITING,
    (S.WAITING, E.RESUMED): S.ACTIVE,
    (S.WAITING, E.FILE_GONE): S.LOST,
    (S.WAITING, E.ACKNOWLEDGED): S.LINGERING,  # before this start
    (S.WAITING, E.LEFT_OUT): S.EXCLUDED,
    (S.WAITING, E.DISMISSED): S.FORGOTTEN,
    (S.ACTIVE, E.END_REACHED): S.IDLE,
    (S.ACTIVE, E.LINE_INCOMPLETE): S.HOLDING_LINE,
    (S.ACTIVE, E.READ_FAILED): S.UNREADABLE,
    **{(state, E.GREW): S.ACTIVE for state in OPEN_STATES},
    **{(state, E.FILE_GONE): S.LOST for state in OPEN_STATES},
    **{(state, E.CONTENT_FOUND): S.ACTIVE for state in OPEN_STATES},  # another file replaced it
    **{(state, E.LAST_BLOCK): S.ENDING for state in OPEN_STATES},
    **{(state, E.DISMISSED): S.FORGOTTEN for state in OPEN_STATES},
    (S.LOST, E.NOT_FOUND_YET): S.LOST,
    (S.LOST, E.CONTENT_FOUND): S.ACTIVE,
    (S.LOST, E.LAST_BLOCK): S.ENDING,  # what is missing is a gap
    (S.ENDING, E.GREW): S.ACTIVE,
    (S.ENDING, E.ACKNOWLEDGED): S.LINGERING,
    (S.ENDING, E.DISMISSED): S.FORGOTTEN,
    (S.LINGERING, E.EXPIRED): S.ENDED,
    (S.EXCLUDED, E.FILE_GONE): S.LOST,  # named again, and its content is in another file
    **{(state, E.RESUMED): S.ACTIVE for state in ENDED_STATES},
    **{(state, E.OPEN_FAILED): S.WAITING for state in ENDED_STATES},
    **{(state, E.DISMISSED): S.FORGOTTEN for state in ENDED_STATES},
}
"""The state after an event. A pair that is not here cannot happen, and `FileTable.move` raises."""


@dataclass(eq=False, slots=True, kw_only=True)
class TrackedFile:
    """Everything that the tailer knows of one file. How far it is acknowledged is in `FileTable.acks`."""

    id: str  #: of the source; of a file that never was opened: device and inode
    name: str  #: in the archive
    state: FileState
    key: Key | None = None  #: device and inode of its file; None: unknown, or another file has them
    generation: int = 0  #: its order among the files of the same name; 0: it has none
    reader: FileReader | None = None  #: while its file is open, or may be opened again at any time
    is_named: bool = True  #: some name that is watched leads to its file
    left_at: float | None = None  #: monotonic time of the last news since it left its first name
    line_size: int = -1  #: HOLDING_LINE: of the file when its last line grew
    line_since: float = 0.0  #: HOLDING_LINE: monotonic time when its last line grew
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
    """Every file that is tracked on this host, its state, and how far it is acknowledged. Owned by `Tailer`."""

    def __init__(
        self,
        following: Following,
        checkpoints: Checkpoints,
        retained: RetainedFiles,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.following = following  #: which files are tracked, and how
        self.acks = AckTracker(checkpoints, wall, following.may_hold)  #: how far each source is acknowledged
        self.retained = retained  #: files that stay open although they are not read
        self._spools = os.path.join(checkpoints.directory, SPOOLS, "")
        self.clock = clock  #: monotonic; of the times in the records
        self.wall = wall  #: seconds since 1970
        self._last_blocks: list[Piece] = []  #: of files that ended, to be shipped
        self._descriptors = DescriptorCache(following.open_files, retained, following.links)
        self._by_id: dict[str, TrackedFile] = {}
        self._by_key: dict[Key, list[TrackedFile]] = {}
        self._by_name: dict[str, list[TrackedFile]] = {}  # generations, the oldest first
        self._by_state: dict[FileState, dict[str, TrackedFile]] = {state: {} for state in FileState}
        self._next_generation = itertools.count(1)
        self.unfinished: dict[str, bytes] = {}  #: by name: the line that its last generation did not end
        self.truncated: set[Key] = set()  #: inodes that began anew in place
        self.witnessed: set[str] = set()  #: sources that were truncated while this process followed them

    # -- lookup ---------------------------------------------------------------------------------------------------

    def open_files(self) -> list[tuple[TrackedFile, FileReader]]:
        """The files that are open, also those whose last block is not acknowledged yet."""
        return [(file, file.reader) for file in list(self._by_id.values()) if file.reader is not None]

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

    def is_spooled(self, path: str) -> bool:
        """Whether a file is of a spool. Many senders send the same: its name counts, never its content."""
        return path in self.following.spools or path.startswith(self._spools)

    def waits_for_open(self, key: Key) -> bool:
        """Whether a file could not be opened. Every scan tries again."""
        not_open = (FileState.UNOPENED, FileState.WAITING)
        return any(file.state in not_open for file in self._by_key.get(key, ()))

    def is_tracked(self, seen: Seen) -> bool:
        """Whether a file is read, was read, or could not be opened.

        The inode number of a file that is not open, or that ended, may be another file's by now.
        """
        file, ended = self.at(seen.key), self.ended_at(seen.key)
        if self.waits_for_open(seen.key):
            return True
        if file is not None and file.reader is not None:
            if file.reader.fd >= 0 or file.reader.path == seen.path:
                return True
            mark = file.reader.mark
        elif ended is not None and ended.id in self.acks.known:
            mark = self.acks.known[ended.id].mark
        else:
            return False
        try:
            return content_matches(seen, mark, self.following.links)
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

    # -- what happens to a file -----------------------------------------------------------------------------------

    def leave(self, file: TrackedFile) -> None:
        """No watched name leads to a file any more: it is read until it is silent for `rotate_wait`."""
        file.is_named = False
        file.left_at = self.clock()
        self.move(file, Event.GREW)
        if file.reader is not None:
            events.file_left(path=file.reader.path, how=end_without_name(file.reader).value)

    def finish(self, file: TrackedFile, why: End) -> None:
        """Read no more of a file: its last block is shipped, and it is closed when that is acknowledged."""
        reader = file.reader
        if reader is None:
            return
        self.keep_unfinished_line(file.name, reader)
        piece = reader.finish(why)
        if file.name in self.following.spools:
            piece = piece._replace(gap=piece.gap + lost_after(os.path.dirname(file.name), reader.key))
        if piece.gap:
            events.bytes_lost(file=file.name, lost=piece.gap, reason=why.value)
        self._last_blocks.append(piece)
        file.failing_since, file.passed_over = None, False
        self.move(file, Event.LAST_BLOCK)
        if why is End.TRUNCATED and reader.ends_as is None:
            self.free_inode(file)

    def keep_unfinished_line(self, name: str, reader: FileReader) -> None:
        """Remember the line that a generation did not end: the next one may begin with its rest, to be redacted."""
        if self.following.cut.context_bytes and (line := reader.unfinished_line()):
            self.unfinished[name] = line
        else:
            self.unfinished.pop(name, None)

    def lose(self, file: TrackedFile, why: End) -> None:
        """A file is gone, or has other content: what was not read of it may be in another file."""
        reader = file.reader
        if reader is None:
            return
        if file.name in self.following.spools:
            self.finish(file, why)
            return
        if why is End.TRUNCATED and reader.ends_as is None:
            self.free_inode(file)
            self.witnessed.add(file.id)
        self.keep_unfinished_line(file.name, reader)
        self.mark_lost(file, reader.as_read(self.acks.known[file.id]), reader.ends_as or why)

    def lose_source(self, source: Source, why: End) -> None:
        """The same as `lose`, of a source whose file is not open."""
        if why is End.TRUNCATED:
            self.truncated.add(source.key)
        self.mark_lost(self.add_known(source), source, why)

    def take_last_blocks(self) -> list[Piece]:
        """The blocks that end files, once each."""
        taken, self._last_blocks = self._last_blocks, []
        return taken

    @property
    def has_last_blocks(self) -> bool:
        """Whether a block that ends a file waits to be shipped."""
        return bool(self._last_blocks)

    def mark_lost(self, file: TrackedFile, source: Source, why: End) -> None:
        """The content of a source is to be searched in other files. `source`: as far as it was read."""
        self.close_file(file)
        self.set_key(file, None)
        self.move(file, Event.FILE_GONE)
        self.join_generations(file)
        file.source, file.end, file.failing_since, file.passed_over = source, why, self.clock(), False
        file.searched = False

    def finish_lost(self, file: TrackedFile, source: Source, why: End) -> None:
        """No file has the content of a lost one: what is missing is a gap."""
        if gap := max(0, source.size - source.offset):
            events.bytes_lost(file=file.name, lost=gap, reason=why.value)
        self._last_blocks.append(last_piece(source, why, gap))
        self.move(file, Event.LAST_BLOCK)

    def end(self, source: Source) -> None:
        """The last block of a source is acknowledged. Its file may show up again. If it has none, it is forgotten."""
        file = self.add_known(source)
        if not source.inode:
            self.move(file, Event.DISMISSED)
            return
        self.move(file, Event.ACKNOWLEDGED)
        file.path = source.names[-1]
        self.set_key(file, source.key)
        self.take_inode(file)

    def exclude(self, source: Source) -> None:
        """The configuration does not name the file of a source. It goes on if its file gets a name that is watched."""
        file = self.add_known(source)
        self.move(file, Event.LEFT_OUT)
        self.take_inode(file)

    def finish_excluded(self, source: Source) -> None:
        """Nothing more is read of an excluded source, and the archive records that."""
        self._last_blocks.append(last_piece(source, End.EXCLUDED, max(0, source.size - source.offset)))

    def forget(self, source: Source) -> None:
        """A source ended so long ago that its file is a new one should it show up."""
        file = self.get(source.id)
        if file is not None and file.state in ENDED_STATES:
            self.move(file, Event.DISMISSED)

    # -- records, states and indexes --------------------------------------------------------------------------------

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
            self.witnessed.discard(file.id)
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
        """The inode of a file belongs to a new generation now: it was truncated in place."""
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
        for _, reader in self.open_files():
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


def end_without_name(reader: FileReader) -> End:
    """How a file ends to which no watched name leads."""
    return End.ROTATED if reader.has_name() else End.DELETED
