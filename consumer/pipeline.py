"""The worker of one partition: read a batch, write it, sync, commit the journal, acknowledge.

A kill at any line loses and duplicates nothing: the next start truncates the files to what the journal has committed,
and reads the stream again from the journal's position.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from consumer.archive.directory import ArchiveLocation
from consumer.commit.applier import Applier
from consumer.commit.batch import Batch, Hole, RunTotals
from consumer.commit.frame_cache import FrameCache
from consumer.commit.other_partitions import ArchiveSources
from consumer.commit.store import PartitionStore
from consumer.commit.watermark import REASON_EXCLUDED, REASON_FORKED, REASON_REWRITTEN
from consumer.model import PartitionOptions, SourceKey, Until
from consumer.partition import dead_letters
from consumer.partition.maintenance import ControlRequests, Maintenance, partition_tasks
from consumer.partition.missing_ranges import MissingRanges
from consumer.partition.pace import RequestedPace
from consumer.partition.purge import StreamPurge
from consumer.partition.receipt_sender import ReceiptSender
from consumer.partition.sealing import SealScheduler
from consumer.partition.session_loop import SessionLoop
from consumer.partition.stream import StreamView, first_to_read
from consumer.segments.sealer import Sealer
from shipper import codec, events
from shipper.errors import Fenced
from shipper.model import Delivery
from shipper.ports import Inbox
from shipper.retry import Patience
from shipper.settings import CollectorSettings
from shipper.subjects import stream_name

TAKE_SECONDS = 1.0
"""Seconds to wait for the first message of a batch."""
DRAIN_TAKE_SECONDS = 0.05
"""The same for a worker that ends when the stream is read to its end."""
GATHER_SECONDS = 0.05
"""Minimum seconds between two commits of few lines: each syncs, whatever it holds."""
GATHER_BYTES = 64 * 1024
"""Payload of a batch from which on the next one does not wait."""
TEXT_A_PAYLOAD = 2
"""Maximum bytes of text between two syncs, per byte of `batch_bytes`: with half as much, syncs took twice the time."""


class Worker:
    """The one writer of a partition."""

    def __init__(
        self,
        options: PartitionOptions,
        store: PartitionStore,
        applier: Applier,
        missing: MissingRanges,
        maintenance: Maintenance,
        sessions: SessionLoop,
        pace: RequestedPace,
    ) -> None:
        self._options = options
        self._store = store
        self.journal = store.journal
        self._applier = applier
        self._missing = missing
        self._maintenance = maintenance
        self._sessions = sessions
        self._pace = pace
        self._stop = sessions.stop
        self._take_seconds = TAKE_SECONDS if options.until is Until.STOPPED else DRAIN_TAKE_SECONDS
        self._next_take_at = 0.0  # monotonic
        self._cut_letters = 0
        self._over_budget: Counter[str] = Counter()  # messages by the budget of their host that was exhausted
        self.partition = options.partition
        self.pending = 0  #: messages in the stream that follow the last batch
        self.archived = RunTotals()

    async def run(self) -> None:
        """Write until the work is done or a stop is requested.

        Raises Unavailable: no server for too long. ShipperError: drained, but a hole is open. Fenced: another collector
        has the partition; it continues from the last commit.
        """
        try:
            await self._sessions.run(self._session)
            if self._options.until is Until.SEALED and not self._stop.requested:
                await self._maintenance.sealing.seal_all()
        except Fenced:
            self._stop.request()  # so that no further segment is begun
            raise
        finally:
            await self._maintenance.end()
            self._store.stop()

    # -- one session --------------------------------------------------------------------------------------------

    async def _session(self, inbox: Inbox) -> None:
        await self._store.lease.hold()
        self._missing.begin_session()
        await self._store.recover(self._options.partition)
        await self._store.forget_redacted()
        await self._maintenance.sealing.resume()
        await inbox.begin(await first_to_read(inbox, self._store, self._options.partition))
        await self._maintenance.requests.listen(inbox)
        self._sessions.established()
        while not self._stop.requested:
            self._sessions.pulse.turn(rest=self._take_seconds)
            if (left := self._next_take_at - time.monotonic()) > 0:
                await self._stop.nap(left)
                continue
            batch, is_read = await inbox.take(self._options.batch_bytes, self._take_seconds), False
            if batch:
                size = sum(len(each.payload) for each in batch)
                self._maintenance.stream.received(size)
                self._pace.received(self.partition, batch)
                await self._commit_all(inbox, batch)
                gathers = size < GATHER_BYTES and self._options.until is Until.STOPPED
                self._next_take_at = time.monotonic() + GATHER_SECONDS if gathers else 0.0
            elif is_read := await inbox.all_taken():
                self._maintenance.stream.read_to_end()
                self._sessions.progress()
                if self._options.until is not Until.STOPPED and await self._missing.is_drained(inbox):
                    break
            await self._maintenance.run_due(inbox)
            if is_read:
                self._sessions.archive_works()
        await self._maintenance.receipts.send_all(inbox)  # the next owner may be a collector of another archive

    async def _commit_all(self, inbox: Inbox, taken: list[Delivery]) -> None:
        # One by one where sessions end again and again, so that the message that ends them is named.
        most = 0 if self._sessions.is_stuck_at(taken[0].first_sequence) else TEXT_A_PAYLOAD * self._options.batch_bytes
        for messages in _parts(taken, most):
            self._sessions.committing(messages[0])
            batch = await self._commit(inbox, messages)
            self._sessions.committing(None)
            await self._maintenance.committed(batch)
            if self._stop.requested:
                return  # the rest is delivered again

    async def _commit(self, inbox: Inbox, messages: list[Delivery]) -> Batch:
        """Make a batch durable, then acknowledge it. This order is the promise of the collector."""
        began, store, missing = time.monotonic(), self._store, self._missing
        async with store.others.sources.exclusive(store.others.maybe_shared(messages, store.journal.is_cached)):
            await store.lease.hold()
            batch = self._applier.begin(messages, missing.open, missing.given_up)
            await store.run(self._applier.stage, batch)
            await dead_letters.keep_all(inbox, batch.dead_letters, stream=self._options.stream)
            await store.lease.hold()
            await store.run(store.sink.sync)
            await store.lease.hold()
            await store.run(store.journal.commit, batch)
            await inbox.ack(messages[-1])
            store.others.sources.shared |= batch.shared
        self._note(batch, time.monotonic() - began)
        return batch

    def _note(self, batch: Batch, seconds: float) -> None:
        last = batch.messages[-1]
        self._sessions.archive_works()
        self.pending = last.pending
        _report(batch, self._missing.open, partition=self.partition, seconds=seconds, pending=self.pending)
        self._cut_letters += batch.cut.total()
        for (_, budget), messages in batch.refused.items():
            self._over_budget[budget] += messages
        self._missing.committed(batch)
        if self._options.until is not Until.STOPPED:
            self.archived.add(batch.totals)

    # -- what others see of it ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The state of the worker, as `fshipper status` shows it."""
        return {
            "partition": self.partition,
            "stream": self._options.stream,
            "applied": self.journal.position.applied,
            "pending": self.pending,
            "open_files": len(self.journal.files),
            "holes": len(self._missing),
            "refused_questions": self._maintenance.requests.limit.refused,
            "cut_dead_letters": self._cut_letters,
            "over_budget": dict(self._over_budget),
            "pace_seconds": self._pace.seconds,
            "trouble": self.trouble,
            **self._maintenance.site.status(),
        }

    @property
    def trouble(self) -> str:
        """Why the worker cannot write at the moment. Empty means that it can."""
        return self._sessions.trouble

    def past(self) -> str:
        """The newest date for which `is_past` is true. Empty means that it is unknown."""
        return self._maintenance.sealing.past()

    def is_past(self, date: str) -> bool:
        """Whether the stream can deliver nothing more for `date`, and all of it is sealed."""
        return date <= self.past()


def _parts(batch: list[Delivery], at_most_bytes: int) -> Iterator[list[Delivery]]:
    """`batch` in parts of a bounded size after decompression: a payload may be a hundredth of its text."""
    part: list[Delivery] = []
    size = 0
    for delivery in batch:
        part.append(delivery)
        size += codec.decoded_bytes(delivery.headers, delivery.payload)
        if size >= at_most_bytes:
            yield part
            part, size = [], 0
    if part:
        yield part


def make_worker(
    options: PartitionOptions,
    store: PartitionStore,
    sealer: Sealer,
    sessions: SessionLoop,
    pace: RequestedPace,
    wall: Callable[[], float] = time.time,
) -> Worker:
    """A worker that writes `store` in `sessions`. `wall` is the time in seconds since 1970."""
    stream, frames = StreamView(wall), FrameCache(sealer.codec, store.sink.archive)
    missing, purge = MissingRanges(options, store, stream), StreamPurge(options, store, stream)
    sealing = SealScheduler(options, store, sealer, frames, stream, sessions.stop)
    receipts = ReceiptSender(options, store, pace)
    tasks = list(partition_tasks(options, store, missing, sealing, receipts, purge))
    requests = ControlRequests(options, receipts, sealing)
    maintenance = Maintenance(tasks, sealing, receipts, purge.site, requests, stream)
    return Worker(options, store, Applier(options, store, frames), missing, maintenance, sessions, pace)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What the workers of a collector share, as `make_worker` needs it."""

    place: ArchiveLocation
    settings: CollectorSettings
    until: Until
    sealer: Sealer
    pace: RequestedPace
    sources: ArchiveSources
    open_files: Callable[[], int]  #: maximum number of open files of one partition
    open_inbox: Callable[..., Awaitable[Inbox]]  #: of a `stream`
    patience: Callable[[], Patience]

    def options(self, partition: int, hole_patience: float) -> PartitionOptions:
        """The options of one partition's worker. `hole_patience` is the maximum of that option, in seconds."""
        chosen = self.settings
        return PartitionOptions(
            partition=partition,
            stream=stream_name(self.place.prefix, partition),
            output=chosen.output if self.place.layout.seals else "messages.log",
            until=self.until,
            batch_bytes=chosen.batch,
            segment_bytes=chosen.segment,
            idle_seal=chosen.idle_seal,
            replay_window=chosen.replay_window,
            hole_patience=min(chosen.hole_patience, hole_patience),
            hole_limit=chosen.hole_limit,
            receipt_every=chosen.receipt_every,
            archive=self.place.archive,
            keep_sources=chosen.keep_sources,
            host_text_bytes=chosen.host_text,
            seals_on_request=chosen.seal_on_request,
        )


# -- log events and metrics of a committed batch: reported after the commit only, not for each attempt -------------


def _report(
    batch: Batch, holes_before: Mapping[SourceKey, Hole], *, partition: int, seconds: float, pending: int
) -> None:
    """Report a batch that took `seconds`. `pending` messages follow it in the stream."""
    for loss in batch.losses:
        host, file, (start, end) = loss.source.host, batch.sources[loss.source].file, loss.span
        if loss.reason == REASON_REWRITTEN:
            events.source_rewritten(partition=partition, host=host, file=file, offset=start)
        elif loss.reason == REASON_EXCLUDED:
            events.exclusion_recorded(partition=partition, host=host, file=file, start=start, end=end)
        elif loss.reason != REASON_FORKED:  # which `source_forked` reports
            events.gap_recorded(partition=partition, host=host, file=file, start=start, end=end, reason=loss.reason)
    for source, fork in batch.forked:
        about = {"host": source.host, "file": source.file, "source": source.id}
        events.source_forked(partition=partition, fork=fork.id, start=fork.watermark, **about)
    for other, known in batch.archived_before:
        about = {"host": known.host, "file": known.file, "source": known.id}
        events.source_archived_before(partition=partition, other=other, watermark=known.watermark, **about)
    for dead in batch.dead_letters:
        sequence, subject = dead.delivery.sequence, dead.delivery.subject
        events.message_dead_lettered(partition=partition, sequence=sequence, subject=subject, reason=dead.reason)
    _report_hosts(batch, partition)
    for key, hole in batch.holes.items():
        if key not in holes_before:
            start, end = hole.missing
            events.hole_opened(partition=partition, host=key.host, file=hole.file, start=start, end=end)
    events.holes_open(partition=partition, count=len(batch.holes))
    outcomes, octets = dict(batch.outcomes), batch.written_bytes
    events.batch_committed(partition=partition, outcomes=outcomes, octets=octets, seconds=seconds, pending=pending)


def _report_hosts(batch: Batch, partition: int) -> None:
    """Report the hosts that sent too much, or what is ignored."""
    for host, messages in batch.overflowed.items():
        events.host_crowded(partition=partition, host=host, messages=messages)
    for host, blocks in batch.bad_counts.items():
        events.redacted_counts_ignored(partition=partition, host=host, blocks=blocks)
    for host, letters in batch.cut.items():
        events.dead_letter_cut(partition=partition, host=host, letters=letters)
    for (host, budget), messages in batch.refused.items():
        events.host_over_budget(partition=partition, host=host, budget=budget, messages=messages)
