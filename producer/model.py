"""The producer's values: a source (one generation of a file) and its acknowledged offset, pieces, blocks, and places.

A place is the partition in which a host publishes, and the version of the partition map that names it.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from producer.charset import Charset
from producer.fingerprint import Mark
from shipper.model import End, Handoff, LineMessages, Span
from shipper.partition_map import PartitionMap
from shipper.subjects import log_subject

RING_FULL = 64
MOST_ARCHIVES = 4
SETTLED = 0
"""Used as a stream sequence: a collector confirmed that the bytes are archived, after the stream had lost them."""
TRUSTED = -1
"""The same by an older receipt that must be confirmed: the archive may have been restored together with the server."""


class Point(NamedTuple):
    """The stream sequence that acknowledged a source up to an offset, and the source's CRC there."""

    sequence: int  #: `SETTLED` or `TRUSTED` if no stream has to hold the bytes
    offset: int
    crc: int


class Archived(NamedTuple):
    """How much of a source one archive holds: everything before `offset`."""

    archive: str  #: identity of the archive
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source and its acknowledged position."""

    id: str  #: 16 hex digits
    file: str  #: absolute path where it was first seen; its name in the archive
    device: int
    inode: int
    origin: int
    offset: int
    crc: int  #: CRC-32 from `origin` to `offset`
    mark: Mark  #: of the highest acknowledged offset, also after a rewind
    size: int  #: bytes in the file at the last scan
    mtime_ns: int
    ring: tuple[Point, ...] = ()  #: points to go back to if the server lost acknowledged data, oldest first
    ended_at: float = 0.0  #: seconds since 1970 when its last block was acknowledged; 0: it has not ended
    real: str = ""  #: path of the file that symbolic links led to; "": there were no links
    archives: tuple[Archived, ...] = ()  #: by the receipts of their collectors, the newest last
    handoff: Handoff | None = None  #: what the host's former partition has of it
    excluded: bool = False  #: it ended because the configuration no longer named its file

    @property
    def key(self) -> tuple[int, int]:
        """Device and inode. Zeros when its file cannot show up again."""
        return self.device, self.inode

    @property
    def names(self) -> tuple[str, ...]:
        """Paths whose directories may contain the file after a rename. The last one is the path of the file itself."""
        return (self.file, self.real) if self.real else (self.file,)

    @property
    def sequence(self) -> int:
        """Stream sequence of the newest acknowledged block. 0 when there is none."""
        return self.ring[-1].sequence if self.ring else 0

    @property
    def archived(self) -> int:
        """Everything before this offset is in an archive. At most the offset acknowledged when the receipt arrived."""
        return self.archived_elsewhere("")

    @property
    def settled(self) -> int:
        """Everything before this offset was archived when the stream lost it."""
        return max((point.offset for point in self.ring if point.sequence <= SETTLED), default=0)

    @property
    def trusted(self) -> int:
        """Everything before this offset is assumed to be archived, but is not confirmed yet. 0: nothing is."""
        return max((point.offset for point in self.ring if point.sequence == TRUSTED), default=0)

    def confirmed(self) -> "Source":
        """The source with nothing to be confirmed."""
        settled = [point._replace(sequence=SETTLED) if point.sequence < SETTLED else point for point in self.ring]
        return replace(self, ring=tuple(settled))

    def archived_in(self, archive: str) -> int:
        """How much of it one archive holds."""
        return max((each.offset for each in self._held if each.archive == archive), default=0)

    def archived_elsewhere(self, archive: str) -> int:
        """How much of it the archives other than `archive` hold."""
        return max((each.offset for each in self._held if not archive or each.archive != archive), default=0)

    @property
    def _held(self) -> tuple[Archived, ...]:
        """The receipts of archives, and what one had finally when the host left its partition."""
        if self.handoff is None:
            return self.archives
        return (*self.archives, Archived(self.handoff.archive, min(self.handoff.offset, self.offset)))

    def contradicts(self, offset: int, crc: int) -> bool:
        """Whether the source is known to have another sum at `offset`. A negative `crc` claims nothing."""
        points = (*self.ring, Point(0, self.offset, self.crc))
        return crc >= 0 and any(point.offset == offset and point.crc != crc for point in points)

    def proves(self, offset: int, crc: int) -> bool:
        """Whether `crc` is the sum of the source from its origin to `offset`, as far as the points here prove it."""
        points = (*self.ring, Point(0, self.offset, self.crc))
        return crc >= 0 and any((point.offset, point.crc) == (offset, crc) for point in points)

    def in_archive(self, archive: str, offset: int) -> "Source":
        """The source as its archives hold it, of which `archive` has everything before `offset`."""
        others = [each for each in self.archives if each.archive != archive]
        archives = (*others, Archived(archive, offset))[-MOST_ARCHIVES:]
        return replace(self, archives=archives)

    def acknowledged(self, point: Point, mark: Mark) -> "Source":
        """The source with everything before `point` acknowledged."""
        ring = (*self.ring, point)
        if len(ring) > RING_FULL:  # the older half at half the density: a few points reach back to the origin
            half = len(ring) // 2
            ring = (*ring[:half:2], *ring[half:])
        return replace(self, offset=point.offset, crc=point.crc, mark=mark, ring=ring)

    def ended(self, at: float, *, file_rests: bool) -> "Source":
        """The source with its last block acknowledged. `file_rests`: its file may show up under another name.

        Where it may not, the inode number is free for any other file, so it identifies nothing. Few points are kept:
        a host may have many sources that ended.
        """
        device, inode = (self.device, self.inode) if file_rests else (0, 0)
        ring = (*self.ring[:-1:8], *self.ring[-1:])
        return replace(self, device=device, inode=inode, ring=ring, ended_at=at, excluded=False)

    def named_again(self) -> "Source":
        """The source, continued: the configuration names its file again."""
        return replace(self, ended_at=0.0, excluded=False)

    def rewound(self, *, sequence: int, archived: int, as_: int = SETTLED) -> "Source":
        """The source at the newest point that the server still has or the collector has archived.

        `sequence`: newest stream sequence that survived; `archived`: bytes that are safe in the archive; `as_`: what
        becomes of the sequences that are not valid any more.
        Going back too far is safe: the collector drops duplicates.
        """
        if not self.ring or 0 < self.sequence <= sequence:
            return self
        kept = [
            point if 0 < point.sequence <= sequence else point._replace(sequence=as_)
            for point in self.ring
            if point.offset <= archived or 0 < point.sequence <= sequence
        ]
        reported_gap = self.ended_at and self.size > self.offset  # its last block is sent again
        return self._at(kept) if archived < self.offset or reported_gap else replace(self, ring=tuple(kept))

    def back_to(self, offset: int) -> "Source":
        """The source at the newest point at or before `offset`."""
        return self._at([point for point in self.ring if point.offset <= offset])

    def handed_off(self, handoff: Handoff) -> "Source":
        """The source in a new partition, continued after what the old one archived. Stream sequences have no meaning.

        Bytes that were acknowledged but not archived are sent again; archived bytes that were not acknowledged may be.
        """
        kept = self if self.offset <= handoff.offset else self.back_to(handoff.offset)
        ring = (Point(SETTLED, kept.offset, kept.crc),) if kept.offset > kept.origin else ()
        there = kept.in_archive(handoff.archive, min(handoff.offset, kept.offset))
        return replace(there, ring=ring, handoff=handoff)

    def _at(self, ring: list[Point]) -> "Source":
        last = ring[-1] if ring else Point(0, self.origin, 0)
        size = max(self.size, self.offset)  # what was read and acknowledged was there, whatever the last scan found
        back = replace(self, offset=last.offset, crc=last.crc, size=size, ring=tuple(ring))
        return back.named_again()  # if it is still excluded, the next start notices that


class KnownCopy(NamedTuple):
    """A file that is a copy of a source, as it was when that was found."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    source: str
    mark: Mark  #: of its bytes that are the source's; offset 0: it is compressed


def new_source(file: str, stat: os.stat_result, *, origin: int, mark: Mark, real: str = "") -> Source:
    """A generation that is not in the checkpoint."""
    return Source(
        id=secrets.token_hex(8),
        file=file,
        device=stat.st_dev,
        inode=stat.st_ino,
        origin=origin,
        offset=origin,
        crc=0,
        mark=mark,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        real=real,
    )


class Piece(NamedTuple):
    """Bytes read from a source, with what the checkpoint needs when they are acknowledged."""

    source: str
    file: str
    origin: int
    span: Span
    data: bytes
    source_crc: int
    mark: Mark
    end: End | None = None
    gap: int = 0
    lead: bytes = b""  #: the first piece of the line in whose middle this one begins, if `Cut` needs it
    context: bytes = b""  #: the bytes of its line before this piece, if redaction needs them
    charset: Charset = Charset.BYTES
    handoff: Handoff | None = None
    crc: int | None = None  #: of `data`, where it is known
    crc_before: int = 0  #: of the source up to `span.start`


class Entry(NamedTuple):
    """A piece, encoded as a message, or as one for each of its lines."""

    piece: Piece
    headers: dict[str, str]
    payload: bytes
    lines: int
    redacted: Mapping[str, int] = MappingProxyType({})  #: how often each rule of redaction fired
    by_line: LineMessages | None = None  #: a message a line; None: `headers` and `payload` are the one message

    @property
    def messages(self) -> int:
        """How many messages it is."""
        return len(self.by_line.lines) if self.by_line else 1

    @property
    def size(self) -> int:
        """Bytes of its payloads."""
        return self.piece.span.length if self.by_line else len(self.payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition, as the checkpoint knows it.

    Once `leaving` is durable, no block is published there: the old partition drops what is stored after the marker.
    """

    partition: int
    version: int = 0  #: of the map; 0: there was no map, SHIPPER_PARTITIONS applies
    leaving: int = 0  #: version of the move marker until the host has left its partition; 0: it stays

    def under(self, known: PartitionMap, host: str) -> "Place":
        """The place of `host` by the map. This place, if the map is not newer."""
        if known.version <= max(self.version, self.leaving - 1):
            return self
        return Place(partition=known.partition_of(host), version=known.version)


class Destination:
    """Where this host publishes. Only the migration changes `place`, between sessions. All others read it."""

    def __init__(self, prefix: str, host: str, place: Place) -> None:
        self.prefix = prefix
        self.host = host
        self.place = place  #: as the checkpoint knows it
        self._moved: list[Callable[[], None]] = []

    @property
    def partition(self) -> int:
        """The partition whose stream stores the blocks."""
        return self.place.partition

    @property
    def subject(self) -> str:
        """The subject of the blocks."""
        return log_subject(self.prefix, self.partition, self.host)

    def on_move(self, moved: Callable[[], None]) -> None:
        """Call `moved` whenever the host is in another partition, or there by another version of the map."""
        self._moved.append(moved)

    def move(self, place: Place) -> None:
        """Publish at `place`, which is durable."""
        before, self.place = self.place, place
        if (before.partition, before.version) != (place.partition, place.version):
            for moved in self._moved:
                moved()
