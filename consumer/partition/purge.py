"""The stream of an edge site is purged behind the archive, over a link that may be down for days.

The server at the site cannot know what the centre has archived, so its stream keeps everything until this removes it.
Nothing waits for it here: a site that is away is tried again.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from consumer.partition.fence import Fence
from shipper import events
from shipper.errors import Fenced, RightMissing, ShipperError
from shipper.model import StreamState
from shipper.ports import Inbox

SITE_SECONDS = 10.0
REFUSED_SECONDS = 600.0
PURGE_ABOVE = 0.7  # of max_bytes: producers must never be blocked by what is archived already

Dispensable = Callable[[StreamState], Awaitable[int]]


def is_nearly_full(state: StreamState) -> bool:
    """Whether what is archived must make room, however young it is."""
    return room_of(state) < 0


def room_of(state: StreamState) -> float:
    """Bytes that a stream may take until it is nearly full; infinite: it has no limit."""
    return state.max_bytes * PURGE_ABOVE - state.bytes if state.max_bytes > 0 else math.inf


class SiteKeeper:
    """Purges the site's stream of one partition, beside the work. Owned by the partition's house."""

    def __init__(self, partition: int, fence: Fence, clock: Callable[[], float] = time.monotonic) -> None:
        self._partition = partition
        self._fence = fence
        self._clock = clock
        self._due = 0.0
        self._is_away = False
        self.is_held_up = False  #: its stream is nearly full, and nothing of it could go
        self._state: StreamState | None = None
        self._purging: asyncio.Task[None] | None = None

    def see_to(self, inbox: Inbox, dispensable_below: Dispensable) -> None:
        """Purge, if that is due and not being done.

        `dispensable_below`: for the state of the site's stream, the centre's sequence below which all is archived.
        """
        if self._clock() >= self._due and (self._purging is None or self._purging.done()):
            self._due = self._clock() + SITE_SECONDS
            self._purging = asyncio.create_task(self._purge(inbox, dispensable_below))

    def status(self) -> dict[str, Any]:
        """How the site's stream was when it was last heard; {}: there is none, or it was not heard yet."""
        if self._state is None:
            return {}
        held = {name: getattr(self._state, name) for name in ("messages", "bytes", "max_bytes")}
        return {"site": {**held, "away": self._is_away}}

    def end(self) -> None:
        """Give up what is under way; it may be done any number of times."""
        if self._purging is not None:
            self._purging.cancel()

    async def _purge(self, inbox: Inbox, dispensable_below: Dispensable) -> None:
        try:
            state = await inbox.site_state()
            self._is_away, self._state = False, state
            is_full = state is not None and is_nearly_full(state)
            below = await dispensable_below(state) if state is not None and state.messages else 0
            if below <= 1:
                self.is_held_up = is_full
                return
            await self._fence.prove()  # else one that slept would remove what the next owner has not got
            purged = await inbox.purge_site(below)
            self.is_held_up = is_full and purged == 0
        except RightMissing as error:
            self._due = self._clock() + REFUSED_SECONDS
            events.site_refused(partition=self._partition, error=str(error))
        except Fenced:
            return  # the next owner purges
        except ShipperError as error:  # the session's own calls meet what ends it, too
            self._note_away(error)
        else:
            if purged is None:
                events.site_differs(partition=self._partition)
            elif purged:
                events.site_purged(partition=self._partition, messages=purged)

    def _note_away(self, error: ShipperError) -> None:
        if not self._is_away:
            self._is_away = True
            events.site_away(partition=self._partition, error=str(error))
