"""Where this host is, where it should be, and the way from one to the other; each step is durable before the next.

stay -> the map says otherwise -> leaving (durable) -> marker -> final receipts -> the new place (durable) -> stay

The last words in an old partition, and the wait until its collector has archived all that came before them.

    marker -> PubAck -> the collector journals it -> its receipts are final

Behind the marker the old partition drops whatever else was on its way, from connections that nobody has any more. So
what the receipts say then is all that it will ever have of this host, and the new partition goes on just behind it.
All of it may be done again: a kill in between leaves a checkpoint that says "leaving", and the next process repeats it.

What a host takes along from its old partition: for each source, how much of it is archived there for good. Pure.

Looks at the map of the partitions now and then, and finds out when the old partition can let this host go.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from producer import receipts
from producer.checkpoint.ack_tracker import Ledger
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.model import Place, Source
from producer.options import Task
from producer.repartition.assignment import partitions_there, past_of
from producer.session.handshake import receipt_of
from producer.session.periodic import Beside
from producer.tailer.tailer import Sources
from shipper import codec, events
from shipper.bucket import map_key
from shipper.control import PlaceReply, Receipt, ReceiptsReply, StreamAnswer, StreamReply, StreamRequest
from shipper.errors import BucketRefused, SessionLost, ShipperError, StreamMissing
from shipper.model import Handoff
from shipper.partition_map import PartitionMap, decode, partition_for
from shipper.ports import Publisher
from shipper.subjects import control_up, log_subject, stream_name

ASK_AGAIN_SECONDS = 0.25
MARK_AGAIN_SECONDS = 10.0
"""A collector with another archive may have taken over, and not have read the marker."""
MARKER = 0
"""Its token: no block has it."""


class Leaving:
    """One attempt, in one session, to leave `place`."""

    def __init__(self, publisher: Publisher, prefix: str, host: str, place: Place, *, ack_timeout: float) -> None:
        self._publisher = publisher
        self._subject = log_subject(prefix, place.partition, host)
        self._host = host
        self._place = place
        self._ack_timeout = ack_timeout
        self._news = asyncio.Event()
        publisher.on_news(self._news.set)

    async def last_receipts(self, asked: Callable[[], Sequence[str]]) -> ReceiptsReply:
        """What the old partition has archived of the sources `asked` for, for good; waits as long as that takes.

        Raises SessionLost, StreamFull; StreamMissing: the stream is closed, and its collector is not done with it.
        """
        marked_at: float | None = None
        while True:
            told = await self._ask(asked())
            if told is not None and (told.is_retired or told.left >= self._place.leaving):
                return told
            if marked_at is None or time.monotonic() - marked_at >= MARK_AGAIN_SECONDS:
                await self._mark()
                marked_at = time.monotonic()
            else:
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _ask(self, sources: Sequence[str]) -> ReceiptsReply | None:
        place = self._place
        return await receipts.ask(self._publisher, self._host, place.partition, sources, leaving=place.leaving)

    async def _mark(self) -> None:
        """Publish the marker; returns when it is stored."""
        self._publisher.acknowledged()
        await self._publisher.publish(MARKER, self._subject, codec.move_marker(self._place.leaving), b"")
        try:
            async with asyncio.timeout(self._ack_timeout):
                while not self._publisher.acknowledged():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise SessionLost(f"no ack for the move marker in {self._ack_timeout:.0f} s") from None
        events.move_marked(subject=self._subject, version=self._place.leaving)


NAMELESS = "_"
"""Stands for an archive that did not say which one it is."""


def asked_for(known: Iterable[Source]) -> list[str]:
    """The sources of which only the collector can say how much it has: an older sender may have sent more."""
    return [each.id for each in known if not each.ended_at or each.archived < each.offset]


def handed_off(known: Iterable[Source], told: ReceiptsReply, asked: Collection[str]) -> list[Source]:
    """The sources as they are in the next partition.

    `told` came behind the move marker, so it is final: the old partition takes nothing more of this host. Of a source
    that was `asked` for and that the archive knows nothing of, all is sent again that no other one has.
    """
    receipts = {receipt.source: receipt for receipt in told.receipts}
    return [_one(source, told, receipts, is_asked=source.id in asked) for source in known]


def _one(source: Source, told: ReceiptsReply, receipts: Mapping[str, Receipt], *, is_asked: bool) -> Source:
    found = list(_candidates(source, told, receipts.get(source.id), is_asked=is_asked))
    if not found:
        return source.back_to(source.origin) if source.ring else source
    return source.handed_off(max(found, key=lambda each: (each.offset, each.crc is not None)))


def _candidates(source: Source, told: ReceiptsReply, receipt: Receipt | None, *, is_asked: bool) -> Iterator[Handoff]:
    """What archives have of a source, from the word of this partition's collector, from others', from before."""
    if receipt is not None and receipt.origin == source.origin:
        yield Handoff(receipt.watermark, _sum(source, receipt), told.archive or NAMELESS)
    for each in source.archives:
        if not (is_asked and each.archive == told.archive) and each.offset > source.origin:
            crc = source.crc if each.offset == source.offset else None
            yield Handoff(each.offset, crc, each.archive or NAMELESS)
    if source.handoff is not None:
        yield source.handoff


def _sum(source: Source, receipt: Receipt) -> int | None:
    """The sum that the archive proves; where it does not, or the file has another one, the next block tells it."""
    is_proven = receipt.crc >= 0 and not source.contradicts(receipt.watermark, receipt.crc)
    return receipt.crc if is_proven else None


LOOK_SECONDS = 5.0
ASK_SECONDS = 1.0
"""Between two questions to the old partition's collector, once the host is to move."""
NEAR_BYTES = 64 * 1024 * 1024
"""As little must wait for the archive before the host stops and waits for the rest of it."""
PATIENCE_SECONDS = 60.0
"""So long it goes on where it is while its collector is alive and further behind than that."""


class Watch:
    """The newest map, and whether it is time to leave. Owned by the pipeline."""

    def __init__(
        self, prefix: str, host: str, *, rouse: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = map_key(prefix)
        self._host = host
        self._rouse = rouse
        self._clock = clock
        self._known: PartitionMap | None = None
        self._is_refused = False
        self._next_at = 0.0
        self._wanted_since: float | None = None
        self._looking: asyncio.Task[ReceiptsReply | None] | None = None
        self.is_time = False  #: to stop where the host is, and to leave

    @property
    def next_at(self) -> float:
        """Monotonic time when `see_to` wants to be called."""
        return self._next_at if self._looking is None else self._clock() + LOOK_SECONDS

    @property
    def known(self) -> PartitionMap | None:
        """The newest map; None: there is none, or this host may not read it."""
        return self._known

    def belongs(self, place: Place) -> Place:
        """Where a host at `place` should be, as far as the map is known."""
        return place.under(self._known, self._host) if self._known else place

    def hint(self) -> None:
        """Somebody says that the map is another one."""
        self._next_at = 0.0
        self._rouse()

    async def look(self, publisher: Publisher) -> None:
        """Read the map. Raises SessionLost."""
        self._next_at = self._clock() + LOOK_SECONDS
        if self._is_refused:
            return
        try:
            entry = await publisher.entry(self._key)
        except BucketRefused as error:
            self._is_refused = True
            events.map_refused(error=str(error))
            return
        found = decode(entry.value) if entry else None
        if entry and found is None:
            events.map_damaged(key=self._key)
        if found is not None and (self._known is None or found.version > self._known.version):
            self._known = found

    def see_to(self, publisher: Publisher, ledger: Ledger, place: Place) -> None:
        """Look again when it is due, without waiting; sets `is_time`."""
        if self._looking is not None and self._looking.done():
            looking, self._looking = self._looking, None
            told = None if looking.cancelled() else looking.result()
            if told is not None:
                ledger.told(told)
                self._judge(ledger)
        elif self._looking is None and self._clock() >= self._next_at:
            self._looking = asyncio.ensure_future(self._look_and_ask(publisher, place))
            self._looking.add_done_callback(lambda _: self._rouse())

    def session_ends(self) -> None:
        """Nobody answers any more what was asked in this session."""
        self.is_time = False
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_and_ask(self, publisher: Publisher, place: Place) -> ReceiptsReply | None:
        """What the archive has of this host, if it is to move."""
        try:
            await self.look(publisher)
            if self.belongs(place) == place:
                self._wanted_since = None
                return None
            self._next_at = self._clock() + ASK_SECONDS
            self._wanted_since = self._clock() if self._wanted_since is None else self._wanted_since
            return await receipts.ask(publisher, self._host, place.partition)
        except ShipperError:
            return None  # the session's own calls meet it, too

    def _judge(self, ledger: Ledger) -> None:
        waited = self._clock() - (self._clock() if self._wanted_since is None else self._wanted_since)
        self.is_time = ledger.unarchived_bytes <= NEAR_BYTES or waited >= PATIENCE_SECONDS


STREAM_SECONDS = 10.0


class Moving:
    """The place of this host. Owned by the pipeline.

    `place`: as the checkpoint knows it; `watch`: whether it is the right one.
    """

    def __init__(self, task: Task, checkpoints: Checkpoints, *, rouse: Callable[[], None]) -> None:
        self._task = task
        self._checkpoints = checkpoints
        self.place = checkpoints.place or Place(partition=task.partition)
        self.watch = Watch(task.prefix, task.host, rouse=rouse)
        self._told_of: Place | None = None  # the place for which a disagreement with the settings was said

    async def look(self, publisher: Publisher, known: Mapping[str, Source]) -> None:
        """Read the map as a session begins. A host without a past, and one that is right, take up its version.

        `known`: the sources of the checkpoint, which may be of a version that did not remember the partition.
        """
        await self.watch.look(publisher)
        if self._checkpoints.place is None:
            self._stand_at(await self._first_place(publisher, known))
        self._take_up()
        self._tell_of_settings()

    async def _first_place(self, publisher: Publisher, known: Mapping[str, Source]) -> Place:
        partition_map = self.watch.known
        if partition_map is None or not self._checkpoints.fresh:
            task = self._task
            seen = await partitions_there(publisher, task.prefix, task.host, partition_map, first=self.place.partition)
            past = past_of(seen, known)
            if past is not None:
                return Place(partition=past)
        return self.watch.belongs(self.place)

    def _take_up(self) -> None:
        there = self.watch.belongs(self.place)
        stays = not self.place.leaving and there.partition == self.place.partition
        if there != self.place and (stays or self._checkpoints.fresh):
            self._stand_at(there)

    def _tell_of_settings(self) -> None:
        """Say once where SHIPPER_PARTITIONS disagrees with the partition in which this host ships."""
        task, partition_map, place = self._task, self.watch.known, self.place
        if self._told_of == place:
            return
        self._told_of = place
        if partition_map is not None:
            if max(1, task.partitions) != partition_map.partitions:
                events.partition_by_map(
                    partition=place.partition,
                    version=partition_map.version,
                    partitions=partition_map.partitions,
                    configured=task.partitions,
                )
        elif place.partition != partition_for(task.host, task.partitions):
            events.partition_kept(partition=place.partition, configured=task.partitions)

    async def others_with_a_past(self, publisher: Publisher) -> list[int]:
        """The other partitions whose streams hold blocks of this host."""
        task = self._task
        seen = await partitions_there(publisher, task.prefix, task.host, self.watch.known, first=self.place.partition)
        return [
            each.partition
            for each in seen
            if each.partition != self.place.partition and each.last is not None and receipt_of(each.last) is not None
        ]

    async def explained(self, publisher: Publisher, missing: StreamMissing) -> StreamMissing:
        """`missing` with what is wrong where the server has other partitions than the settings or the map say."""
        task, partition_map, place = self._task, self.watch.known, self.place
        stream = stream_name(task.prefix, place.partition)
        if partition_map is not None:
            return StreamMissing(
                f"stream {stream} does not exist, but version {partition_map.version} of the partition map sends this"
                " host there",
                hint="create it: fshipper partition apply",
            )
        with contextlib.suppress(ShipperError):
            seen = await partitions_there(publisher, task.prefix, task.host, None, first=place.partition)
            if seen:
                there = len(seen)
                return StreamMissing(
                    f"stream {stream} does not exist: SHIPPER_PARTITIONS says {task.partitions}, the server has"
                    f" {there} partition{'s' if there != 1 else ''} ({stream_name(task.prefix, 0)} to"
                    f" {stream_name(task.prefix, there - 1)})",
                    hint=f"set SHIPPER_PARTITIONS={there} (--partitions), or run once: fshipper partition apply; then"
                    " all hosts follow the partition map",
                )
        return missing

    def not_before(self, version: int) -> None:
        """The collector says that this host left by `version` once: what it sends by an older one would be dropped."""
        if version > self.place.version:
            self._stand_at(Place(partition=self.place.partition, version=version))

    @property
    def is_elsewhere(self) -> bool:
        """Whether the map has this host in another partition."""
        return self.watch.belongs(self.place).partition != self.place.partition

    def set_out(self) -> None:
        """From now on nothing is published here but the marker. Durable."""
        version = self.watch.belongs(self.place).version
        if not self.place.leaving and version > self.place.version:
            self._stand_at(self.place.left_for(version))

    async def arrive(self, publisher: Publisher, sources: Sources, beside: Beside) -> None:
        """Leave the old partition and stand in the new one, with all that it takes along. `sources` are void then.

        Raises SessionLost, StreamFull, StreamMissing: not yet; the next session goes on with it.
        """
        ledger, asked = sources.ledger, set[str]()
        told = await self._last_receipts(publisher, ledger, asked, beside)
        await self.watch.look(publisher)  # it may have changed again; where it is gone, the host stays
        before, there = self.place, self.watch.belongs(self.place)
        if there == before:
            there = Place(partition=before.partition, version=before.leaving)
        with checkpoint_needed():
            ledger.take_over(there, handed_off(ledger.known.values(), told, asked))
        self.place = there
        events.host_moved(
            host=self._task.host, before=before.partition, partition=there.partition, version=there.version
        )

    async def ask_for_stream(self, publisher: Publisher) -> bool:
        """Have the partition's stream made, by whoever has the right; whether it is there now."""
        if self.place.leaving:
            return False
        request = StreamRequest(self.place.partition).to_json()
        try:
            reply = StreamReply.from_json(await publisher.ask(control_up(self._task.host), request, STREAM_SECONDS))
        except ShipperError:
            return False
        if reply is not None and reply.answer is StreamAnswer.REFUSED:
            events.stream_denied(partition=self.place.partition, reason=reply.reason)
        return reply is not None and reply.answer is StreamAnswer.CREATED

    def status(self) -> dict[str, Any]:
        """Where it is, for people and scripts."""
        return {"map_version": self.place.version, "moving": bool(self.place.leaving)}

    def answer(self) -> PlaceReply:
        """The partition of this host, for the partitioner; the map is read again immediately."""
        self.watch.hint()
        place = self.place
        return PlaceReply(place.partition, max(place.version, place.leaving), bool(place.leaving))

    async def _last_receipts(
        self, publisher: Publisher, ledger: Ledger, asked: set[str], beside: Beside
    ) -> ReceiptsReply:
        """The final ones; the files are looked at meanwhile, so that none is renamed out of sight."""

        def ask() -> list[str]:
            found = asked_for(ledger.known.values())
            asked.clear()
            asked.update(found)
            return found

        task = self._task
        leaving = Leaving(publisher, task.prefix, task.host, self.place, ack_timeout=task.ack_timeout)
        return await beside.done(leaving.last_receipts(ask), before="the old partition was left")

    def _stand_at(self, place: Place) -> None:
        with checkpoint_needed():
            self._checkpoints.stand_at(place)
        self.place = place
