"""Background tasks of a collector for its archive, apart from writing partitions. They run until the collector ends."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from typing import Any

from consumer.archive.directory import ArchiveLocation
from consumer.archive.duplicate_count import DuplicateCount
from consumer.cluster.coordinator import Collector
from consumer.cluster.locks import dead_names
from consumer.retired_partitions import RetiredPartitions
from consumer.segments.day_close import DayCloser
from consumer.segments.repack import Pace, Repacker
from shipper import events
from shipper.errors import ShipperError
from shipper.jetstream.connection import connect
from shipper.lifecycle import Stop
from shipper.periodic import Periodic
from shipper.settings import Settings
from shipper.subjects import control_up

DAYS_SECONDS = 10.0
"""Seconds between two checks for days that are over."""
CONNECT_AGAIN_SECONDS = 2.0
REPACK_SECONDS = 300.0
"""Seconds until segments of closed days are compressed again, after the start and after each pass."""
LEAST_PRIORITY = 19
"""The nice value of a thread that uses what the other threads and programs leave."""
SERVICES = "fshipper.services"
"""Group of entry points under which the partitioner offers its services."""


def _be_nice() -> None:
    """Give this thread the least priority. Linux has one for each thread."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LEAST_PRIORITY)


def partitioner_service(name: str) -> Any:
    """The function of a service that the partitioner offers: a program imports no other one."""
    (found,) = entry_points(group=SERVICES, name=name)
    return found.load()


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
        days = Periodic("close days", partial(self.close_days, collector), lambda: DAYS_SECONDS)
        work = [days.repeat(), self._answer_for_retired(collector)]
        if self.place.layout.seals:
            work.append(self._count_duplicates())
            if self.settings.collector.repack:
                work.append(self._repack(collector))
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
                owned = {each.partition: each.is_past for each in collector.held}
                self.days.run(owned, lambda: collector.is_sure, dead, everywhere=collector.others_past)

        if self.place.layout.seals:
            await asyncio.to_thread(close)

    async def _count_duplicates(self) -> None:
        ending = threading.Event()  # a count may take long, and a thread is not cancelled

        async def count() -> None:
            try:
                await asyncio.to_thread(self.duplicates.count, lambda: not (ending.is_set() or self.stop.requested))
            except OSError as error:
                events.days_failed(error=str(error))

        try:
            await Periodic("count duplicates", count, lambda: self.duplicates.rest).repeat()
        finally:
            ending.set()

    async def _repack(self, collector: Collector) -> None:
        """Compress the segments of closed days again while the collector is idle, in a thread of the least priority."""
        chosen, ending = self.settings.collector, threading.Event()
        repacker = Repacker(self.place.directory, chosen.repack)

        def is_idle() -> bool:
            return collector.is_sure and not any(owner.pending for owner in collector.held)

        def repack() -> None:
            pace = Pace(chosen.repack_cpu / 100, is_idle, ending)
            try:
                repacker.run([owner.partition for owner in collector.held], pace.may_go_on)
            except OSError as error:
                events.days_failed(error=str(error))

        with ThreadPoolExecutor(1, thread_name_prefix="repack", initializer=_be_nice) as thread:
            loop = asyncio.get_running_loop()
            try:
                await asyncio.sleep(REPACK_SECONDS)  # a collector that just started has other work
                await Periodic(
                    "compress again", partial(loop.run_in_executor, thread, repack), lambda: REPACK_SECONDS
                ).repeat()
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
        try:
            await partitioner_service("streams")(self.settings, self.stop)
        except ShipperError as error:  # the collector writes the archive also without this service
            events.stream_refused(partition=None, host="", reason=str(error))
