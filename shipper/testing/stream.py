"""A stream in memory: messages with sequence and time, limits, one consumer, and what can happen to it."""

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from shipper.errors import StreamFull
from shipper.model import Stored, StreamState
from shipper.subjects import is_closed
from shipper.testing.clock import NANOSECONDS, Clock

DUPLICATE_WINDOW_NS = 120 * NANOSECONDS
"""How long JetStream remembers a `Nats-Msg-Id`, unless it is told otherwise."""

MESSAGE_ID = "Nats-Msg-Id"


class Reader(Protocol):
    """The session that reads the stream."""

    def fail(self, reason: str) -> None:
        """End the session."""


class MemoryStream:
    """Messages in the order of their sequences; tests look at it and hurt it, sessions read and write it."""

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
        self._reader: Reader | None = None
        self._woken: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Stored]:
        return iter([self._messages[sequence] for sequence in self._sequences])

    # -- what a server does -------------------------------------------------------------------------------------

    def append(self, subject: str, headers: Mapping[str, str], payload: bytes) -> int:
        """Store a message and return its sequence; one with a known `Nats-Msg-Id` is stored already.

        Raises:
            StreamFull: `max_bytes` would be exceeded; the oldest message never makes room (`discard: new`).
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
        """Messages from `sequence` on, each with the number of messages behind it."""
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
        """Call `wake` behind each message that is stored."""
        self._woken.append(wake)

    def read_by(self, reader: Reader) -> None:
        """`reader` begins; another one that still reads notices, as the consumer has one sequence for both."""
        if self._reader not in {None, reader}:
            self.end_reading("somebody else reads too")
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
