"""Read, send, take PubAcks, save the checkpoint: the main loop of a producer, and how its parts are put together.

A kill at any line loses nothing: what is not in the checkpoint is read and sent again, and the collector drops
duplicates.
"""

import asyncio
import contextlib
import time
from typing import Any

from producer.batch.batcher import BATCHES_AHEAD, Batch, Batcher, BatchReader, Encoder, RateLimit, is_full
from producer.checkpoint.ack_tracker import CheckpointSaver
from producer.checkpoint.recovery import Recovery
from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import name_filter
from producer.discovery.watcher import Wake
from producer.heartbeat import Heartbeats
from producer.inputs.factory import Inputs
from producer.model import Destination, Place
from producer.options import Task
from producer.periodic import Scheduler
from producer.repartition.migration import Migration
from producer.session.control import ControlHandler
from producer.session.delivery import ALL_AT_ONCE, ONE_AT_FIRST, Delivery, ResendQueue, Sender, Shipped
from producer.session.delivery_check import DeliveryCheck
from producer.session.drain import Drain
from producer.session.handshake import Handshake
from producer.session.health import SessionHealth
from producer.session.host_name_guard import HostNameGuard
from producer.session.inflight import Window
from producer.session_factory import Connect, SessionFactory
from producer.tailer.retained_files import RetainedFiles
from producer.tailer.scan_schedule import ScanSchedule
from producer.tailer.tailer import new_tailer
from producer.tasks import (
    CloseFilesTask,
    DeletionTask,
    DeliveryCheckTask,
    HeartbeatTask,
    InputsTask,
    MapWatchTask,
    ResendTask,
    SaveTask,
    ScanTask,
)
from shipper import events
from shipper.errors import StreamFull, StreamMissing, Transient, Unavailable
from shipper.lifecycle import Stop, notify
from shipper.ports import Publisher
from shipper.watchdog import Pulse

MAX_SLEEP_DRAINING_SECONDS = 0.5
NO_INPUTS = Inputs()


class Pipeline:
    """The main loop of one producer. Owned by the event loop."""

    def __init__(
        self, task: Task, delivery: Delivery, batcher: Batcher, sessions: SessionFactory, scheduler: Scheduler,
        health: SessionHealth, drain: Drain,
    ) -> None:  # fmt: skip
        self._task = task
        self.delivery = delivery
        self._batcher = batcher
        self._sessions = sessions
        self._scheduler = scheduler
        self._health = health
        self._drain = drain

    async def run(self) -> None:
        """Ship until stopped, or with `once` to the ends of the files. Raises Fatal, and Unavailable with `once`."""
        self._task.edits.budget.start()
        try:
            self.delivery.start()
            self._scheduler.start()
            await self._drain.run(self._run_sessions())
        finally:
            self._scheduler.close()
            self._batcher.close()
            self.delivery.close()
            self._task.edits.close()
            events.drained(program="producer", left=len(self.delivery.window))

    def status(self) -> dict[str, Any]:
        """What the producer does now, for people and scripts."""
        return self._sessions.status()

    def ready(self) -> str:
        """Why there is no working session with the server; empty while there is one."""
        return self._health.trouble

    @property
    def pulse(self) -> Pulse:
        """The progress of the main loop, for the watchdog."""
        return self._scheduler.pulse

    @property
    def shipped(self) -> Shipped:
        """What the server has acknowledged in a run with `once`."""
        return self.delivery.shipped

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def _run_sessions(self) -> None:
        """One session after another until the work is done; an error in one leads to the next, with back-off."""
        while not self._drain.is_done:
            self.pulse.turn()
            try:
                await self._session()
            except (Transient, Unavailable) as error:
                delay = self._health.failed(error)
                events.session_ended(program="producer", error=str(error), hint=error.hint, retry_in=delay)
                await self._scheduler.pause(delay)
                if self._drain.is_stopping:
                    await asyncio.sleep(min(delay, MAX_SLEEP_DRAINING_SECONDS))

    async def _session(self) -> None:
        session = await self._sessions.connected()
        try:
            if await self._sessions.start(session):
                await self._serve(session)
        except StreamMissing as missing:
            await self._sessions.recover(session, missing)
        finally:
            await self._sessions.end(session)

    async def _serve(self, session: Publisher) -> None:
        self._health.started(is_progress=not len(self.delivery.window))
        events.session_begun(program="producer", subject=self._sessions.subject)
        notify("READY=1")
        at_once = ALL_AT_ONCE
        while True:
            try:
                await self.delivery.send_again(session, at_once, self._scheduler.run_while_waiting)
                return await self._ship(session)
            except StreamFull as full:
                await self._wait_for_room(session, full)
                at_once = ONE_AT_FIRST

    async def _wait_for_room(self, session: Publisher, full: StreamFull) -> None:
        """Wait in the session until what is in flight may be sent again.

        The collector's requests are answered meanwhile: if it waits for missing bytes, it frees the stream only after
        the producer has replied that it sends them again. Raises StreamFull: a stop was requested.
        """
        with contextlib.suppress(StreamFull):
            self.delivery.take_acks(session)  # acks that arrived before the refusal
        if self._drain.is_stopping:
            raise full
        session.start_over()
        delay = self._health.failed(full)
        events.stream_full(error=str(full), hint=full.hint, retry_in=delay)
        await self._scheduler.pause(delay, session)

    # -- the main loop ------------------------------------------------------------------------------------------------

    async def _ship(self, session: Publisher) -> None:
        """Ship until the session or the work ends. A thread reads and encodes the next batches during the sending."""
        delivery, batcher, scheduler = self.delivery, self._batcher, self._scheduler
        try:
            while True:
                if batcher:
                    batch = await batcher.next()  # read
                    tokens = delivery.open(batch)  # in flight: if the next line fails, the next session sends it
                    self._read_ahead(batch)
                    await delivery.send(session, tokens, batch)
                delivery.take_acks(session)  # PubAck
                await delivery.save_if_due()  # checkpoint
                scheduler.pulse.turn()
                if batcher:
                    continue
                await scheduler.run_due(session)
                if self._sessions.must_leave and not len(delivery.window):
                    await delivery.save()
                    return self._sessions.leave()
                if self._may_read and not delivery.tailer.idle:
                    batcher.begin()
                elif self._drain.is_done:
                    return None
                else:
                    delivery.check_late()
                    await self._rest()
        finally:
            while batcher:  # the files are read up to here: what is not in flight would be skipped
                delivery.open(await batcher.next())

    def _read_ahead(self, batch: Batch) -> None:
        """Read while `batch` is sent, unless a task is due that must not meet a thread that reads."""
        ahead = BATCHES_AHEAD if is_full(batch) else min(1, len(batch))
        while len(self._batcher) < ahead and self._may_read and not self._scheduler.must_pause_reading:
            self._batcher.begin(is_busy=ahead > 1)

    @property
    def _may_read(self) -> bool:
        delivery = self.delivery
        may_begin = self._drain.may_read and not delivery.resends.is_any and not self._sessions.must_leave
        return may_begin and delivery.window.room and self._batcher.has_budget

    async def _rest(self) -> None:
        """Sleep until there is news, a task or an ack is due, the rate limit allows to read, or the drain ends."""
        delivery = self.delivery
        due = [self._scheduler.next_at]
        if delivery.window.room and not (self._drain.is_stopping or delivery.tailer.idle):
            due.append(self._batcher.budget_at)
        if (late_at := delivery.late_at) is not None:
            due.append(late_at)
        if self._drain.is_stopping:
            due.append(time.monotonic() + MAX_SLEEP_DRAINING_SECONDS)
        await self._scheduler.sleep(min(due), is_idle=delivery.tailer.idle)


def pipeline_of(
    task: Task, checkpoints: Checkpoints, connect: Connect, stop: Stop, inputs: Inputs = NO_INPUTS,
    guard: HostNameGuard | None = None, retained: RetainedFiles | None = None,
) -> Pipeline:  # fmt: skip
    """Put the parts of a producer together. Called in the event loop that runs it."""
    wake, pulse, following = Wake(), Pulse("the session"), task.following
    guard = guard or HostNameGuard(task.host, task.prefix, None)
    destination = Destination(task.prefix, task.host, checkpoints.place or Place(partition=task.partition))
    delivery = Delivery(
        task,
        checkpoints,
        new_tailer(following, checkpoints, retained),
        Sender(task, destination, Window(task.window_bytes), wake),
        CheckpointSaver(checkpoints, task.checkpoint_every),
        ResendQueue(wake.rouse),
        Shipped(following.spools.values()),
    )
    encoder = Encoder(task.compressor, task.edits)
    encoder.destination = destination
    batcher = Batcher(BatchReader(delivery.read, delivery.put_back, encoder, RateLimit(task.rate)))
    heartbeats = Heartbeats(task, destination, delivery.window, guard)
    health = SessionHealth(task.patience, heartbeats.has_trouble)
    check = DeliveryCheck(destination, rouse=wake.rouse)
    migration = Migration(task, checkpoints, destination, rouse=wake.rouse)
    delivery.on_acknowledged(lambda entries: check.acknowledged(entry.piece.source for entry in entries))
    delivery.on_acknowledged(health.acknowledged)
    delivery.on_acknowledged(heartbeats.acknowledged)
    tasks = (
        CloseFilesTask(delivery),
        DeliveryCheckTask(check, delivery),
        ResendTask(delivery),
        ScanTask(ScanSchedule(task, wake), delivery),
        InputsTask(inputs, delivery),
        HeartbeatTask(heartbeats, delivery),
        MapWatchTask(migration, delivery),
        DeletionTask(task, destination, delivery, stop, wake),
        SaveTask(delivery),
    )
    scheduler = Scheduler(tasks, stop, wake, pulse, task.poll)
    recovery = Recovery(
        destination,
        wait_seconds=task.recover_wait,
        when_silent=task.when_silent,
        spools=following.spools,
        is_wanted=name_filter(following.watched),
        links=following.links,
    )
    sessions = SessionFactory(
        connect,
        delivery,
        scheduler,
        heartbeats,
        migration,
        Handshake(checkpoints, delivery, recovery, migration, check.doubt),
        ControlHandler(task, delivery, migration.answer, check.unproven),
    )
    stop.on_ask(task.edits.budget.end_soon)
    inputs.hint_to(wake.hint)
    return Pipeline(task, delivery, batcher, sessions, scheduler, health, Drain(task, stop, inputs, delivery))
