"""Pull, write, sync, journal, ack: the promise of the collector, in that order. One worker a partition.

A kill at any line loses and doubles nothing: what is not in the journal is cut off the files at the next start, and
the stream is read again from where the journal is.
"""

import asyncio
import datetime as dt
import enum
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from consumer import deadletter, receipts
from consumer.archive import Layout
from consumer.holes import Holes, Step
from consumer.journal import Journal, OpenFile, Position
from consumer.seal import Sealer
from consumer.sink import Sink
from consumer.stage import Hole, Staged, Stager
from shipper import codec, events
from shipper.errors import ArchiveTrouble, SessionLost, ShipperError, Transient, Unavailable
from shipper.layout import day_of
from shipper.lifecycle import Stop, notify
from shipper.model import Delivery
from shipper.ports import Inbox
from shipper.retry import ARCHIVE, SESSION, Patience
from shipper.subjects import control_down, control_up

TAKE_SECONDS = 1.0
MARK_SECONDS = 60.0
PURGE_SECONDS = 10.0
PURGE_ABOVE = 0.7  # of max_bytes: producers must never be blocked by what is archived already
ASK_SECONDS = 2.0
MAX_SEALS = 4
SEAL_AGAIN_SECONDS = 10.0
DAY_SLACK_SECONDS = 60.0  # behind midnight, until a partition that is read to its end is done with the day

_T = TypeVar("_T")
OpenInbox = Callable[[], Awaitable[Inbox]]


class Until(enum.Enum):
    """When a worker's work is done."""

    STOPPED = "stopped"  #: somebody asks it to stop
    DRAINED = "drained"  #: the stream is read to its end
    SEALED = "sealed"  #: that, and every open file is a segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one worker does."""

    partition: int
    stream: str
    output: str
    until: Until
    batch_bytes: int
    segment_bytes: int
    idle_seal: float
    replay_window: float
    hole_patience: float
    hole_limit: float
    receipt_every: float


class Worker:
    """The one writer of a partition: it owns the partition's journal and files."""

    def __init__(
        self, task: Task, journal: Journal, sink: Sink, sealer: Sealer, layout: Layout, open_inbox: OpenInbox,
        stop: Stop, patience: Patience,
    ) -> None:  # fmt: skip
        self._task = task
        self._journal = journal
        self._sink = sink
        self._sealer = sealer
        self._layout = layout
        self._open_inbox = open_inbox
        self._stop = stop
        self._patience = patience
        self._stager = Stager(journal, sink, output=task.output, partition=task.partition, layout=layout)
        self._holes = Holes(patience=task.hole_patience, limit=task.hole_limit)
        self._given_up: dict[str, int] = {}
        self._hand = ThreadPoolExecutor(1, thread_name_prefix=f"partition-{task.partition}")
        self._seals: dict[str, asyncio.Task[None]] = {}  # segments on their way, by the path of their raw bytes
        self._seal_slot = asyncio.Semaphore(1)
        self._told: set[str] = set()
        self._due: dict[str, float] = {}
        self._empty_since = 0.0  # wall clock when the stream was found read to its end; 0: it is not
        self._pending = 0
        self.trouble = "no session with the server yet"

    async def run(self) -> None:
        """Write until the work is done or somebody asks to stop.

        Raises:
            Unavailable: no server for too long. ShipperError: drained, but a hole is open.
        """
        try:
            while not self._stop.asked:
                try:
                    await self._session()
                except (Transient, Unavailable) as error:
                    await self._pause(error)
                else:
                    break
            if self._task.until is Until.SEALED and not self._stop.asked:
                await self._seal_all()
        finally:
            await self._seals_end()
            self._hand.shutdown(wait=True)

    def close(self) -> None:
        """Close files and journal; what is committed is durable already."""
        self._sink.close()
        self._journal.close()

    def status(self) -> dict[str, Any]:
        """What the worker does now, for people and scripts."""
        return {
            "partition": self._task.partition,
            "stream": self._task.stream,
            "applied": self._journal.position.applied,
            "pending": self._pending,
            "open_files": len(self._journal.files),
            "holes": len(self._holes),
            "trouble": self.trouble,
        }

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed."""
        if any(file.key.date <= date for file in self._journal.files.values()):
            return False
        return self._left_behind(date)

    # -- sessions -----------------------------------------------------------------------------------------------

    async def _session(self) -> None:
        inbox = await self._open_inbox()
        try:
            await self._recover()
            await inbox.begin(await self._where_to_begin(inbox))
            await inbox.listen(control_up(">"), self._heard)
            self.trouble = ""
            self._patience.served()
            events.archive_works(partition=self._task.partition)
            events.session_begun(program="collector", subject=self._task.stream)
            notify("READY=1")
            await self._work(inbox)
        finally:
            await inbox.close()

    async def _pause(self, error: Transient | Unavailable) -> None:
        self.trouble = str(error)
        delay = self._patience.after(error, ARCHIVE if isinstance(error, ArchiveTrouble) else SESSION)
        if isinstance(error, ArchiveTrouble):
            events.archive_failed(partition=self._task.partition, error=str(error))
        else:
            events.session_ended(program="collector", error=str(error), hint=error.hint, retry_in=delay)
        await self._stop.nap(delay)

    async def _recover(self) -> None:
        """Cut the files back to what is committed, and finish what was being sealed."""
        self._holes.clear()
        files = [file for file in self._journal.files.values() if not file.sealing]
        damaged = await self._do(self._sink.recover, files, partition=self._task.partition)
        for file in damaged:
            size = self._layout.archive.joinpath(file.path).stat().st_size
            await self._do(self._journal.register, [replace(file, length=size)])
        for file in [file for file in self._journal.files.values() if file.sealing]:
            await self._seal(file)

    async def _where_to_begin(self, inbox: Inbox) -> int:
        """The next sequence to read: the journal's, unless the stream is no longer the one that the journal knows."""
        state, at = await inbox.state(), self._journal.position
        if at.applied == 0:
            await self._do(self._journal.move_to, replace(at, created=state.created))
            return at.resume
        changed = ""
        if state.created != at.created:
            changed = "the stream was created anew"
        elif state.last_sequence < at.applied:
            changed = f"the stream ends at {state.last_sequence}"
        elif await inbox.time_of(at.applied) not in {None, at.applied_ns}:
            changed = f"message {at.applied} is another one"
        if changed:
            events.history_changed(partition=self._task.partition, applied=at.applied, reason=changed)
            at = Position(resume=1, plain_after_ns=max(at.applied_ns, at.plain_after_ns), created=state.created)
            await self._do(self._journal.move_to, at)
        return at.resume

    # -- one session --------------------------------------------------------------------------------------------

    async def _work(self, inbox: Inbox) -> None:
        while not self._stop.asked:
            batch = await inbox.take(self._task.batch_bytes, TAKE_SECONDS)
            if batch:
                self._empty_since = 0.0
                for part in _parts(batch, self._task.batch_bytes):
                    staged = await self._commit(inbox, part)
                    await self._seal_large(staged)
            elif await inbox.all_taken():
                self._empty_since = self._empty_since or time.time()
                if self._task.until is not Until.STOPPED and await self._is_drained(inbox):
                    return
            await self._keep_house(inbox)

    async def _commit(self, inbox: Inbox, batch: list[Delivery]) -> Staged:
        """Make a batch durable, then tell the server. The order is the promise."""
        began = time.monotonic()
        staged = await self._do(self._stager.stage, batch, self._holes.open, self._given_up)
        for dead in staged.dead:
            await deadletter.keep(inbox, dead, stream=self._task.stream)
        await self._do(self._sink.sync)
        await self._do(self._journal.commit, staged.changes)
        await inbox.ack(batch[-1])
        self._note(staged, batch, time.monotonic() - began)
        return staged

    def _note(self, staged: Staged, batch: list[Delivery], seconds: float) -> None:
        self._patience.progress()
        self._holes.update(staged.holes)
        for source in staged.filled:
            self._given_up.pop(source, None)
        self._told.update(known.host for known in staged.changes.sources.values())
        self._pending = batch[-1].pending
        for dead in staged.dead:
            events.message_dead_lettered(
                partition=self._task.partition,
                sequence=dead.delivery.sequence,
                subject=dead.delivery.subject,
                reason=dead.reason,
            )
        events.holes_open(partition=self._task.partition, count=len(self._holes))
        events.batch_committed(
            partition=self._task.partition,
            outcomes=dict(staged.outcomes),
            octets=staged.written_bytes,
            seconds=seconds,
            pending=self._pending,
        )

    async def _do(self, work: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Run `work` in the worker's own thread: the loop goes on receiving meanwhile."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._hand, lambda: work(*arguments, **named))
        except (OSError, sqlite3.Error) as error:
            raise ArchiveTrouble(f"the archive cannot be written: {error}") from error

    # -- holes --------------------------------------------------------------------------------------------------

    async def _is_drained(self, inbox: Inbox) -> bool:
        """Whether nothing is left to do. Raises ShipperError: bytes are missing and nobody answers for them."""
        await self._see_to_holes(inbox, at_once=True)
        silent = [hole for hole in self._holes.open.values() if hole.source in self._unanswered]
        if silent:
            hole = silent[0]
            raise ShipperError(
                f"bytes {hole.missing} of {hole.file} on {hole.host} are not in the stream, the host does not answer",
                hint="start its producer and drain again: it sends them anew; nothing is lost meanwhile",
            )
        return not len(self._holes)

    async def _see_to_holes(self, inbox: Inbox, *, at_once: bool) -> None:
        self._unanswered: set[str] = set()
        for hole in list(self._holes.open.values()):
            match self._holes.next_step(hole, at_once=at_once):
                case Step.ASK:
                    await self._ask_for(inbox, hole)
                case Step.GIVE_UP:
                    await self._give_up(hole)

    async def _ask_for(self, inbox: Inbox, hole: Hole) -> None:
        question = {"v": 1, "ask": "resend", "source": hole.source, "from": hole.missing.start}
        answer = await inbox.ask(control_down(hole.host), question, ASK_SECONDS)
        said = str((answer or {}).get("answer", "no answer"))
        events.hole_asked(
            partition=self._task.partition, host=hole.host, file=hole.file, start=hole.missing.start, answer=said
        )
        if answer is None:
            self._unanswered.add(hole.source)
        self._holes.answered(hole, gone=said == "gone")

    async def _give_up(self, hole: Hole) -> None:
        """Read the stream again from the first block behind the hole, and accept it behind a gap record."""
        self._given_up[hole.source] = hole.missing.end
        await self._do(self._journal.move_to, replace(self._journal.position, resume=hole.sequence))
        raise SessionLost(f"bytes {hole.missing} of {hole.file} on {hole.host} are given up; reading again behind them")

    # -- housekeeping -------------------------------------------------------------------------------------------

    async def _keep_house(self, inbox: Inbox) -> None:
        if len(self._holes) and self._is_due("holes", 1.0):
            await self._see_to_holes(inbox, at_once=False)
        if self._layout.seals and self._is_due("finished", 1.0):
            for file in [file for file in self._journal.files.values() if self._is_finished(file)]:
                await self._seal(file)
        if self._told and self._is_due("receipts", self._task.receipt_every):
            await self._send_receipts(inbox)
        if self._is_due("mark", MARK_SECONDS):
            await self._do(self._journal.mark)
        if self._task.until is Until.STOPPED and self._is_due("purge", PURGE_SECONDS):
            await self._purge(inbox)

    def _is_due(self, what: str, every: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    def _is_finished(self, file: OpenFile) -> bool:
        """Whether a file is sealed now: silent for long, or of a day that is over."""
        if file.sealing:
            return self._is_due(f"seal {file.path}", SEAL_AGAIN_SECONDS)
        silent = time.time() - file.last_ns / 1e9 >= self._task.idle_seal and self._empty_since > 0
        return silent or self._left_behind(file.key.date)

    def _left_behind(self, date: str) -> bool:
        """Whether nothing of `date` can come any more: the stream's time is past it, or it is read to its end."""
        if self._journal.position.applied and day_of(self._journal.position.applied_ns) > date:
            return not len(self._holes)
        if not self._empty_since:
            return False
        midnight = dt.datetime.fromisoformat(f"{date}T00:00:00+00:00") + dt.timedelta(days=1)
        return self._empty_since >= midnight.timestamp() + DAY_SLACK_SECONDS

    async def _seal_large(self, staged: Staged) -> None:
        for file in staged.changes.files.values():
            if self._layout.seals and file.length >= self._task.segment_bytes:
                await self._seal(file)

    async def _seal_all(self) -> None:
        """Seal every open file, so that a report can run on today. Raises ArchiveTrouble: some could not be."""
        for file in list(self._journal.files.values()):
            await self._seal(file)
        await self._seals_end()
        if self._journal.files:
            raise ArchiveTrouble(f"{len(self._journal.files)} files of partition {self._task.partition} are not sealed")

    async def _seal(self, file: OpenFile) -> None:
        """Put `file` aside at once, and make its segment beside the work; wait when too many are on their way."""
        if file.path in self._seals:
            return
        if file.sealing:
            await self._do(self._sealer.put_aside, file, self._journal)
            sealing = file
        else:
            sealing = await self._do(self._sealer.begin, file, self._journal, self._sink)
        self._seals[sealing.path] = asyncio.create_task(self._make_segment(sealing))
        if len(self._seals) > MAX_SEALS:
            await asyncio.wait(self._seals.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _make_segment(self, sealing: OpenFile) -> None:
        try:
            spans = await self._do(self._journal.spans, sealing.path)
            gaps = await self._do(self._journal.gaps, sealing.path)
            async with self._seal_slot:
                await asyncio.to_thread(self._sealer.finish, sealing, spans, gaps)
            await self._do(self._journal.end_sealing, sealing)
        except (OSError, ArchiveTrouble) as error:  # the file waits in the journal; housekeeping tries again
            events.archive_failed(partition=self._task.partition, error=f"sealing {sealing.sealing}: {error}")
        finally:
            del self._seals[sealing.path]

    async def _seals_end(self) -> None:
        while self._seals:
            await asyncio.wait(self._seals.values())

    async def _purge(self, inbox: Inbox) -> None:
        """Remove what is committed and older than the replay window, or in the way; nothing past an open hole."""
        state, at = await inbox.state(), self._journal.position
        before = time.time_ns() - int(self._task.replay_window * 1e9)
        below = min(await self._do(self._journal.applied_before, before) + 1, at.resume)
        if 0 < state.max_bytes * PURGE_ABOVE < state.bytes:
            below = at.resume
        if below > max(1, state.first_sequence):
            purged = await inbox.purge(below)
            events.stream_purged(partition=self._task.partition, below=below, messages=purged)

    # -- receipts -----------------------------------------------------------------------------------------------

    async def _send_receipts(self, inbox: Inbox) -> None:
        hosts, self._told = self._told, set()
        for host in hosts:
            known = await self._do(self._journal.sources_of, host)
            await inbox.tell(control_down(host), receipts.to_message(known))

    async def _heard(self, subject: str, question: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A producer of this partition asks how far its files are archived."""
        if question.get("ask") != "receipts" or question.get("partition") != self._task.partition:
            return None
        host = subject.removeprefix(control_up(""))
        return receipts.to_message(await self._do(self._journal.sources_of, host))


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
