"""Remove from the stream what the archive holds: from the partition's own stream, and from that of its edge site.

The server at a site cannot know what the center has archived, so its stream keeps everything until this removes it. The
link to a site may be down for days: its purge runs in the background and is retried.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from consumer.commit.store import Fence, PartitionStore
from consumer.model import PartitionOptions
from consumer.partition.stream import StreamView
from shipper import events
from shipper.errors import Fenced, RightMissing, ShipperError
from shipper.model import StreamState
from shipper.ports import Inbox

PURGE_SECONDS = 10.0
PURGE_AGAIN_SECONDS = 1.0
"""Seconds between two purges while the stream is, or may be, nearly full."""
SITE_SECONDS = 10.0
"""Seconds between two purges of the stream of a site."""
REFUSED_SECONDS = 600.0
"""Seconds until a site is purged again whose server refused the right to do it."""
PURGE_ABOVE = 0.7
"""Part of `max_bytes` above which a stream is nearly full: archived messages must never block the producers."""

ArchivedBelow = Callable[[StreamState], Awaitable[int]]


def free_bytes(state: StreamState) -> float:
    """Bytes that a stream can still take until it is nearly full. Infinite means that it has no limit.

    Below 0, archived messages are removed even if the replay window still covers them.
    """
    return state.max_bytes * PURGE_ABOVE - state.bytes if state.max_bytes > 0 else math.inf


class StreamPurge:
    """Purges the stream of one partition, and that of its site. Owned by the partition's worker."""

    def __init__(self, options: PartitionOptions, store: PartitionStore, stream: StreamView) -> None:
        self._options = options
        self._store = store
        self.stream = stream
        self.site = SitePurge(options.partition, store.lease, stream)

    def interval(self) -> float:
        """Seconds between two purges."""
        return PURGE_AGAIN_SECONDS if self.stream.room < 0 else PURGE_SECONDS

    async def run(self, inbox: Inbox) -> None:
        """Remove what is committed and older than the replay window, or all that is committed of a nearly full stream.

        Nothing after an open hole is removed.
        """
        stream, state = self.stream, await inbox.state()
        below = await self._dispensable_below(state)
        if state.site:
            self.site.start_if_due(inbox, self._dispensable_below)
            below -= 1  # the last message shows from which site it came, and where the server continues to copy
        stream.room, stream.checked_at = free_bytes(state), time.monotonic()
        may_purge = below > max(1, state.first_sequence)
        is_stuck = stream.room < 0 and not may_purge
        stream.is_held_up = (is_stuck or stream.is_site_held_up) and self._store.journal.position.reads_again
        if may_purge:
            await self._store.lease.prove()  # else a process that slept would remove what the next owner has not read
            purged = await inbox.purge(below)
            events.stream_purged(partition=self._options.partition, below=below, messages=purged)

    async def _dispensable_below(self, state: StreamState) -> int:
        """The sequence below which a stream, this one or that of its site, need not keep anything for this archive."""
        at = self._store.journal.position
        if free_bytes(state) < 0:
            return at.resume
        before = int((self.stream.wall() - self._options.replay_window) * 1e9)
        return min(await self._store.run(self._store.journal.applied_before, before) + 1, at.resume)


class SitePurge:
    """Purges the stream of one partition at its edge site, in the background."""

    def __init__(self, partition: int, fence: Fence, stream: StreamView) -> None:
        self._partition = partition
        self._fence = fence
        self._stream = stream
        self._due = 0.0
        self._is_away = False
        self._state: StreamState | None = None
        self._purging: asyncio.Task[None] | None = None

    def start_if_due(self, inbox: Inbox, archived_below: ArchivedBelow) -> None:
        """Start a purge, unless it is too early or one is running.

        `archived_below`: for the state of the site's stream, the sequence here below which everything is archived.
        """
        if time.monotonic() >= self._due and (self._purging is None or self._purging.done()):
            self._due = time.monotonic() + SITE_SECONDS
            self._purging = asyncio.create_task(self._purge(inbox, archived_below))

    def status(self) -> dict[str, Any]:
        """The last known state of the site's stream. {} means that there is none, or it is not known yet."""
        if self._state is None:
            return {}
        held = {name: getattr(self._state, name) for name in ("messages", "bytes", "max_bytes")}
        return {"site": {**held, "away": self._is_away}}

    def end(self) -> None:
        """Cancel the running purge. Idempotent."""
        if self._purging is not None:
            self._purging.cancel()

    async def _purge(self, inbox: Inbox, archived_below: ArchivedBelow) -> None:
        try:
            state = await inbox.site_state()
            self._is_away, self._state = False, state
            is_full = state is not None and free_bytes(state) < 0
            below = await archived_below(state) if state is not None and state.messages else 0
            if below <= 1:
                self._stream.is_site_held_up = is_full
                return
            await self._fence.prove()  # else a process that slept would remove what the next owner has not read
            purged = await inbox.purge_site(below)
            self._stream.is_site_held_up = is_full and purged == 0
        except RightMissing as error:
            self._due = time.monotonic() + REFUSED_SECONDS
            events.site_refused(partition=self._partition, error=str(error))
        except Fenced:
            return  # the next owner purges
        except ShipperError as error:  # the session's own calls report what ends it
            if not self._is_away:
                events.site_away(partition=self._partition, error=str(error))
            self._is_away = True
        else:
            if purged is None:
                events.site_differs(partition=self._partition)
            elif purged:
                events.site_purged(partition=self._partition, messages=purged)
