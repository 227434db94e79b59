"""Pull, write, sync, journal, ack: the promise of the collector, in that order. One worker a partition.

A kill at any line loses and doubles nothing: what is not in the journal is cut off the files at the next start, and
the stream is read again from where the journal is.
"""

import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from consumer.archive import Layout
from consumer.commit.applier import Archived, Hole, Staged, Stager
from consumer.commit.frame_cache import ReadyFrames
from consumer.commit.journal import Journal
from consumer.commit.other_partitions import OtherPartitions
from consumer.commit.sink import Sink
from consumer.dlq import publish
from consumer.model import Position, SourceKey
from consumer.options import Task, Until
from consumer.partition import commit_events
from consumer.partition.fence import Fence, Unshared
from consumer.partition.io_thread import Hand
from consumer.partition.maintenance import House
from consumer.partition.missing_ranges import Asking, Holes
from consumer.partition.receipts import Questions
from consumer.segments.sealer import Sealer
from shipper import codec, events
from shipper.control import FinishRequest, ReceiptsRequest, request_from_json
from shipper.errors import ArchiveTrouble, Fenced, Poison, SessionLost, ShipperError, Transient, Unavailable
from shipper.lifecycle import Stop, notify
from shipper.model import Delivery
from shipper.ports import Inbox
from shipper.retry import ARCHIVE, SESSION, Patience
from shipper.subjects import MOVER, control_up, parse_log_subject
from shipper.watchdog import Pulse

TAKE_SECONDS = 1.0
DRAIN_TAKE_SECONDS = 0.05  # whoever waits for the end is not kept waiting
TEXT_A_PAYLOAD = 2
"""Most bytes of text between two syncs, for each byte of a batch: with half as much, syncs took twice the time."""
SHARED_SECONDS = 30.0
"""Between two reads of the sources that the partitions of other processes share with this one."""
STEADY_SECONDS = 1.0  # a disk that is nearly full takes a small batch now and then

OpenInbox = Callable[[], Awaitable[Inbox]]


class Worker:
    """The one writer of a partition: it owns the partition's journal and files."""

    def __init__(
        self, task: Task, journal: Journal, sink: Sink, sealer: Sealer, layout: Layout, open_inbox: OpenInbox,
        stop: Stop, patience: Patience, fence: Fence | None = None, wall: Callable[[], float] = time.time,
        pulse: Pulse | None = None, others: OtherPartitions | None = None,
    ) -> None:  # fmt: skip
        self._task = task
        self._journal = journal
        self._others = others or OtherPartitions(task.partition)
        self._sink = sink
        self._layout = layout
        self._open_inbox = open_inbox
        self._stop = stop
        self._patience = patience
        self._fence = fence or Unshared()
        self._pulse = pulse or Pulse(f"partition {task.partition}")
        self._hand = Hand(f"partition-{task.partition}", self._pulse)
        ready = ReadyFrames(sealer.codec)
        self._stager = Stager(
            journal,
            sink,
            output=task.output,
            partition=task.partition,
            layout=layout,
            ready=ready,
            archive=task.archive,
            others=self._others,
        )
        self._house = House(
            task, journal, sink, sealer, layout, self._hand, stop, self._fence, ready, wall, self._others
        )
        self._holes = Holes(patience=task.hole_patience, limit=task.hole_limit)
        self._asking = Asking(task, self._holes)
        self._questions = Questions(task.partition)
        self._cut_letters = 0
        self._over_budget: Counter[str] = Counter()  # messages by the budget of their host that was exhausted
        self._pending = 0
        self._read_to = 0  # sequence that this session has judged last
        self._is_failing = False  # the archive: until it took data for a while, not only until a session began
        self._works_since = 0.0  # of an archive that failed; 0: it does not
        self.trouble = "no session with the server yet"
        self.archived = Archived()

    async def run(self) -> None:
        """Write until the work is done or somebody asks to stop.

        Raises:
            Unavailable: no server for too long. ShipperError: drained, but a hole is open.
            Fenced: another collector has the partition; what is not committed is left to it.
        """
        try:
            while not self._stop.asked:
                self._pulse.turn()
                try:
                    await self._session()
                except (Transient, Unavailable) as error:
                    await self._pause(error)
                else:
                    break
            if self._task.until is Until.SEALED and not self._stop.asked:
                await self._house.seal_all()
        except Fenced:
            self._stop.ask()  # nothing more is sealed
            raise
        finally:
            await self._house.end()
            self._hand.close()

    def close(self) -> None:
        """Close files and journal; what is committed is durable already."""
        self._sink.close()
        self._journal.close()
        self._others.close()

    def status(self) -> dict[str, Any]:
        """What the worker does now, for people and scripts."""
        return {
            "partition": self._task.partition,
            "stream": self._task.stream,
            "applied": self._journal.position.applied,
            "pending": self._pending,
            "open_files": len(self._journal.files),
            "holes": len(self._holes),
            "refused_questions": self._questions.refused,
            "cut_dead_letters": self._cut_letters,
            "over_budget": dict(self._over_budget),
            "trouble": self.trouble,
            **self._house.site_status(),
        }

    @property
    def partition(self) -> int:
        """The partition that it writes."""
        return self._task.partition

    @property
    def position(self) -> Position:
        """How far the stream is applied, and durable."""
        return self._journal.position

    @property
    def files(self) -> frozenset[str]:
        """Paths of the files that the journal knows, relative to the archive."""
        return frozenset(self._journal.files)

    @property
    def put_aside(self) -> frozenset[str]:
        """The paths that files had before they were put aside to be sealed, which may not have happened yet."""
        return frozenset(file.opened for file in self._journal.files.values() if file.opened)

    @property
    def forked(self) -> Mapping[str, int]:
        """The hosts of which two producers continued one source, and when it was seen last: ns since 1970."""
        return self._journal.forked

    def past(self) -> str:
        """The newest day of which nothing can come any more, all of it sealed; empty: none is known to be."""
        return self._house.past()

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed."""
        return self._house.is_past(date)

    # -- sessions -----------------------------------------------------------------------------------------------

    async def _session(self) -> None:
        inbox = await self._open_inbox()
        try:
            await self._fence.hold()
            await self._recover()
            await inbox.begin(await self._where_to_begin(inbox))
            await inbox.listen(control_up(">"), functools.partial(self._heard, inbox))
            self._patience.served()
            if not self._is_failing:
                self.trouble = ""
                events.archive_works(partition=self._task.partition)
                events.session_begun(program="collector", subject=self._task.stream)
            notify("READY=1")
            await self._work(inbox)
        finally:
            await inbox.close()

    async def _pause(self, error: Transient | Unavailable) -> None:
        self.trouble = str(error)
        self._is_failing = self._is_failing or isinstance(error, ArchiveTrouble)
        self._works_since = 0.0
        delay = self._patience.after(error, ARCHIVE if isinstance(error, ArchiveTrouble) else SESSION)
        if isinstance(error, ArchiveTrouble):
            events.archive_failed(partition=self._task.partition, error=str(error))
        else:
            events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)
        self._pulse.turn(rest=delay)
        await self._stop.nap(delay)

    def _found_working(self) -> None:
        """The archive took what there was to write, or there is nothing to write and nothing else fails."""
        self._patience.progress()
        if not self._is_failing:
            return
        self._works_since = self._works_since or time.monotonic()
        if time.monotonic() - self._works_since >= STEADY_SECONDS:
            events.archive_recovered(partition=self._task.partition)
            self._is_failing, self.trouble = False, ""

    async def _recover(self) -> None:
        """Begin as at a start: believe the disk, cut the files back to what is committed, finish what was sealed."""
        self._holes.clear()
        self._read_to = 0
        await self._hand.do(self._journal.reload)
        self._others.sources.shared.update(await self._hand.do(self._journal.shared))
        files = [
            file for file in self._journal.files.values() if not file.sealing and not self._layout.is_older(file.path)
        ]
        for left in await self._hand.do(self._sink.recover, files, partition=self._task.partition):
            await self._hand.do(self._journal.shorten, left)
        await self._house.seal_what_was_begun()

    async def _where_to_begin(self, inbox: Inbox) -> int:
        """The next sequence to read: the journal's, unless the stream is no longer the one that the journal knows."""
        state, at = await inbox.state(), self._journal.position
        if at.applied == 0:
            await self._hand.do(self._journal.move_to, replace(at, created=state.created))
            return at.resume
        changed, there = "", await inbox.time_of(at.applied)
        if state.created != at.created and there == at.applied_ns:  # the same messages, restored from a backup
            at = replace(at, created=state.created)
            await self._hand.do(self._journal.move_to, at)
        if state.created != at.created:
            changed = "the stream was created anew"
        elif state.last_sequence < at.applied:
            changed = f"the stream ends at {state.last_sequence}"
        elif there not in {None, at.applied_ns}:
            changed = f"message {at.applied} is another one"
        if changed:
            events.history_changed(partition=self._task.partition, applied=at.applied, reason=changed)
            at = Position(resume=1, plain_after_ns=max(at.applied_ns, at.plain_after_ns), created=state.created)
            await self._hand.do(self._journal.move_to, at)
        elif (gone := state.first_sequence - max(at.resume, at.applied + 1)) > 0:
            events.messages_gone(partition=self._task.partition, first=state.first_sequence - gone, count=gone)
            at = replace(at, applied=state.first_sequence - 1, resume=state.first_sequence)
            await self._hand.do(self._journal.move_to, at)
        return at.resume

    # -- one session --------------------------------------------------------------------------------------------

    async def _work(self, inbox: Inbox) -> None:
        while not self._stop.asked:
            self._pulse.turn(rest=self._take_seconds)
            batch, is_read = await inbox.take(self._task.batch_bytes, self._take_seconds), False
            if batch:
                self._house.found_work(sum(len(each.payload) for each in batch))
                await self._commit_all(inbox, batch)
            elif is_read := await inbox.all_taken():
                self._house.found_empty()
                self._patience.progress()
                if self._task.until is not Until.STOPPED and await self._is_drained(inbox):
                    break
            if len(self._holes) and self._house.is_due("holes", 1.0):
                await self._see_to_holes(inbox, at_once=self._house.is_held_up)
                await self._pass_by_holes(inbox)
            if self._house.is_due("shared", SHARED_SECONDS):  # a collector in another process may have met some
                self._others.sources.shared |= await self._hand.do(self._others.shared)
            await self._house.keep(inbox)
            if is_read:  # and what is to be sealed can be
                self._found_working()
        await self._house.send_receipts(inbox)  # the next owner may be another archive's collector

    @property
    def _take_seconds(self) -> float:
        return TAKE_SECONDS if self._task.until is Until.STOPPED else DRAIN_TAKE_SECONDS

    async def _commit_all(self, inbox: Inbox, batch: list[Delivery]) -> None:
        for part in _parts(batch, TEXT_A_PAYLOAD * self._task.batch_bytes):
            staged = await self._commit(inbox, part)
            await self._house.seal_large(staged.changes.files.values())
            await self._house.seal_departed(staged.changes.left)
            if self._stop.asked:
                return  # the rest is delivered again

    async def _commit(self, inbox: Inbox, batch: list[Delivery]) -> Staged:
        """Make a batch durable, then tell the server. The order is the promise."""
        began = time.monotonic()
        async with self._others.sources.exclusive(self._maybe_elsewhere(batch)):
            await self._fence.hold()
            staged = await self._hand.do(self._stager.stage, batch, self._holes.open, self._asking.given_up)
            await publish.keep_all(inbox, staged.dead, stream=self._task.stream)
            await self._fence.hold()
            await self._hand.do(self._sink.sync)
            await self._fence.hold()
            await self._hand.do(self._journal.commit, staged.changes)
            await inbox.ack(batch[-1])
            self._others.sources.shared |= staged.changes.shared
        self._note(staged, batch, time.monotonic() - began)
        return staged

    def _maybe_elsewhere(self, batch: list[Delivery]) -> frozenset[SourceKey]:
        """The sources of a batch that another partition may hold, too: those that are new here, and shared ones."""
        shared, is_cached = self._others.sources.shared, self._journal.is_cached
        named = {(delivery.subject, id_) for delivery in batch if (id_ := delivery.headers.get("Log-Id"))}
        sources = (SourceKey(host, id_) for subject, id_ in named if (host := _host_of(subject)))
        return frozenset(source for source in sources if source in shared or not is_cached(source))

    def _note(self, staged: Staged, batch: list[Delivery], seconds: float) -> None:
        self._found_working()
        self._pending = batch[-1].pending
        commit_events.tell(staged, self._holes, partition=self._task.partition, seconds=seconds, pending=self._pending)
        self._cut_letters += staged.crowd.cut.total()
        for (_, budget), messages in staged.crowd.refused.items():
            self._over_budget[budget] += messages
        self._holes.update(staged.holes)
        if self._task.until is not Until.STOPPED:
            self.archived.add(staged)
        self._read_to = batch[-1].sequence
        self._holes.read_to(self._read_to)
        self._asking.written({key: known.watermark for key, known in staged.changes.sources.items()})
        self._house.archived(staged.changes.sources)

    # -- holes --------------------------------------------------------------------------------------------------

    async def _is_drained(self, inbox: Inbox) -> bool:
        """Whether nothing is left to do. Raises ShipperError: bytes are missing and nobody answers for them."""
        await self._see_to_holes(inbox, at_once=True)
        for hole in self._holes.unanswered:
            raise ShipperError(
                f"bytes {hole.missing} of {hole.file} on {hole.source.host} are not in the stream,"
                " and the host does not answer",
                hint="start its producer and drain again: it sends them anew; nothing is lost meanwhile",
            )
        return not len(self._holes)

    async def _see_to_holes(self, inbox: Inbox, *, at_once: bool) -> None:
        await self._fill_from_other_partitions()
        if lasting := await self._asking.see_to(inbox, at_once=at_once):
            await self._give_up(lasting)

    async def _fill_from_other_partitions(self) -> None:
        """Read the stream again where another partition of this archive has what is missing. Raises SessionLost."""
        holes = list(self._holes.open.values())
        found = [(hole, await self._hand.do(self._others.find, hole.source)) for hole in holes]
        filled = [hole for hole, other in found if other and other.known.watermark >= hole.missing.end]
        if filled:
            self._others.sources.shared |= {hole.source for hole in filled}
            await self._read_again_from_holes()
            raise SessionLost(f"another partition has archived what was missing of {filled[0].file}; reading again")

    async def _pass_by_holes(self, inbox: Inbox) -> None:
        """Let what lies behind holes make room for what is missing, once all of it is promised again.

        In a stream that is full of it there would be room for neither, until the hole is given up. A session that reads
        again has not met every hole before it is where the last one was.
        """
        at = self._journal.position
        promised = self._house.is_held_up and len(self._holes) and self._holes.are_promised
        if promised and (self._read_to >= at.applied or await inbox.all_taken()):
            await self._fence.hold()
            await self._hand.do(self._journal.move_to, replace(at, resume=at.applied + 1))
            self._holes.pass_by(at.applied + 1)
            self._house.passed_by()
            events.holes_passed_by(partition=self._task.partition, holes=len(self._holes), below=at.applied + 1)

    async def _read_again_from_holes(self) -> None:
        again = replace(self._journal.position, resume=self._holes.first_sequence)
        await self._hand.do(self._journal.move_to, again)

    async def _give_up(self, holes: list[Hole]) -> None:
        """Read the stream again from the first block behind any hole, and accept these holes' behind gap records."""
        for hole in holes:
            self._asking.give_up(hole)
        await self._read_again_from_holes()
        missing = ", ".join(f"bytes {hole.missing} of {hole.file} on {hole.source.host}" for hole in holes[:5])
        raise SessionLost(f"{missing} are given up; reading again behind them")

    # -- receipts -----------------------------------------------------------------------------------------------

    async def _heard(self, inbox: Inbox, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Handle a request about this partition: for receipts, or to seal every file because its stream is closed."""
        host = subject.removeprefix(control_up(""))
        match request_from_json(question):
            case ReceiptsRequest(self._task.partition) as request:
                if self._questions.may_ask(host, request):
                    return (await self._house.receipts_of(inbox, host, request)).to_json()
            case FinishRequest(self._task.partition):
                if host != MOVER:  # no host may have the files of all hosts sealed
                    self._questions.refuse(host, "only the partitioner may ask for that")
                elif (await inbox.state()).is_closed:
                    return self._house.finish().to_json()
                else:
                    self._questions.refuse(host, f"stream {self._task.stream} is not closed")
        return None


def _host_of(subject: str) -> str:
    """The host that published on `subject`; empty: it is no log subject, so its message is a dead letter."""
    try:
        return parse_log_subject(subject).host
    except Poison:
        return ""


def _parts(batch: list[Delivery], at_most_bytes: int) -> Iterator[list[Delivery]]:
    """`batch` cut so that the decoded bytes of each part are bounded: a payload may be a hundredth of its block."""
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
