"""A file that the archive should contain, according to a manifest or a journal."""

import enum
from dataclasses import dataclass

from consumer.archive.finding import Finding, Kind, Weight
from consumer.model import OpenFile
from shipper.duplicates import order_of
from shipper.layout import FileKey
from shipper.manifest import Gap, Redaction, Removal, Segment, SourceSpan


class FileState(enum.Enum):
    """How far a file is on its way."""

    SEALED = "sealed"
    SEALING = "sealing"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """The record of one file."""

    key: FileKey
    path: str  #: relative to the archive
    state: FileState
    codec: str  #: of its bytes on disk: zstd, gzip or none
    stored: int  #: committed bytes on disk; an open file may have more
    raw: int  #: bytes of text in these
    crc: int | None  #: CRC-32 of the text; None: unknown
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
    first_ns: int = 0  #: stored time of its first message; manifests have it as text
    last_ns: int = 0
    becomes: str = ""  #: path of the segment, once it is being sealed
    marks: bytes = b""  #: when its text was stored, as `StoredTimes` has it; of open files
    zone: str = ""  #: IANA name of the zone of its host; empty: UTC
    order: tuple[object, ...] = ()  #: of sealed files: which copy is the first (`shipper.duplicates`)
    also: str = ""  #: the other possible path, if a kill came between journal and rename

    @property
    def place(self) -> tuple[str, str, str]:
        """Host, file and day: the row of the report that it belongs to."""
        return self.key.host, self.key.file, self.key.date

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

    @property
    def is_waiting(self) -> bool:
        """Whether the record is in a journal, not in a manifest."""
        return self.state is not FileState.SEALED


def of_segment(segment: Segment, date: str) -> ExpectedFile:
    """The record in a manifest line of `date`. Raises ValueError: its sums are no hex numbers."""
    return ExpectedFile(
        key=FileKey(date, segment.partition, segment.host, segment.file),
        path=segment.path,
        state=FileState.SEALED,
        codec=segment.codec,
        stored=segment.bytes_stored,
        raw=segment.bytes_raw,
        crc=int(segment.crc32, 16),
        lines=segment.lines,
        stored_crc=int(segment.crc32_stored, 16) if segment.crc32_stored else None,
        joins=segment.joins,
        filtered=segment.filtered,
        edited=segment.edited,
        spans=segment.spans,
        gaps=segment.gaps,
        redactions=segment.redactions,
        removals=segment.removals,
        order=order_of(segment),
        replaces=segment.replaces,
        first_seq=segment.first_seq,
    )


def of_open_file(
    file: OpenFile, spans: tuple[SourceSpan, ...], gaps: tuple[Gap, ...], marks: bytes = b""
) -> ExpectedFile:
    """The record in a journal."""
    return ExpectedFile(
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
        marks=marks,
        zone=file.zone,
        also=file.opened,
    )
