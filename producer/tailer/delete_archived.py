"""When a file that could go is deleted: `delete_archived` seconds after the archive proved that it has all of it.

New data lets the time begin anew, so does a restart. `--once` deletes nothing: it does not wait for a collector.
`ended_files.py` decides which files, and deletes one.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from producer import receipts
from producer.model import Destination, Source
from producer.tailer.ended_files import REMOVED, DeletableFile, DeletionOutcome, EndedFiles
from shipper import events
from shipper.control import Receipt, ReceiptsReply
from shipper.errors import ShipperError
from shipper.periodic import PeriodicRequest
from shipper.ports import Publisher

ASK_SECONDS = (1.0, 10.0)
"""Between two questions to the collector, at least: as long as the grace time, but within these."""
MAX_DELETIONS = 1000
NO_REPLY = ReceiptsReply("", 0, ())


def archived(source: Source, known: Iterable[Receipt]) -> bool:
    """Whether the archive proves that it has all of `source`: every byte that the last scan found, from the first on.

    Equal checksums at the same offset are the proof. A source that began after its first byte (start at end, too old),
    whose checkpoint went back, or that has a gap in the archive is never proven: its file stays.
    """
    proof = (0, source.offset, source.crc)
    whole = source.origin == 0 and 0 < source.size <= source.offset
    return whole and any(
        (receipt.origin, receipt.watermark, receipt.crc) == proof for receipt in known if receipt.source == source.id
    )


class ArchivedSince(NamedTuple):
    """What a file was at the last check, and since when it is known to be archived whole."""

    size: int
    mtime_ns: int
    since: float = math.inf  #: on the clock; inf: not proven yet


def archived_since(
    files: Iterable[DeletableFile], before: Mapping[str, ArchivedSince], known: Iterable[Receipt], now: float
) -> dict[str, ArchivedSince]:
    """By source: since when each of `files` is archived. `known`: the receipts of the collector. []: it sent none.

    New data, and a collector that lacks what it had, let the time begin anew.
    """
    by_source = {receipt.source: receipt for receipt in known}
    after = {}
    for source in (file.source for file in files):
        fresh = ArchivedSince(source.size, source.mtime_ns)
        past = before.get(source.id, fresh)
        if past[:2] != fresh[:2]:
            past = fresh
        if by_source:
            proven = source.id in by_source and archived(source, [by_source[source.id]])
            past = past._replace(since=min(past.since, now)) if proven else fresh
        after[source.id] = past
    return after


class ArchivedFileDeletion:
    """Requests receipts from the collector periodically, and deletes what is due. Owned by the pipeline.

    `grace_seconds`: how long the archive must have had a file; None: nothing is deleted or requested.
    """

    def __init__(
        self,
        grace_seconds: float | None,
        destination: Destination,
        *,
        rouse: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grace = math.inf if grace_seconds is None else grace_seconds
        self._ask_every = min(max(self._grace, ASK_SECONDS[0]), ASK_SECONDS[1])
        self._destination = destination
        self._clock = clock
        self._request = PeriodicRequest[ReceiptsReply](rouse)
        self.next_at = self._request.next_at  #: when files are checked next, or as soon as the collector has replied
        self.cancel = self._request.cancel  #: drops the request of a session that has ended
        self._start_over()
        destination.on_move(self._start_over)

    def _start_over(self) -> None:
        """Another partition has another collector."""
        self._request.cancel()
        self._request.due_at = math.inf if math.isinf(self._grace) else -math.inf
        self._silent: dict[str, ArchivedSince] = {}
        self._complained: set[str] = set()

    def due(self, publisher: Publisher, ended_files: EndedFiles) -> list[DeletableFile]:
        """The files that are to be deleted now. Starts a request to the collector of `publisher` if one is due."""
        now = self._clock()
        if (reply := self._request.take()) is not None:
            ended_files.note_receipts(reply)
            files = ended_files.deletable_files()
            self._silent = archived_since(files, self._silent, reply.receipts, now)
            ripe = [file for file in files if self._is_over(self._silent[file.source.id], now)]
            return ripe[:MAX_DELETIONS] if reply.receipts else []
        if self._request.is_due(now):
            self._request.due_at = now + self._ask_every
            before = self._silent
            self._silent = archived_since(ended_files.deletable_files(), before, [], now)
            still = [silence for id_, silence in self._silent.items() if silence == before.get(id_)]
            if any(silence.since == math.inf or self._is_over(silence, now) for silence in still):
                self._request.send(self._ask(publisher))
        return []

    def delete(self, files: Iterable[DeletableFile], ended_files: EndedFiles) -> None:
        """Delete files whose state is durable. Never raises: a failure is logged once and tried again."""
        for file in files:
            self._silent.pop(file.source.id, None)  # what stays has its time again
            try:
                fate = ended_files.delete(file)
            except OSError as error:
                self._complain(file, error.strerror or str(error))
                continue
            if fate in REMOVED:
                self._complained.discard(file.source.id)
                events.file_deleted(path=file.path, source=file.source.id, octets=file.source.size)
            elif fate is not DeletionOutcome.CHANGED or file.source.ended_at:  # else the next scan sees what changed
                self._complain(file, fate.value)

    async def _ask(self, publisher: Publisher) -> ReceiptsReply:
        host, partition = self._destination.host, self._destination.partition
        with contextlib.suppress(ShipperError):  # the main loop gets the same error
            if (reply := await receipts.ask(publisher, host, partition, list(self._silent))) is not None:
                return reply
        return NO_REPLY

    def _is_over(self, silence: ArchivedSince, now: float) -> bool:
        return now - silence.since >= self._grace

    def _complain(self, file: DeletableFile, reason: str) -> None:
        if file.source.id not in self._complained:
            self._complained.add(file.source.id)
            events.file_not_deleted(path=file.path, error=reason)
