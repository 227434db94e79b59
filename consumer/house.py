"""Housekeeping beside the work: segments are sealed, the stream is purged, producers are told what is archived."""

import asyncio
import datetime as dt
import sqlite3
import time
from collections.abc import Iterable

import zstandard

from consumer import receipts
from consumer.archive import Layout
from consumer.hand import Hand
from consumer.journal import Journal
from consumer.records import OpenFile
from consumer.seal import Sealer
from consumer.sink import Sink
from consumer.task import Task, Until
from shipper import events
from shipper.errors import ArchiveTrouble
from shipper.layout import day_of
from shipper.lifecycle import Stop
from shipper.ports import Inbox
from shipper.subjects import control_down

MARK_SECONDS = 60.0
PURGE_SECONDS = 10.0
PURGE_AGAIN_SECONDS = 1.0  # while the stream is nearly full
PURGE_ABOVE = 0.7  # of max_bytes: producers must never be blocked by what is archived already
MAX_SEALS = 4
SEAL_AGAIN_SECONDS = 10.0
SEALING_SECONDS = 2.0  # at a time; then the stream is read on for a while
DAY_SLACK_SECONDS = 60.0  # behind midnight, until a partition that is read to its end is done with the day


class House:
    """What has to be done now and then for one partition. Owned by its worker; files are touched by its hand only."""

    def __init__(
        self, task: Task, journal: Journal, sink: Sink, sealer: Sealer, layout: Layout, hand: Hand, stop: Stop
    ) -> None:
        self._task = task
        self._journal = journal
        self._sink = sink
        self._sealer = sealer
        self._layout = layout
        self._hand = hand
        self._stop = stop
        self._seals: dict[str, asyncio.Task[None]] = {}  # segments on their way, by the path of their raw bytes
        self._seal_slot = asyncio.Semaphore(1)
        self._told: set[str] = set()
        self._due: dict[str, float] = {}
        self._is_empty = False
        self._empty_at = 0.0  # wall clock when the stream was last found read to its end; 0: never

    def found_empty(self) -> None:
        """The stream is read to its end just now."""
        self._is_empty, self._empty_at = True, time.time()

    def found_work(self) -> None:
        """The stream brought something."""
        self._is_empty = False

    def archived(self, hosts: Iterable[str]) -> None:
        """More of these hosts is archived: they are to be told."""
        self._told.update(hosts)

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed."""
        if any(file.key.date <= date for file in self._journal.files.values()):
            return False
        return self._left_behind(date)

    def is_due(self, what: str, every: float) -> bool:
        """Whether `what` was not done in the last `every` seconds; then it counts as done now."""
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def keep(self, inbox: Inbox) -> None:
        """Do what is due."""
        if self.is_due("finished", 1.0):
            await self._see_to_finished()
        if self._told and self.is_due("receipts", self._task.receipt_every):
            await self._send_receipts(inbox)
        if self.is_due("mark", MARK_SECONDS):
            await self._hand.do(self._journal.mark)
        if self._task.until is Until.STOPPED and self.is_due("purge", PURGE_SECONDS):
            await self._purge(inbox)

    # -- sealing ------------------------------------------------------------------------------------------------

    async def seal_large(self, files: Iterable[OpenFile]) -> None:
        """Seal those of `files` that have a segment's size."""
        for file in files:
            if self._layout.seals and file.length >= self._task.segment_bytes:
                await self.seal(file)

    async def seal_what_was_begun(self) -> None:
        """Go on where a kill, or trouble with the archive, interrupted sealing."""
        for file in [file for file in self._journal.files.values() if file.sealing]:
            await self.seal(file)

    async def _see_to_finished(self) -> None:
        """Seal what is over; behind midnight that may be thousands of files, and the stream is not to wait for them."""
        until = time.monotonic() + SEALING_SECONDS
        for file in self._journal.files.values():
            if self._is_finished(file):
                await (self.seal(file) if self._layout.seals else self._let_go(file))
                if self._stop.asked or time.monotonic() > until:
                    return

    async def seal_all(self) -> None:
        """Seal every open file, so that a report can run on today. Raises ArchiveTrouble: some could not be."""
        for file in self._journal.files.values() if self._layout.seals else ():
            if not self._stop.asked:
                await self.seal(file)
        await self.end()
        if self._layout.seals and self._journal.files and not self._stop.asked:
            raise ArchiveTrouble(f"{len(self._journal.files)} files of partition {self._task.partition} are not sealed")

    async def seal(self, file: OpenFile) -> None:
        """Put `file` aside at once, and make its segment beside the work; wait when too many are on their way."""
        if file.path in self._seals:
            return
        if file.sealing:
            await self._hand.do(self._sealer.put_aside, file, self._journal)
            sealing = file
        else:
            sealing = await self._hand.do(self._sealer.begin, file, self._journal, self._sink)
        self._seals[sealing.path] = asyncio.create_task(self._make_segment(sealing))
        if len(self._seals) > MAX_SEALS:
            await asyncio.wait(self._seals.values(), return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Wait for the segments that are being made; those that wait for their turn are left to the next start."""
        while self._seals:
            await asyncio.wait(self._seals.values())

    async def _make_segment(self, sealing: OpenFile) -> None:
        try:
            spans = await self._hand.do(self._journal.spans, sealing.path)
            gaps = await self._hand.do(self._journal.gaps, sealing.path)
            async with self._seal_slot:
                if self._stop.asked:
                    return
                await asyncio.to_thread(self._sealer.finish, sealing, spans, gaps)
            await self._hand.do(self._journal.forget, sealing)
            self._due.pop(f"seal {sealing.path}", None)
            events.archive_works(partition=self._task.partition)
        except (OSError, sqlite3.Error, zstandard.ZstdError, ArchiveTrouble) as error:
            # the file waits in the journal; housekeeping tries again
            self.is_due(f"seal {sealing.path}", SEAL_AGAIN_SECONDS)
            events.archive_failed(partition=self._task.partition, error=f"sealing {sealing.sealing}: {error}")
        finally:
            del self._seals[sealing.path]

    async def _let_go(self, file: OpenFile) -> None:
        """A template's file stays as it is: forget it, until something is appended again."""
        if not file.ends_open:  # else only the journal knows that a newline is due before another source
            self._sink.release(file.path)
            await self._hand.do(self._journal.forget, file)

    def _is_finished(self, file: OpenFile) -> bool:
        """Whether a file is sealed now: silent for long, or of a day that is over."""
        if file.sealing:
            return file.path not in self._seals and self.is_due(f"seal {file.path}", SEAL_AGAIN_SECONDS)
        silent = time.time() - file.last_ns / 1e9 >= self._task.idle_seal and self._is_empty
        return silent or self._left_behind(file.key.date)

    def _left_behind(self, date: str) -> bool:
        """Whether nothing of `date` can come any more: the stream's time is past it, or it was read to its end."""
        at = self._journal.position
        if at.is_behind:
            return False  # a hole is open, or may be: what lies behind it is of the old date
        if at.applied and day_of(at.applied_ns) > date:
            return True
        midnight = dt.datetime.fromisoformat(f"{date}T00:00:00+00:00") + dt.timedelta(days=1)
        return self._empty_at >= midnight.timestamp() + DAY_SLACK_SECONDS

    # -- stream and producers -----------------------------------------------------------------------------------

    async def _purge(self, inbox: Inbox) -> None:
        """Remove what is committed and older than the replay window, or in the way; nothing past an open hole."""
        state, at = await inbox.state(), self._journal.position
        before = time.time_ns() - int(self._task.replay_window * 1e9)
        below = min(await self._hand.do(self._journal.applied_before, before) + 1, at.resume)
        if 0 < state.max_bytes * PURGE_ABOVE < state.bytes:
            below = at.resume
            self._due["purge"] = time.monotonic() + PURGE_AGAIN_SECONDS
        if below > max(1, state.first_sequence):
            purged = await inbox.purge(below)
            events.stream_purged(partition=self._task.partition, below=below, messages=purged)

    async def _send_receipts(self, inbox: Inbox) -> None:
        hosts, self._told = self._told, set()
        for host in hosts:
            await inbox.tell(control_down(host), await self.receipts_of(host))

    async def receipts_of(self, host: str) -> dict[str, object]:
        """What the archive holds of `host`, for its producer."""
        known = await self._hand.do(self._journal.sources_of, host, newest=receipts.MAX_RECEIPTS)
        return receipts.to_message(known)
