"""Read, send, wait for the server's word, move the checkpoint: the promise of the producer, in that order.

    sources.read -> encode -> window.open -> publish          (a block is in flight, its bytes are kept)
    acknowledged -> window.settle -> sources.acknowledged     (JetStream has it)
    saving.save_if_due                                        (we remember that it has)

A kill at any line loses nothing: what is not in the checkpoint is read and sent again, and the collector drops what
it has already.

The end of a drain, wherever the work waits just then: a dead server may hold up anything.

What one run with `--once` shipped, exactly: the numbers of its summary line.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

from producer.batch.batcher import LOAD_BYTES, LOADS_AHEAD, Encoder, Load, Loads, is_full
from producer.batch.rate_limit import Pace
from producer.checkpoint.ack_tracker import Saving
from producer.checkpoint.recovery import Recovery
from producer.checkpoint.store import Checkpoints, checkpoint_needed
from producer.discovery.scanner import wanted
from producer.discovery.watcher import Wake
from producer.heartbeat import Heartbeats
from producer.inputs.factory import Inputs
from producer.inputs.spool_files import Progress
from producer.options import Task
from producer.repartition.migration import Moving
from producer.session.control import Asked
from producer.session.delivery_check import Arrival
from producer.session.handshake import agree
from producer.session.host_name_guard import Namesake
from producer.session.inflight import Entry, Window
from producer.session.periodic import Beside
from producer.session.sender import ALL_AT_ONCE, ONE_AT_FIRST, Sending
from producer.tailer.delete_archived import Removal
from producer.tailer.scan_schedule import Looks
from producer.tailer.tailer import Sources
from shipper import events
from shipper.control import MarksRequest
from shipper.errors import Fatal, SessionLost, ShipperError, StreamFull, StreamMissing, Transient, Unavailable
from shipper.lifecycle import Stop, notify
from shipper.ports import Publisher
from shipper.retry import FULL, SESSION, Backoff
from shipper.subjects import control_ask, control_down
from shipper.watchdog import Pulse

GRACE_SECONDS = 0.5
"""Behind the deadline: the work knows it too and ends by itself if it can."""


async def until_drained(work: Awaitable[None], stop: Stop, *, within: float) -> None:
    """Wait for `work`; cut it off `within` seconds after `stop` was asked."""
    working = asyncio.ensure_future(work)
    deadline = asyncio.ensure_future(_deadline(stop, within + GRACE_SECONDS))
    try:
        await asyncio.wait({working, deadline}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        deadline.cancel()
        working.cancel()
        await asyncio.wait({working}, timeout=2 * GRACE_SECONDS)  # not for ever: nats-py may swallow a cancellation
    if working.done() and not working.cancelled():
        working.result()


async def _deadline(stop: Stop, within: float) -> None:
    await stop.wait()
    await asyncio.sleep(max(0.0, within - stop.asked_for))


def check_all_read(unread: Sequence[str]) -> None:
    """Raises Fatal: some files could not be read, where to end well means that everything was shipped."""
    if unread:
        raise Fatal(f"not everything could be read: {', '.join(unread[:10])}", hint="see the errors above")


class Shipped:
    """Files, lines and bytes that the server acknowledged. Owned by the pipeline.

    What is sent again, because the server lost it, counts once.
    """

    def __init__(self, inputs: Collection[str]) -> None:
        self._inputs = frozenset(inputs)  # archive names of inputs that are no files
        self._ends: dict[str, int] = {}  # by source: acknowledged up to there
        self._files: set[str] = set()
        self.lines = 0
        self.bytes = 0

    def add(self, entry: Entry) -> None:
        """Count an acknowledged block."""
        piece = entry.piece
        before = self._ends.get(piece.source, piece.span.start)
        if piece.span.end <= before:
            return
        self._ends[piece.source] = piece.span.end
        self._files.add(piece.file if piece.file in self._inputs else piece.source)
        self.bytes += piece.span.end - max(before, piece.span.start)
        self.lines += entry.lines

    @property
    def files(self) -> int:
        """Files of which anything was shipped; an input that is no file is one."""
        return len(self._files)


LINGER_SECONDS = 0.02  # behind a hint: lines that are written one by one travel together
DRAIN_NAP_SECONDS = 0.5
MIN_NAP_SECONDS = 0.001

Begin = Callable[[int], Awaitable[Publisher]]  # with the stream of a partition
NO_INPUTS = Inputs()


class Pipeline:
    """One producer: it owns the sources, the window and the checkpoint."""

    def __init__(
        self, task: Task, checkpoints: Checkpoints, begin: Begin, stop: Stop, inputs: Inputs = NO_INPUTS,
        namesake: Namesake | None = None,
    ) -> None:  # fmt: skip
        self._checkpoints = checkpoints
        self._begin = begin
        self._stop = stop
        self._wake = Wake()
        self._inputs = inputs
        self._window = Window(task.window_bytes)
        self._sources = Sources(task.following, checkpoints)
        self._encoder = Encoder(task.compressor, task.edits)
        self._loads = Loads(self._read)
        self._looks = Looks(task, self._wake)
        self._pace = Pace(task.rate)
        self._moving = Moving(task, checkpoints, rouse=self._wake.rouse)
        self._namesake = namesake or Namesake(task.host, task.prefix, None)
        self._beats = Heartbeats(task, self._window, self._namesake)
        self._settle_in(task)
        self._saving = Saving(checkpoints, task.checkpoint_every)
        self._patience = task.patience
        self._shipped = Shipped(task.following.spools.values())
        self._trouble = "no session with the server yet"
        self._asked = Asked(self._wake.rouse, self._doubt)
        self.pulse = Pulse("the session")
        self._beside = Beside(task.poll, stop, self.pulse, self._keep_looking)

    def _doubt(self, sources: Sequence[str]) -> None:
        self._arrival.unproven(sources)

    def _settle_in(self, task: Task) -> None:
        """Work in the partition where this host stands now."""
        place = self._moving.place
        task = self._task = replace(task, partition=place.partition)
        self._encoder.map_version = place.version
        self._beats.settle_in(task)
        self._sending = Sending(task, self._window, self._wake)
        self._removal = Removal(task.delete_archived, task.host, task.partition, rouse=self._wake.rouse)
        self._arrival = Arrival(task.subject, task.host, task.partition, rouse=self._wake.rouse)
        self._recovery = Recovery(
            task.prefix,
            task.host,
            task.partition,
            wait_seconds=task.recover_wait,
            when_silent=task.when_silent,
            spools=task.following.spools,
            is_wanted=wanted(task.following.watched),
            links=task.following.links,
        )

    async def run(self) -> None:
        """Ship until stopped, or with `once` to the ends of the files. Raises Fatal, and Unavailable with `once`."""
        self._stop.on_ask(self._wake.rouse)
        self._task.edits.budget.start()
        self._stop.on_ask(self._task.edits.budget.end_soon)
        self._inputs.hint_to(self._wake.hint)
        try:
            self._sources.adopt(self._checkpoints.load())
            self._looks.look(self._sources)
            await until_drained(self._run_sessions(), self._stop, within=self._task.drain_within)
            if self._task.following.once and not self._stop.asked:
                check_all_read(self._sources.unread)
        finally:
            self._looks.close()
            self._loads.close()
            self._sources.retire()
            self._saving.save_last(self._sources.ledger)
            self._sources.close()
            self._task.edits.close()
            events.drained(program="producer", left=len(self._window))

    def status(self) -> dict[str, Any]:
        """What the producer does now, for people and scripts."""
        return {**self._moving.status(), **self._beats.status(self._sources)}

    @property
    def shipped(self) -> Shipped:
        """What the server acknowledged since the pipeline began."""
        return self._shipped

    def ready(self) -> str:
        """Why there is no working session with the server; empty while there is one."""
        return self._trouble

    # -- sessions -----------------------------------------------------------------------------------------------

    async def _run_sessions(self) -> None:
        """One session after the other until the work is done; trouble inside one leads to the next."""
        while not self._done():
            self.pulse.turn()
            try:
                await self._session()
            except (Transient, Unavailable) as error:
                policy = FULL if isinstance(error, StreamFull | StreamMissing) else SESSION
                delay = self._delay_behind(error, policy)
                events.session_ended(program="producer", error=str(error), hint=error.hint, retry_in=delay)
                await self._beside.pause(delay)
                if self._stop.asked:
                    await asyncio.sleep(min(delay, DRAIN_NAP_SECONDS))

    async def _session(self) -> None:
        publisher = await self._beside.begun(self._begin(self._task.partition))
        try:
            await self._namesake.check_at_start(
                publisher,
                pause=self._beside.pause,
                is_stopping=lambda: self._stop.asked,
                tell=lambda: self._beats.refuse(publisher),
            )
            if await self._is_at_home(publisher):
                await self._serve(publisher)
        except StreamMissing as missing:
            if self._moving.is_elsewhere:  # what is not acknowledged is sent there, behind what this one archived
                self._moving.set_out()
            elif await self._moving.ask_for_stream(publisher):
                return
            raise await self._moving.explained(publisher, missing) from None
        finally:
            self._namesake.session_ends()
            with contextlib.suppress(ShipperError):
                self._settle(publisher)  # what was acknowledged before the trouble counts
                if self._stop.asked and self._namesake.is_checked:
                    await self._beats.farewell(self._sources, publisher)
            await publisher.close()

    async def _is_at_home(self, publisher: Publisher) -> bool:
        moving, before = self._moving, self._moving.place  # else it has moved, and the next session is there
        with checkpoint_needed():
            await moving.look(publisher, self._sources.ledger.known)
        if moving.place.leaving:
            await publisher.listen(control_down(self._task.host), self._heard)
            if len(self._window):
                self._reopen()
            await moving.arrive(publisher, self._sources, self._beside)
            self._reopen()
        if moving.place != before:
            self._settle_in(self._task)
        return moving.place.partition == before.partition and not before.leaving

    def _delay_behind(self, error: Transient | Unavailable, policy: Backoff) -> float:
        """Seconds to wait behind trouble, which is told to whoever asks. Raises Unavailable: patience is at its end."""
        self._trouble = str(error)
        self._beats.has_trouble(self._trouble)
        return self._patience.after(error, policy)

    async def _keep_looking(self, publisher: Publisher | None = None) -> None:
        """What is due without a session, or before it begins to ship."""
        self.pulse.turn(rest=self._task.poll)
        await self._beats.tend(self._sources, publisher)
        self._looks.look_if_due(self._sources)
        self._inputs.tend(self._progress, self._sources.release)
        await self._saving.save_if_due(self._sources.ledger)

    async def _serve(self, publisher: Publisher) -> None:
        publisher.on_news(self._wake.rouse)
        await self._beats.tend(self._sources, publisher)  # first: a session without a stream ends in the next line
        with checkpoint_needed():
            await self._handshake(publisher)
        await publisher.listen(control_down(self._task.host), self._heard)
        await publisher.listen(control_ask(self._task.host), self._heard_from_monitor)
        self._trouble = ""
        self._patience.served()
        if not len(self._window):  # else its first ack shows whether this session is better than the last
            self._patience.progress()
        events.session_begun(program="producer", subject=self._task.subject)
        notify("READY=1")
        at_once, settle = ALL_AT_ONCE, functools.partial(self._settle_meanwhile, publisher)
        while True:
            try:
                await self._sending.send_again(publisher, at_once, settle)
                return await self._ship(publisher)
            except StreamFull as full:
                await self._wait_for_room(publisher, full)
                at_once = ONE_AT_FIRST

    # -- what was in flight, and a stream without room ----------------------------------------------------------

    async def _wait_for_room(self, publisher: Publisher, full: StreamFull) -> None:
        """Wait in the session until what is in flight may be sent again.

        Its collector can ask meanwhile: what lies behind a hole makes room only once the producer said that it comes
        again. Raises StreamFull: asked to stop.
        """
        with contextlib.suppress(StreamFull):
            self._settle(publisher)  # what was acknowledged before the refusal counts
        if self._stop.asked:
            raise full
        publisher.start_over()
        delay = self._delay_behind(full, FULL)
        events.stream_full(error=str(full), hint=full.hint, retry_in=delay)
        await self._beside.pause(delay, publisher, unless=lambda: self._must_go_back)
        self._go_back_if_asked()

    async def _settle_meanwhile(self, publisher: Publisher) -> None:
        self._settle(publisher)
        await self._keep_looking(publisher)

    async def _handshake(self, publisher: Publisher) -> None:
        """Agree with server and archive on what they have; a checkpoint without a past is either new here, or lost."""
        task, checkpoints = self._task, self._checkpoints
        if checkpoints.fresh:
            others = await self._moving.others_with_a_past(publisher)
            searching = self._recovery.sources(publisher, self._sources.nameless, others)
            found = await self._beside.done(searching, before="the lost checkpoint is back")
            self._moving.not_before(self._recovery.left)
            self._encoder.map_version = self._moving.place.version
            if found:
                proven, nameless = {source.key for source in found}, self._sources.nameless()
                begun = [each for each in self._sources.ledger.known.values() if each.id in nameless]
                checkpoints.start_over([*(each for each in begun if each.key not in proven), *found])
                self._reopen()
            checkpoints.begin_use()
        ledger = self._sources.ledger
        checkpoints.note_prefix(task.prefix)
        agreed = await agree(publisher, ledger, subject=task.subject, host=task.host, partition=task.partition)
        self._arrival.doubt(agreed)
        if not agreed.holds:
            self._reopen()

    def _reopen(self) -> None:
        """Begin anew from the checkpoint: what was in flight is read again."""
        known = self._checkpoints.load()
        self._window.clear()
        self._sources.close()
        self._sources = Sources(replace(self._task.following, start_at_end=False), self._checkpoints)
        self._sources.adopt(known)
        self._sources.scan()

    async def _heard(self, _subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._asked.hear(message, self._sources, self._window, self._task.following.spools, self._moving.answer)

    async def _heard_from_monitor(self, subject: str, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A monitor may ask how far each source is, and nothing that changes anything here."""
        return await self._heard(subject, message) if message.get("ask") == MarksRequest.ASK else None

    # -- one session --------------------------------------------------------------------------------------------

    async def _ship(self, publisher: Publisher) -> None:
        """The main loop: acks in, looks, blocks out; reading and encoding run ahead in their own thread."""
        loads = self._loads
        try:
            while True:
                self.pulse.turn()
                self._settle(publisher)
                await self._saving.save_if_due(self._sources.ledger)
                if not loads:
                    await self._do_what_is_due(publisher)
                    if self._moving.watch.is_time and not len(self._window):
                        await self._saving.save(self._sources.ledger)
                        self._moving.set_out()
                        return
                    if self._may_read and not self._sources.idle:
                        loads.begin()
                if loads:
                    load = await loads.next()
                    # all of it, first: what fails now is sent again by the next session
                    tokens = self._sending.open(load)
                    self._read_on(load)
                    await self._sending.send(publisher, tokens, load)
                elif self._done():
                    return
                else:
                    self._window.check_late(time.monotonic(), self._task.ack_timeout)
                    await self._rest()
        finally:
            self._removal.session_ends()
            self._arrival.session_ends()
            self._moving.watch.session_ends()
            while loads:  # read, so the sources have moved on: it must be in flight, or it would be skipped
                self._sending.open(await loads.next())

    async def _do_what_is_due(self, publisher: Publisher) -> None:
        """What must not meet a reading thread."""
        self._sources.retire()
        for id_, start in self._arrival.due(publisher, self._sources.ledger).items():
            self._asked.go_back(id_, start)
        self._go_back_if_asked()
        self._looks.look_if_due(self._sources)
        self._inputs.tend(self._progress, self._sources.release)
        await self._beats.tend(self._sources, publisher)
        self._moving.watch.see_to(publisher, self._sources.ledger, self._moving.place)
        await self._remove_if_due(publisher)

    def _settle(self, publisher: Publisher) -> None:
        blocks = lines = octets = 0
        try:
            while acks := publisher.acknowledged():
                for ack in acks:
                    entry = self._window.settle(ack.token)
                    self._sources.acknowledged(entry.piece, ack.sequence)
                    self._arrival.acknowledged(entry.piece.source)
                    if self._task.following.once:
                        self._shipped.add(entry)
                    blocks, lines, octets = blocks + 1, lines + entry.lines, octets + entry.piece.span.length
        finally:
            if blocks:
                self._trouble = ""
                self._patience.progress()
                self._beats.acknowledged(octets)
                events.blocks_acknowledged(blocks=blocks, lines=lines, octets=octets, in_flight=self._window.bytes)

    @property
    def _may_read(self) -> bool:
        may_begin = (self._is_emptying or not self._stop.asked) and not self._asked.is_any
        return may_begin and self._window.room and self._pace.budget(1) > 0 and not self._moving.watch.is_time

    def _read_on(self, load: Load) -> None:
        """Read ahead while `load` is sent, unless there is something to do that must not meet a reading thread."""
        ahead = LOADS_AHEAD if is_full(load) else min(1, len(load))
        while len(self._loads) < ahead and self._may_read and not self._must_not_read:
            self._loads.begin(is_busy=ahead > 1)

    @property
    def _must_not_read(self) -> bool:
        return self._looks.is_due or self._beats.is_due

    def _read(self, second: Executor | None) -> Load:
        pieces = self._sources.pieces(self._pace.budget(LOAD_BYTES))
        load = self._encoder.entries(map(self._task.following.named, pieces), second, self._sources.put_back)
        self._pace.spend(sum(entry.piece.span.length for entry in load))
        return load

    # -- what is due --------------------------------------------------------------------------------------------

    async def _remove_if_due(self, publisher: Publisher) -> None:
        """Delete what the archive has had for long enough, once the checkpoint knows that it was acknowledged."""
        files = [] if self._stop.asked else self._removal.due(publisher, self._sources)
        if files:
            await self._saving.save(self._sources.ledger)
            if not self._sources.ledger.has_unsaved:
                self._removal.delete(files, self._sources)

    async def _rest(self) -> None:
        """Sleep until there is news, or something is due: a look, a save, an ack that is late, the end of a drain."""
        now = time.monotonic()
        due = [each.next_at for each in (self._looks, self._removal, self._arrival, self._beats, self._moving.watch)]
        if self._window.room and not (self._stop.asked or self._sources.idle):
            due.append(self._pace.ready_at)
        if self._sources.ledger.has_unsaved:
            due.append(self._saving.next_at)
        if len(self._window):
            due.append(self._window.oldest_sent_at + self._task.ack_timeout)
        if self._stop.asked:
            due.append(now + DRAIN_NAP_SECONDS)
        await self._wake.wait(self._beside.nap(max(MIN_NAP_SECONDS, min(due) - now)))
        if self._wake.has_hints and self._sources.idle:
            await asyncio.sleep(LINGER_SECONDS)

    @property
    def _must_go_back(self) -> bool:
        """Whether sources are to be sent again, and nothing is in flight that could not be read again with them."""
        return self._asked.is_any and self._sources.may_all_be_read_again(self._window.sources)

    def _go_back_if_asked(self) -> None:
        if self._must_go_back:
            asked = self._asked.take()
            with checkpoint_needed():
                self._sources.ledger.go_back(asked)
                self._reopen()
            raise SessionLost("an archive lacks bytes that were acknowledged")

    def _done(self) -> bool:
        nothing_in_flight = not len(self._window)
        if self._stop.asked:
            drained = nothing_in_flight and not self._is_emptying
            return drained or self._stop.asked_for > self._task.drain_within
        ends = self._task.following.once or self._inputs.end_the_program
        return ends and nothing_in_flight and self._sources.idle and self._inputs.is_over(self._progress)

    @property
    def _is_emptying(self) -> bool:  # the inputs were stopped, and of what they left not all is acknowledged
        return self._inputs.stopping and not self._inputs.is_settled(self._progress)

    def _progress(self) -> Progress:
        return Progress.of(self._sources.ledger.known.values(), self._sources.ledger.unsaved_ids)
