"""Background tasks of a collector for its archive, apart from writing partitions. They run until the collector ends.

One answers requests about retired partitions, which have no stream: hosts that were offline request their receipts.
Everything of such a partition is archived, so the receipts from its journal are final.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from consumer.archive.directory import ArchiveLocation, try_lock
from consumer.archive.duplicate_count import DuplicateCount
from consumer.archive.journal import Journal
from consumer.cluster.coordinator import Collector
from consumer.cluster.locks import dead_names
from consumer.model import SourceKey
from consumer.partition import receipts
from consumer.partition.receipts import RequestLimit
from consumer.segments.day_close import DayCloser
from shipper import events
from shipper.control import MAX_SOURCES, ReceiptsRequest, request_from_json
from shipper.errors import ShipperError
from shipper.jetstream.connection import connect
from shipper.lifecycle import Stop
from shipper.settings import Settings
from shipper.subjects import control_up

DAYS_SECONDS = 10.0
"""Seconds between two checks for days that are over."""
CONNECT_AGAIN_SECONDS = 2.0
SERVICES = "fshipper.services"
"""Group of entry points under which the partitioner offers its services."""


@dataclass(frozen=True, slots=True)
class BackgroundTasks:
    """The background tasks of one collector."""

    settings: Settings
    place: ArchiveLocation
    name: str
    days: DayCloser
    duplicates: DuplicateCount
    stop: Stop

    @contextlib.asynccontextmanager
    async def running(self, collector: Collector) -> AsyncIterator[None]:
        """Run every task until the block ends."""
        work = [self._close_days(collector), self._answer_for_retired(collector)]
        if self.place.layout.seals:
            work.append(self._count_duplicates())
        if self.settings.collector.serve_partitions:
            work.append(self._serve_partitions())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def close_days(self, collector: Collector) -> None:
        """Close days that are over, also for dead collectors, whose names no process can take meanwhile."""

        def close() -> None:
            with dead_names(self.place.directory, self.name) as dead:
                self.days.run(collector.held, lambda: collector.is_sure, dead, everywhere=collector.others_past)

        if self.place.layout.seals:
            await asyncio.to_thread(close)

    async def _close_days(self, collector: Collector) -> None:
        while True:
            await self.close_days(collector)
            await asyncio.sleep(DAYS_SECONDS)

    async def _count_duplicates(self) -> None:
        ending = threading.Event()  # a count may take long, and a thread is not cancelled
        try:
            while True:
                try:
                    await asyncio.to_thread(self.duplicates.count, lambda: not (ending.is_set() or self.stop.requested))
                except OSError as error:
                    events.days_failed(error=str(error))
                await asyncio.sleep(self.duplicates.rest)
        finally:
            ending.set()

    async def _answer_for_retired(self, collector: Collector) -> None:
        """Answer requests about retired partitions, in one session after another."""
        retired = RetiredPartitions(self.place, collector.is_retired)
        while True:
            with contextlib.suppress(ShipperError):
                connection = await connect(
                    self.settings.nats, name=f"fshipper consume {self.name} retired", inbox="_INBOX_collector"
                )
                async with connection:
                    lost = asyncio.Event()
                    connection.on_lost(lost.set)
                    await connection.listen(control_up(">"), retired.answer)
                    await lost.wait()
            await asyncio.sleep(CONNECT_AGAIN_SECONDS)

    async def _serve_partitions(self) -> None:
        """Create streams when producers request them: a service of the partitioner, found by its entry point."""
        (found,) = entry_points(group=SERVICES, name="streams")
        try:
            await found.load()(self.settings, self.stop)
        except ShipperError as error:  # the collector writes the archive also without this service
            events.stream_refused(partition=None, host="", reason=str(error))


class RetiredPartitions:
    """The journals of retired partitions in one archive. Owned by the collector's loop.

    `is_retired`: whether the map assigns no host to a partition, and the server has no stream for it.
    """

    def __init__(self, place: ArchiveLocation, is_retired: Callable[[int], bool]) -> None:
        self._place = place
        self._is_retired = is_retired
        self._limit = RequestLimit(None)

    async def answer(self, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The last receipts of the host that requests them; None: the message is no request for a retired partition."""
        request = request_from_json(question)
        if not isinstance(request, ReceiptsRequest) or not self._is_retired(request.partition):
            return None
        host = subject.removeprefix(control_up(""))
        if not self._limit.allows(host, request):
            return None
        place, partition, asked = self._place, request.partition, request.sources
        epoch = place.newest_epoch(partition)
        lock = try_lock(place.lock(partition, epoch), place.what(partition)) if epoch is not None else None
        if epoch is None or lock is None:  # it belongs to another archive, or its worker has not ended yet
            return None
        with lock:
            journal = Journal(place.journal(partition, epoch))
            try:
                if asked is None:
                    known = journal.sources_of(host, newest=MAX_SOURCES)
                else:
                    found = [journal.source(SourceKey(host, source)) for source in asked]
                    known = [each for each in found if each is not None]
                through = journal.position.applied
            finally:
                journal.close()
        return receipts.reply(known, place.archive, through, is_retired=True).to_json()
