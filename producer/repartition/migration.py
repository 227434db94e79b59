"""The partition of this host, the partition that the map names, and the move from one to the other.

stay -> the map names another partition -> leaving (durable) -> marker -> final receipts -> new place (durable)

Each step is durable before the next begins.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from producer.checkpoint.ack_tracker import AckTracker
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.model import Destination, Place, Source
from producer.options import Task
from producer.periodic import Scheduler
from producer.repartition.assignment import partitions_there, past_of
from producer.repartition.handoff import Departure, asked_for, handed_off
from producer.repartition.map_watcher import MapWatcher
from producer.tailer.tailer import Tailer
from shipper import events
from shipper.control import PlaceReply, ReceiptsReply, StreamAnswer, StreamReply, StreamRequest
from shipper.errors import ShipperError, StreamMissing
from shipper.partition_map import partition_for
from shipper.ports import Publisher
from shipper.subjects import control_up, stream_name

STREAM_SECONDS = 10.0


class Migration:
    """Moves this host to the partition that the map names. `watch`: reads the map. Owned by the session factory."""

    def __init__(
        self, task: Task, checkpoints: Checkpoints, destination: Destination, *, rouse: Callable[[], None]
    ) -> None:
        self._task = task
        self._checkpoints = checkpoints
        self.destination = destination
        self.watch = MapWatcher(task.prefix, task.host, rouse=rouse)
        self._reported: Place | None = None  # the place for which a difference to the settings was reported

    @property
    def place(self) -> Place:
        """The place of this host, as the checkpoint knows it."""
        return self.destination.place

    async def read_map(self, publisher: Publisher, known: Mapping[str, Source]) -> None:
        """Read the map at the start of a session. A new host, and one in the right partition, adopt its version.

        `known`: the sources of the checkpoint; an older version did not save the partition.
        """
        await self.watch.read(publisher)
        if self._checkpoints.place is None:
            self._save_place(await self._first_place(publisher, known))
        self._adopt_version()
        self._report_settings()

    async def _first_place(self, publisher: Publisher, known: Mapping[str, Source]) -> Place:
        partition_map = self.watch.known
        if partition_map is None or not self._checkpoints.fresh:
            task = self._task
            seen = await partitions_there(publisher, task.prefix, task.host, partition_map, first=self.place.partition)
            past = past_of(seen, known)
            if past is not None:
                return Place(partition=past)
        return self.watch.belongs(self.place)

    def _adopt_version(self) -> None:
        there = self.watch.belongs(self.place)
        stays = not self.place.leaving and there.partition == self.place.partition
        if there != self.place and (stays or self._checkpoints.fresh):
            self._save_place(there)

    def _report_settings(self) -> None:
        """Report once that SHIPPER_PARTITIONS differs from the partition in which this host ships."""
        task, partition_map, place = self._task, self.watch.known, self.place
        if self._reported == place:
            return
        self._reported = place
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
        return [each.partition for each in seen if each.partition != self.place.partition and each.has_block]

    async def explained(self, publisher: Publisher, missing: StreamMissing) -> StreamMissing:
        """`missing` with the cause, if the server has other partitions than the settings or the map."""
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

    @property
    def is_elsewhere(self) -> bool:
        """Whether the map names another partition for this host."""
        return self.watch.belongs(self.place).partition != self.place.partition

    def set_out(self) -> None:
        """Save the state "leaving": from now on only the marker is published in this partition."""
        version = self.watch.belongs(self.place).version
        if not self.place.leaving and version > self.place.version:
            self._save_place(self.place.left_for(version))

    async def arrive(self, publisher: Publisher, sources: Tailer, scheduler: Scheduler) -> None:
        """Leave the old partition and move to the new one with all sources. `sources` must be opened anew then.

        Raises SessionLost, StreamFull, StreamMissing: the next session continues the move.
        """
        acks, asked = sources.acks, set[str]()
        told = await self._last_receipts(publisher, acks, asked, scheduler)
        await self.watch.read(publisher)  # it may have changed again; if it is gone, the host stays
        before, there = self.place, self.watch.belongs(self.place)
        if there == before:
            there = Place(partition=before.partition, version=before.leaving)
        with checkpoint_needed():
            acks.move_to(there, handed_off(acks.known.values(), told, asked))
        self.destination.move(there)
        events.host_moved(
            host=self._task.host, before=before.partition, partition=there.partition, version=there.version
        )

    async def ask_for_stream(self, publisher: Publisher) -> bool:
        """Request the partition's stream from the partitioner or a collector; whether it exists now."""
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
        """The place of the host, for people and scripts."""
        return {"map_version": self.place.version, "moving": bool(self.place.leaving)}

    def answer(self) -> PlaceReply:
        """The partition of this host, for the partitioner; the map is read again immediately."""
        self.watch.hint()
        place = self.place
        return PlaceReply(place.partition, max(place.version, place.leaving), bool(place.leaving))

    async def _last_receipts(
        self, publisher: Publisher, acks: AckTracker, asked: set[str], scheduler: Scheduler
    ) -> ReceiptsReply:
        """The final receipts; files are scanned meanwhile, so that no rename is missed."""

        def ask() -> list[str]:
            found = asked_for(acks.known.values())
            asked.clear()
            asked.update(found)
            return found

        task = self._task
        leaving = Departure(publisher, task.prefix, task.host, self.place, ack_timeout=task.ack_timeout)
        return await scheduler.run_until(leaving.last_receipts(ask), before="the old partition was left")

    def _save_place(self, place: Place) -> None:
        with checkpoint_needed():
            self._checkpoints.stand_at(place)
        self.destination.move(place)
