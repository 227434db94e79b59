"""Housekeeping beside the work: segments are sealed, the stream is purged, producers are told what is archived."""

import asyncio
import datetime as dt
import functools
import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import Any

import zstandard

from consumer.archive import Layout
from consumer.commit.frame_cache import Frames, ReadyFrames
from consumer.commit.journal import Journal
from consumer.commit.other_partitions import OtherPartitions, each_once
from consumer.commit.sink import Sink
from consumer.model import Known, OpenFile, SourceKey
from consumer.options import Task, Until
from consumer.partition import receipts
from consumer.partition.fence import Fence
from consumer.partition.io_thread import Hand
from consumer.partition.purge import SiteKeeper, is_nearly_full, room_of
from consumer.segments.sealer import Sealer
from shipper import events
from shipper.control import MAX_SOURCES, FinishReply, ReceiptsReply, ReceiptsRequest
from shipper.errors import ArchiveTrouble, Fenced, Transient
from shipper.layout import FileKey, day_of, epoch_of
from shipper.lifecycle import Stop
from shipper.manifest import Gap
from shipper.model import StreamState
from shipper.ports import Inbox
from shipper.subjects import control_down

LOOK_SECONDS = 5.0
MARK_SECONDS = 60.0
HOSTS_AT_ONCE = 100  # are told what is archived: ten thousand in one go would hold the stream up for seconds
TELL_AGAIN_SECONDS = 1.0  # while there are more
PURGE_SECONDS = 10.0
PURGE_AGAIN_SECONDS = 1.0  # while the stream is nearly full
MAX_SEALS = 4
SEAL_AGAIN_SECONDS = 10.0
SEALING_SECONDS = 2.0  # at a time; then the stream is looked at
SEALING_BESIDE_SECONDS = 0.2  # in each second, while the stream brings something: it goes ahead
FORGET_SECONDS = 3600.0
LEAST_KEEP_SECONDS = 31 * 86400.0
DAY = 86400.0
DAY_SLACK_SECONDS = 60.0  # behind midnight, until a partition that is read to its end is done with the day


class House:
    """What has to be done now and then for one partition. Owned by its worker; files are touched by its hand only."""

    def __init__(
        self, task: Task, journal: Journal, sink: Sink, sealer: Sealer, layout: Layout, hand: Hand, stop: Stop,
        fence: Fence, ready: ReadyFrames, wall: Callable[[], float], others: OtherPartitions,
    ) -> None:  # fmt: skip
        self._task = task
        self._others = others
        self._journal = journal
        self._sink = sink
        self._sealer = sealer
        self._layout = layout
        self._hand = hand
        self._stop = stop
        self._fence = fence
        self._ready = ready
        self._wall = wall  # seconds since the epoch
        self._older: dict[FileKey, list[OpenFile]] = {}  # of epochs that are over, oldest first
        self._seals: dict[str, asyncio.Task[None]] = {}  # segments on their way, by the path of their raw bytes
        self._seal_slot = asyncio.Semaphore(1)
        self._untold: dict[str, dict[SourceKey, None]] = {}  # by host: what changed since it was told
        self._due: dict[str, float] = {}
        self._to_seal: set[str] = set()  # hosts that left, and whose files were not put aside
        self._site = SiteKeeper(task.partition, fence)
        self._is_finishing = False
        self._is_empty = False
        self.is_held_up = False  #: a stream is nearly full, and nothing but what lies behind open holes could go
        self._room = 0.0  # bytes that could come behind the last look at the stream, until it would be nearly full
        self._purged_at = 0.0  # when that was
        self._empty_at = 0.0  # wall clock when the stream was last found read to its end; 0: never

    def found_empty(self) -> None:
        """The stream is read to its end just now."""
        self._is_empty, self._empty_at = True, self._wall()

    def found_work(self, octets: int) -> None:
        """The stream brought so much; when it may be nearly full of it, it is looked at before its time."""
        self._is_empty = False
        self._room -= octets
        if self._room < 0:
            self._due["purge"] = min(self._due.get("purge", 0.0), self._purged_at + PURGE_AGAIN_SECONDS)

    def passed_by(self) -> None:
        """What lies behind open holes may go: the next purge finds room."""
        self.is_held_up = self._site.is_held_up = False

    def archived(self, sources: Iterable[SourceKey]) -> None:
        """More of these sources is archived: their hosts are to be told."""
        for source in sources:
            self._untold.setdefault(source.host, {})[source] = None

    def site_status(self) -> dict[str, Any]:
        """How the stream of its edge site is; {}: it has none, or nobody knows."""
        return self._site.status()

    def is_past(self, date: str) -> bool:
        """Whether nothing can come for `date` any more and all of it is sealed."""
        if any(file.key.date <= date for file in self._journal.files.values()):
            return False
        return self._left_behind(date)

    def past(self) -> str:
        """The newest day that is past; empty: none is known to be."""
        at = self._journal.position
        if at.is_behind:
            return ""
        begins = [when - DAY for when in (at.applied_ns / 1e9, self._empty_at - DAY_SLACK_SECONDS) if when > DAY]
        opened = (file.key.date for file in self._journal.files.values())
        newest = max((day_of(int(when * 1e9)) for when in begins), default="")
        oldest = min(opened, default="")
        return newest if not oldest else min(newest, _day_before(oldest))

    def is_due(self, what: str, every: float) -> bool:
        """Whether `what` was not done in the last `every` seconds; then it counts as done now."""
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every
        return True

    async def keep(self, inbox: Inbox) -> None:
        """Do what is due."""
        if self.is_due("look", LOOK_SECONDS):
            await self._look_over()
        if self._to_seal or self._is_finishing:
            await self._seal_now()
        if self.is_due("finished", 1.0):
            await self._see_to_finished()
        if self._untold and self.is_due("receipts", self._receipts_every):
            await self.send_receipts(inbox, to=HOSTS_AT_ONCE)
        if self.is_due("mark", MARK_SECONDS):
            await self._hand.do(self._journal.mark)
        if self._task.keep_sources and self.is_due("forget", FORGET_SECONDS):
            await self._forget_sources()
        if self._task.until is Until.STOPPED and self.is_due("purge", PURGE_SECONDS):
            await self._purge(inbox)

    async def _look_over(self) -> None:
        """Raises ArchiveTrouble: somebody removed, replaced or cut a file that is being appended, or was to be."""
        files = self._journal.files.values()
        opened = [file for file in files if not file.sealing and not self._is_older(file)]
        await self._hand.do(self._sink.look_over, opened)

    # -- sealing ------------------------------------------------------------------------------------------------

    async def seal_large(self, files: Iterable[OpenFile]) -> None:
        """Seal those of `files` that have a segment's size."""
        for file in files:
            if self._layout.seals and file.raw >= self._task.segment_bytes:
                await self.seal(file)

    async def seal_departed(self, hosts: Iterable[str]) -> None:
        """Put aside what these hosts have open.

        Should they come back, that is a segment of its own: so the segments of all partitions have the order of time.
        """
        departed = set(hosts)
        for file in self._journal.files.values() if departed and self._layout.seals else ():
            if file.key.host in departed and not file.sealing:
                await self.seal(file)

    def finish(self) -> FinishReply:
        """Seal everything, because the stream is closed; what is left to do before it can be deleted."""
        self._is_finishing = True
        left = len(self._journal.files) if self._layout.seals else 0
        return FinishReply(self._journal.position.resume - 1, left)

    async def _seal_now(self) -> None:
        departed, self._to_seal = self._to_seal, set()
        if self._is_finishing and self._is_empty:
            departed |= {file.key.host for file in self._journal.files.values()}
            self._is_finishing = False
        await self.seal_departed(departed)

    async def seal_what_was_begun(self) -> None:
        """Go on where a kill, or trouble with the archive, interrupted sealing."""
        files = list(self._journal.files.values())
        self._older = {}
        for file in sorted(filter(self._is_older, files), key=lambda file: epoch_of(file.path) or 0):
            self._older.setdefault(file.key, []).append(file)
        for file in [file for file in files if file.sealing or self._layout.is_stored_otherwise(file)]:
            if not self._stop.asked:
                await self.seal(file)

    async def _see_to_finished(self) -> None:
        """Seal what is over; behind midnight that may be thousands of files, and the stream is not to wait for them."""
        until = time.monotonic() + (SEALING_SECONDS if self._is_empty else SEALING_BESIDE_SECONDS)
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
        for older in self._older.pop(file.key, ()):  # names tell the order of bytes
            await self._seal(older)
        await self._seal(file)

    async def _seal(self, file: OpenFile) -> None:
        if file.path in self._seals or file.path not in self._journal.files:
            return
        await self._fence.hold()
        if file.length == 0 and self._is_older(file) and not await self._gaps(file.path):
            await self._hand.do(self._drop, file)
            return
        frames = None
        if file.sealing:
            await self._hand.do(self._sealer.take_up, file, self._journal)
            sealing = file
        else:
            frames = await self._hand.do(self._ready.take, file.path, file.raw)
            sealing = await self._hand.do(self._sealer.begin, file, self._journal, self._sink)
        self._seals[sealing.path] = asyncio.create_task(self._make_segment(sealing, frames))
        if len(self._seals) > MAX_SEALS:
            await asyncio.wait(self._seals.values(), return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Wait for the segments that are being made; those that wait for their turn are left to the next start."""
        self._site.end()
        while self._seals:
            await asyncio.wait(self._seals.values())

    async def _make_segment(self, sealing: OpenFile, frames: Frames | None) -> None:
        try:
            spans = await self._hand.do(self._journal.spans, sealing.path)
            gaps = await self._gaps(sealing.path)
            await self._fence.prove()  # whoever comes next knows that it is sealed, and under which name
            if not self._layout.is_own(sealing.opened):
                await self._hand.do(self._sealer.find, sealing, self._journal)
            async with self._seal_slot:
                if self._stop.asked:
                    return
                await asyncio.to_thread(self._sealer.finish, sealing, spans, gaps, frames)
            await self._hand.do(self._journal.forget, sealing)
            self._due.pop(f"seal {sealing.path}", None)
            events.archive_works(partition=self._task.partition)
        except (OSError, sqlite3.Error, zstandard.ZstdError, ArchiveTrouble) as error:
            # the file waits in the journal; housekeeping tries again
            self.is_due(f"seal {sealing.path}", SEAL_AGAIN_SECONDS)
            events.archive_failed(partition=self._task.partition, error=f"sealing {sealing.sealing}: {error}")
        except (Fenced, Transient):  # the next owner goes on, or the next look
            self.is_due(f"seal {sealing.path}", SEAL_AGAIN_SECONDS)
        finally:
            del self._seals[sealing.path]

    async def _gaps(self, path: str) -> tuple[Gap, ...]:
        return await self._hand.do(self._journal.gaps, path)

    def _drop(self, file: OpenFile) -> None:
        """A file that was begun, and never got a byte that counts."""
        (self._layout.archive / file.path).unlink(missing_ok=True)
        self._journal.forget(file)

    async def _let_go(self, file: OpenFile) -> None:
        """A template's file stays as it is: forget it, until something is appended again."""
        if not file.ends_open:  # else only the journal knows that a newline is due before another source
            self._sink.release(file.path)
            await self._hand.do(self._journal.forget, file)

    def _is_finished(self, file: OpenFile) -> bool:
        """Whether a file is sealed now: silent for long, or of a day that is over."""
        if file.sealing:
            return file.path not in self._seals and self.is_due(f"seal {file.path}", SEAL_AGAIN_SECONDS)
        if self._is_older(file):
            return True
        silent = self._wall() - file.last_ns / 1e9 >= self._task.idle_seal and self._is_empty
        return silent or self._left_behind(file.key.date)

    def _is_older(self, file: OpenFile) -> bool:
        """Whether nothing is appended to a file any more, because its epoch is over."""
        return self._layout.is_older(file.path)

    def _left_behind(self, date: str) -> bool:
        """Whether nothing of `date` can come any more: the stream's time is past it, or it was read to its end."""
        at = self._journal.position
        if at.is_behind:
            return False  # a hole is open, or may be: what lies behind it is of the old date
        if at.applied and day_of(at.applied_ns) > date:
            return True
        return self._empty_at >= _midnight_behind(date) + DAY_SLACK_SECONDS

    # -- stream and producers -----------------------------------------------------------------------------------

    async def _purge(self, inbox: Inbox) -> None:
        """Remove what is committed and older than the replay window, or in the way; nothing past an open hole."""
        state = await inbox.state()
        below = await self._dispensable_below(state)
        if is_nearly_full(state):
            self._due["purge"] = time.monotonic() + PURGE_AGAIN_SECONDS
        if state.site:
            self._site.see_to(inbox, self._dispensable_below)
            below -= 1  # the last one tells where its site is, and where the server goes on sourcing
        self._room, self._purged_at = room_of(state), time.monotonic()
        may_purge = below > max(1, state.first_sequence)
        is_stuck = is_nearly_full(state) and not may_purge
        self.is_held_up = (is_stuck or self._site.is_held_up) and self._journal.position.is_behind
        if may_purge:
            await self._fence.prove()  # else one that slept would remove what the next owner has not got
            purged = await inbox.purge(below)
            events.stream_purged(partition=self._task.partition, below=below, messages=purged)

    async def _dispensable_below(self, state: StreamState) -> int:
        """Below which sequence a stream, here or at the site of this one, need not keep anything for this archive."""
        at, before = self._journal.position, int((self._wall() - self._task.replay_window) * 1e9)
        if is_nearly_full(state):
            return at.resume
        return min(await self._hand.do(self._journal.applied_before, before) + 1, at.resume)

    @property
    def _receipts_every(self) -> float:
        every = self._task.receipt_every
        return every if len(self._untold) <= HOSTS_AT_ONCE else min(every, TELL_AGAIN_SECONDS)

    async def send_receipts(self, inbox: Inbox, *, to: int | None = None) -> None:
        """Tell hosts, at most `to`, what changed since they were told: the longest waiting first."""
        for host in list(itertools.islice(self._untold, to)):
            left = list(self._untold.pop(host))
            while left:
                message = await self._receipts(inbox, left[:MAX_SOURCES])
                await inbox.tell(control_down(host), message.to_json())
                left = left[max(1, len(message.receipts)) :]

    async def receipts_of(self, inbox: Inbox, host: str, request: ReceiptsRequest) -> ReceiptsReply:
        """What the archive holds of `host`: of the sources that its producer requests, or of the newest."""
        left = self._left_by(host, request.leaving)  # first: the receipts read after it are final
        if request.sources is not None:
            return await self._receipts(inbox, [SourceKey(host, source) for source in request.sources], left=left)
        place = await self._place(inbox)
        known = await self._hand.do(self._newest_of, host)
        return receipts.reply(known, place, left=left)

    def _newest_of(self, host: str) -> list[Known]:
        """The newest sources of a host in the whole archive: it may have shipped in another partition before."""
        most = MAX_SOURCES
        here, elsewhere = self._journal.sources_of(host, newest=most), self._others.newest_of(host, newest=most)
        return each_once((*here, *elsewhere), newest=most)

    def _archived(self, source: SourceKey) -> Known | None:
        """What the archive holds of a source, in this partition or in another one."""
        if (own := self._journal.source(source)) is not None:
            return own
        found = self._others.find(source)
        return found.known if found else None

    def _left_by(self, host: str, leaving: int) -> int:
        """The version by which `host` left the partition last; 0: never, or what it is `leaving` by is open here."""
        version = self._journal.left.get(host, 0)
        if self._layout.seals and 0 < leaving <= version:
            opened = (file for file in self._journal.files.values() if file.key.host == host and not file.sealing)
            if any(opened):
                self._to_seal.add(host)
                return 0
        return version

    async def _receipts(self, inbox: Inbox, sources: list[SourceKey], *, left: int = -1) -> ReceiptsReply:
        place = await self._place(inbox)  # first: what is journaled meanwhile is more than it promises
        known = await self._hand.do(lambda: [self._archived(source) for source in sources])
        return receipts.reply([each for each in known if each is not None], place, left=left)

    async def _place(self, inbox: Inbox) -> receipts.Place:
        through = await inbox.at_origin(self._journal.position.resume - 1)
        return receipts.Place(self._task.archive, through or 0)

    async def _forget_sources(self) -> None:
        """Forget what ended long ago; not before its producer has, which remembers it for 30 days."""
        keep = max(self._task.keep_sources, LEAST_KEEP_SECONDS)
        await self._hand.do(self._journal.forget_sources, int((self._wall() - keep) * 1e9))


def _day_before(date: str) -> str:
    return (dt.date.fromisoformat(date) - dt.timedelta(days=1)).isoformat()


@functools.lru_cache(maxsize=64)
def _midnight_behind(date: str) -> float:
    return (dt.datetime.fromisoformat(f"{date}T00:00:00+00:00") + dt.timedelta(days=1)).timestamp()
