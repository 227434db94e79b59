"""Dead letters on a server: find them, requeue them, remove them.

Requeue converts a letter to blocks that a collector can apply, for a `.recovered` file next to the original.

The blocks belong to a separate source whose id is derived from the letter. After a kill at any line a second attempt
sends the same source again, and the collector drops the bytes that it has.
"""

import contextlib
import datetime as dt
import hashlib
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import NamedTuple

import zstandard

from consumer.dlq.message import Advisory, Letter, LetterFilter, read_advisory, read_letter
from shipper import codec
from shipper.bytes_ops import crc32
from shipper.errors import Poison, UsageError
from shipper.jetstream.connection import MONITOR_INBOX, connect_as
from shipper.jetstream.message_browser import MessageBrowser, browser_of
from shipper.model import MAX_BLOCK_BYTES, Block, Encoding, End, Span, StreamState
from shipper.settings import Settings
from shipper.subjects import ADVISORIES, DEAD_LETTERS, log_subject, parse_log_subject, partition_of_stream

SUFFIX = ".recovered"
UNKNOWN_HOST = "unknown"
MAX_TEXT_BYTES = 16 * 1024 * 1024
"""Maximum bytes that a payload may decode to; a payload that claims more is kept as it is."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_EDITS = re.compile(r"(\d{1,7})-\d{1,7}")


class RequeuedMessage(NamedTuple):
    """A message to publish for a letter."""

    subject: str
    headers: dict[str, str]
    payload: bytes


def messages(
    letter: Letter, payload: bytes, *, created: str, prefix: str, output: str, read_at: str
) -> Iterator[RequeuedMessage]:
    """The blocks of a letter in their order; none if it has no bytes.

    `created`: creation time of its stream, which distinguishes two streams of dead letters; `output`: the file of
    plain messages.

    Raises:
        UsageError: it came from no stream of `prefix`.
    """
    subject, text = _address(letter, prefix), text_of(letter, payload)
    source = hashlib.sha256(f"{created}:{letter.sequence}".encode()).hexdigest()[:16]
    path = codec.decode_path(letter.headers.get("Log-File", ""))
    file = (path if path.startswith("/") and "\0" not in path else f"/{output}") + SUFFIX
    total = 0
    for start in range(0, len(text), MAX_BLOCK_BYTES):
        data = text[start : start + MAX_BLOCK_BYTES]
        end, total = start + len(data), crc32(data, total)
        block = Block(
            source=source,
            file=file,
            span=Span(start, end),
            origin=0,
            lines=data.count(b"\n"),
            block_crc=crc32(data),
            source_crc=total,
            encoding=Encoding.IDENTITY,
            read_at=read_at,
            end=End.ROTATED if end == len(text) else None,
        )
        yield RequeuedMessage(subject, codec.to_headers(block), data)


def _address(letter: Letter, prefix: str) -> str:
    """The subject of a letter's host; `unknown` where the name of the host is invalid."""
    partition = partition_of_stream(prefix, letter.stream)
    if partition is None:
        raise UsageError(
            f"dead letter {letter.sequence} came from {letter.stream or 'no stream'!r}, which is none of {prefix!r}",
            hint="--subject PREFIX selects the streams",
        )
    subject = log_subject(prefix, partition, letter.host)
    try:
        parse_log_subject(subject)
    except Poison:
        return log_subject(prefix, partition, UNKNOWN_HOST)
    return subject


def text_of(letter: Letter, payload: bytes) -> bytes:
    """The text in a payload, if it can be decoded, else the payload. It ends with a newline."""
    text = _decoded(letter.headers.get("Log-Encoding", ""), payload)
    edits = _EDITS.fullmatch(letter.headers.get("Log-Edits", ""))
    if edits and len(text) >= int(edits[1]):
        text = text[: int(edits[1])]  # after the text is the edit map
    return text if text.endswith(b"\n") or not text else text + b"\n"


def _decoded(encoding: str, payload: bytes) -> bytes:
    try:
        match encoding:
            case Encoding.ZSTD.value if zstandard.frame_content_size(payload) <= MAX_TEXT_BYTES:
                return zstandard.ZstdDecompressor().decompress(payload, max_output_size=MAX_TEXT_BYTES)
            case Encoding.GZIP.value:
                unpacker = zlib.decompressobj(_GZIP_WINDOW)
                text = unpacker.decompress(payload, MAX_TEXT_BYTES)
                return text if unpacker.eof and not unpacker.unused_data else payload
    except (zstandard.ZstdError, zlib.error):
        pass  # probably the reason why it is a dead letter
    return payload


WINDOW = 1000
"""Maximum messages of a listing in memory: 100,000 letters need no more memory than 1,000."""


class StoredLetter(NamedTuple):
    """A letter and its payload."""

    letter: Letter
    payload: bytes


class DeadLetterStore:
    """Dead letters and advisories of one server, over a connection that it does not own."""

    def __init__(self, letters: MessageBrowser, advisories: MessageBrowser, settings: Settings) -> None:
        self._letters = letters
        self._advisories = advisories
        self._settings = settings

    async def newest(self, wanted: LetterFilter, limit: int) -> AsyncGenerator[Letter]:
        """At most `limit` (0: all) letters, newest first."""
        left = limit
        for first, last in _windows_back(await self._letters.state()):
            for each in reversed([each async for each in self._between(first, last, wanted)]):
                yield each
                left -= 1
                if left == 0:
                    return

    async def oldest(self, wanted: LetterFilter) -> AsyncGenerator[Letter]:
        """All current letters, oldest first."""
        state = await self._letters.state()
        async with contextlib.aclosing(self._between(state.first_sequence, state.last_sequence, wanted)) as found:
            async for each in found:
                yield each

    async def find(self, sequence: int) -> StoredLetter:
        """One letter with its payload. Raises UsageError: there is none of that number."""
        kept = await self._letters.get(sequence) if sequence > 0 else None
        if kept is None:
            raise UsageError(f"there is no dead letter {sequence}", hint=await self._what_there_is())
        return StoredLetter(read_letter(kept), kept.payload)

    async def requeue(self, sequences: Iterable[int]) -> AsyncGenerator[tuple[Letter, int]]:
        """Store the text of each letter for its collector, then remove the letter; a kill in between repeats nothing.

        Yields each letter and the bytes of text that its collector gets; 0: it has none, and stays.

        Raises:
            UsageError: a number or a letter cannot be used. Transient: the server; what was done is done.
        """
        created = (await self._letters.state()).created
        for sequence in sequences:
            found = await self.find(sequence)
            octets = await self._store(found, created)
            if octets:
                await self._letters.delete(sequence)
            yield found.letter, octets

    async def drop(self, sequence: int) -> Letter:
        """Remove a letter for good. Raises UsageError: there is none of that number."""
        found = await self.find(sequence)
        await self._letters.delete(sequence)
        return found.letter

    async def advisories(self, stream: str, limit: int) -> AsyncGenerator[Advisory]:
        """The advisories, newest first, at most `limit` (0: all). Raises StreamMissing."""
        left = limit
        for first, last in _windows_back(await self._advisories.state()):
            for kept in reversed([each async for each in self._advisories.whole(first, last, pattern=">")]):
                told = read_advisory(kept)
                if told is not None and stream in {"", told.stream}:
                    yield told
                    left -= 1
                if limit and left == 0:
                    return

    async def _between(self, first: int, last: int, wanted: LetterFilter) -> AsyncGenerator[Letter]:
        async with contextlib.aclosing(self._letters.heads(first, last, pattern=wanted.pattern)) as heads:
            async for head in heads:
                each = read_letter(head)
                if wanted.takes(each):
                    yield each

    async def _store(self, found: StoredLetter, created: str) -> int:
        """Bytes of text that the stream of the letter's partition has now."""
        octets = 0
        for message in messages(
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
async def open_dead_letters(settings: Settings) -> AsyncIterator[DeadLetterStore]:
    """A store with its own connection.

    Raises:
        Unavailable: no server answers. StreamMissing: it has no dead letters.
    """
    connection = await connect_as(settings.nats, name="fshipper dlq", inboxes=("_INBOX_partitioner", MONITOR_INBOX))
    async with connection:
        letters = browser_of(connection, DEAD_LETTERS)
        await letters.state()
        yield DeadLetterStore(letters, browser_of(connection, ADVISORIES), settings)


def _windows_back(state: StreamState) -> Iterator[tuple[int, int]]:
    """Ranges of the sequences in a stream, from its end to its beginning."""
    last = state.last_sequence
    while state.messages and last >= state.first_sequence:
        first = max(state.first_sequence, last - WINDOW + 1)
        yield first, last
        last = first - 1
