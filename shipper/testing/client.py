"""The reading and the publishing port in memory: sessions that end at the first trouble."""

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from shipper.errors import SessionLost, ShipperError, StreamFull
from shipper.model import Delivery, Entry, LineMessages, Published, Stored, StreamState
from shipper.ports import Inbox, MessageHandler, Publisher
from shipper.subjects import COLLECTOR
from shipper.testing.server import Bus, MemoryStream


class MemorySession:
    """A session with `bus`; it ends at the first trouble and is never used again."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.trouble: ShipperError | None = None
        self._woken: list[Callable[[], None]] = []
        bus.join(self)

    def fail(self, reason: str) -> None:
        """End the session; the first reason is kept."""
        self.end_with(SessionLost(reason))

    def end_with(self, trouble: ShipperError) -> None:
        """End the session; what was the first trouble is raised by every call from now on."""
        self.trouble = self.trouble or trouble
        self.wake()

    def wake(self) -> None:
        """Wake every task that waits for the session."""
        for rouse in self._woken:
            rouse()

    def on_wake(self, rouse: Callable[[], None]) -> None:
        """Call `rouse` when there is news, the end of the session too."""
        self._woken.append(rouse)

    def check(self) -> None:
        """Raise what ended the session, if it has ended."""
        if self.trouble is not None:
            raise self.trouble

    async def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Send a JSON message to the subscribers."""
        self.check()
        self.bus.tell(subject, message)

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first answer to a JSON request; None if there is no subscriber or no answer in time."""
        self.check()
        answer = await self.bus.ask(subject, question, within)
        self.check()
        return answer

    async def listen(self, subject: str, handler: MessageHandler) -> None:
        """Call `handler` with subject and content of every JSON message; what it returns is sent as the answer."""
        self.check()
        self.bus.listen(self, subject, handler)

    async def close(self) -> None:
        """End the session; idempotent, never raises, never hangs."""
        self.fail("closed")
        self.bus.leave(self)


class MemoryInbox(MemorySession):
    """One session of reading `stream`."""

    def __init__(self, bus: Bus, stream: str) -> None:
        super().__init__(bus)
        self._name = stream
        self._reading: MemoryStream | None = None
        self._next = 1
        self._delivered = 0
        self._news = asyncio.Event()
        self.on_wake(self._news.set)

    async def state(self) -> StreamState:
        """What the stream holds now. Raises StreamMissing."""
        return self._stream().state

    async def time_of(self, sequence: int) -> int | None:
        """Stored time (ns) of the message with `sequence`; None when the stream does not hold it."""
        found = self._stream().get(sequence)
        return found.time_ns if found else None

    async def begin(self, sequence: int) -> None:
        """Make the first message with at least `sequence` the next delivery. Raises StreamMissing."""
        stream = self._stream()
        stream.read_by(self)
        if self._reading is not stream:
            stream.on_stored(self._news.set)
        self._reading = stream
        self._next = max(1, sequence)
        self._delivered = 0

    async def take(self, at_most_bytes: int, within: float) -> list[Delivery]:
        """The deliveries that are there, oldest first, at most about `at_most_bytes`; [] after `within` seconds."""
        self.check()
        taken = self._take(at_most_bytes)
        if not taken:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(within, self.bus.longest_wait)):
                    await self._news.wait()
            self.check()
            taken = self._take(at_most_bytes)
        await asyncio.sleep(0)  # a full stream must not starve the other tasks
        return taken

    async def ack(self, last: Delivery) -> None:
        """Acknowledge `last` and everything before it."""
        stream = self._stream()
        stream.ack_floor = max(stream.ack_floor, last.sequence)

    async def all_taken(self) -> bool:
        """Whether every message of the stream was handed out by `take`."""
        return self._stream().last_sequence < self._next or not any(self._stream().since(self._next))

    async def dead_letter(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Store a message. Raises StreamMissing, StreamFull."""
        self.check()
        self.bus.store(subject, headers, payload)

    async def purge(self, below: int) -> int:
        """Remove the messages with a sequence below `below`; returns how many."""
        return self._stream().purge(below)

    async def at_origin(self, sequence: int) -> int | None:
        """The sequence that producers got in the ack: streams in memory have no source."""
        self.check()
        return sequence

    async def site_state(self) -> StreamState | None:
        """What the site's stream holds; None: streams in memory have no sites."""
        self.check()
        return None

    async def purge_site(self, below: int) -> int | None:  # noqa: ARG002 - the port's
        """Nothing: streams in memory have no sites."""
        self.check()
        return 0

    def _stream(self) -> MemoryStream:
        self.check()
        return self.bus.stream(self._name)

    def _take(self, at_most_bytes: int) -> list[Delivery]:
        taken: list[Delivery] = []
        size = 0
        for message, pending in self._reading.since(self._next) if self._reading else ():
            if size >= at_most_bytes:
                break
            self._delivered += 1
            place = f"{message.sequence}.{self._delivered}.{message.time_ns}.{pending}"
            reply = f"$JS.ACK.{self._name}.{COLLECTOR}.1.{place}"
            headers = dict(message.headers)
            taken.append(
                Delivery(message.sequence, message.time_ns, pending, message.subject, headers, message.payload, reply)
            )
            size += len(message.payload)
        if taken:
            self._next = taken[-1].sequence + 1
        return taken


_FULFILS: type[Inbox] = MemoryInbox


class MemoryPublisher(MemorySession):
    """One session of publishing to `stream`."""

    def __init__(self, bus: Bus, stream: str) -> None:
        super().__init__(bus)
        self._stream = stream
        self._in_flight: deque[int] = deque()
        self._acks: list[Published] = []
        self._attempt = 0
        self._refusal: StreamFull | None = None
        self._last_sequence = 0

    def check(self) -> None:
        """Raise what ended the session, or what was refused in it."""
        super().check()
        if self._refusal is not None:
            raise self._refusal

    async def last_stored(self, subject: str) -> Stored | None:
        """The newest message on exactly `subject`. Raises StreamMissing."""
        self.check()
        return self.bus.stream(self._stream).last_on(subject)

    async def last_stored_in(self, stream: str, subject: str) -> Stored | None:
        """The newest message on `subject` in another partition's stream. Raises StreamMissing."""
        return self.bus.stream(stream).last_on(subject)

    async def entry(self, key: str) -> Entry | None:
        """What the shared bucket holds under `key`."""
        self.check()
        return self.bus.entries.get(key)

    async def publish(self, token: int, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send without waiting for the ack: it comes when the event loop runs again, or later, or never."""
        self.check()
        self._send(token, self._outcome(subject, headers, payload))

    async def publish_lines(self, token: int, subject: str, messages: LineMessages) -> None:
        """The same for many messages; the ack comes for the last one, or for the first that is refused."""
        self.check()
        outcome: int | ShipperError = 0
        for place, line in zip(messages.places, messages.lines, strict=True):
            own = dict([header.split(": ", 1) for header in place.decode().splitlines() if header])
            outcome = self._outcome(subject, messages.headers | own, line)
            if isinstance(outcome, ShipperError):
                break
        self._send(token, outcome)

    def _send(self, token: int, outcome: int | ShipperError) -> None:
        self._in_flight.append(token)
        call_soon = asyncio.get_running_loop().call_soon
        self.bus.acks.carry(functools.partial(call_soon, self._on_ack, self._attempt, token, outcome))

    async def mention(self, subject: str, payload: bytes) -> bool:
        """Send a message that may be lost, without an answer; False: the send buffer is full now."""
        self.check()
        with contextlib.suppress(ShipperError):
            self.bus.store(subject, {}, payload)
        return True

    async def mentioned(self, stream: str, subject: str) -> Stored | None:
        """The newest message on exactly `subject` that `stream` keeps of what was mentioned."""
        self.check()
        with contextlib.suppress(ShipperError):
            return self.bus.stream(stream).last_on(subject)
        return None

    def acknowledged(self) -> list[Published]:
        """The acks that came since the last call, in the order of the publishes; never waits."""
        if not self._acks:
            self.check()
        acks, self._acks = self._acks, []
        return acks

    def start_over(self) -> None:
        """Go on in a session that `StreamFull` ended."""
        self._refusal = None
        self._attempt += 1
        self._in_flight.clear()
        self._acks.clear()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `acknowledged` has something to return or to raise."""
        self.on_wake(wake)

    def _outcome(self, subject: str, headers: Mapping[str, str], payload: bytes) -> int | ShipperError:
        try:
            return self.bus.acks.refusal() or self.bus.store(subject, headers, payload)
        except ShipperError as error:
            return error

    def _on_ack(self, attempt: int, token: int, outcome: int | ShipperError) -> None:
        if self.trouble is not None or self._refusal is not None or attempt != self._attempt:
            return
        if isinstance(outcome, StreamFull):
            self._refusal = outcome
            self.wake()
        elif isinstance(outcome, ShipperError):
            self.end_with(outcome)
        elif not self._in_flight or token != self._in_flight.popleft():
            self.fail(f"ack {token} came out of order")
        elif outcome <= self._last_sequence:
            self.fail(f"stream sequence went back from {self._last_sequence} to {outcome}: the server lost data")
        else:
            self._last_sequence = outcome
            self._acks.append(Published(token, outcome))
            self.wake()


_PUBLISHES: type[Publisher] = MemoryPublisher
