"""When the open files of a partition are sealed: large, silent, of a day that is over, or of a host that left."""

import asyncio
import contextlib
import datetime as dt
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

import zstandard

from consumer.commit.frame_cache import FrameCache, Frames
from consumer.commit.store import PartitionStore
from consumer.model import OpenFile, PartitionOptions
from consumer.partition.stream import StreamView
from consumer.segments.sealer import Recorded, Sealer
from shipper import events
from shipper.control import FinishReply
from shipper.errors import ArchiveTrouble, Fenced, Transient
from shipper.layout import DAY_NS, NANOSECONDS, SEAL_REQUEST_PATH, FileKey, day_of, epoch_of
from shipper.lifecycle import Stop

MAX_SEALS = 4
"""Maximum number of segments in the making."""
SEAL_AGAIN_SECONDS = 10.0
"""Seconds until a file whose sealing failed is tried again."""
SEALING_SECONDS = 2.0
"""Maximum duration of one round of sealing while the stream is read to its end, in seconds."""
SEALING_WHILE_READING_SECONDS = 0.2
"""The same while the stream delivers messages, which go first. There is one round per second."""
DAY_SLACK_SECONDS = 60.0
"""Seconds after midnight (UTC) until a day is over for a stream that is read to its end."""


class SealRequest:
    """The file by which readers request that open files are sealed, made if it is new."""

    def __init__(self, archive: Path) -> None:
        self._path = archive / SEAL_REQUEST_PATH
        self._seen_ns = 0
        with contextlib.suppress(OSError):  # of the disk; other tasks report that, and readers see no file
            self._path.open("ab").close()  # a file that exists keeps its time
            self._seen_ns = self._path.stat().st_mtime_ns

    def is_new(self) -> bool:
        """Whether a reader requested it since the last call."""
        try:
            requested_ns = self._path.stat().st_mtime_ns
        except OSError:
            return False
        is_new, self._seen_ns = requested_ns != self._seen_ns, requested_ns
        return is_new


class SealScheduler:
    """Decides which files of a partition are sealed, and runs the sealer. Owned by the partition's worker."""

    def __init__(
        self,
        options: PartitionOptions,
        store: PartitionStore,
        sealer: Sealer,
        frames: FrameCache,
        stream: StreamView,
        stop: Stop,
    ) -> None:
        self._options = options
        self._store = store
        self._journal = store.journal
        self._layout = store.layout
        self._sealer = sealer
        self._frames = frames
        self._stream = stream
        self._stop = stop
        self._older: dict[FileKey, list[OpenFile]] = {}  # of earlier epochs, oldest first
        self._running: dict[str, asyncio.Task[None]] = {}  # segments in the making, by the path of their raw bytes
        self._retry_at: dict[str, float] = {}  # monotonic time before which a file is not tried again, by path
        self._slot = asyncio.Semaphore(1)
        self._departed: set[str] = set()  # hosts that left, and have open files
        self._is_finishing = False

    # -- requests -----------------------------------------------------------------------------------------------

    def finish(self) -> FinishReply:
        """Seal everything, because the stream is closed. Returns what is left to do before it can be deleted."""
        self._is_finishing = True
        left = len(self._journal.files) if self._layout.seals else 0
        return FinishReply(self._journal.position.resume - 1, left)

    def departure(self, host: str, leaving: int) -> int:
        """The map version by which `host` left the partition. 0 means that it did not, or it left with open files.

        `leaving`: the version by which the host reports that it leaves; its open files are sealed then.
        """
        version = self._journal.left.get(host, 0)
        if self._layout.seals and 0 < leaving <= version:
            opened = (file for file in self._journal.files.values() if file.key.host == host and not file.sealing)
            if any(opened):
                self._departed.add(host)
                return 0
        return version

    @property
    def has_requests(self) -> bool:
        """Whether `finish` or `departure` requested to seal files."""
        return bool(self._departed) or self._is_finishing

    async def seal_requested(self) -> None:
        """Seal what was requested. After `finish`, wait until the stream is read to its end."""
        departed, self._departed = self._departed, set()
        if self._is_finishing and self._stream.is_read:
            departed |= {file.key.host for file in self._journal.files.values()}
            self._is_finishing = False
        await self.seal_departed(departed)

    # -- what is sealed -----------------------------------------------------------------------------------------

    async def seal_large(self, files: Iterable[OpenFile]) -> None:
        """Seal those of `files` that have the size of a segment."""
        for file in files:
            if self._layout.seals and file.raw >= self._options.segment_bytes:
                await self.seal(file)

    async def seal_departed(self, hosts: Iterable[str]) -> None:
        """Seal the open files of hosts that left the partition.

        A host that returns starts new segments, so the segments of all partitions keep the order of time.
        """
        departed = set(hosts)
        for file in self._journal.files.values() if departed and self._layout.seals else ():
            if file.key.host in departed and not file.sealing:
                await self.seal(file)

    async def seal_on_request(self, request: SealRequest) -> None:
        """Seal every open file, if a reader requested it."""
        if await self._store.run(request.is_new):
            await self.seal_departed({file.key.host for file in self._journal.files.values()})

    async def seal_finished(self) -> None:
        """Seal files that get no more bytes, for a limited time: after midnight there may be thousands of them."""
        seconds = SEALING_SECONDS if self._stream.is_read else SEALING_WHILE_READING_SECONDS
        until = time.monotonic() + seconds
        for file in self._journal.files.values():
            if self._is_finished(file):
                await (self.seal(file) if self._layout.seals else self._forget(file))
                if self._stop.requested or time.monotonic() > until:
                    return

    async def seal_all(self) -> None:
        """Seal every open file, so that a report can run on today. Raises ArchiveTrouble: some could not be sealed."""
        for file in self._journal.files.values() if self._layout.seals else ():
            if not self._stop.requested:
                await self.seal(file)
        await self.end()
        if self._layout.seals and self._journal.files and not self._stop.requested:
            left = len(self._journal.files)
            raise ArchiveTrouble(f"{left} files of partition {self._options.partition} are not sealed")

    async def resume(self) -> None:
        """Continue the sealing that a kill, or trouble with the archive, interrupted."""
        files = list(self._journal.files.values())
        self._older = {}
        older = (file for file in files if self._layout.is_older(file.path))
        for file in sorted(older, key=lambda file: epoch_of(file.path) or 0):
            self._older.setdefault(file.key, []).append(file)
        for file in files:
            has_other_codec = self._layout.seals and file.codec != self._layout.frames  # it began with other settings
            if (file.sealing or has_other_codec) and not self._stop.requested:
                await self.seal(file)

    async def end(self) -> None:
        """Wait for the segments in the making. Those that have not begun are left to the next start."""
        while self._running:
            await asyncio.wait(self._running.values())

    # -- which days are complete --------------------------------------------------------------------------------

    def past(self) -> str:
        """The newest date for which the stream can deliver nothing more, and all is sealed.

        Empty means that it is unknown.
        """
        over, oldest = self._newest_over(), min((file.key.date for file in self._journal.files.values()), default="")
        return min(over, (dt.date.fromisoformat(oldest) - dt.timedelta(days=1)).isoformat()) if oldest else over

    def _newest_over(self) -> str:
        """The newest date for which the stream can deliver nothing more. Empty means that it is unknown.

        The stream is at a later day, or was read to its end on a later day.
        """
        at = self._journal.position
        if at.reads_again:
            return ""  # what follows an open hole is of the old date
        newest_ns = max(at.applied_ns, int((self._stream.read_at - DAY_SLACK_SECONDS) * NANOSECONDS)) - DAY_NS
        return day_of(newest_ns) if newest_ns >= 0 else ""

    def _is_finished(self, file: OpenFile) -> bool:
        """Whether a file is to be sealed now: silent for long, or of a day that is over."""
        if file.sealing:
            return file.path not in self._running and self._may_retry(file.path)
        if self._layout.is_older(file.path):
            return True
        silent = self._stream.wall() - file.last_ns / 1e9 >= self._options.idle_seal and self._stream.is_read
        return silent or file.key.date <= self._newest_over()

    def _may_retry(self, path: str) -> bool:
        """Whether the last attempt to seal a file is long enough ago. If so, the next one counts from now."""
        now = time.monotonic()
        if now < self._retry_at.get(path, 0.0):
            return False
        self._retry_at[path] = now + SEAL_AGAIN_SECONDS
        return True

    # -- sealing ------------------------------------------------------------------------------------------------

    async def seal(self, file: OpenFile) -> None:
        """Rename `file`, and make its segment in the background. Wait while too many are in the making."""
        for older in self._older.pop(file.key, ()):  # names give the order of bytes
            await self._seal(older)
        await self._seal(file)

    async def _seal(self, file: OpenFile) -> None:
        if file.path in self._running or file.path not in self._journal.files:
            return
        await self._store.lease.hold()
        is_empty = file.length == 0 and self._layout.is_older(file.path)
        if is_empty and not await self._store.run(self._journal.gaps, file.path):
            await self._store.run(self._drop, file)
            return
        frames = None
        if file.sealing:
            await self._store.run(self._sealer.take_up, file, self._journal)
            sealing = file
        else:
            frames = await self._store.run(self._frames.take, file.path, file.raw)
            sealing = await self._store.run(self._sealer.begin, file, self._journal, self._store.sink)
        self._running[sealing.path] = asyncio.create_task(self._make_segment(sealing, frames))
        if len(self._running) > MAX_SEALS:
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)

    async def _make_segment(self, sealing: OpenFile, frames: Frames | None) -> None:
        try:
            recorded = await self._store.run(Recorded.of, self._journal, sealing.path)
            await self._store.lease.prove()  # the next owner then sees that it is sealed, and under which name
            if not self._layout.is_own(sealing.opened):
                await self._store.run(self._sealer.find, sealing, self._journal)
            async with self._slot:
                if self._stop.requested:
                    return
                await asyncio.to_thread(self._sealer.finish, sealing, recorded, frames)
            await self._store.run(self._journal.forget, sealing)
            self._retry_at.pop(sealing.path, None)
            events.archive_works(partition=self._options.partition)
        except (OSError, sqlite3.Error, zstandard.ZstdError, ArchiveTrouble) as error:
            self._may_retry(sealing.path)  # the file is in the journal until then
            events.archive_failed(partition=self._options.partition, error=f"sealing {sealing.sealing}: {error}")
        except (Fenced, Transient):  # the next owner continues, or the next round
            self._may_retry(sealing.path)
        finally:
            del self._running[sealing.path]

    def _drop(self, file: OpenFile) -> None:
        """Remove a file that was created and never got a byte that was committed."""
        (self._layout.archive / file.path).unlink(missing_ok=True)
        self._journal.forget(file)

    async def _forget(self, file: OpenFile) -> None:
        """Close a file of a template, which stays as it is, until something is appended to it again."""
        if not file.ends_open:  # else only the journal knows that a newline is due before another source
            self._store.sink.release(file.path)
            await self._store.run(self._journal.forget, file)
