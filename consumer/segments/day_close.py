"""Days that are over: merge their small segments, close them, and remove them according to the retention."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from consumer.archive.manifests import Listing
from consumer.segments.compaction import Merger
from consumer.segments.retention import Retention
from consumer.segments.sealer import Sealer
from shipper import events

RETENTION_SECONDS = 300.0


IsPast = Callable[[str], bool]
"""Whether nothing can arrive for a date any more, and all of it is sealed. Called from another thread."""


class DayCloser:
    """Merges and closes the days of one archive, and enforces retention. One call at a time, from any thread."""

    def __init__(
        self,
        archive: Path,
        sealer: Sealer,
        merger: Merger,
        retention: Retention,
        today: Callable[[], dt.date] = lambda: dt.datetime.now(dt.UTC).date(),
    ) -> None:
        self._archive = archive
        self._sealer = sealer
        self._merger = merger
        self._retention = retention
        self._retention_due = 0.0
        self._today = today

    def run(
        self,
        owned: Mapping[int, IsPast],
        go_on: Callable[[], bool],
        dead: Iterable[str] = (),
        everywhere: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Do what is due. Trouble with the archive is reported as an event, and the next call tries again.

        `owned`: the partitions that this collector writes.
        `go_on`: whether the partitions are still owned and no stop is requested. `dead`: names of collectors that have
        ended; their days are closed too. `everywhere`: whether the other collectors of this archive have sealed all of
        a day, because a partition that has not may change its owner, and be sealed here.
        """
        today = self._today()
        try:
            for date in self._sealer.dates():
                if everywhere(date) and self._is_over(date, today, owned) and self._merge(date, owned, go_on):
                    self._sealer.close_day(date)
            for name in dead:
                for date in self._sealer.dates(name):
                    if go_on() and everywhere(date) and self._is_over(date, today, owned):
                        self._sealer.close_day(date, name)
            if go_on() and time.monotonic() >= self._retention_due:
                self._retention_due = time.monotonic() + RETENTION_SECONDS
                self._retention.enforce(today, go_on)
        except OSError as error:
            events.days_failed(error=str(error))

    def _merge(self, date: str, owned: Mapping[int, IsPast], go_on: Callable[[], bool]) -> bool:
        """Merge what is owned of a day. Returns whether all of it is merged."""
        listing = Listing(self._archive, date)

        def merged(partition: int, is_past: IsPast) -> bool:
            return self._merger.merge(date, partition, listing, lambda: go_on() and is_past(date))

        return all(merged(*each) for each in owned.items())

    def _is_over(self, date: str, today: dt.date, owned: Mapping[int, IsPast]) -> bool:
        return date < today.isoformat() and all(is_past(date) for is_past in owned.values())
