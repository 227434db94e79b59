"""The periodic tasks of a partition's worker, and the one loop that runs those that are due."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from consumer.commit.applier import Staged
from consumer.commit.store import PartitionStore
from consumer.options import PartitionOptions, Until
from consumer.partition.control import ControlRequests
from consumer.partition.missing_ranges import MissingRanges
from consumer.partition.purge import StreamPurge
from consumer.partition.receipts import ReceiptSender
from consumer.partition.sealing import SealScheduler
from consumer.partition.stream import StreamView
from shipper.ports import Inbox

HOLES_SECONDS = 1.0
SHARED_SECONDS = 30.0
LOOK_SECONDS = 5.0
SEAL_SECONDS = 1.0
MARK_SECONDS = 60.0
FORGET_SECONDS = 3600.0
LEAST_KEEP_SECONDS = 31 * 86400.0
"""Minimum time for which the journal keeps a source that ended: a producer remembers it for 30 days."""


def _always() -> bool:
    return True


class PeriodicTask:
    """Work that is repeated `every` seconds while it `is_wanted`. The interval begins when the work begins."""

    def __init__(
        self, name: str, run: Callable[[Inbox], Awaitable[None]], every: Callable[[], float],
        is_wanted: Callable[[], bool] = _always,
    ) -> None:  # fmt: skip
        self.name = name
        self.is_wanted = is_wanted
        self._run = run
        self._every = every
        self._begun_at = float("-inf")

    def is_due(self) -> bool:
        """Whether the interval since the work last began is over."""
        return time.monotonic() >= self._begun_at + self._every()

    async def run(self, inbox: Inbox) -> None:
        """Do the work. Raises what it raises."""
        self._begun_at = time.monotonic()
        await self._run(inbox)


def partition_tasks(
    options: PartitionOptions, store: PartitionStore, missing: MissingRanges, sealing: SealScheduler,
    receipts: ReceiptSender, purge: StreamPurge,
) -> Iterator[PeriodicTask]:  # fmt: skip
    """Every periodic task of a partition, in the order in which they run when several are due."""
    journal, stream = store.journal, purge.stream

    async def forget_sources(_: Inbox) -> None:
        keep = max(options.keep_sources, LEAST_KEEP_SECONDS)
        await store.run(journal.forget_sources, int((stream.wall() - keep) * 1e9))

    yield PeriodicTask("request missing ranges", missing.check, lambda: HOLES_SECONDS, lambda: len(missing) > 0)
    yield PeriodicTask("read shared sources", lambda _: store.read_shared(), lambda: SHARED_SECONDS)
    yield PeriodicTask("check open files", lambda _: store.check_files(), lambda: LOOK_SECONDS)
    yield PeriodicTask("seal requested", lambda _: sealing.seal_requested(), lambda: 0, lambda: sealing.has_requests)
    yield PeriodicTask("seal finished files", lambda _: sealing.seal_finished(), lambda: SEAL_SECONDS)
    yield PeriodicTask("send receipts", receipts.send_round, receipts.interval, lambda: receipts.has_changes)
    yield PeriodicTask("mark the time in the journal", lambda _: store.run(journal.mark), lambda: MARK_SECONDS)
    if options.keep_sources:
        yield PeriodicTask("forget sources", forget_sources, lambda: FORGET_SECONDS)
    if options.until is Until.STOPPED:
        yield PeriodicTask("purge the stream", purge.run, purge.interval)


class Maintenance:
    """What is done for a partition besides committing batches. Owned by its worker.

    `tasks` run in the order given. `stream` is what the worker tells them about the stream.
    """

    def __init__(
        self, tasks: Sequence[PeriodicTask], sealing: SealScheduler, receipts: ReceiptSender, purge: StreamPurge,
        requests: ControlRequests, stream: StreamView,
    ) -> None:  # fmt: skip
        self._tasks = tasks
        self._purge = purge
        self.sealing = sealing
        self.receipts = receipts
        self.requests = requests
        self.stream = stream

    async def run_due(self, inbox: Inbox) -> None:
        """Run every task that is due. Raises what a task raises: it ends the session."""
        for task in self._tasks:
            if task.is_wanted() and task.is_due():
                await task.run(inbox)

    async def committed(self, staged: Staged) -> None:
        """After a commit: note whose receipts changed, seal the files that are full and those of hosts that left."""
        self.receipts.committed(staged.changes.sources)
        await self.sealing.seal_large(staged.changes.files.values())
        await self.sealing.seal_departed(staged.changes.left)

    def site_status(self) -> dict[str, Any]:
        """The state of the stream of the edge site; {}: there is none, or it is unknown."""
        return self._purge.site.status()

    async def end(self) -> None:
        """Cancel the purge of the site, and wait for the segments in the making."""
        self._purge.site.end()
        await self.sealing.end()
