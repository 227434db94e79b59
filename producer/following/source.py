"""One generation of one file, as the checkpoint knows it: everything before `offset` is acknowledged by JetStream."""

import dataclasses
import os
import secrets
from dataclasses import dataclass
from typing import NamedTuple

from producer.following.identity import Mark

RING_FULL = 64


class Point(NamedTuple):
    """The stream sequence that acknowledged a source up to an offset, and the source's CRC there."""

    sequence: int
    offset: int
    crc: int


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
        return dataclasses.replace(self, device=device, inode=inode, ring=ring, ended_at=at)

    def rewound(self, *, sequence: int, archived: int) -> "Source":
        """The source at the newest point that the server still has or the collector has archived.

        `sequence`: newest stream sequence that survived; `archived`: bytes that are safe in the archive.
        Going back too far is safe, the collector drops what it has.
        """
        if archived >= self.offset or sequence >= self.sequence:
            return self
        return self._at([point for point in self.ring if point.sequence <= sequence or point.offset <= archived])

    def back_to(self, offset: int) -> "Source":
        """The source at the newest point that is not behind `offset`."""
        return self._at([point for point in self.ring if point.offset <= offset])

    def _at(self, ring: list[Point]) -> "Source":
        last = ring[-1] if ring else Point(0, self.origin, 0)
        return dataclasses.replace(self, offset=last.offset, crc=last.crc, ring=tuple(ring), ended_at=0.0)


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
