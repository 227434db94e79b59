"""The partition of this host, the partition that the map names, and the move from one to the other.

stay -> the map names another partition -> leaving (durable) -> marker -> final receipts -> new place (durable)

Each step is durable before the next begins, and can be repeated: after a kill the checkpoint still has the state
"leaving", and the next process starts again with the marker.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from producer import receipts
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.model import Destination, Place, Source
from producer.options import Task
from producer.receipts import is_known, receipt_of, surviving
from producer.scheduler import Scheduler
from producer.session.delivery import Delivery
from shipper import codec, events
from shipper.control import PlaceReply, Receipt, ReceiptsReply, StreamAnswer, StreamReply, StreamRequest
from shipper.errors import BucketRefused, SessionLost, ShipperError, StreamMissing
from shipper.model import Handoff, Stored
from shipper.partition_map import MAX_PARTITIONS, PartitionMap, decode, partition_for
from shipper.periodic import PeriodicRequest
from shipper.ports import Publisher
from shipper.subjects import control_up, log_subject, map_key, stream_name

MAP_SECONDS = 5.0
"""Interval between two reads of the map."""
RECEIPTS_SECONDS = 1.0
"""Interval between two requests to the old partition's collector while the host is to move."""
NEAR_BYTES = 64 * 1024 * 1024
"""Maximum backlog of the archive at which the host stops to publish and leaves."""
PATIENCE_SECONDS = 60.0
"""Maximum time for which the host stays while its collector is alive and has a larger backlog."""
STREAM_SECONDS = 10.0
"""Maximum wait for a stream that was requested."""
ASK_AGAIN_SECONDS = 0.25
MARK_AGAIN_SECONDS = 10.0
"""Interval between two markers: a collector with another archive may have taken over without reading the first."""
MARKER = 0
"""Token of the marker: no block has it."""


class Migration:
    """Reads the partition map, and moves this host to the partition that it names. Owned by `Sessions`."""

    def __init__(
        self,
        task: Task,
        checkpoints: Checkpoints,
        destination: Destination,
        delivery: Delivery,
        *,
        rouse: Callable[[], None],
    ) -> None:
        self._task = task
        self._checkpoints = checkpoints
        self.destination = destination
        self._delivery = delivery
        self._rouse = rouse
        self._map: PartitionMap | None = None  # the newest; None: there is none, or this host may not read it
        self._is_refused = False
        self._request = PeriodicRequest[ReceiptsReply | None](rouse, due_at=0.0)
        self.next_at = self._request.next_at  #: when the map is read next, or as soon as it has been read
        self._wanted_since = math.inf  # when the map first named another partition
        self.is_time_to_leave = False  #: as soon as nothing is in flight
        self._reported: Place | None = None  # the place for which a difference to the settings was reported

    @property
    def place(self) -> Place:
        """The place of this host, as the checkpoint knows it."""
        return self.destination.place

    @property
    def place_by_map(self) -> Place:
        """The place of this host, by the newest map."""
        return self.place.under(self._map, self.destination.host) if self._map else self.place

    # -- the newest map -----------------------------------------------------------------------------------------------

    async def run(self, session: Publisher | None) -> None:
        """Start to read the map when that is due, or use what was read: sets `is_time_to_leave`."""
        if session is None:
            return
        if (reply := self._request.take()) is not None:
            acks = self._delivery.tailer.acks
            acks.note_receipts(reply)
            waited = time.monotonic() - self._wanted_since
            self.is_time_to_leave = acks.unarchived_bytes <= NEAR_BYTES or waited >= PATIENCE_SECONDS
        elif self._request.is_due(time.monotonic()):
            self._request.send(self._read_and_ask(session))

    def cancel(self) -> None:
        """Drop the request of a session that has ended."""
        self.is_time_to_leave = False
        self._request.cancel()

    async def _read_and_ask(self, publisher: Publisher) -> ReceiptsReply | None:
        """The receipts of the collector, if the host is to move."""
        try:
            await self._read(publisher)
            if self.place_by_map == self.place:
                self._wanted_since = math.inf
                return None
            self._request.due_at = time.monotonic() + RECEIPTS_SECONDS
            self._wanted_since = min(self._wanted_since, time.monotonic())
            return await receipts.ask(publisher, self.destination.host, self.place.partition)
        except ShipperError:
            return None  # the main loop gets the same error

    async def _read(self, publisher: Publisher) -> None:
        """Read the map. Raises SessionLost."""
        self._request.due_at = time.monotonic() + MAP_SECONDS
        if self._is_refused:
            return
        key = map_key(self.destination.prefix)
        try:
            entry = await publisher.entry(key)
        except BucketRefused as error:
            self._is_refused = True
            events.map_refused(error=str(error))
            return
        found = decode(entry.value) if entry else None
        if entry and found is None:
            events.map_damaged(key=key)
        if found is not None and (self._map is None or found.version > self._map.version):
            self._map = found

    # -- the first partition ------------------------------------------------------------------------------------------
    #
    # Where the host's messages are, or where the partition map or SHIPPER_PARTITIONS sends it. Afterwards the
    # checkpoint remembers the partition, and only the partition map moves the host to another one.

    async def read_map(self, publisher: Publisher) -> None:
        """Read the map at the start of a session. A new host, and one in the right partition, adopt its version."""
        await self._read(publisher)
        if self._checkpoints.place is None:
            self._save_place(await self._first_place(publisher))
        there = self.place_by_map
        stays = not self.place.leaving and there.partition == self.place.partition
        if there != self.place and (stays or self._checkpoints.fresh):
            self._save_place(there)
        self._report_settings()

    async def _first_place(self, publisher: Publisher) -> Place:
        """The place of a host whose checkpoint has none: it is new, or an older version wrote it."""
        if self._map is None or not self._checkpoints.fresh:
            seen, known = await self._partitions_there(publisher), self._delivery.tailer.acks.known
            proving = [each for each in seen if each.has_block]
            acknowledged = max((source.sequence for source in known.values()), default=0)
            if acknowledged > 0:  # one of the streams has that block; -1: recovered from an archive, not sent from here
                proving = [e for e in proving if (e.last and e.last.is_unread) or is_known(e.last, known)]
                proving = [each for each in proving if surviving(each.last, known) >= acknowledged]
            newest = max(proving, key=lambda each: each.last.time_ns if each.last else 0, default=None)
            if newest is not None:
                return Place(partition=newest.partition)
        return self.place_by_map

    def _report_settings(self) -> None:
        """Report once that SHIPPER_PARTITIONS differs from the partition in which this host ships."""
        task, partition_map, place = self._task, self._map, self.place
        if self._reported == place:
            return
        self._reported = place
        if partition_map is None:
            if place.partition != partition_for(task.host, task.partitions):
                events.partition_kept(partition=place.partition, configured=task.partitions)
        elif max(1, task.partitions) != (partitions := partition_map.partitions):
            version, configured = partition_map.version, task.partitions
            events.partition_by_map(
                partition=place.partition, version=version, partitions=partitions, configured=configured
            )

    async def others_with_a_past(self, publisher: Publisher) -> list[int]:
        """The other partitions whose streams hold blocks of this host."""
        seen = await self._partitions_there(publisher)
        return [each.partition for each in seen if each.partition != self.place.partition and each.has_block]

    async def _partitions_there(self, publisher: Publisher) -> list["PartitionState"]:
        """Every partition with a stream. Without a map: this host's, and those from 0 on without an interruption."""
        found, known, own = [], self._map, self.place.partition
        for number in sorted(known.used) if known else [own, *(n for n in range(MAX_PARTITIONS) if n != own)]:
            stream = stream_name(self._task.prefix, number)
            try:
                last = await publisher.last_stored_in(stream, log_subject(self._task.prefix, number, self._task.host))
            except StreamMissing:
                if known or number == own:
                    continue
                break
            found.append(
                PartitionState(number, last, last is not None and (last.is_unread or receipt_of(last) is not None))
            )
        return found

    async def explained(self, publisher: Publisher, missing: StreamMissing) -> StreamMissing:
        """`missing` with the cause, if the server has other partitions than the settings or the map."""
        task, partition_map, place = self._task, self._map, self.place
        stream = stream_name(task.prefix, place.partition)
        if partition_map is not None:
            return StreamMissing(
                f"stream {stream} does not exist, but version {partition_map.version} of the partition map sends this"
                " host there",
                hint="create it: fshipper partition apply",
            )
        with contextlib.suppress(ShipperError):
            if there := len(await self._partitions_there(publisher)):
                return StreamMissing(
                    f"stream {stream} does not exist: SHIPPER_PARTITIONS is {task.partitions}, the server has"
                    f" {there} partition{'s' if there != 1 else ''} ({stream_name(task.prefix, 0)} to"
                    f" {stream_name(task.prefix, there - 1)})",
                    hint=f"set SHIPPER_PARTITIONS={there} (--partitions), or run once: fshipper partition apply; then"
                    " all hosts follow the partition map",
                )
        return missing

    def not_before(self, version: int) -> None:
        """Adopt `version`: the collector knows that this host left with it, and drops blocks of older versions."""
        if version > self.place.version:
            self._save_place(Place(partition=self.place.partition, version=version))

    # -- the move -----------------------------------------------------------------------------------------------------

    def set_out(self) -> None:
        """Save the state "leaving": from now on only the marker is published in this partition."""
        version = self.place_by_map.version
        if not self.place.leaving and version > self.place.version:
            self._save_place(replace(self.place, leaving=version))

    async def arrive(self, publisher: Publisher, scheduler: Scheduler) -> None:
        """Leave the old partition and move to the new one with all sources. The files must be opened anew then.

        Raises SessionLost, StreamFull, StreamMissing: the next session continues the move.
        """
        acks = self._delivery.tailer.acks
        reply, requested = await scheduler.run_until(
            self._last_receipts(publisher), before="the old partition was left"
        )  # files are scanned meanwhile, so that no rename is missed
        await self._read(publisher)  # it may have changed again; if it is gone, the host stays
        before, there = self.place, self.place_by_map
        if there == before:
            there = Place(partition=before.partition, version=before.leaving)
        with checkpoint_needed():
            acks.move_to(there, handed_off(acks.known.values(), reply, requested))
        self.destination.move(there)
        events.host_moved(
            host=self._task.host, before=before.partition, partition=there.partition, version=there.version
        )

    async def ask_for_stream(self, publisher: Publisher) -> bool:
        """Request the partition's stream from the partitioner or a collector. Whether it exists now."""
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

    def answer(self) -> PlaceReply:
        """The partition of this host, for the partitioner. The map is read again immediately."""
        self._request.due_at = 0.0
        self._rouse()
        place = self.place
        return PlaceReply(place.partition, max(place.version, place.leaving), bool(place.leaving))

    async def _last_receipts(self, publisher: Publisher) -> tuple[ReceiptsReply, set[str]]:
        """The final receipts of the old partition, with the sources for which they were requested. No limit of time.

        Marker -> PubAck -> the collector journals it -> its receipts are final. The old partition drops every message
        of this host that is stored after the marker, for example from a connection that is still open. So the receipts
        that follow name all that the old partition will ever archive of this host, and the new partition continues
        after those bytes.

        Raises SessionLost, StreamFull; StreamMissing: the stream is closed, and its collector has not finished it.
        """
        place, marked_at = self.place, -math.inf
        while True:
            requested = sources_to_request(self._delivery.tailer.acks.known.values())
            reply = await receipts.ask(publisher, self._task.host, place.partition, requested, leaving=place.leaving)
            if reply is not None and (reply.is_retired or reply.left >= place.leaving):
                return reply, set(requested)
            if time.monotonic() - marked_at >= MARK_AGAIN_SECONDS:
                await self._mark(publisher)
                marked_at = time.monotonic()
            else:
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _mark(self, publisher: Publisher) -> None:
        """Publish the marker. Returns when it is stored."""
        subject, version, ack_timeout = self.destination.subject, self.place.leaving, self._task.ack_timeout
        news = asyncio.Event()
        publisher.on_news(news.set)
        publisher.acknowledged()
        await publisher.publish(MARKER, subject, codec.move_marker(version), b"")
        try:
            async with asyncio.timeout(ack_timeout):
                while not publisher.acknowledged():
                    news.clear()
                    await news.wait()
        except TimeoutError:
            raise SessionLost(f"no ack for the move marker in {ack_timeout:.0f} s") from None
        events.move_marked(subject=subject, version=version)

    def _save_place(self, place: Place) -> None:
        with checkpoint_needed():
            self._checkpoints.stand_at(place)
        self.destination.move(place)


# -- what archives have of the sources of a host that moves -----------------------------------------------------------

NAMELESS = "_"
"""Identity of an archive that did not report one."""


def sources_to_request(known: Iterable[Source]) -> list[str]:
    """The sources for which the collector must report its watermark: an older process may have sent more."""
    return [each.id for each in known if not each.ended_at or each.archived < each.offset]


def handed_off(known: Iterable[Source], reply: ReceiptsReply, requested: Collection[str]) -> list[Source]:
    """The sources as they are in the next partition.

    `reply` was sent after the move marker, so it is final: the old partition archives nothing more of this host. If a
    source was `requested` for and the archive does not know it, everything that no other archive has is sent again.
    """
    receipts = {receipt.source: receipt for receipt in reply.receipts}
    moved = []
    for source in known:
        found = list(_candidates(source, reply, receipts.get(source.id), is_asked=source.id in requested))
        if found:
            moved.append(source.handed_off(max(found, key=lambda each: (each.offset, each.crc is not None))))
        else:
            moved.append(source.back_to(source.origin) if source.ring else source)
    return moved


def _candidates(source: Source, reply: ReceiptsReply, receipt: Receipt | None, *, is_asked: bool) -> Iterator[Handoff]:
    """What archives have of a source: by this partition's collector, by earlier receipts, by earlier moves."""
    if receipt is not None and receipt.origin == source.origin:
        is_proven = receipt.crc >= 0 and not source.contradicts(receipt.watermark, receipt.crc)
        crc = receipt.crc if is_proven else None  # the next block contains it
        yield Handoff(receipt.watermark, crc, reply.archive or NAMELESS)
    for each in source.archives:
        if not (is_asked and each.archive == reply.archive) and each.offset > source.origin:
            crc = source.crc if each.offset == source.offset else None
            yield Handoff(each.offset, crc, each.archive or NAMELESS)
    if source.handoff is not None:
        yield source.handoff


class PartitionState(NamedTuple):
    """A partition that has a stream."""

    partition: int
    last: Stored | None  #: the newest message of the host there
    has_block: bool  #: the newest message is a block, as far as this host may read it
