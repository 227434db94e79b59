"""One generation of one file, as the checkpoint knows it: everything before `offset` is acknowledged by JetStream.

Where a host stands: the partition that it publishes in, and the version of the map by which it does. Pure.
"""

import dataclasses
import os
import secrets
from dataclasses import dataclass, replace
from typing import NamedTuple

from producer.charset import Charset
from producer.fingerprint import Mark
from shipper.model import End, Handoff, Span
from shipper.partition_map import PartitionMap

RING_FULL = 64
MOST_ARCHIVES = 4
SETTLED = 0
"""Instead of a stream sequence: the collector said that it is archived when the stream had lost it."""
TRUSTED = -1
"""The same by an older mark, which is to be confirmed: the archive may have gone back together with the server."""


class Point(NamedTuple):
    """The stream sequence that acknowledged a source up to an offset, and the source's CRC there."""

    sequence: int  #: where no stream has to hold it: `SETTLED` or `TRUSTED`
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
    mark: Mark  #: of the furthest acknowledged offset, also behind a rewind
    size: int  #: bytes in the file when last looked at
    mtime_ns: int
    ring: tuple[Point, ...] = ()  #: where to go back to when the server lost acknowledged data, oldest first
    ended_at: float = 0.0  #: seconds since 1970 when its last block was acknowledged; 0: it lives
    real: str = ""  #: where the file lay to which links led under that name; "": there were none
    archives: tuple[Archived, ...] = ()  #: by the receipts of their collectors, the newest last
    handoff: Handoff | None = None  #: what the host's former partition has of it
    excluded: bool = False  #: it ended because the configuration no longer named its file

    @property
    def key(self) -> tuple[int, int]:
        """Device and inode; zeros when its file cannot show up again."""
        return self.device, self.inode

    @property
    def names(self) -> tuple[str, ...]:
        """The names beside which its file may lie when it is renamed; the last one is where it lay."""
        return (self.file, self.real) if self.real else (self.file,)

    @property
    def sequence(self) -> int:
        """Stream sequence of the newest acknowledged block; 0 when there is none."""
        return self.ring[-1].sequence if self.ring else 0

    @property
    def archived(self) -> int:
        """Everything before this offset is in an archive; at most the acknowledged offset when that was told."""
        return self.archived_elsewhere("")

    @property
    def settled(self) -> int:
        """Everything before this offset was archived when the stream lost it."""
        return max((point.offset for point in self.ring if point.sequence <= SETTLED), default=0)

    @property
    def trusted(self) -> int:
        """Everything before this offset is believed to be, and nobody has confirmed it yet; 0: nothing is."""
        return max((point.offset for point in self.ring if point.sequence == TRUSTED), default=0)

    def confirmed(self) -> "Source":
        """The source with nothing to be confirmed."""
        settled = [point._replace(sequence=SETTLED) if point.sequence < SETTLED else point for point in self.ring]
        return dataclasses.replace(self, ring=tuple(settled))

    def archived_in(self, archive: str) -> int:
        """How much of it one archive holds."""
        return max((each.offset for each in self._held if each.archive == archive), default=0)

    def archived_elsewhere(self, archive: str) -> int:
        """How much of it the other archives hold."""
        return max((each.offset for each in self._held if not archive or each.archive != archive), default=0)

    @property
    def _held(self) -> tuple[Archived, ...]:
        """What archives told, and what one had for good when the host left its partition."""
        if self.handoff is None:
            return self.archives
        return (*self.archives, Archived(self.handoff.archive, min(self.handoff.offset, self.offset)))

    def contradicts(self, offset: int, crc: int) -> bool:
        """Whether the source is known to have another sum at `offset`; a negative `crc` claims nothing."""
        points = (*self.ring, Point(0, self.offset, self.crc))
        return crc >= 0 and any(point.offset == offset and point.crc != crc for point in points)

    def proves(self, offset: int, crc: int) -> bool:
        """Whether `crc` is the sum of the source from its origin to `offset`, as far as the points here tell."""
        points = (*self.ring, Point(0, self.offset, self.crc))
        return crc >= 0 and any((point.offset, point.crc) == (offset, crc) for point in points)

    def in_archive(self, archive: str, offset: int) -> "Source":
        """The source as its archives hold it, of which `archive` has everything before `offset`."""
        others = [each for each in self.archives if each.archive != archive]
        archives = (*others, Archived(archive, offset))[-MOST_ARCHIVES:]
        return dataclasses.replace(self, archives=archives)

    def acknowledged(self, point: Point, mark: Mark) -> "Source":
        """The source with everything before `point` acknowledged."""
        ring = (*self.ring, point)
        if len(ring) > RING_FULL:  # the older half at half the density: a few points reach back to the origin
            half = len(ring) // 2
            ring = (*ring[:half:2], *ring[half:])
        return dataclasses.replace(self, offset=point.offset, crc=point.crc, mark=mark, ring=ring)

    def ended(self, at: float, *, file_rests: bool) -> "Source":
        """The source with its last block acknowledged; `file_rests`: its file may show up under another name.

        Where it may not, the inode number is free for any other file, so it identifies nothing. Few points are kept:
        a host may have many sources that ended.
        """
        device, inode = (self.device, self.inode) if file_rests else (0, 0)
        ring = (*self.ring[:-1:8], *self.ring[-1:])
        return dataclasses.replace(self, device=device, inode=inode, ring=ring, ended_at=at, excluded=False)

    def left_out(self, at: float) -> "Source":
        """The source, ended because the configuration no longer names its file. Named again, it goes on."""
        return dataclasses.replace(self.ended(at, file_rests=True), excluded=True)

    def named_again(self) -> "Source":
        """The source, living again: the configuration names its file."""
        return dataclasses.replace(self, ended_at=0.0, excluded=False)

    def rewound(self, *, sequence: int, archived: int, as_: int = SETTLED) -> "Source":
        """The source at the newest point that the server still has or the collector has archived.

        `sequence`: newest stream sequence that survived; `archived`: bytes that are safe in the archive; `as_`: what
        becomes of the sequences that are not valid any more.
        Going back too far is safe, the collector drops what it has.
        """
        if not self.ring or 0 < self.sequence <= sequence:
            return self
        kept = [
            point if 0 < point.sequence <= sequence else point._replace(sequence=as_)
            for point in self.ring
            if point.offset <= archived or 0 < point.sequence <= sequence
        ]
        if archived < self.offset or (self.ended_at and self.size > self.offset):  # its end told of a gap: say it again
            return self._at(kept)
        return dataclasses.replace(self, ring=tuple(kept))

    def back_to(self, offset: int) -> "Source":
        """The source at the newest point that is not behind `offset`."""
        return self._at([point for point in self.ring if point.offset <= offset])

    def handed_off(self, handoff: Handoff) -> "Source":
        """The source in a new partition, which goes on behind what the old one archived; stream sequences mean nothing.

        What was acknowledged and is not archived is sent again, what is archived and was not acknowledged may be.
        """
        kept = self if self.offset <= handoff.offset else self.back_to(handoff.offset)
        ring = (Point(SETTLED, kept.offset, kept.crc),) if kept.offset > kept.origin else ()
        there = kept.in_archive(handoff.archive, min(handoff.offset, kept.offset))
        return dataclasses.replace(there, ring=ring, handoff=handoff)

    def _at(self, ring: list[Point]) -> "Source":
        last = ring[-1] if ring else Point(0, self.origin, 0)
        size = max(self.size, self.offset)  # what was read and acknowledged was there, whatever the last look found
        back = dataclasses.replace(self, offset=last.offset, crc=last.crc, size=size, ring=tuple(ring))
        return back.named_again()  # if it is still excluded, the next start notices that


def new_source(file: str, stat: os.stat_result, *, origin: int, mark: Mark, real: str = "") -> Source:
    """A generation that nobody has seen before."""
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
    lead: bytes = b""  #: the first piece of the line in whose middle this one begins, where `Cut` asks for it
    charset: Charset = Charset.BYTES
    handoff: Handoff | None = None
    crc: int | None = None  #: of `data`, where it is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A partition, as the checkpoint knows it.

    Once `leaving` is durable nothing more is published there: the old partition drops what comes behind the marker.
    """

    partition: int
    version: int = 0  #: of the map; 0: there was none, SHIPPER_PARTITIONS counts
    leaving: int = 0  #: the version of the move marker, while the old partition is not done with this host; 0: it stays

    def under(self, known: PartitionMap, host: str) -> "Place":
        """Where `host` belongs by the map; itself, if the map is not newer."""
        if known.version <= max(self.version, self.leaving - 1):
            return self
        return Place(partition=known.partition_of(host), version=known.version)

    def left_for(self, version: int) -> "Place":
        """The same place with its marker to be published."""
        return replace(self, leaving=version)
