"""Starts and ends sessions with the server: connect, check the host's name, find its partition, agree on offsets."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from producer.checkpoint.store import checkpoint_needed
from producer.heartbeat import Heartbeats
from producer.periodic import Scheduler
from producer.repartition.migration import Migration
from producer.session.control import ControlHandler
from producer.session.delivery import Delivery
from producer.session.handshake import Handshake
from shipper.errors import ShipperError, StreamMissing
from shipper.ports import Publisher

Connect = Callable[[int], Awaitable[Publisher]]
"""Opens a session that publishes to the stream of a partition."""


class SessionFactory:
    """The sessions of a producer, one after another. Owned by the pipeline."""

    def __init__(
        self, connect: Connect, delivery: Delivery, scheduler: Scheduler, heartbeats: Heartbeats, migration: Migration,
        handshake: Handshake, control: ControlHandler,
    ) -> None:  # fmt: skip
        self._connect = connect
        self._delivery = delivery
        self._scheduler = scheduler
        self._heartbeats = heartbeats
        self._migration = migration
        self._handshake = handshake
        self._control = control

    async def connected(self) -> Publisher:
        """A new connection, with the stream of the host's partition."""
        return await self._scheduler.connected(self._connect(self._migration.place.partition))

    async def start(self, session: Publisher) -> bool:
        """Prepare to ship; False: the host has moved, and the next session connects to its new partition.

        Raises ConfigError: another live producer has this host's name.
        """
        await self._heartbeats.check_name(session, self._scheduler)
        if not await self._is_in_its_partition(session):
            return False
        session.on_news(self._scheduler.rouse)
        await self._heartbeats.tend(self._delivery.tailer, session)  # first: the handshake ends without a stream
        with checkpoint_needed():
            await self._handshake.run(session, self._scheduler)
        await self._control.listen(session)
        return True

    async def _is_in_its_partition(self, session: Publisher) -> bool:
        migration, delivery = self._migration, self._delivery
        before = migration.place
        with checkpoint_needed():
            await migration.read_map(session, delivery.tailer.acks.known)
        if migration.place.leaving:
            await self._control.listen_to_collectors(session)
            if len(delivery.window):
                delivery.reopen()
            await migration.arrive(session, delivery.tailer, self._scheduler)
            delivery.reopen()
        return migration.place.partition == before.partition and not before.leaving

    async def recover(self, session: Publisher, missing: StreamMissing) -> None:
        """The stream is missing: move the host if the map has it elsewhere, or request the stream.

        Raises StreamMissing: with the cause, unless the stream exists now.
        """
        if self._migration.is_elsewhere:  # what is not acknowledged is sent there, after what this partition archived
            self._migration.set_out()
        elif await self._migration.ask_for_stream(session):
            return
        raise await self._migration.explained(session, missing) from None

    async def end(self, session: Publisher) -> None:
        """Take the acks that arrived before the session ended, and close it."""
        self._scheduler.session_ended()
        with contextlib.suppress(ShipperError):
            self._delivery.take_acks(session)
            if self._scheduler.is_stopping:
                await self._heartbeats.farewell(self._delivery.tailer, session)
        await session.close()

    @property
    def subject(self) -> str:
        """The subject of the blocks."""
        return self._migration.destination.subject

    @property
    def must_leave(self) -> bool:
        """Whether the host must leave its partition as soon as nothing is in flight."""
        return self._migration.watch.is_time

    def leave(self) -> None:
        """Leave the partition, durably: the next session moves the host."""
        self._migration.set_out()

    def status(self) -> dict[str, Any]:
        """What the producer does now, for people and scripts."""
        return {**self._migration.status(), **self._heartbeats.status(self._delivery.tailer)}
