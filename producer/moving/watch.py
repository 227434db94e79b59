"""Looks at the map of the partitions now and then, and finds out when the old partition can let this host go."""

import asyncio
import time
from collections.abc import Callable

from producer import receipts
from producer.following.ledger import Ledger
from producer.moving.place import Place
from producer.receipts import Told
from shipper import events
from shipper.bucket import map_key
from shipper.errors import BucketRefused, ShipperError
from shipper.partition_map import PartitionMap, decode
from shipper.ports import Publisher

LOOK_SECONDS = 5.0
ASK_SECONDS = 1.0
"""Between two questions to the old partition's collector, once the host is to move."""
NEAR_BYTES = 64 * 1024 * 1024
"""As little must wait for the archive before the host stops and waits for the rest of it."""
PATIENCE_SECONDS = 60.0
"""So long it goes on where it is while its collector is alive and further behind than that."""


class Watch:
    """The newest map, and whether it is time to leave. Owned by the pipeline."""

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
        self._looking: asyncio.Task[Told | None] | None = None
        self.is_time = False  #: to stop where the host is, and to leave

    @property
    def next_at(self) -> float:
        """Monotonic time when `see_to` wants to be called."""
        return self._next_at if self._looking is None else self._clock() + LOOK_SECONDS

    @property
    def known(self) -> PartitionMap | None:
        """The newest map; None: there is none, or this host may not read it."""
        return self._known

    def belongs(self, place: Place) -> Place:
        """Where a host at `place` should be, as far as the map is known."""
        return place.under(self._known, self._host) if self._known else place

    def hint(self) -> None:
        """Somebody says that the map is another one."""
        self._next_at = 0.0
        self._rouse()

    async def look(self, publisher: Publisher) -> None:
        """Read the map. Raises SessionLost."""
        self._next_at = self._clock() + LOOK_SECONDS
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

    def see_to(self, publisher: Publisher, ledger: Ledger, place: Place) -> None:
        """Look again when it is due, without waiting; sets `is_time`."""
        if self._looking is not None and self._looking.done():
            looking, self._looking = self._looking, None
            told = None if looking.cancelled() else looking.result()
            if told is not None:
                ledger.told(told)
                self._judge(ledger)
        elif self._looking is None and self._clock() >= self._next_at:
            self._looking = asyncio.ensure_future(self._look_and_ask(publisher, place))
            self._looking.add_done_callback(lambda _: self._rouse())

    def session_ends(self) -> None:
        """Nobody answers any more what was asked in this session."""
        self.is_time = False
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_and_ask(self, publisher: Publisher, place: Place) -> Told | None:
        """What the archive has of this host, if it is to move."""
        try:
            await self.look(publisher)
            if self.belongs(place) == place:
                self._wanted_since = None
                return None
            self._next_at = self._clock() + ASK_SECONDS
            self._wanted_since = self._clock() if self._wanted_since is None else self._wanted_since
            return await receipts.ask(publisher, self._host, place.partition)
        except ShipperError:
            return None  # the session's own calls meet it, too

    def _judge(self, ledger: Ledger) -> None:
        waited = self._clock() - (self._clock() if self._wanted_since is None else self._wanted_since)
        self.is_time = ledger.unarchived_bytes <= NEAR_BYTES or waited >= PATIENCE_SECONDS
