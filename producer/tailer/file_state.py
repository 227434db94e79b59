"""The states of a tracked file, the events that change them, and the one table of transitions.

`docs/development/tailer.md` draws the table; a test holds the drawing to it.
"""

import enum
from collections.abc import Mapping


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
"""A file in one of these is not open; if a scan finds it, it goes on."""

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
"""The state after an event; a pair that is not here cannot happen, and `FileTable.move` raises."""
