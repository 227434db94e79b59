"""The reading port in memory."""

import asyncio
import contextlib
from collections.abc import Mapping

from shipper.model import Delivery, Stored, StreamState
from shipper.ports import Inbox
from shipper.subjects import COLLECTOR
from shipper.testing.bus import Bus
from shipper.testing.session import MemorySession
from shipper.testing.stream import MemoryStream


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
        """The sequence that producers were told: streams in memory are sourced from nowhere."""
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
            taken.append(_delivery(message, pending, stream=self._name, consumer_sequence=self._delivered))
            size += len(message.payload)
        if taken:
            self._next = taken[-1].sequence + 1
        return taken


def _delivery(message: Stored, pending: int, *, stream: str, consumer_sequence: int) -> Delivery:
    place = f"{message.sequence}.{consumer_sequence}.{message.time_ns}.{pending}"
    return Delivery(
        sequence=message.sequence,
        time_ns=message.time_ns,
        pending=pending,
        subject=message.subject,
        headers=dict(message.headers),
        payload=message.payload,
        reply=f"$JS.ACK.{stream}.{COLLECTOR}.1.{place}",
    )


_FULFILS: type[Inbox] = MemoryInbox
