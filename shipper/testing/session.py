"""What both ports have in common in memory: one session, ended by the first trouble, and the control messages."""

from collections.abc import Callable, Mapping
from typing import Any

from shipper.errors import SessionLost, ShipperError
from shipper.ports import Heard
from shipper.testing.bus import Bus


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
        """Rouse everybody who waits for news of the session."""
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
        """Send a JSON message to whoever listens."""
        self.check()
        self.bus.tell(subject, message)

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first answer to a JSON question; None when nobody listens or answers in time."""
        self.check()
        answer = await self.bus.ask(subject, question, within)
        self.check()
        return answer

    async def listen(self, subject: str, heard: Heard) -> None:
        """Call `heard` with subject and content of every JSON message; what it returns is sent as the answer."""
        self.check()
        self.bus.listen(self, subject, heard)

    async def close(self) -> None:
        """End the session; idempotent, never raises, never hangs."""
        self.fail("closed")
        self.bus.leave(self)
