"""The periodic tasks of a producer, in the order in which the scheduler runs them.

`CloseFilesTask` and `ResendTask` come before `DeletionTask`: no file is deleted whose bytes must be read again.
"""

import math

from producer.discovery.watcher import Wake
from producer.inputs.factory import Inputs
from producer.model import Destination
from producer.options import Task
from producer.periodic import Periodic
from producer.session.delivery import Delivery
from producer.tailer.delete_archived import ArchivedFileDeletion
from producer.tailer.scan_schedule import ScanSchedule
from shipper.lifecycle import Stop
from shipper.ports import Publisher


class CloseFilesTask(Periodic):
    """Closes files whose last block is acknowledged."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def run(self, session: Publisher | None) -> None:  # noqa: ARG002
        """Close what is due."""
        self._delivery.tailer.retire()


class ResendTask(Periodic):
    """Goes back to bytes that an archive lacks."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def run(self, session: Publisher | None) -> None:
        """Raises SessionLost: files went back, and the next session sends from there."""
        if session is not None:
            self._delivery.go_back_if_requested()


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


class InputsTask(Periodic):
    """Rotates and deletes the spools of the inputs."""

    def __init__(self, inputs: Inputs, delivery: Delivery) -> None:
        self._inputs = inputs
        self._delivery = delivery

    async def run(self, session: Publisher | None) -> None:  # noqa: ARG002
        """Raises Fatal: an input cannot continue."""
        self._inputs.tend(self._delivery.progress, self._delivery.tailer.release)


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
        task = self._task
        self._removal = ArchivedFileDeletion(
            task.delete_archived, task.host, self._destination.partition, rouse=self._wake.rouse
        )

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
        """When the next save is due; never while everything is saved."""
        return self._delivery.save_at if self._delivery.tailer.acks.has_unsaved else math.inf

    async def run(self, session: Publisher | None) -> None:  # noqa: ARG002
        """Save what is due."""
        await self._delivery.save_if_due()
