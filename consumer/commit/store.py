"""What one partition has on disk: its journal, its open files, and the rules under which they are written."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from consumer.archive.directory import Layout
from consumer.archive.journal import Journal
from consumer.archive.manifests import RedactedSources
from consumer.commit.batch import Batch, GrowingFile
from consumer.commit.other_partitions import OtherPartitions, each_once
from consumer.commit.sink import Sink
from consumer.model import ArchivedSource, OpenFile, Position, SourceKey
from shipper.errors import ArchiveTrouble
from shipper.lifecycle import Pulse

_T = TypeVar("_T")


class Fence(Protocol):
    """The right to write a partition for a limited time."""

    async def hold(self) -> None:
        """Return while the right is valid, at least for the next moment.

        Raises Fenced: another collector has the partition. Transient: unknown at the moment; try again later.
        """

    async def prove(self) -> None:
        """Return once it is confirmed that the right was still valid after the call.

        The next owner of the partition then sees everything that was committed before the call. Raises as `hold` does.
        """


class PartitionStore:
    """The journal and the open files of one partition. Owned by its worker.

    Only its thread touches the journal and the files; the end of each call of it is a sign of life for `pulse`. `lease`
    is the right to write them. `others` reads the journals of the archive's other partitions.
    """

    def __init__(
        self, journal: Journal, sink: Sink, layout: Layout, others: OtherPartitions, lease: Fence, pulse: Pulse
    ) -> None:
        self.journal = journal
        self.sink = sink
        self.layout = layout
        self.others = others
        self.lease = lease
        self._pulse = pulse
        self._redacted = RedactedSources(sink.archive)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=pulse.name.replace(" ", "-"))

    async def run(self, work: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """The result of `work`, run in the thread. Raises ArchiveTrouble where it raises OSError or sqlite3.Error."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*arguments, **named))
        except (OSError, sqlite3.Error) as error:
            raise ArchiveTrouble(f"the archive cannot be written: {error}") from error
        finally:
            self._pulse.sign()

    def write(self, batch: Batch, files: Iterable[GrowingFile]) -> None:
        """Write what waits of `files`. It is committed with the rest of the batch. Called in the partition's thread.

        New files are journaled, then created, then appended to: a kill leaves no file that the journal does not name.
        Raises OSError, sqlite3.Error.
        """
        created, batch.created = batch.created, []
        self.journal.register(file.committed for file in created)
        for file in created:
            self.sink.create(file.committed)
        for file in files:
            if file.waiting_bytes:
                batch.written_bytes += file.waiting_bytes
                append = self.sink.append_direct if file.is_large and batch.keeps_up else self.sink.append
                offset, buffers = file.take()
                append(file.committed, buffers, at=offset)

    async def recover(self, partition: int) -> None:
        """Return to the last commit, as at a start: reload the journal, truncate the files to their committed length.

        Raises ArchiveTrouble.
        """
        await self.run(self.journal.reload)
        self.others.sources.shared.update(await self.run(self.journal.shared))
        for left in await self.run(self.sink.recover, self._appended(), partition=partition):
            await self.run(self.journal.shorten, left)

    async def move_to(self, position: Position) -> None:
        """Commit another position in the stream. Raises ArchiveTrouble."""
        await self.run(self.journal.move_to, position)

    async def check_files(self) -> None:
        """Raises ArchiveTrouble: a file that is open, or will be reopened, was removed, replaced or truncated."""
        await self.run(self.sink.check_files, self._appended())

    def _appended(self) -> list[OpenFile]:
        files = self.journal.files.values()
        return [file for file in files if not file.sealing and not self.layout.is_older(file.path)]

    async def forget_redacted(self) -> None:
        """Take the sums of sources of which text was redacted, also by other processes, out of the journal."""
        with contextlib.suppress(OSError):  # nothing is lost while the record cannot be read: it is read again
            if keys := self._redacted.new():
                await self.run(self.journal.forget_sums, keys)

    async def read_shared(self) -> None:
        """Read which sources the partitions of other processes share with this one."""
        self.others.sources.shared |= await self.run(self.others.shared)

    def source(self, source: SourceKey) -> ArchivedSource | None:
        """What the archive has of a source, in this partition or in another one. Called in the partition's thread."""
        if (own := self.journal.source(source)) is not None:
            return own
        found = self.others.find(source)
        return found.known if found else None

    def newest_sources(self, host: str, newest: int) -> list[ArchivedSource]:
        """The newest sources of a host in the whole archive: it may have shipped to another partition before.

        Called in the partition's thread.
        """
        here, elsewhere = self.journal.sources_of(host, newest=newest), self.others.newest_of(host, newest=newest)
        return each_once((*here, *elsewhere), newest=newest)

    def stop(self) -> None:
        """Wait for the call that the thread is running. It accepts no more."""
        self._thread.shutdown()

    def close(self) -> None:
        """Close files and journals. Everything that was committed is durable already."""
        self.sink.close()
        self.journal.close()
        self.others.close()
