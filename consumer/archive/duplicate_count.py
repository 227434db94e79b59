"""Counts the bytes that an archive holds twice, periodically in a collector, from the manifests only.

Days before the newest two are read once and remembered as runs of bytes by source; they are read again only if one of
their manifests changes (a redaction, a repair, retention). The newest two are read again whenever a segment is sealed.
Open files are not counted until they are sealed.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from consumer.archive import manifests
from shipper import events
from shipper.duplicates import Index

NEWEST_DAYS = 2
"""Days that may still get segments: today, and yesterday until it is closed."""
MOST_MANIFEST_BYTES = 256 * 1024 * 1024
"""Of manifests that are counted, the newest days first: some 500,000 lines. The audit counts all."""
LEAST_SECONDS = 10.0
"""Minimum seconds between two counts. After a long count the interval is 20 times its duration."""
REST_FACTOR = 20
LINES_A_TURN = 200
"""Lines between two pauses: other threads of the collector have half of the time."""
LONGEST_PAUSE = 0.1

Signature = dict[str, tuple[int, int]]


class _StoppedError(Exception):
    """The collector ends: what was read so far is dropped."""


class _OrderedSegment(NamedTuple):
    """A segment, as far as it matters here, in the order of `shipper.duplicates.order_of`."""

    first_time: str
    partition: int
    first_seq: int
    host: str
    spans: tuple[tuple[str, int, int], ...]


class DuplicateCount:
    """How many bytes of an archive are doubled, by the partition of the later copy. One call of `count` at a time."""

    def __init__(self, archive: Path, *, most_bytes: int = MOST_MANIFEST_BYTES) -> None:
        self._archive = archive
        self._most = most_bytes
        self._seen: dict[str, Signature] = {}  # of every day at the last count
        self._old: dict[str, Signature] = {}  # of the days that `_index` holds
        self._index = Index()
        self._of_old: Counter[int] = Counter()
        self._counted: Counter[int] = Counter()
        self.rest = 0.0  #: seconds until the next count

    @property
    def bytes(self) -> int:
        """Doubled bytes at the last count. May be called from any thread."""
        return self._counted.total()

    def count(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Count again, if a manifest changed. Raises OSError: the archive cannot be read now."""
        began = time.monotonic()
        try:
            self._count(go_on)
        except _StoppedError:
            return
        finally:
            self.rest = max(LEAST_SECONDS, REST_FACTOR * (time.monotonic() - began))

    def _count(self, go_on: Callable[[], bool]) -> None:
        seen = self._signatures()
        if seen == self._seen:
            return
        days = sorted(seen)
        old = {date: seen[date] for date in days[:-NEWEST_DAYS]}
        kept = sorted(self._old)
        if sorted(old)[: len(kept)] != kept or any(old[date] != self._old[date] for date in kept):
            self._old, self._index, self._of_old = {}, Index(), Counter()
        for date in sorted(old.keys() - self._old.keys()):
            copies = self._copies(date, go_on)  # may be stopped: then nothing of the day is in the index
            self._of_old.update(_count(copies, self._index))
            self._old[date] = old[date]
        newest = Index(before=self._index)
        counted = Counter(self._of_old)
        for date in days[-NEWEST_DAYS:]:
            counted.update(_count(self._copies(date, go_on), newest))
        self._report(counted)
        self._seen = seen

    def _signatures(self) -> dict[str, Signature]:
        """Names, sizes and times of the manifests of each day that is counted."""
        found: dict[str, Signature] = {}
        left = self._most
        for date in sorted(manifests.days(self._archive) - manifests.removed_days(self._archive), reverse=True):
            signature = manifests.signature(self._archive, date)
            left -= sum(size for size, _ in signature.values())
            if found and left < 0:
                break
            found[date] = signature
        return found

    def _copies(self, date: str, go_on: Callable[[], bool]) -> list[_OrderedSegment]:
        """The segments of a day that count, first copies first."""
        began, number = time.thread_time(), 0

        def take(fields: dict[str, Any]) -> _OrderedSegment:
            nonlocal began, number
            number += 1
            if number % LINES_A_TURN == 0:
                if not go_on():
                    raise _StoppedError
                spent, began = time.thread_time() - began, time.thread_time()
                time.sleep(min(LONGEST_PAUSE, max(0.0, spent)))
            return _copy(fields)

        return sorted(manifests.counted(self._archive, date, take))

    def _report(self, counted: Counter[int]) -> None:
        before = self.bytes
        gone = {partition: 0 for partition in self._counted if partition not in counted}
        self._counted = counted
        events.duplicates_counted(octets={**gone, **counted})
        if self.bytes > before:
            events.archive_doubled(octets=self.bytes)


def _copy(fields: dict[str, Any]) -> _OrderedSegment:
    spans = tuple((str(each["source"]), int(each["start"]), int(each["end"])) for each in fields.get("spans", ()))
    return _OrderedSegment(
        str(fields["first_time"]), int(fields["partition"]), int(fields["first_seq"]), str(fields["host"]), spans
    )


def _count(copies: Sequence[_OrderedSegment], index: Index) -> Counter[int]:
    """Doubled bytes by partition, 0 for those that have none. `index` notes what the copies hold."""
    counted: Counter[int] = Counter()
    for copy in copies:
        again = (index.add(copy.host, *span) for span in copy.spans)
        counted[copy.partition] += sum(common.length for each in again for common in each)
    return counted
