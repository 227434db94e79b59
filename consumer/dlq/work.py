"""What is done with dead letters on a server: find them, send them again, remove them."""

import contextlib
import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple

from consumer.dlq import advisory, letter, recover
from consumer.dlq.advisory import Advisory
from consumer.dlq.letter import Letter, Wanted
from shipper.errors import UsageError
from shipper.jetstream.connection import MONITOR_INBOX, connect_as
from shipper.jetstream.letters import Letters, letters_of
from shipper.model import StreamState
from shipper.settings import Settings
from shipper.subjects import ADVISORIES, DEAD_LETTERS

WINDOW = 1000
"""Messages that a listing holds at a time, so that a hundred thousand cost no more than a thousand."""

Sent = Callable[[Letter, int], None]
"""Is told of each letter how many bytes of text its collector gets; 0: it holds none, and stays."""


class Found(NamedTuple):
    """A letter and its payload."""

    letter: Letter
    payload: bytes


class Desk:
    """Dead letters and advisories of one server, over a connection that it does not own."""

    def __init__(self, letters: Letters, advisories: Letters, settings: Settings) -> None:
        self._letters = letters
        self._advisories = advisories
        self._settings = settings

    async def newest(self, wanted: Wanted, limit: int) -> AsyncGenerator[Letter]:
        """At most `limit` (0: all) letters, newest first."""
        left = limit
        for first, last in _windows_back(await self._letters.state()):
            for each in reversed([each async for each in self._between(first, last, wanted)]):
                yield each
                left -= 1
                if left == 0:
                    return

    async def oldest(self, wanted: Wanted) -> AsyncGenerator[Letter]:
        """All letters that are there now, oldest first."""
        state = await self._letters.state()
        async with contextlib.aclosing(self._between(state.first_sequence, state.last_sequence, wanted)) as found:
            async for each in found:
                yield each

    async def find(self, sequence: int) -> Found:
        """One letter with its payload. Raises UsageError: there is none of that number."""
        kept = await self._letters.get(sequence) if sequence > 0 else None
        if kept is None:
            raise UsageError(f"there is no dead letter {sequence}", hint=await self._what_there_is())
        return Found(
            letter.read(kept.sequence, kept.time_ns, kept.subject, kept.headers, len(kept.payload)), kept.payload
        )

    async def requeue(self, sequences: Iterable[int], sent: Sent) -> None:
        """Store the text of each letter for its collector, then remove the letter; a kill in between repeats nothing.

        Raises:
            UsageError: a number or a letter cannot be used. Transient: the server; what was done is done.
        """
        created = (await self._letters.state()).created
        for sequence in sequences:
            found = await self.find(sequence)
            octets = await self._store(found, created)
            if octets:
                await self._letters.delete(sequence)
            sent(found.letter, octets)

    async def drop(self, sequence: int) -> Letter:
        """Remove a letter for good. Raises UsageError: there is none of that number."""
        found = await self.find(sequence)
        await self._letters.delete(sequence)
        return found.letter

    async def gave_up(self, stream: str, limit: int) -> AsyncGenerator[Advisory]:
        """What the server gave up delivering, newest first, at most `limit` (0: all). Raises StreamMissing."""
        left = limit
        for first, last in _windows_back(await self._advisories.state()):
            for kept in reversed([each async for each in self._advisories.whole(first, last, pattern=">")]):
                told = advisory.read(kept)
                if told is not None and stream in {"", told.stream}:
                    yield told
                    left -= 1
                if limit and left == 0:
                    return

    async def _between(self, first: int, last: int, wanted: Wanted) -> AsyncGenerator[Letter]:
        async with contextlib.aclosing(self._letters.heads(first, last, pattern=wanted.pattern)) as heads:
            async for head in heads:
                each = letter.read(head.sequence, head.time_ns, head.subject, head.headers, len(head.payload))
                if wanted.takes(each):
                    yield each

    async def _store(self, found: Found, created: str) -> int:
        """Bytes of text that the stream of the letter's partition has now."""
        octets = 0
        for message in recover.messages(
            *found,
            created=created,
            prefix=self._settings.logs.subject,
            output=self._settings.collector.output,
            read_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        ):
            await self._letters.store(found.letter.stream, *message)
            octets += len(message.payload)
        return octets

    async def _what_there_is(self) -> str:
        state = await self._letters.state()
        if not state.messages:
            return "there is no dead letter at all"
        return f"the numbers go from {state.first_sequence} to {state.last_sequence}; fshipper dlq ls shows them"


@contextlib.asynccontextmanager
async def desk(settings: Settings) -> AsyncIterator[Desk]:
    """A desk on a connection of its own.

    Raises:
        Unavailable: no server answers. StreamMissing: it has no dead letters.
    """
    connection = await connect_as(settings.nats, name="fshipper dlq", inboxes=("_INBOX_partitioner", MONITOR_INBOX))
    try:
        letters = letters_of(connection, DEAD_LETTERS)
        await letters.state()
        yield Desk(letters, letters_of(connection, ADVISORIES), settings)
    finally:
        await connection.close()


def _windows_back(state: StreamState) -> Iterator[tuple[int, int]]:
    """First and last sequences of what a stream holds, from its end to its beginning."""
    last = state.last_sequence
    while state.messages and last >= state.first_sequence:
        first = max(state.first_sequence, last - WINDOW + 1)
        yield first, last
        last = first - 1
