"""The publishing port in memory."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping

from shipper.errors import ShipperError, StreamFull
from shipper.model import Entry, Published, Stored
from shipper.ports import Publisher
from shipper.testing.bus import Bus
from shipper.testing.session import MemorySession


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
        self._in_flight.append(token)
        outcome = self._outcome(subject, headers, payload)
        loop, attempt = asyncio.get_running_loop(), self._attempt

        def hand_on() -> None:
            loop.call_soon(self._on_ack, attempt, token, outcome)

        self.bus.acks.carry(hand_on)

    async def mention(self, subject: str, payload: bytes) -> bool:
        """Send what nobody has to hear, without an answer; False: there is no room for it now."""
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
        refusal = self.bus.acks.refusal()
        if refusal is not None:
            return refusal
        try:
            return self.bus.store(subject, headers, payload)
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


_FULFILS: type[Publisher] = MemoryPublisher
