"""Read, send, take PubAcks, save the checkpoint: the main loop of a producer, and how its parts are put together.

A kill at any line loses nothing: what is not in the checkpoint is read and sent again, and the collector drops
duplicates.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from producer.batcher import BATCHES_AHEAD, Batch, Batcher, Encoder, is_full
from producer.checkpoint.recovery import Recovery
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.discovery.watcher import Wake
from producer.heartbeat import Heartbeats
from producer.inputs.factory import Inputs
from producer.linger import Linger
from producer.model import Destination, Entry, Place
from producer.options import Task
from producer.rate_limit import RateLimit
from producer.scan_schedule import ScanSchedule
from producer.scheduler import Scheduler
from producer.session.control import ControlHandler
from producer.session.delivery import ALL_AT_ONCE, ONE_AT_FIRST, Delivery
from producer.session.delivery_check import DeliveryCheck
from producer.session.handshake import Handshake
from producer.session.host_name_guard import HostNameGuard
from producer.session.migration import Migration
from producer.tailer.delete_archived import ArchivedFileDeletion
from producer.tailer.retained_files import RetainedFiles
from shipper import events
from shipper.errors import Fatal, ShipperError, StreamBusy, StreamFull, StreamMissing, Transient, Unavailable
from shipper.lifecycle import Pulse, Stop, notify
from shipper.periodic import Periodic
from shipper.ports import Publisher
from shipper.retry import BUSY, FULL, SESSION

Connect = Callable[[int], Awaitable[Publisher]]
"""Opens a session that publishes to the stream of a partition."""

GRACE_SECONDS = 0.5
"""After the time limit: the work checks the limit too, and ends by itself if it can."""
MAX_SLEEP_DRAINING_SECONDS = 0.5
NO_INPUTS = Inputs()


class Sessions:
    """Sessions one by one: connect, check the name, find the partition, agree on offsets. Owned by the pipeline."""

    def __init__(
        self,
        connect: Connect,
        delivery: Delivery,
        scheduler: Scheduler,
        heartbeats: Heartbeats,
        migration: Migration,
        handshake: Handshake,
        control: ControlHandler,
    ) -> None:
        self._connect = connect
        self._delivery = delivery
        self._scheduler = scheduler
        self.heartbeats = heartbeats
        self.migration = migration
        self._handshake = handshake
        self._control = control

    async def connected(self) -> Publisher:
        """A new connection, with the stream of the host's partition."""
        return await self._scheduler.connected(self._connect(self.migration.place.partition))

    async def start(self, session: Publisher) -> bool:
        """Prepare to ship. False: the host has moved, and the next session connects to its new partition.

        Raises ConfigError: another live producer has this host's name.
        """
        await self.heartbeats.check_name(session, self._scheduler)
        if not await self._is_in_its_partition(session):
            return False
        session.on_news(self._scheduler.rouse)
        await self.heartbeats.run(session)  # first: the handshake ends without a stream
        with checkpoint_needed():
            await self._handshake.run(session, self._scheduler)
        await self._control.listen(session)
        return True

    async def _is_in_its_partition(self, session: Publisher) -> bool:
        migration, delivery = self.migration, self._delivery
        before = migration.place
        with checkpoint_needed():
            await migration.read_map(session)
        if migration.place.leaving:
            await self._control.listen(session)
            if len(delivery.window):
                delivery.reopen()
            await migration.arrive(session, self._scheduler)
            delivery.reopen()
        return migration.place.partition == before.partition and not before.leaving

    async def recover(self, session: Publisher, missing: StreamMissing) -> None:
        """The stream is missing: move the host if the map has it elsewhere, or request the stream.

        Raises StreamMissing: with the cause, unless the stream exists now.
        """
        migration = self.migration
        if migration.place_by_map.partition != migration.place.partition:
            migration.set_out()  # what is not acknowledged is sent there, after what this partition archived
        elif await migration.ask_for_stream(session):
            return
        raise await migration.explained(session, missing) from None

    async def end(self, session: Publisher) -> None:
        """Take the acks that arrived before the session ended, and close it."""
        self._scheduler.session_ended()
        with contextlib.suppress(ShipperError):
            self._delivery.take_acks(session)
            if self._scheduler.stop.requested:
                await self.heartbeats.farewell(session)
        await session.close()


class Pipeline:
    """The main loop of one producer. Owned by the event loop."""

    def __init__(
        self,
        task: Task,
        delivery: Delivery,
        batcher: Batcher,
        scans: ScanSchedule,
        sessions: Sessions,
        scheduler: Scheduler,
        inputs: Inputs,
    ) -> None:
        self._task = task
        self.delivery = delivery
        self._batcher = batcher
        self._scans = scans
        self._sessions = sessions
        self._heartbeats, self.migration = sessions.heartbeats, sessions.migration
        self._scheduler = scheduler
        self._stop = scheduler.stop
        self._inputs = inputs
        self._trouble = "no session with the server yet"  # empty while the session works
        self._was_served = False  # a session worked, in which lines could be sent
        self._ends_collecting: bool | None = None  # at a stop: what was being collected is still to be read
        delivery.on_acknowledged(self._acknowledged)
        self.pulse = scheduler.pulse  #: the progress of the main loop, for the watchdog

    async def run(self) -> None:
        """Ship until stopped, or with `once` to the ends of the files. Raises Fatal, and Unavailable with `once`."""
        try:
            self.delivery.start()
            self._scans.scan()  # also with `once`
            await self._run_until_deadline()
        finally:
            self._scans.close()
            self._batcher.close()
            self.delivery.close()
            if self._was_served:
                events.drained(program="producer", left=len(self.delivery.window))
            else:
                events.ended_without_session(program="producer", reason=self._trouble)

    def status(self) -> dict[str, Any]:
        """What the producer does now, for people and scripts."""
        return self._heartbeats.status()

    def ready(self) -> str:
        """Why there is no working session with the server. Empty while there is one."""
        return self._trouble

    async def _run_until_deadline(self) -> None:
        """Run sessions. Cancel them after the time limit of a stop, wherever they wait.

        Raises Fatal: with `once` some files could not be read, so not everything was shipped.
        """
        working = asyncio.ensure_future(self._run_sessions())
        deadline = asyncio.ensure_future(self._deadline())
        try:
            await asyncio.wait({working, deadline}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            deadline.cancel()
            working.cancel()
            await asyncio.wait({working}, timeout=2 * GRACE_SECONDS)  # bounded: nats-py may swallow a cancellation
        if working.done() and not working.cancelled():
            working.result()
        unread = self.delivery.tailer.unread if self._task.following.once and not self._stop.requested else []
        if unread:
            raise Fatal(f"not everything could be read: {', '.join(unread[:10])}", hint="see the errors above")

    async def _deadline(self) -> None:
        await self._stop.wait()
        await asyncio.sleep(max(0.0, self._task.drain_within + GRACE_SECONDS - self._stop.seconds_since_request))

    @property
    def _is_done(self) -> bool:
        """Whether the work ends now."""
        delivery = self.delivery
        is_settled = not len(delivery.window)
        if self._stop.requested:
            is_over = is_settled and not self._is_emptying and not self._ends_collecting
            return is_over or self._stop.seconds_since_request > self._task.drain_within
        ends = self._task.following.once or self._inputs.end_the_program
        return ends and is_settled and delivery.tailer.idle and self._inputs.is_over(delivery.progress)

    @property
    def _is_emptying(self) -> bool:  # the inputs were stopped, and not all of their spools is acknowledged
        return self._inputs.stopping and not self._inputs.is_settled(self.delivery.progress)

    # -- sessions -----------------------------------------------------------------------------------------------------

    async def _run_sessions(self) -> None:
        """One session after another until the work is done. An error in one leads to the next, with back-off."""
        while not self._is_done:
            self.pulse.turn()
            try:
                await self._session()
            except (Transient, Unavailable) as error:
                delay = self._failed(error)
                events.session_ended(program="producer", error=str(error), hint=error.hint, retry_in=delay)
                await self._scheduler.pause(delay)
                if self._stop.requested:
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

    def _failed(self, error: Transient | Unavailable) -> float:
        """Seconds to wait after `error`. Raises Unavailable, if the time limit for trouble is over."""
        self._trouble = self._heartbeats.trouble = str(error)
        match error:
            case StreamBusy():
                policy = BUSY
            case StreamFull() | StreamMissing():
                policy = FULL
            case _:
                policy = SESSION
        return self._task.patience.after(error, policy)

    def _acknowledged(self, _: Sequence[Entry]) -> None:
        """JetStream stored blocks."""
        self._trouble = ""
        self._task.patience.progress()

    async def _serve(self, session: Publisher) -> None:
        self._trouble = ""
        self._was_served = True
        self._task.patience.served()
        if not len(self.delivery.window):  # nothing is in flight whose ack shows that it works better than the last
            self._task.patience.progress()
        events.session_begun(program="producer", subject=self.migration.destination.subject)
        notify("READY=1")
        at_once = ALL_AT_ONCE
        while True:
            try:
                await self.delivery.send_again(session, at_once, self._scheduler.run_while_waiting)
                return await self._ship(session)
            except StreamFull as full:
                await self._wait_for_space(session, full)
                at_once = ONE_AT_FIRST

    async def _wait_for_space(self, session: Publisher, full: StreamFull) -> None:
        """Wait in the session until what is in flight may be sent again.

        The collector's requests are answered meanwhile: if it waits for missing bytes, it frees the stream only after
        the producer has replied that it sends them again. Raises StreamFull: a stop was requested.
        """
        with contextlib.suppress(StreamFull):
            self.delivery.take_acks(session)  # acks that arrived before the refusal
        if self._stop.requested:
            raise full
        session.start_over()
        delay = self._failed(full)
        if isinstance(full, StreamBusy):
            self.delivery.window.halve()
            events.stream_busy(error=str(full), hint=full.hint)
        else:
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
                    blocks = delivery.open(batch)  # in flight: if the next line fails, the next session sends it
                    self._read_ahead(batch)
                    await delivery.send(session, blocks)
                delivery.take_acks(session)  # PubAck
                await delivery.save_if_due()  # checkpoint
                self.pulse.turn()
                if batcher:
                    continue
                self._end_collecting()
                await scheduler.run_due(session)
                if self.migration.is_time_to_leave and not len(delivery.window):
                    await delivery.save()
                    return self.migration.set_out()
                if self._may_read and not delivery.tailer.idle:
                    batcher.begin()
                elif self._is_done:
                    if not self._stop.requested:
                        await self._heartbeats.report_end(session)
                    return None
                else:
                    delivery.check_late()
                    await self._rest()
        finally:
            if self._ends_collecting:  # a stop does not wait for another session because of them
                self._ends_collecting = False
            while batcher:  # the files are read up to here: what is not in flight would be skipped
                delivery.open(await batcher.next())

    def _read_ahead(self, batch: Batch) -> None:
        """Read while `batch` is sent, unless a task is due that must not meet a thread that reads."""
        ahead = BATCHES_AHEAD if is_full(batch) else min(1, len(batch))
        while len(self._batcher) < ahead and self._may_read and not self._scheduler.must_pause_reading:
            if not self._batcher and self.delivery.tailer.idle:  # no thread reads: it is known
                return
            self._batcher.begin(is_busy=ahead > 1)

    @property
    def _may_read(self) -> bool:
        """Whether more is read: until a stop is requested, and then what the inputs left in their spools."""
        delivery = self.delivery
        if delivery.must_resend or self.migration.is_time_to_leave or not delivery.window.has_capacity:
            return False
        is_ending = self._stop.requested and not (self._is_emptying or self._ends_collecting)
        return self._batcher.limit.budget(1) > 0 and not is_ending

    def _end_collecting(self) -> None:
        """At a stop: read the lines that were being collected. A backlog is left to the next start."""
        if not self._stop.requested:
            return
        if self._ends_collecting is None:
            self._ends_collecting = self.delivery.tailer.idle
            if self._ends_collecting:
                self._scans.check_hinted()
        is_leaving = self.migration.is_time_to_leave
        self._ends_collecting = self._ends_collecting and not (self.delivery.tailer.idle or is_leaving)

    async def _rest(self) -> None:
        """Sleep until there is news, a task or an ack is due, the rate limit allows to read, or the drain ends."""
        delivery, until = self.delivery, min(self.delivery.late_at, self.delivery.save_at)
        if self._stop.requested:
            until = min(until, time.monotonic() + MAX_SLEEP_DRAINING_SECONDS)
        elif delivery.window.has_capacity and not delivery.tailer.idle:
            until = min(until, self._batcher.limit.ready_at)
        await self._scheduler.sleep(until, is_idle=delivery.tailer.idle)


class Cleaning:
    """Deletes files that are archived, and rotates and deletes the spools of inputs. Owned by the scheduler."""

    def __init__(self, delivery: Delivery, deletion: ArchivedFileDeletion, inputs: Inputs, stop: Stop) -> None:
        self._delivery = delivery
        self._deletion = deletion
        self._inputs = inputs
        self._stop = stop

    def next_deletion_at(self) -> float:
        """When files are checked next, or as soon as the collector has replied; never once a stop was requested."""
        return math.inf if self._stop.requested else self._deletion.next_at()

    async def tend_inputs(self, _: Publisher | None) -> None:
        """Rotate and delete the spools."""
        self._inputs.tend(self._delivery.progress, self._delivery.tailer.ended_files.release)

    async def delete_archived(self, session: Publisher | None) -> None:
        """Delete the files that are due, once the checkpoint contains all of them."""
        delivery, ended_files = self._delivery, self._delivery.tailer.ended_files
        if session is not None and not self._stop.requested and (files := self._deletion.due(session, ended_files)):
            await delivery.save()
            if not delivery.tailer.acks.has_unsaved:
                self._deletion.delete(files, ended_files)


def pipeline_of(
    task: Task,
    checkpoints: Checkpoints,
    connect: Connect,
    stop: Stop,
    inputs: Inputs = NO_INPUTS,
    guard: HostNameGuard | None = None,
    retained: RetainedFiles | None = None,
) -> Pipeline:
    """Put the parts of a producer together. Called in the event loop that runs it."""
    wake = Wake()
    destination = Destination(task.prefix, task.host, checkpoints.place or Place(partition=task.partition))
    delivery = Delivery(task, checkpoints, destination, wake, retained)
    encoder = Encoder(task.compressor, task.edits, task.labels, destination)
    batcher = Batcher(delivery.read, encoder, RateLimit(task.rate))
    linger = Linger(task.max_delay, rouse=wake.rouse, is_in_flight=lambda: len(delivery.window) > 0)
    stop.on_request(linger.drain)
    heartbeats = Heartbeats(task, destination, delivery, guard or HostNameGuard(task.host, task.prefix, None), linger)
    check = DeliveryCheck(destination, delivery, rouse=wake.rouse)
    migration = Migration(task, checkpoints, destination, delivery, rouse=wake.rouse)
    scans = ScanSchedule(task, wake, delivery, linger)
    deletion = ArchivedFileDeletion(task.delete_archived, destination, rouse=wake.rouse)
    cleaning = Cleaning(delivery, deletion, inputs, stop)
    tasks = [
        Periodic("close the files whose last block is acknowledged", delivery.retire),
        Periodic("check that blocks arrive", check.run, next_at=check.next_at, cancel=check.cancel),
        # before the deletion: no file goes that must be read again
        Periodic("send again what an archive lacks", delivery.go_back_if_requested),
        Periodic("find files", scans.run, next_at=scans.next_at),
        Periodic("rotate and delete the spools", cleaning.tend_inputs),
        Periodic("send heartbeats", heartbeats.run, next_at=heartbeats.next_at, cancel=heartbeats.cancel),
        Periodic("follow the partition map", migration.run, next_at=migration.next_at, cancel=migration.cancel),
        Periodic(
            "delete archived files",
            cleaning.delete_archived,
            next_at=cleaning.next_deletion_at,
            cancel=deletion.cancel,
        ),
        Periodic("save the checkpoint", delivery.save_if_due),
    ]
    scheduler = Scheduler(tasks, stop, wake, Pulse("the session"), task.poll)
    handshake = Handshake(checkpoints, delivery, Recovery(destination, task), migration, check)
    control = ControlHandler(task, delivery, migration, check, scans, linger)
    sessions = Sessions(connect, delivery, scheduler, heartbeats, migration, handshake, control)
    delivery.on_acknowledged(check.acknowledged)
    delivery.on_acknowledged(heartbeats.acknowledged)
    inputs.hint_to(wake.hint)
    return Pipeline(task, delivery, batcher, scans, sessions, scheduler, inputs)
