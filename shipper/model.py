"""The values that the programs pass to each other: spans, blocks, deliveries. No behaviour beyond arithmetic."""

import enum
from dataclasses import dataclass
from typing import NamedTuple

MAX_BLOCK_BYTES = 512 * 1024
"""The most bytes of a source in one block, before encoding (wire format, version 1)."""


class Span(NamedTuple):
    """Bytes `start` (included) to `end` (excluded) of a source."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Bytes in the span."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"


class Handoff(NamedTuple):
    """The offset at which a source continues in this partition: the bytes before it are archived in another one."""

    offset: int
    crc: int | None  #: CRC-32 of the source from its origin to there, proven by that archive; None: unknown
    archive: str  #: identity of the archive that has it


class Edited(NamedTuple):
    """How long the text of an edited block is, and how much of its span was left out."""

    content: int  #: bytes of the edited text
    filtered: int  #: bytes of the span whose lines were left out


class Encoding(enum.Enum):
    """How a block's bytes travel."""

    IDENTITY = "identity"  #: as is; the header is absent
    ZSTD = "zstd"  #: one zstd frame
    GZIP = "gzip"  #: one gzip member
    PLAIN = "plain"  #: one line a message, its newline left off: readable for any NATS subscriber


class End(enum.Enum):
    """Why a source has no more bytes."""

    ROTATED = "rotated"
    DELETED = "deleted"
    TRUNCATED = "truncated"
    EXCLUDED = "excluded"  #: the configuration no longer names the file; the rest was not read, and is not lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The headers of a message with whole lines of one source: what they state about its payload."""

    source: str  #: 16 hex digits, one for each generation of a file
    file: str  #: absolute path on the host
    span: Span
    origin: int  #: offset at which shipping of this source began
    lines: int  #: newlines in the block
    block_crc: int  #: CRC-32 of this block's text, as the archive gets it
    source_crc: int  #: CRC-32 of the source from its origin to `span.end`
    encoding: Encoding
    read_at: str  #: RFC 3339
    end: End | None = None
    gap: int = 0  #: bytes after `span.end` that were not read, for the reason `end`; only with `end`
    map_version: int = 0  #: of the map of the partitions that its host goes by
    handoff: Handoff | None = None  #: None: the source was begun in this partition
    edited: Edited | None = None  #: None: the payload is the bytes of the span
    labels: tuple[tuple[str, str], ...] = ()  #: labels that the host gives its logs, name and value
    zone: str = ""  #: IANA name of the zone of times without one in its lines; empty: UTC
    redacted: tuple[tuple[str, int], ...] = ()  #: how often each rule of the host's redaction fired in it


class LineMessages(NamedTuple):
    """Whole lines of one source, in order, each a message of its own."""

    headers: dict[str, str]  #: that all of them have
    places: list[bytes]  #: the other headers of each one, as they are on the wire, with the empty line that ends them
    lines: list[bytes]  #: their payloads


class Published(NamedTuple):
    """An ack: the server has stored a message, or all messages of one call."""

    token: int  #: the number the publisher gave the message
    sequence: int  #: its place in the stream, or that of the last one


class Stored(NamedTuple):
    """A message in a stream."""

    sequence: int
    time_ns: int  #: when JetStream stored it, UTC nanoseconds; the same on every redelivery
    subject: str
    headers: dict[str, str]
    payload: bytes
    is_unread: bool = False  #: only its sequence is known, because this user may not read it


class Run(NamedTuple):
    """Messages of one line each, of one second, that were put together as one delivery."""

    sequences: tuple[int, ...]
    times_ns: tuple[int, ...]


class Delivery(NamedTuple):
    """One attempt of the server to deliver a message to a collector, or a run of messages as their last one."""

    sequence: int  #: place in the stream
    time_ns: int  #: when JetStream stored it; the same on every redelivery
    pending: int  #: messages in the stream after this one
    subject: str
    headers: dict[str, str]
    payload: bytes
    reply: str  #: where an acknowledgement goes
    run: Run | None = None  #: None: it is one message

    @property
    def messages(self) -> int:
        """How many messages it is."""
        return len(self.run.sequences) if self.run else 1

    @property
    def first_sequence(self) -> int:
        """The place of its first message in the stream."""
        return self.run.sequences[0] if self.run else self.sequence

    @property
    def first_ns(self) -> int:
        """When JetStream stored the earliest of its messages."""
        return min(self.run.times_ns) if self.run else self.time_ns

    @property
    def last_ns(self) -> int:
        """When JetStream stored the latest of its messages."""
        return max(self.run.times_ns) if self.run else self.time_ns

    def apart(self) -> "list[Delivery]":
        """The messages of a run of plain messages, one by one."""
        if self.run is None:
            return [self]
        each = zip(*self.run, self.payload.split(b"\n"), strict=True)
        return [self._replace(sequence=at, time_ns=ns, payload=line, run=None) for at, ns, line in each]


class Entry(NamedTuple):
    """What a bucket holds under a key."""

    revision: int  #: grows with each change of anything in the bucket
    value: bytes
    time_ns: int = 0  #: when the server stored it, ns since 1970; 0: it was not requested


class StreamState(NamedTuple):
    """What a stream holds just now."""

    first_sequence: int
    last_sequence: int
    messages: int
    bytes: int
    max_bytes: int  #: -1: no limit
    created: str  #: RFC 3339; another value means another stream under the same name
    site: str = ""  #: domain of the edge site that it is sourced from; empty: producers publish here
    is_closed: bool = False  #: it accepts no more messages: its partition is being retired
