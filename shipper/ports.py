"""The narrow ports between the programs' logic and the network; each sentence here is held by a contract test.

`shipper.jetstream` fulfils them with a real server, `shipper.testing` in memory.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from shipper.model import Delivery, Entry, LineMessages, Published, Stored, StreamState

MessageHandler = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


class ServerSession(Protocol):
    """A session with a server: it ends at the first trouble and is never used again.

    Once it has ended every method raises what ended it: `SessionLost`, or the more special reason.
    """

    async def close(self) -> None:
        """End the session; idempotent, never raises, never hangs."""


class ControlSession(ServerSession, Protocol):
    """A session that also carries control messages."""

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first reply to a JSON request; None: no listener, or no reply in time."""

    async def listen(self, subject: str, handler: MessageHandler) -> None:
        """Call `handler` with subject and content of every JSON message; what it returns is sent as the answer."""


class Publisher(ControlSession, Protocol):
    """One session of publishing."""

    async def last_stored(self, subject: str) -> Stored | None:
        """The newest message on exactly `subject`; None when the stream holds none.

        Raises `StreamMissing` when no stream takes the subject.
        """

    async def last_stored_in(self, stream: str, subject: str) -> Stored | None:
        """The newest message on exactly `subject` in another partition's stream, also after `StreamMissing`.

        Raises `StreamMissing` when there is no such stream, or this host has no right to read it.
        """

    async def entry(self, key: str) -> Entry | None:
        """What the shared bucket holds under `key`; None: nothing, there is no bucket, or none that answers in time.

        Raises `BucketRefused` when this host has no right to read it.
        """

    async def publish(self, token: int, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Send without waiting for the server's ack; waits only while the socket's buffer is full."""

    async def publish_lines(self, token: int, subject: str, messages: LineMessages) -> None:
        """The same for many messages: their ack comes once the last one is acknowledged, in order."""

    async def mention(self, subject: str, payload: bytes) -> bool:
        """Send a message that may be lost, without a reply; False: the send buffer is full now.

        The session continues if the server refuses it from this host.
        """

    async def mentioned(self, stream: str, subject: str) -> Stored | None:
        """The newest message on exactly `subject` of those that `mention` sent and `stream` keeps.

        None: there is none, no such stream, or this host may not read it. The session continues.
        """

    def acknowledged(self) -> list[Published]:
        """The acks that came since the last call, in the order of the publishes; never waits.

        An error ack, an ack out of order, and a stream sequence that does not grow end the session.
        Raises `StreamFull`, `StreamMissing` or `SessionLost` once the acks before the trouble are handed out.
        """

    def start_over(self) -> None:
        """Go on in a session that `StreamFull` ended: what was in flight is to be sent again, from its first message.

        Of what was sent before no ack counts any more, and none of it is handed out.
        """

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever `acknowledged` has something to return or to raise."""


class Inbox(ControlSession, Protocol):
    """One session of reading a partition's stream: in order, without gaps, from the position that `begin` gave."""

    async def state(self) -> StreamState:
        """What the stream holds now. Raises `StreamMissing`."""

    async def time_of(self, sequence: int) -> int | None:
        """Stored time (ns) of the message with `sequence`; None when the stream does not hold it."""

    async def begin(self, sequence: int) -> None:
        """Make the first message with at least `sequence` the next delivery, whatever was acknowledged before."""

    async def take(self, at_most_bytes: int, within: float) -> list[Delivery]:
        """The deliveries that are there, oldest first, at most about `at_most_bytes`; [] after `within` seconds.

        Messages of one line each that follow each other may be one delivery, a run.
        """

    async def ack(self, last: Delivery) -> None:
        """Acknowledge `last` and everything before it."""

    async def all_taken(self) -> bool:
        """Whether every message of the stream was handed out by `take`."""

    async def dead_letter(self, subject: str, headers: Mapping[str, str], payload: bytes) -> None:
        """Store a message and wait for the ack."""

    async def purge(self, below: int) -> int:
        """Remove the messages with a sequence below `below`; returns how many."""

    async def at_origin(self, sequence: int) -> int | None:
        """The sequence in the ack that the producer got for the message with `sequence`; None: unknown.

        It is the same, unless the stream is sourced from an edge site's.
        """

    async def site_state(self) -> StreamState | None:
        """What the site's stream holds that this one is sourced from; None: it is not sourced.

        Raises `SessionLost` also where only the site does not answer, `RightMissing` if this user has no right to.
        """

    async def purge_site(self, below: int) -> int | None:
        """Remove from the site what this stream has below `below`, but the last of it; returns how many.

        None: the site holds other messages than those that were sourced, so nothing is removed. Raises as `site_state`.
        """

    async def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Send a JSON message to all listeners."""


class Bucket(ServerSession, Protocol):
    """One session with what the collectors share: entries by key, each with a revision."""

    async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
        """What the bucket holds under `keys` now, each a key or a pattern (`lease.logs.>`); absent ones are absent."""

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int | None:
        """Store `value` and return its revision.

        None: the entry has another revision than `expected` (0: there is no entry), so nothing is stored.
        """

    async def forget(self, key: str) -> None:
        """Remove the entry of `key`, without a trace."""
