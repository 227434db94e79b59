"""Reads the partition map periodically, and determines when the host can leave its old partition."""

import asyncio
import math
import time
from collections.abc import Callable

from producer import receipts
from producer.checkpoint.ack_tracker import AckTracker
from producer.model import Place
from shipper import events
from shipper.bucket import map_key
from shipper.control import ReceiptsReply
from shipper.errors import BucketRefused, ShipperError
from shipper.partition_map import PartitionMap, decode
from shipper.ports import Publisher

MAP_SECONDS = 5.0
"""Interval between two reads of the map."""
RECEIPTS_SECONDS = 1.0
"""Interval between two requests to the old partition's collector while the host is to move."""
NEAR_BYTES = 64 * 1024 * 1024
"""Maximum backlog of the archive at which the host stops to publish and leaves."""
PATIENCE_SECONDS = 60.0
"""Maximum time for which the host stays while its collector is alive and has a larger backlog."""


class MapWatcher:
    """The newest map, and whether it is time to leave. Owned by the migration."""

    def __init__(
        self, prefix: str, host: str, *, rouse: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = map_key(prefix)
        self._host = host
        self._rouse = rouse
        self._clock = clock
        self._known: PartitionMap | None = None
        self._is_refused = False
        self._next_at = 0.0
        self._wanted_since: float | None = None
        self._reading: asyncio.Task[ReceiptsReply | None] | None = None
        self.is_time = False  #: to stop publishing, and to leave

    @property
    def next_at(self) -> float:
        """Monotonic time when `read_if_due` wants to be called."""
        if self._reading is not None:
            return -math.inf if self._reading.done() else math.inf
        return self._next_at

    @property
    def known(self) -> PartitionMap | None:
        """The newest map; None: there is none, or this host has no permission to read it."""
        return self._known

    def belongs(self, place: Place) -> Place:
        """The place of a host that is at `place`, by the newest map."""
        return place.under(self._known, self._host) if self._known else place

    def hint(self) -> None:
        """The map may have changed: read it now."""
        self._next_at = 0.0
        self._rouse()

    async def read(self, publisher: Publisher) -> None:
        """Read the map. Raises SessionLost."""
        self._next_at = self._clock() + MAP_SECONDS
        if self._is_refused:
            return
        try:
            entry = await publisher.entry(self._key)
        except BucketRefused as error:
            self._is_refused = True
            events.map_refused(error=str(error))
            return
        found = decode(entry.value) if entry else None
        if entry and found is None:
            events.map_damaged(key=self._key)
        if found is not None and (self._known is None or found.version > self._known.version):
            self._known = found

    def read_if_due(self, publisher: Publisher, acks: AckTracker, place: Place) -> None:
        """Read the map when it is due, without waiting; sets `is_time`."""
        if self._reading is not None and self._reading.done():
            looking, self._reading = self._reading, None
            told = None if looking.cancelled() else looking.result()
            if told is not None:
                acks.note_receipts(told)
                self._judge(acks)
        elif self._reading is None and self._clock() >= self._next_at:
            self._reading = asyncio.ensure_future(self._read_and_ask(publisher, place))
            self._reading.add_done_callback(lambda _: self._rouse())

    def session_ended(self) -> None:
        """Cancel the pending request."""
        self.is_time = False
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read_and_ask(self, publisher: Publisher, place: Place) -> ReceiptsReply | None:
        """The receipts of the collector, if the host is to move."""
        try:
            await self.read(publisher)
            if self.belongs(place) == place:
                self._wanted_since = None
                return None
            self._next_at = self._clock() + RECEIPTS_SECONDS
            self._wanted_since = self._clock() if self._wanted_since is None else self._wanted_since
            return await receipts.ask(publisher, self._host, place.partition)
        except ShipperError:
            return None  # the main loop gets the same error

    def _judge(self, acks: AckTracker) -> None:
        waited = self._clock() - (self._clock() if self._wanted_since is None else self._wanted_since)
        self.is_time = acks.unarchived_bytes <= NEAR_BYTES or waited >= PATIENCE_SECONDS
