"""The stream of one partition: where to read on, and what is known of its state."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from consumer.commit.store import PartitionStore
from consumer.model import Position
from shipper import events
from shipper.ports import Inbox


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
