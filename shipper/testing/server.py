"""A server in memory: streams, control messages, a clock that a test sets, and where a test makes it fail."""

import asyncio
import datetime as dt
import json
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from shipper.errors import ShipperError, StreamFull, StreamMissing, Unavailable
from shipper.model import Entry, Stored, StreamState
from shipper.ports import MessageHandler
from shipper.subjects import is_closed

NANOSECONDS = 1_000_000_000
START_NS = 1_795_168_800 * NANOSECONDS
"""2026-11-20T10:00:00Z."""


class Clock:
    """Time that stands still until a test advances it; call it for seconds, as `time.monotonic`."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self._now_ns = now_ns

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self._now_ns / NANOSECONDS

    def stamp(self) -> int:
        """Nanoseconds since the epoch; no two stamps are the same."""
        self._now_ns += 1
        return self._now_ns

    def turn(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._now_ns += round(seconds * NANOSECONDS)


DUPLICATE_WINDOW_NS = 120 * NANOSECONDS
"""How long JetStream remembers a `Nats-Msg-Id`, unless the stream configures another time."""

MESSAGE_ID = "Nats-Msg-Id"


class Session(Protocol):
    """What streams and the bus know of a session."""

    def fail(self, reason: str) -> None:
        """End the session."""


class MemoryStream:
    """Messages in the order of their sequences; tests inspect and damage it, sessions read and write it."""

    def __init__(self, name: str, subjects: tuple[str, ...], *, clock: Clock, max_bytes: int = -1) -> None:
        self.name = name
        self.subjects = subjects
        self.max_bytes = max_bytes
        self.last_sequence = 0
        self.ack_floor = 0
        self._clock = clock
        self._messages: dict[int, Stored] = {}
        self._sequences: list[int] = []  # the keys of `_messages`, ascending, for binary search
        self._ids: dict[str, tuple[int, int]] = {}  # message id -> (sequence, time)
        self._created = self._stamp_of_birth()
        self._reader: Session | None = None
        self._woken: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Stored]:
        return iter([self._messages[sequence] for sequence in self._sequences])

    # -- what a server does -------------------------------------------------------------------------------------

    def append(self, subject: str, headers: Mapping[str, str], payload: bytes) -> int:
        """Store a message and return its sequence; one with a known `Nats-Msg-Id` is stored already.

        Raises StreamFull: `max_bytes` would be exceeded; the oldest message is never dropped (`discard: new`).
        """
        now, name = self._clock.stamp(), headers.get(MESSAGE_ID, "")
        sequence, stored_at = self._ids.get(name, (0, 0))
        if name and sequence and now - stored_at < DUPLICATE_WINDOW_NS:
            return sequence
        message = Stored(self.last_sequence + 1, now, subject, dict(headers), bytes(payload))
        if 0 <= self.max_bytes < self.stored_bytes + _size(message):
            raise StreamFull(f"stream {self.name} is full: {self.max_bytes} bytes")
        self.last_sequence = message.sequence
        self._messages[message.sequence] = message
        self._sequences.append(message.sequence)
        if name:
            self._ids[name] = (message.sequence, now)
        for wake in self._woken:
            wake()
        return message.sequence

    @property
    def stored_bytes(self) -> int:
        """What the messages take."""
        return sum(_size(message) for message in self._messages.values())

    @property
    def state(self) -> StreamState:
        """What the stream holds now."""
        first = self._sequences[0] if self._sequences else self.last_sequence + 1
        limits = (self.stored_bytes, self.max_bytes, self._created)
        return StreamState(first, self.last_sequence, len(self), *limits, is_closed=is_closed(self.subjects))

    def get(self, sequence: int) -> Stored | None:
        """The message with exactly `sequence`."""
        return self._messages.get(sequence)

    def last_on(self, subject: str) -> Stored | None:
        """The newest message on exactly `subject`."""
        return next((message for message in reversed(list(self)) if message.subject == subject), None)

    def since(self, sequence: int) -> Iterator[tuple[Stored, int]]:
        """Messages from `sequence` on, each with the number of messages after it."""
        for place in range(bisect_left(self._sequences, sequence), len(self)):
            yield self._messages[self._sequences[place]], len(self) - place - 1

    def purge(self, below: int) -> int:
        """Remove the messages before `below`; returns how many."""
        count = bisect_left(self._sequences, below)
        for sequence in self._sequences[:count]:
            del self._messages[sequence]
        del self._sequences[:count]
        return count

    def on_stored(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each message that is stored."""
        self._woken.append(wake)

    def read_by(self, reader: Session) -> None:
        """`reader` begins; another one that still reads notices, as the consumer has one sequence for both."""
        if self._reader not in {None, reader}:
            self.end_reading("another reader is active")
        self._reader = reader

    def end_reading(self, reason: str) -> None:
        """End the session that reads, if there is one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.fail(reason)

    # -- what happens to streams --------------------------------------------------------------------------------

    def delete(self, sequence: int) -> None:
        """Remove one message, as an operator can."""
        del self._messages[sequence]
        self._sequences.remove(sequence)

    def forget_last(self, count: int) -> None:
        """Lose the newest `count` messages, acknowledged or not; their sequences are given again.

        Power loss and a restored backup do this, both with the server down: end the sessions too.
        """
        for _ in range(min(count, len(self))):
            del self._messages[self._sequences.pop()]
        self.last_sequence = self._sequences[-1] if self._sequences else max(0, self.last_sequence - count)
        self._ids = {name: found for name, found in self._ids.items() if found[0] <= self.last_sequence}
        self.ack_floor = min(self.ack_floor, self.last_sequence)

    def recreate(self) -> None:
        """Delete the stream and create another one of the same name: empty, counting from 1."""
        self._messages.clear()
        self._sequences.clear()
        self._ids.clear()
        self.last_sequence = self.ack_floor = 0
        self._created = self._stamp_of_birth()
        self.end_reading("409 Consumer Deleted")

    def _stamp_of_birth(self) -> str:
        seconds, rest = divmod(self._clock.stamp(), NANOSECONDS)
        return f"{dt.datetime.fromtimestamp(seconds, tz=dt.UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _size(message: Stored) -> int:
    headers = sum(len(name) + len(value) + 4 for name, value in message.headers.items())
    return len(message.subject) + headers + len(message.payload)


class Listener(NamedTuple):
    """A subscriber of the control messages on the subjects of a pattern."""

    session: Session
    pattern: str
    handler: MessageHandler


class Acks:
    """The way of the acks from the server to the publishers; a test may stand in it."""

    def __init__(self) -> None:
        self._held: deque[Callable[[], object]] | None = None
        self._to_drop = 0
        self._published = 0
        self._refusals: dict[int, ShipperError] = {}

    def hold(self) -> None:
        """Keep back every ack from now on, until `release`."""
        self._held = deque() if self._held is None else self._held

    def release(self) -> None:
        """Deliver what was held, in its order, and hold nothing more."""
        held, self._held = self._held or deque(), None
        for deliver in held:
            deliver()

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

    def carry(self, deliver: Callable[[], object]) -> None:
        """Take an ack to its publisher: now, later or never."""
        if self._to_drop:
            self._to_drop -= 1
        elif self._held is not None:
            self._held.append(deliver)
        else:
            deliver()


TURNS = 5
"""Iterations of the loop after a time limit, for replies that were only late because this process had no core."""


class Bus:
    """The server that the sessions of one test share.

    `longest_wait` bounds what a wait of any length really takes, so that no test sleeps for a silent stream.
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
        """End the subscriptions of a session that is over."""
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

    def listen(self, session: Session, pattern: str, handler: MessageHandler) -> None:
        """Let `handler` have every control message that `pattern` matches."""
        self._listeners.append(Listener(session, pattern, handler))

    def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Deliver a control message to its subscribers in the next iteration of the loop."""
        text = json.dumps(message)
        for listener in self._listening(subject):
            self._spawn(_answered(listener, subject, text))

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first listener's answer, or None."""
        text = json.dumps(question)
        answers = [self._spawn(_answered(listener, subject, text)) for listener in self._listening(subject)]
        try:
            async with asyncio.timeout(min(within, self.longest_wait)):
                for answer in asyncio.as_completed(answers):
                    if (found := await answer) is not None:
                        return found
        except TimeoutError:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        ended = (each.result() for each in answers if each.done() and not each.cancelled())
        return next((found for found in ended if found is not None), None)

    def _listening(self, subject: str) -> list[Listener]:
        return [listener for listener in self._listeners if matches(listener.pattern, subject)]

    def _spawn(self, work: Any) -> "asyncio.Task[Mapping[str, Any] | None]":
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _answered(listener: Listener, subject: str, text: str) -> Mapping[str, Any] | None:
    """The answer of one listener, through JSON as on the wire; an error of his ends his session, not the asker's."""
    try:
        answer = await listener.handler(subject, json.loads(text))
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
