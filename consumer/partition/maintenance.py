"""What a partition's worker does besides committing batches: its periodic tasks, and answers to requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from consumer.commit.batch import Batch
from consumer.commit.store import PartitionStore
from consumer.model import PartitionOptions, Until
from consumer.partition.missing_ranges import MissingRanges
from consumer.partition.purge import SitePurge, StreamPurge
from consumer.partition.receipt_sender import ReceiptSender, RequestLimit
from consumer.partition.sealing import SealRequest, SealScheduler
from consumer.partition.stream import StreamView
from shipper.control import FinishRequest, ReceiptsRequest, request_from_json
from shipper.periodic import Periodic
from shipper.ports import Inbox
from shipper.subjects import MOVER, control_up


class ControlRequests:
    """Answers the requests of one partition."""

    def __init__(self, options: PartitionOptions, receipts: ReceiptSender, sealing: SealScheduler) -> None:
        self._options = options
        self._receipts = receipts
        self._sealing = sealing
        self.limit = RequestLimit(options.partition)

    async def listen(self, inbox: Inbox) -> None:
        """Answer requests until the session ends."""
        await inbox.listen(control_up(">"), partial(self._answer, inbox))

    async def _answer(self, inbox: Inbox, subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        host = subject.removeprefix(control_up(""))
        match request_from_json(message):
            case ReceiptsRequest(self._options.partition) as request:
                if self.limit.allows(host, request):
                    left = self._sealing.departure(host, request.leaving)
                    return (await self._receipts.reply(inbox, host, request, left=left)).to_json()
            case FinishRequest(self._options.partition):
                if host != MOVER:  # no host may have the files of all hosts sealed
                    self.limit.refuse(host, "only the partitioner may request that")
                elif (await inbox.state()).is_closed:
                    return self._sealing.finish().to_json()
                else:
                    self.limit.refuse(host, f"stream {self._options.stream} is not closed")
        return None


HOLES_SECONDS = 1.0
SHARED_SECONDS = 30.0
POLL_SECONDS = 5.0
SEAL_SECONDS = 1.0
MARK_SECONDS = 60.0
FORGET_SECONDS = 3600.0
LEAST_KEEP_SECONDS = 31 * 86400.0
"""Minimum time for which the journal keeps a source that ended: a producer remembers it for 30 days."""


def partition_tasks(
    options: PartitionOptions,
    store: PartitionStore,
    missing: MissingRanges,
    sealing: SealScheduler,
    receipts: ReceiptSender,
    purge: StreamPurge,
) -> Iterator[Periodic]:
    """Every periodic task of a partition, in the order in which they run when several are due."""
    journal, stream = store.journal, purge.stream

    async def forget_sources(_: Inbox) -> None:
        keep = max(options.keep_sources, LEAST_KEEP_SECONDS)
        await store.run(journal.forget_sources, int((stream.wall() - keep) * 1e9))

    yield Periodic("request missing ranges", missing.check, lambda: HOLES_SECONDS, lambda: len(missing) > 0)
    yield Periodic("read shared sources", lambda _: store.read_shared(), lambda: SHARED_SECONDS)
    yield Periodic("check open files", lambda _: store.check_files(), lambda: POLL_SECONDS)
    yield Periodic("forget the sums of redacted sources", lambda _: store.forget_redacted(), lambda: POLL_SECONDS)
    yield Periodic("seal requested", lambda _: sealing.seal_requested(), lambda: 0, lambda: sealing.has_requests)
    if options.seals_on_request and store.layout.seals:
        request = SealRequest(store.layout.archive)
        yield Periodic("seal on request", lambda _: sealing.seal_on_request(request), lambda: SEAL_SECONDS)
    yield Periodic("seal finished files", lambda _: sealing.seal_finished(), lambda: SEAL_SECONDS)
    yield Periodic("send receipts", receipts.send_round, receipts.interval, lambda: bool(receipts.changed))
    yield Periodic("mark the time in the journal", lambda _: store.run(journal.mark), lambda: MARK_SECONDS)
    if options.keep_sources:
        yield Periodic("forget sources", forget_sources, lambda: FORGET_SECONDS)
    if options.until is Until.STOPPED:
        yield Periodic("purge the stream", purge.run, purge.interval)


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What is done for a partition besides committing batches. Owned by its worker.

    `tasks` run in the order given. `stream` is the worker's information about the stream.
    """

    tasks: Sequence[Periodic]
    sealing: SealScheduler
    receipts: ReceiptSender
    site: SitePurge
    requests: ControlRequests
    stream: StreamView

    async def run_due(self, inbox: Inbox) -> None:
        """Run every task that is due. Raises what a task raises: it ends the session."""
        for task in self.tasks:
            await task.run_if_due(inbox)

    async def committed(self, batch: Batch) -> None:
        """After a commit: note whose receipts changed, seal the files that are full and those of hosts that left."""
        self.receipts.committed(batch.sources)
        await self.sealing.seal_large(batch.files.values())
        await self.sealing.seal_departed(batch.left)

    async def end(self) -> None:
        """Cancel the purge of the site, and wait for the segments in the making."""
        self.site.end()
        await self.sealing.end()
