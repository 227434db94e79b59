"""Where this host is, where it should be, and the way from one to the other; each step is durable before the next.

stay -> the map says otherwise -> leaving (durable) -> marker -> final receipts -> the new place (durable) -> stay
"""

from collections.abc import Callable, Mapping
from typing import Any

from producer.beside import Beside
from producer.checkpoints import Checkpoints, checkpoint_needed
from producer.following.ledger import Ledger
from producer.following.sources import Sources
from producer.moving.handoff import asked_for, handed_off
from producer.moving.leaving import Leaving
from producer.moving.place import Place
from producer.moving.watch import Watch
from producer.receipts import Told
from producer.task import Task
from shipper import events
from shipper.errors import ShipperError
from shipper.ports import Publisher
from shipper.subjects import control_up

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

    async def look(self, publisher: Publisher) -> None:
        """Read the map as a session begins. A host without a past, and one that is right, take up its version."""
        await self.watch.look(publisher)
        there = self.watch.belongs(self.place)
        stays = not self.place.leaving and there.partition == self.place.partition
        if there != self.place and (stays or self._checkpoints.fresh):
            self._stand_at(there)

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
