"""Days that are over: their small segments are merged, they are closed for good, and one day they are removed."""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from consumer.segments.compaction import Merger
from consumer.segments.manifest_store import Listing
from consumer.segments.retention import HOSTS, Retention
from consumer.segments.sealer import Sealer
from shipper import events

RETENTION_SECONDS = 300.0


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()


class Owned(Protocol):
    """A partition whose one writer this collector is."""

    @property
    def partition(self) -> int:
        """Its number."""

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed. Asked from another thread."""


class Days:
    """Tends the days of one archive, for one collector. One call at a time, from any thread."""

    def __init__(
        self,
        archive: Path,
        sealer: Sealer,
        *,
        merge: int,
        segment: int,
        keep_days: int,
        keep_bytes: int,
        keep_by: str = HOSTS,
        today: Callable[[], dt.date] = _today,
    ) -> None:
        self._archive = archive
        self._sealer = sealer
        self._merger = Merger(archive, sealer, below=merge, most=segment)
        self._retention = Retention(archive, keep_days=keep_days, keep_bytes=keep_bytes, keep_by=keep_by)
        self._retention_due = 0.0
        self._today = today

    @property
    def over_share(self) -> tuple[str, ...]:
        """Hosts that hold more than their share of `keep_bytes`, the largest first. From any thread."""
        return self._retention.over_share

    def tend(
        self,
        owned: Sequence[Owned],
        go_on: Callable[[], bool],
        dead: Iterable[str] = (),
        everywhere: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Do what is due; trouble with the archive is told, and the next call tries again.

        `go_on` says whether the partitions are still owned and nobody asks to stop. `dead` are names of collectors
        that write no more: their days are closed with the own ones. `everywhere` says whether the other collectors of
        this archive are past a day too: a partition that is not may change hands, and be sealed here.
        """
        today = self._today()
        try:
            self._close(today, owned, go_on, dead, everywhere)
            if go_on() and time.monotonic() >= self._retention_due:
                self._retention_due = time.monotonic() + RETENTION_SECONDS
                self._retention.enforce(today, go_on)
        except OSError as error:
            events.days_failed(error=str(error))

    def _close(
        self,
        today: dt.date,
        owned: Sequence[Owned],
        go_on: Callable[[], bool],
        dead: Iterable[str],
        everywhere: Callable[[str], bool],
    ) -> None:
        for date in self._sealer.dates():
            if everywhere(date) and self._is_over(date, today, owned) and self._merge(date, owned, go_on):
                self._sealer.close_day(date)
        for name in dead:
            for date in self._sealer.dates(name):
                if go_on() and everywhere(date) and self._is_over(date, today, owned):
                    self._sealer.close_day(date, name)

    def _merge(self, date: str, owned: Sequence[Owned], go_on: Callable[[], bool]) -> bool:
        """Merge what is owned of a day; whether all of it is merged."""
        listing = Listing(self._archive, date)

        def merged(one: Owned) -> bool:
            return self._merger.merge(date, one.partition, listing, lambda: go_on() and one.is_past(date))

        return all(map(merged, owned))

    def _is_over(self, date: str, today: dt.date, owned: Sequence[Owned]) -> bool:
        return date < today.isoformat() and all(one.is_past(date) for one in owned)
