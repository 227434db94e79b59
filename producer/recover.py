"""A lost checkpoint: what the archive or the stream knows, proven by the CRC of the local bytes, is where to go on."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from producer import receipts
from producer.following.identity import Mark, read_ends
from producer.following.source import Point, Source
from producer.looking import discover
from producer.looking.discover import Seen
from producer.receipts import Receipt, Told
from producer.resume import receipt_of
from shipper import events
from shipper.checksum import crc32
from shipper.ports import Publisher

CHUNK_BYTES = 1024 * 1024
ASK_AGAIN_SECONDS = 1.0


class Recovery:
    """Finds the sources that a checkpoint held which does not exist any more. Owned by the pipeline.

    `wait_seconds`: how long the collector is waited for, over all sessions, where the stream shows that the host has a
    past: without its word only the source of the newest message can go on, and all others are sent twice.
    `spools`: archive names of inputs without a file, by the path of their spool.
    """

    def __init__(
        self,
        subject: str,
        host: str,
        partition: int,
        *,
        wait_seconds: float,
        spools: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subject = subject
        self._host, self._partition = host, partition
        self._wait = wait_seconds
        self._until: float | None = None
        self._local = {name: path for path, name in spools.items()}
        self._clock = clock
        self.left = 0  #: the newest version of the map by which this host left the partition

    async def sources(self, publisher: Publisher, nameless: Callable[[], Mapping[str, Seen]]) -> list[Source]:
        """The sources that go on; [] where the host is simply new.

        `nameless`: the files that only this process can still open. The archive is asked also when the stream is empty:
        what is archived may be purged.
        """
        last = await publisher.last_stored(self._subject)
        newest = receipt_of(last) if last else None
        sequence = last.sequence if last and newest else 0
        told = await self._told(publisher, sequence)
        known = [
            self._at_home(receipt) for receipt in (*(told.receipts if told else ()), *([newest] if newest else ()))
        ]
        found = await asyncio.to_thread(prove, known, list(nameless().values()))
        return [self._as_told(source, told, newest, sequence) for source in found]

    async def _told(self, publisher: Publisher, sequence: int) -> Told | None:
        """What the collector says once it has judged everything up to `sequence`; what it said last if time is up."""
        while True:
            told = await receipts.ask(publisher, self._host, self._partition, waits=receipts.STARTING_SECONDS)
            self.left = max(self.left, told.left if told else 0)
            if not sequence or (told is not None and told.through >= sequence):
                return told
            if self._until is None:
                self._until = self._clock() + self._wait
                events.recovery_waits(seconds=self._wait, collector="is behind" if told else "does not answer")
            if self._clock() >= self._until:
                events.recovery_gave_up(sources=len(told.receipts) if told else 0)
                return told
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    def _at_home(self, receipt: Receipt) -> Receipt:
        return receipt._replace(file=self._local.get(receipt.file, receipt.file))

    def _as_told(self, source: Source, told: Told | None, newest: Receipt | None, sequence: int) -> Source:
        """A source with what holds its bytes: the stream up to its newest message, or the archive."""
        if newest and (source.id, source.offset) == (newest.source, newest.watermark):
            source = replace(source, ring=(Point(sequence, source.offset, source.crc),))
        if told and (archived := max((r.watermark for r in told.receipts if r.source == source.id), default=0)):
            source = source.in_archive(told.archive, min(archived, source.offset))
        return source


def prove(receipts: Iterable[Receipt], nameless: Sequence[Seen] = ()) -> list[Source]:
    """The sources whose local file holds what a receipt says, ready to go on behind it, oldest file first.

    The longest proven prefix of a file wins.
    """
    proven: dict[tuple[int, int], Source] = {}
    for receipt in sorted(receipts, key=lambda receipt: -receipt.watermark):
        if any(source.id == receipt.source for source in proven.values()):
            continue
        for seen in (*_candidates(receipt.file), *nameless):
            if seen.key in proven or seen.size < receipt.watermark:
                continue
            source = _proven(receipt, seen)
            if source is not None:
                proven[seen.key] = source
                events.source_recovered(file=source.file, source=source.id, offset=source.offset)
                break
    return sorted(proven.values(), key=lambda source: source.mtime_ns)


def _candidates(path: str) -> list[Seen]:
    """The file itself and what rotation made of it."""
    own = [seen for seen in discover.look(discover.Watched((path,))).files if seen.path == path]
    try:
        real = os.path.realpath(path)
        return own + discover.siblings(path) + (discover.siblings(real) if real != path else [])
    except OSError as error:
        events.file_unreadable(path=path, error=error.strerror or str(error))
        return own


def _proven(receipt: Receipt, seen: Seen) -> Source | None:
    try:
        descriptor = os.open(seen.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if crc_of(descriptor, receipt.origin, receipt.watermark) != receipt.host_crc:
            return None
        mark = Mark.of(receipt.watermark, *read_ends(descriptor, receipt.watermark))
    except OSError as error:
        events.file_unreadable(path=seen.path, error=error.strerror or str(error))
        return None
    finally:
        os.close(descriptor)
    return Source(
        id=receipt.source,
        file=receipt.file,
        device=seen.device,
        inode=seen.inode,
        origin=receipt.origin,
        offset=receipt.watermark,
        crc=receipt.host_crc,
        mark=mark,
        size=seen.size,
        mtime_ns=seen.mtime_ns,
        ring=(Point(0, receipt.watermark, receipt.host_crc),),
    )


def crc_of(descriptor: int, start: int, end: int) -> int | None:
    """CRC-32 of some bytes of an open file; None: it is shorter. Raises OSError."""
    crc, offset = 0, start
    while offset < end:
        data = os.pread(descriptor, min(CHUNK_BYTES, end - offset), offset)
        if not data:
            return None
        crc, offset = crc32(data, crc), offset + len(data)
    return crc
