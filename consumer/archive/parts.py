"""The files of the archive that hold text, as manifests and journals list them, and what a directory is."""

import datetime as dt
import enum
import os
from dataclasses import dataclass
from pathlib import Path

from consumer.archive import manifests, stored_times
from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.stored_times import StoredTimes
from consumer.model import OpenFile
from shipper import layout, manifest
from shipper.layout import FileKey
from shipper.manifest import Gap, Redaction, Removal, Segment, SourceSpan

ROUNDED_NS = 1000
"""Manifests have microseconds."""


class FileState(enum.Enum):
    """How far a file is on its way."""

    SEALED = "sealed"
    SEALING = "sealing"
    OPEN = "open"


@dataclass(slots=True, kw_only=True)  # not frozen: an archive has a million, which would take twice as long to make
class Part:
    """A file of the archive, according to a manifest or a journal. Its text was stored between two moments."""

    key: FileKey
    path: str  #: relative to the archive
    state: FileState
    codec: str  #: of its bytes on disk: zstd, gzip or none
    stored: int  #: committed bytes on disk; an open file may have more
    raw: int  #: bytes of text in these
    crc: int | None = None  #: CRC-32 of the text; None: unknown
    lines: int | None = None  #: newlines in the text; None: not counted so far
    stored_crc: int | None = None  #: CRC-32 of the bytes on disk
    joins: int = 0
    filtered: int = 0
    edited: int = 0
    spans: tuple[SourceSpan, ...] = ()
    gaps: tuple[Gap, ...] = ()
    redactions: tuple[Redaction, ...] = ()
    removals: tuple[Removal, ...] = ()
    replaces: tuple[str, ...] = ()
    first_seq: int = 0
    last_seq: int = 0
    first_ns: int = 0  #: stored time of its first message
    last_ns: int = 0
    becomes: str = ""  #: path of the segment, once it is being sealed
    also: str = ""  #: the other possible path, if a kill came between journal and rename
    marks: bytes = b""  #: when its text was stored, as `StoredTimes` has it; a zstd segment has them itself
    zone: str = ""  #: IANA name of the zone of its host; empty: UTC
    late: int = 0  #: seconds by which its lines were stored after the times in them, where that is long
    ahead: int = 0  #: seconds by which they were stored before
    order: tuple[object, ...] = ()  #: for the audit, of sealed files: which copy is the first (`shipper.duplicates`)

    @property
    def partition(self) -> int:
        """The partition that it came from."""
        return self.key.partition

    @property
    def host(self) -> str:
        """The host that wrote it."""
        return self.key.host

    @property
    def file(self) -> str:
        """Its path on the host."""
        return self.key.file

    @property
    def place(self) -> tuple[str, str, str]:
        """Host, file and day: the row of the report that it belongs to."""
        return self.key.host, self.key.file, self.key.date

    @property
    def others(self) -> tuple[str, ...]:
        """Where it may be by now: files are renamed and sealed while others read."""
        return tuple(filter(None, (self.also, self.becomes)))

    @property
    def is_waiting(self) -> bool:
        """Whether the record is in a journal, not in a manifest."""
        return self.state is not FileState.SEALED

    @property
    def is_unusual(self) -> bool:
        """Whether the times in its lines are far from the times of storing."""
        return bool(self.late or self.ahead)

    @property
    def day(self) -> dt.date:
        """The day on which it was stored (UTC)."""
        date = layout.date_of(self.path) if self.path.startswith("date=") else layout.day_of(self.first_ns)
        return dt.date.fromisoformat(date)

    def stored_times(self) -> StoredTimes:
        """When its text was stored, as far as its record has that."""
        return StoredTimes.of(self.marks, first_ns=self.first_ns, last_ns=self.last_ns, raw=self.raw)

    def source_at(self, offset: int) -> tuple[str, int | None]:
        """The source of the byte at an offset of the text, and its offset there. Unknown is empty and None."""
        if len(self.spans) == 1 and not (self.joins or self.filtered or self.edited):
            return self.spans[0].source, self.spans[0].start + offset
        return "", None

    def finding(
        self, kind: Kind, text: str, octets: int = 0, *, hint: str = "", weight: Weight = Weight.DAMAGE
    ) -> Finding:
        """A finding about it."""
        return Finding(
            kind=kind,
            weight=weight,
            host=self.key.host,
            file=self.key.file,
            date=self.key.date,
            path=self.path,
            text=text,
            octets=octets,
            hint=hint,
        )


def of_segment(segment: Segment) -> Part:
    """The part that a manifest line describes, without its sums: only the audit needs these."""
    return Part(
        key=FileKey(layout.date_of(segment.path), segment.partition, segment.host, segment.file),
        path=segment.path,
        state=FileState.SEALED,
        codec=segment.codec,
        stored=segment.bytes_stored,
        raw=segment.bytes_raw,
        lines=segment.lines,
        joins=segment.joins,
        filtered=segment.filtered,
        edited=segment.edited,
        spans=segment.spans,
        gaps=segment.gaps,
        redactions=segment.redactions,
        removals=segment.removals,
        replaces=segment.replaces,
        first_seq=segment.first_seq,
        last_seq=segment.last_seq,
        first_ns=manifest.nanoseconds(segment.first_time),
        last_ns=manifest.nanoseconds(segment.last_time),
        marks=stored_times.from_text(segment.times),
        zone=segment.zone,
        late=segment.late,
        ahead=segment.ahead,
    )


def of_open_file(file: OpenFile, spans: tuple[SourceSpan, ...], gaps: tuple[Gap, ...], marks: bytes) -> Part:
    """The part that a journal describes: an open file, or one that is being sealed."""
    return Part(
        key=file.key,
        path=file.path,
        state=FileState.SEALING if file.sealing else FileState.OPEN,
        codec=file.codec,
        stored=file.length,
        raw=file.raw,
        crc=file.crc,
        lines=None if file.codec == "none" else file.lines,
        joins=file.joins,
        filtered=file.filtered,
        edited=file.edited,
        spans=spans,
        gaps=gaps,
        first_seq=file.first_seq,
        last_seq=file.last_seq,
        first_ns=file.first_ns,
        last_ns=file.last_ns,
        becomes=file.sealing,
        also=file.opened,
        marks=marks,
        zone=file.zone,
    )


def is_archive(directory: Path) -> bool:
    """Whether a collector writes there."""
    try:
        return layout.is_archive(os.listdir(directory))
    except OSError:
        return False


def unreadable(archive: Path) -> str:
    """Why this user cannot list a directory that exists. Empty means that they can, or there is none."""
    try:
        os.listdir(archive)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def is_empty(archive: Path) -> bool:
    """Whether no line was ever archived there: it has nothing but what a collector keeps for itself."""
    try:
        names = os.listdir(archive)
    except OSError:
        return False
    return not manifests.days(archive) and all(name.startswith(("_", ".")) for name in names)
