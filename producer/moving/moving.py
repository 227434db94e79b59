"""Where this host is, where it should be, and the way from one to the other; each step is durable before the next.

stay -> the map says otherwise -> leaving (durable) -> marker -> final receipts -> the new place (durable) -> stay
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from producer.beside import Beside
from producer.checkpoints import Checkpoints, checkpoint_needed
from producer.following.ledger import Ledger
from producer.following.source import Source
from producer.following.sources import Sources
from producer.moving.assignment import partitions_there, past_of
from producer.moving.handoff import asked_for, handed_off
from producer.moving.leaving import Leaving
from producer.moving.place import Place
from producer.moving.watch import Watch
from producer.receipts import Told
from producer.resume import receipt_of
from producer.task import Task
from shipper import events
from shipper.errors import ShipperError, StreamMissing
from shipper.partitioning import partition_for
from shipper.ports import Publisher
from shipper.subjects import control_up, stream_name

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
        question = {"v": 1, "ask": "stream", "partition": self.place.partition}
        try:
            said = await publisher.ask(control_up(self._task.host), question, STREAM_SECONDS)
        except ShipperError:
            return False
        answer = (said or {}).get("stream")
        if answer == "refused":
            events.stream_denied(partition=self.place.partition, reason=str((said or {}).get("reason", "")))
        return answer == "created"

    def status(self) -> dict[str, Any]:
        """Where it is, for people and scripts."""
        return {"map_version": self.place.version, "moving": bool(self.place.leaving)}

    def answer(self) -> Mapping[str, Any]:
        """Where this host is, for whoever moves it; it looks at the map at once."""
        self.watch.hint()
        place = self.place
        return {"v": 1, "partition": place.partition, "version": max(place.version, place.leaving)} | (
            {"leaving": True} if place.leaving else {}
        )

    async def _last_receipts(self, publisher: Publisher, ledger: Ledger, asked: set[str], beside: Beside) -> Told:
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
