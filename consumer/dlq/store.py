"""Dead letters on a server: find them, requeue them, remove them.

Requeue converts a letter to blocks that a collector can apply, for a `.recovered` file next to the original.

The blocks belong to a separate source whose id is derived from the letter. After a kill at any line a second attempt
sends the same source again, and the collector drops the bytes that it has.

Any client may have written a dead letter, so its texts are escaped. An advisory is the server's message that it
stopped delivering a message to a collector, which should never happen.
"""

import contextlib
import datetime as dt
import hashlib
import json
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import zstandard

from consumer.read.display import shown_time
from shipper import codec, units
from shipper.bytes_ops import crc32
from shipper.errors import Poison, UsageError
from shipper.jetstream.connection import MONITOR_INBOX, connect_as
from shipper.jetstream.message_browser import MessageBrowser, browser_of
from shipper.model import MAX_BLOCK_BYTES, Block, Delivery, Encoding, End, Span, Stored
from shipper.settings import Settings
from shipper.subjects import (
    ADVISORIES,
    DEAD_LETTERS,
    dead_letter_subject,
    log_subject,
    parse_log_subject,
    partition_of_stream,
)

KINDS = {
    "io.nats.jetstream.advisory.v1.max_deliver": "delivered too often",
    "io.nats.jetstream.advisory.v1.terminated": "terminated by a client",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """The server stopped delivering message `sequence` of `stream`."""

    time_ns: int
    stream: str
    sequence: int
    consumer: str
    deliveries: int
    why: str


def read_advisory(message: Delivery) -> Advisory | None:
    """The advisory in a message. None means that it is none, or cannot be read."""
    try:
        fields = json.loads(message.payload)
        reason = f": {fields['reason']}" if fields.get("reason") else ""
        return Advisory(
            time_ns=message.time_ns,
            stream=str(fields["stream"]),
            sequence=int(fields["stream_seq"]),
            consumer=str(fields["consumer"]),
            deliveries=int(fields.get("deliveries", 0)),
            why=KINDS[fields["type"]] + reason,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


OWN = ("Dlq-Reason", "Dlq-Stream", "Dlq-Seq", "Dlq-Subject", "Dlq-Cut")
"""What the collector adds to a message's own headers."""
SHOWN_BYTES = 1024
_ROW_BYTES = 16
_SUBJECT = re.compile(r"dlq\.([^.]+)\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter. Its texts are as they came over the network: show them through `printable`."""

    sequence: int  #: its number in the stream of dead letters
    time_ns: int  #: when it was stored as a dead letter
    host: str
    stream: str  #: stream of the message; empty: no collector wrote the letter
    origin_sequence: str  #: its sequence there
    reason: str
    headers: Mapping[str, str]  #: the message's own
    bytes: int  #: of the payload that is kept
    cut_from: int = 0  #: bytes of the whole payload, where only its beginning is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters are selected. An empty text selects all."""

    host: str = ""
    stream: str = ""
    reason: str = ""  #: a part of the reason, in any case

    @property
    def pattern(self) -> str:
        """The subjects of the letters that may be selected, as filters for the server."""
        return dead_letter_subject(self.stream or "*", self.host or ">")

    def takes(self, letter: Letter) -> bool:
        """Whether a letter of these subjects is selected."""
        return self.reason.casefold() in letter.reason.casefold()


def read_letter(message: Delivery | Stored) -> Letter:
    """The letter of a message of the stream of dead letters, with its payload."""
    place, headers = _SUBJECT.fullmatch(message.subject), message.headers
    return Letter(
        sequence=message.sequence,
        time_ns=message.time_ns,
        host=place[2] if place else "unknown",
        stream=headers.get("Dlq-Stream", ""),
        origin_sequence=headers.get("Dlq-Seq", ""),
        reason=headers.get("Dlq-Reason", ""),
        headers={name: value for name, value in headers.items() if name not in OWN and not name.startswith("Nats-")},
        bytes=len(message.payload),
        cut_from=_number(headers.get("Dlq-Cut", "")),
    )


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal might take for a command, or not show, a backslash too."""
    return units.printable(text.replace("\\", "\\\\"))


def dump(payload: bytes, at_most: int = SHOWN_BYTES) -> list[str]:
    """The beginning of a payload as lines of offset, hexadecimal digits and ASCII, as `hexdump -C` has them."""
    lines = []
    for start in range(0, min(len(payload), at_most), _ROW_BYTES):
        row = payload[start : min(start + _ROW_BYTES, at_most)]
        text = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in row)  # noqa: PLR2004 - ASCII
        lines.append(f"{start:08x}  {row.hex(' '):<47}  |{text}|")
    if len(payload) > at_most:
        lines.append(f"{at_most:08x}  ... {len(payload) - at_most} bytes more (--raw writes all)")
    return lines


def letter_json(letter: Letter) -> dict[str, Any]:
    """A letter for programs."""
    return {
        "v": VERSION,
        "kind": "letter",
        "number": letter.sequence,
        "time": shown_time(letter.time_ns),
        "time_ns": letter.time_ns,
        "host": letter.host,
        "stream": letter.stream,
        "sequence": _number(letter.origin_sequence),
        "reason": letter.reason,
        "bytes": letter.bytes,
        "cut_from": letter.cut_from or None,
        "file": letter.headers.get("Log-File"),
    }


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else 0


VERSION = 1
"""Version of the JSON. New fields keep the number; changed or removed fields change it."""
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
    """The blocks of a letter in their order, none if it has no bytes.

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
    """The subject of a letter's host, `unknown` where the name of the host is invalid."""
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


_T = TypeVar("_T")
WINDOW = 1000
"""Maximum messages of a listing in memory: 100,000 letters need no more memory than 1,000."""


class StoredLetter(NamedTuple):
    """A letter and its payload."""

    letter: Letter
    payload: bytes


@dataclass(frozen=True, slots=True)
class DeadLetterStore:
    """Dead letters and advisories of one server, over a connection that it does not own."""

    _letters: MessageBrowser
    _advisories: MessageBrowser
    _settings: Settings

    def newest(self, wanted: LetterFilter, limit: int) -> AsyncGenerator[Letter]:
        """At most `limit` (0: all) letters, newest first."""
        return _newest(self._letters, lambda first, last: self._between(first, last, wanted), limit)

    async def numbers(self, wanted: LetterFilter) -> list[int]:
        """The numbers of all current letters, oldest first."""
        state = await self._letters.state()
        return [each.sequence async for each in self._between(state.first_sequence, state.last_sequence, wanted)]

    async def find(self, sequence: int) -> StoredLetter:
        """One letter with its payload. Raises UsageError: there is none of that number."""
        kept = await self._letters.get(sequence) if sequence > 0 else None
        if kept is None:
            raise UsageError(f"there is no dead letter {sequence}", hint=await self._what_there_is())
        return StoredLetter(read_letter(kept), kept.payload)

    async def requeue(self, sequences: Iterable[int]) -> AsyncGenerator[tuple[Letter, int]]:
        """Store the text of each letter for its collector, then remove the letter. A kill in between repeats nothing.

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

    def advisories(self, stream: str, limit: int) -> AsyncGenerator[Advisory]:
        """The advisories, newest first, at most `limit` (0: all). Raises StreamMissing."""

        async def read(first: int, last: int) -> AsyncGenerator[Advisory]:
            async for kept in self._advisories.read(first, last, pattern=">"):
                if (advisory := read_advisory(kept)) and stream in {"", advisory.stream}:
                    yield advisory

        return _newest(self._advisories, read, limit)

    async def _between(self, first: int, last: int, wanted: LetterFilter) -> AsyncGenerator[Letter]:
        async with contextlib.aclosing(self._letters.read(first, last, pattern=wanted.pattern)) as found:
            async for message in found:
                each = read_letter(message)
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
    """A store with its own connection. Raises Unavailable: no server answers. StreamMissing: it has no dead letters."""
    connection = await connect_as(settings.nats, name="fshipper dlq", inboxes=("_INBOX_partitioner", MONITOR_INBOX))
    async with connection:
        letters = browser_of(connection, DEAD_LETTERS)
        await letters.state()
        yield DeadLetterStore(letters, browser_of(connection, ADVISORIES), settings)


async def _newest(
    browser: MessageBrowser, read: Callable[[int, int], AsyncGenerator[_T]], limit: int
) -> AsyncGenerator[_T]:
    """What `read` finds between two sequences of a stream, newest first and at most `limit` (0: all)."""
    state, left = await browser.state(), limit
    last = state.last_sequence
    while state.messages and last >= state.first_sequence:
        first = max(state.first_sequence, last - WINDOW + 1)
        for each in reversed([each async for each in read(first, last)]):
            yield each
            left -= 1
            if left == 0:
                return
        last = first - 1
