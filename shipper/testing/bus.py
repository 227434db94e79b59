"""A server in memory: streams, control messages, and the places where a test makes it fail."""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from shipper.errors import ShipperError, StreamMissing, Unavailable
from shipper.model import Entry
from shipper.ports import Heard
from shipper.testing.clock import Clock
from shipper.testing.stream import MemoryStream


class Session(Protocol):
    """What the bus knows of a session."""

    def fail(self, reason: str) -> None:
        """End the session."""


class Listener(NamedTuple):
    """Somebody who wants the control messages on the subjects of a pattern."""

    session: Session
    pattern: str
    heard: Heard


class Acks:
    """The way of the acks from the server to the publishers; a test may stand in it."""

    def __init__(self) -> None:
        self._held: deque[Callable[[], None]] | None = None
        self._to_drop = 0
        self._published = 0
        self._refusals: dict[int, ShipperError] = {}

    def hold(self) -> None:
        """Keep back every ack from now on, until `release`."""
        self._held = deque() if self._held is None else self._held

    def release(self) -> None:
        """Hand on what was held, in its order, and hold nothing more."""
        held, self._held = self._held or deque(), None
        for hand_on in held:
            hand_on()

    def drop(self, count: int) -> None:
        """Lose the next `count` acks; their messages are stored."""
        self._to_drop += count

    def refuse(self, at: int, error: ShipperError) -> None:
        """Answer publish number `at` from now on (1 is the next one) with `error`; its message is not stored."""
        self._refusals[self._published + at] = error

    def refusal(self) -> ShipperError | None:
        """Whether the publish that arrives now is refused, and how."""
        self._published += 1
        return self._refusals.pop(self._published, None)

    def carry(self, hand_on: Callable[[], None]) -> None:
        """Take an ack to its publisher: now, later or never."""
        if self._to_drop:
            self._to_drop -= 1
        elif self._held is not None:
            self._held.append(hand_on)
        else:
            hand_on()


class Bus:
    """The server that the sessions of one test share.

    `longest_wait` bounds what a wait of any length really takes, so that nobody sleeps for a silent stream.
    """

    def __init__(self, clock: Clock | None = None, *, longest_wait: float = 0.05) -> None:
        self.clock = clock or Clock()
        self.acks = Acks()
        self.longest_wait = longest_wait
        self._streams: dict[str, MemoryStream] = {}
        self._sessions: list[Session] = []
        self._listeners: list[Listener] = []
        self._running: set[asyncio.Task[Any]] = set()
        self._down = ""
        self.entries: dict[str, Entry] = {}  #: of the shared bucket, by key

    # -- streams ------------------------------------------------------------------------------------------------

    def add_stream(self, name: str, *subjects: str, max_bytes: int = -1) -> MemoryStream:
        """Create a stream with its consumer."""
        self._streams[name] = MemoryStream(name, subjects, clock=self.clock, max_bytes=max_bytes)
        return self._streams[name]

    def remove_stream(self, name: str) -> None:
        """Delete a stream; who reads it notices."""
        self._streams.pop(name).end_reading("409 Consumer Deleted")

    def stream(self, name: str) -> MemoryStream:
        """The stream `name`. Raises StreamMissing."""
        if name not in self._streams:
            raise StreamMissing(f"stream {name} does not exist")
        return self._streams[name]

    def store(self, subject: str, headers: Mapping[str, str], payload: bytes) -> int:
        """Append to the stream that takes `subject`. Raises StreamMissing, StreamFull."""
        for stream in self._streams.values():
            if any(matches(pattern, subject) for pattern in stream.subjects):
                return stream.append(subject, headers, payload)
        raise StreamMissing(f"no stream takes {subject}")

    # -- sessions -----------------------------------------------------------------------------------------------

    def join(self, session: Session) -> None:
        """A session begins. Raises Unavailable while the server is down."""
        if self._down:
            raise Unavailable(self._down)
        self._sessions.append(session)

    def leave(self, session: Session) -> None:
        """A session is over: nobody listens in its name any more."""
        self._sessions = [each for each in self._sessions if each is not session]
        self._listeners = [each for each in self._listeners if each.session is not session]

    def end_sessions(self, reason: str = "the server closed the connection") -> None:
        """End every session; new ones may begin."""
        for session in self._sessions:
            session.fail(reason)

    def go_down(self, reason: str = "no NATS server answers") -> None:
        """End every session, and let none begin until `come_up`."""
        self._down = reason
        self.end_sessions(reason)

    def come_up(self) -> None:
        """Serve again after `go_down`."""
        self._down = ""

    # -- control messages ---------------------------------------------------------------------------------------

    def listen(self, session: Session, pattern: str, heard: Heard) -> None:
        """Let `heard` have every control message that `pattern` matches."""
        self._listeners.append(Listener(session, pattern, heard))

    def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Hand a control message to its listeners, soon."""
        text = json.dumps(message)
        for listener in self._listening(subject):
            self._spawn(_hear(listener, subject, text))

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first listener's answer, or None."""
        text = json.dumps(question)
        answers = [self._spawn(_hear(listener, subject, text)) for listener in self._listening(subject)]
        try:
            async with asyncio.timeout(min(within, self.longest_wait)):
                for answer in asyncio.as_completed(answers):
                    if (found := await answer) is not None:
                        return found
        except TimeoutError:
            pass
        return None

    def _listening(self, subject: str) -> list[Listener]:
        return [listener for listener in self._listeners if matches(listener.pattern, subject)]

    def _spawn(self, work: Any) -> "asyncio.Task[Mapping[str, Any] | None]":
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _hear(listener: Listener, subject: str, text: str) -> Mapping[str, Any] | None:
    """The answer of one listener, through JSON as on the wire; an error of his ends his session, not the asker's."""
    try:
        answer = await listener.heard(subject, json.loads(text))
    except Exception as error:  # noqa: BLE001 - nats-py reports whatever it is to the session's error callback
        listener.session.fail(str(error) or type(error).__name__)
        return None
    found: Mapping[str, Any] | None = json.loads(json.dumps(answer))
    return found


def matches(pattern: str, subject: str) -> bool:
    """Whether a NATS subject belongs to `pattern` with its wildcards `*` (one token) and `>` (one or more)."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
        tokens = tokens[: len(wanted)]
    return len(wanted) == len(tokens) and all(each in {"*", token} for each, token in zip(wanted, tokens, strict=True))
