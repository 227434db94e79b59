"""The content of the journal as values: position in the stream, sources, open files, changes by a batch. Options."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shipper.layout import CODEC_SUFFIXES, OPEN_PREFIX, FileKey, file_name
from shipper.model import Span


class SourceKey(NamedTuple):
    """Identity of a source. It includes the host, because cloned machines have the same ids."""

    host: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSource:
    """A source in the archive: everything before `watermark` is durable in the host's file."""

    id: str
    host: str
    file: str
    origin: int
    watermark: int
    crc: int | None  #: CRC-32 of the host's file from origin to watermark; None after a gap, until the next block
    proven: bool = True  #: the archive has just these bytes: there is no gap before, and no file that was rewritten
    ended: bool = False
    seen_ns: int = 0  #: stored time of its newest block

    @property
    def key(self) -> SourceKey:
        """The identity of the source."""
        return SourceKey(self.host, self.id)


class Altered(enum.IntEnum):
    """Why the archived text of a source may differ from the host's file, although all of it is there.

    The values are in the journal; of two reasons the higher one is kept.
    """

    UNKNOWN = 0  #: archived by a version that did not record it
    EDITED = 1  #: the producer filtered, redacted or converted a part
    REDACTED = 2  #: text was blacked out in the archive; its sum, by which short text can be guessed, is not kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far the stream is applied."""

    applied: int = 0  #: every message up to this sequence is applied
    applied_ns: int = 0  #: stored time of that message
    resume: int = 1  #: next sequence after a restart: the first open hole, else the one after `applied`
    plain_after_ns: int = 0  #: plain messages stored up to then are applied, in a stream whose history changed
    created: str = ""  #: time of creation of the stream; another time means another stream

    @property
    def reads_again(self) -> bool:
        """Whether some applied messages must be read again, because a hole was open."""
        return self.resume <= self.applied


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file of the archive that is being appended, as far as it is committed."""

    path: str  #: relative to the archive
    key: FileKey
    length: int = 0
    first_seq: int = 0
    last_seq: int = 0
    first_ns: int = 0
    last_ns: int = 0
    duplicates: int = 0
    joins: int = 0  #: newlines inserted between two sources, or after a line whose rest was filtered
    last_source: str = ""
    ends_open: bool = False  #: the last byte is no newline
    filtered: int = 0  #: bytes of lines that producers filtered
    edited: int = 0  #: bytes that producers redacted or converted, minus their replacements; may be negative
    labels: tuple[tuple[str, str], ...] = ()  #: of the newest block
    sealing: str = ""  #: path of the segment that it becomes; empty: the file is appended
    opened: str = ""  #: of a file that is being sealed: the path that it had while it was appended
    raw: int = 0  #: bytes of log text in it; its length, unless it holds frames
    lines: int = 0  #: newlines in the text; counted only where it holds frames
    crc: int | None = 0  #: CRC-32 of the text; None: begun by a version that did not keep it
    marks: bytes = b""  #: of `StoredTimes`: the newest marks, after those that the journal has apart
    marked_at: int = 0  #: offset of the newest mark
    marked_second: int = 0  #: its second; 0: there is none
    zone: str = ""  #: IANA name of the zone of its host, of the newest block; empty: UTC

    @property
    def codec(self) -> str:
        """The content according to the name: `none` is plain text, else frames as received, in this codec."""
        name = (self.opened or self.path).rpartition("/")[2]
        own = OPEN_PREFIX + file_name(self.key.file)
        if not name.startswith(own):
            return "none"
        suffix = name.removeprefix(own).lstrip("=0123456789")  # the epoch is between them
        return next((codec for codec, known in CODEC_SUFFIXES.items() if known == suffix), "none")


class Extent(NamedTuple):
    """Bytes of a source that were appended to a file."""

    path: str
    source: str
    span: Span


class Loss(NamedTuple):
    """Bytes of a source that are known to be missing in a file."""

    path: str
    source: SourceKey
    span: Span
    reason: str


class Budget(enum.StrEnum):
    """What is limited by host and day. The values are in the journal, and labels of a metric."""

    SOURCES = "sources"
    FILES = "files"
    LOST = "lost_bytes"
    LETTERS = "dead_letters"
    LETTER_BYTES = "dead_letter_bytes"
    DROPPED = "dropped_dead_letters"
    TEXT = "text_bytes"  #: above it a message is archived as before, and counted: nothing is refused


class Account(NamedTuple):
    """The budget of one host on one UTC day."""

    date: str
    host: str
    budget: Budget


@dataclass(slots=True, kw_only=True)
class Changes:
    """What one batch changes in the journal, atomically."""

    position: Position
    sources: dict[SourceKey, ArchivedSource] = field(default_factory=dict)
    files: dict[str, OpenFile] = field(default_factory=dict)
    extents: list[Extent] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    spent: Mapping[Account, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)  #: by host that left the partition: the version of its marker
    shared: set[SourceKey] = field(default_factory=set)  #: sources that are new here and are in another partition
    forks: dict[SourceKey, tuple[str, ...]] = field(default_factory=dict)  #: new forks, by the source that forked
    redacted: dict[tuple[str, str], int] = field(default_factory=dict)  #: by path and rule: how often it fired
    edited: set[SourceKey] = field(default_factory=set)  #: sources with a block that their producer edited


class Until(enum.Enum):
    """When a worker ends."""

    STOPPED = "stopped"  #: a stop is requested
    DRAINED = "drained"  #: the stream is read to its end
    SEALED = "sealed"  #: the stream is read to its end, and every open file is sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """What one worker does. Sizes are in bytes, times in seconds."""

    partition: int
    stream: str  #: name of the stream on the server
    output: str  #: file name for messages without offsets
    until: Until
    batch_bytes: int
    segment_bytes: int
    idle_seal: float
    replay_window: float
    hole_patience: float
    hole_limit: float
    receipt_every: float
    archive: str = ""  #: identity of the archive, which receipts carry
    keep_sources: float = 0.0  #: how long the journal keeps sources that ended; 0: without limit
    seals_on_request: bool = False  #: whether readers may have open files sealed
    host_text_bytes: int = 0  #: text of a host in a UTC day above which an alert fires; 0: without limit
