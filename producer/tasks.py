"""Periodic tasks of a producer that connect its delivery with a schedule."""

from collections.abc import Callable

from producer.discovery.watcher import Wake
from producer.model import Destination
from producer.options import Task
from producer.periodic import Periodic
from producer.session.delivery import Delivery
from producer.tailer.delete_archived import ArchivedFileDeletion
from producer.tailer.scan_schedule import ScanSchedule
from shipper.lifecycle import Stop
from shipper.ports import Publisher


class EachIteration(Periodic):
    """A task without a time of its own: `work` is called whenever the main loop runs the tasks."""

    def __init__(self, work: Callable[[Publisher | None], None]) -> None:
        self._work = work

    async def run(self, session: Publisher | None) -> None:
        """Call `work`."""
        self._work(session)


class ScanTask(Periodic):
    """Scans the file system: all patterns periodically, and files that changed after a notification."""

    def __init__(self, schedule: ScanSchedule, delivery: Delivery) -> None:
        self._schedule = schedule
        self._delivery = delivery

    @property
    def next_at(self) -> float:
        """When the next scan is due."""
        return self._schedule.next_at

    def start(self) -> None:
        """Scan everything once, also with `once`."""
        self._schedule.scan(self._delivery.tailer)

    async def run(self, session: Publisher | None) -> None:  # noqa: ARG002
        """Scan what is due."""
        self._schedule.scan_if_due(self._delivery.tailer)

    def close(self) -> None:
        """Stop the watcher."""
        self._schedule.close()


class DeletionTask(Periodic):
    """Deletes files that have been archived for long enough, once the checkpoint contains all of them."""

    def __init__(self, task: Task, destination: Destination, delivery: Delivery, stop: Stop, wake: Wake) -> None:
        self._task = task
        self._destination = destination
        self._delivery = delivery
        self._stop = stop
        self._wake = wake
        self._start_over()
        destination.on_move(self._start_over)

    def _start_over(self) -> None:
        grace_seconds, partition = self._task.delete_archived, self._destination.partition
        self._removal = ArchivedFileDeletion(grace_seconds, self._task.host, partition, rouse=self._wake.rouse)

    @property
    def next_at(self) -> float:
        """When files are checked next, or as soon as the collector has replied."""
        return self._removal.next_at

    async def run(self, session: Publisher | None) -> None:
        """Delete what is due."""
        delivery = self._delivery
        files = [] if session is None or self._stop.asked else self._removal.due(session, delivery.tailer)
        if files:
            await delivery.save()
            if not delivery.tailer.acks.has_unsaved:
                self._removal.delete(files, delivery.tailer)

    def session_ended(self) -> None:
        """Drop the request that is pending."""
        self._removal.session_ends()


class SaveTask(Periodic):
    """Saves the checkpoint."""

    needs_idle_reader = False

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    @property
    def next_at(self) -> float:
        """When the next save is due."""
        return self._delivery.save_at

    async def run(self, session: Publisher | None) -> None:  # noqa: ARG002
        """Save what is due."""
        await self._delivery.save_if_due()
