"""The stream of one partition: sessions with it, one after another; where to read on; what is known of its state."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from consumer.commit.store import PartitionStore
from consumer.model import PartitionOptions, Position
from shipper import events
from shipper.errors import ArchiveTrouble
from shipper.lifecycle import Pulse, Stop, notify
from shipper.model import Delivery
from shipper.ports import Inbox
from shipper.retry import ARCHIVE, SESSION, Backoff, Patience, SessionRetry, Trouble


@dataclass(slots=True)
class StreamView:
    """What is known of the stream at the moment. The worker and the purge write it, the other tasks read it."""

    wall: Callable[[], float] = time.time  #: seconds since 1970
    is_read: bool = False  #: the worker has read it to its end
    read_at: float = 0.0  #: when it was last read to its end, in seconds since 1970; 0: never
    room: float = 0.0  #: bytes that it can still take until it is nearly full; below 0: it may be nearly full
    checked_at: float = 0.0  #: monotonic time of the last check of its size; 0: never
    is_held_up: bool = False  #: nearly full, and only what follows an open hole could be purged
    is_site_held_up: bool = False  #: the same of the stream of the edge site that it copies

    def received(self, octets: int) -> None:
        """The stream delivered `octets`."""
        self.is_read = False
        self.room -= octets

    def read_to_end(self) -> None:
        """The worker has read the stream to its end."""
        self.is_read, self.read_at = True, self.wall()


async def first_to_read(inbox: Inbox, store: PartitionStore, partition: int) -> int:
    """The next sequence to read: the journal's, unless the stream is no longer the one that the journal describes.

    Raises ArchiveTrouble: the journal cannot be written. Transient: the session ended.
    """
    state, at = await inbox.state(), store.journal.position
    if at.applied == 0:
        await store.move_to(replace(at, created=state.created))
        return at.resume
    changed, there = "", await inbox.time_of(at.applied)
    if state.created != at.created and there == at.applied_ns:  # the same messages, restored from a backup
        at = replace(at, created=state.created)
        await store.move_to(at)
    if state.created != at.created:
        changed = "the stream was created anew"
    elif state.last_sequence < at.applied:
        changed = f"the stream ends at {state.last_sequence}"
    elif there not in {None, at.applied_ns}:
        changed = f"message {at.applied} is another one"
    if changed:
        events.history_changed(partition=partition, applied=at.applied, reason=changed)
        at = Position(resume=1, plain_after_ns=max(at.applied_ns, at.plain_after_ns), created=state.created)
        await store.move_to(at)
    elif (gone := state.first_sequence - max(at.resume, at.applied + 1)) > 0:
        events.messages_gone(partition=partition, first=state.first_sequence - gone, count=gone)
        at = replace(at, applied=state.first_sequence - 1, resume=state.first_sequence)
        await store.move_to(at)
    return at.resume


STEADY_SECONDS = 1.0
"""Seconds for which an archive must work until it counts as recovered: a disk that is nearly full accepts a small batch
now and then."""

STUCK_SESSIONS = 3
"""Number of sessions that end at one message in a row, after which the trouble names it."""

NO_SESSION = "no session with the server yet"
"""The trouble of a worker that has just begun."""

OpenInbox = Callable[[], Awaitable[Inbox]]


class SessionLoop:
    """Opens a session, serves it, and opens the next one with back-off when it failed. Owned by a worker.

    `stop` and `pulse` are the worker's too: its loop ends when a stop is requested, and reports each iteration.
    """

    def __init__(
        self, options: PartitionOptions, open_inbox: OpenInbox, stop: Stop, patience: Patience, pulse: Pulse
    ) -> None:
        self._options = options
        self._open_inbox = open_inbox
        self._patience = patience
        self._retry = SessionRetry("collector", patience, nap=self._nap, policy=_backoff, report=self._report)
        self._is_archive_failing = False  # until it works for STEADY_SECONDS, not only until a session began
        self._works_since = 0.0  # monotonic time since when a failed archive works; 0: it does not
        self._at: Delivery | None = None  # the first message of the batch that is being committed
        self._stuck_at, self._stuck = 0, 0  # sequence at which the last session ended, and how many did in a row
        self.stop = stop
        self.pulse = pulse
        self.trouble = NO_SESSION

    async def run(self, serve: Callable[[Inbox], Awaitable[None]]) -> None:
        """Call `serve` in one session after another until it returns, or until a stop is requested.

        Raises Unavailable: no server for too long. And what `serve` raises, except Transient.
        """
        while not self.stop.requested:
            self.pulse.turn()
            async with self._retry.attempt():
                inbox = await self._open_inbox()
                try:
                    await serve(inbox)
                finally:
                    await inbox.close()
                return

    def established(self) -> None:
        """The session works: the partition is recovered, and messages are requested."""
        self._patience.served()
        if not self._is_archive_failing:
            self.trouble = ""
            events.archive_works(partition=self._options.partition)
            events.session_begun(program="collector", subject=self._options.stream)
        notify("READY=1")

    def is_stuck_at(self, sequence: int) -> bool:
        """Whether sessions end at `sequence` again and again."""
        return self._stuck >= STUCK_SESSIONS and self._stuck_at == sequence

    def committing(self, first: Delivery | None) -> None:
        """A batch that begins with `first` is being committed; None: none is."""
        self._at = first

    def progress(self) -> None:
        """The server answers."""
        self._patience.progress()

    def archive_works(self) -> None:
        """A batch was committed, or there is nothing to commit and no maintenance task fails."""
        self._patience.progress()
        if not self._is_archive_failing:
            return
        self._works_since = self._works_since or time.monotonic()
        if time.monotonic() - self._works_since >= STEADY_SECONDS:
            events.archive_recovered(partition=self._options.partition)
            self._is_archive_failing, self.trouble = False, ""

    def _report(self, error: Trouble, delay: float) -> None:
        self._works_since = 0.0
        if isinstance(error, ArchiveTrouble):  # of the disk, whatever the message
            self._at, self._is_archive_failing, self.trouble = None, True, str(error)
            events.archive_failed(partition=self._options.partition, error=self.trouble)
        else:
            self.trouble = str(error) + self._named()
            events.session_ended(program="collector", error=self.trouble, hint=error.hint, retry_in=delay)

    def _named(self) -> str:
        """The message at which sessions end again and again, for the trouble; empty: there is none."""
        at, self._at = self._at, None
        if at is None:
            return ""
        self._stuck = self._stuck + 1 if at.sequence == self._stuck_at else 1
        self._stuck_at = at.sequence
        if self._stuck < STUCK_SESSIONS:
            return ""
        subject = at.subject.encode("ascii", "backslashreplace").decode()[:200]
        return f"; {self._stuck} sessions ended at message {at.sequence} of {subject}"

    async def _nap(self, seconds: float) -> None:
        self.pulse.turn(rest=seconds)
        await self.stop.nap(seconds)


def _backoff(error: Trouble) -> Backoff:
    return ARCHIVE if isinstance(error, ArchiveTrouble) else SESSION
