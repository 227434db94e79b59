"""The files of the archive that hold text, as manifests and journals list them, and what a directory is."""

import datetime as dt
import os
from dataclasses import dataclass
from pathlib import Path

from consumer.archive import manifests, stored_times
from consumer.archive.expected_file import ExpectedFile
from shipper import layout, manifest
from shipper.manifest import Segment, SourceSpan

ROUNDED_NS = 1000
"""Manifests have microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of the archive. Its text was stored between two moments."""

    partition: int
    host: str
    file: str
    path: str  #: relative to the archive
    others: tuple[str, ...]  #: where it may be by now: files are renamed and sealed while others read
    codec: str
    stored: int  #: bytes on disk that count
    raw: int  #: bytes of text
    first_ns: int
    last_ns: int
    first_sequence: int
    last_sequence: int
    spans: tuple[SourceSpan, ...]
    marks: bytes = b""  #: when its text was stored; a zstd segment has them itself
    zone: str = ""  #: IANA name of the zone of its host; empty: UTC
    late: int = 0  #: seconds by which its lines were stored after the times in them, where that is long
    ahead: int = 0  #: seconds by which they were stored before
    is_as_it_was: bool  #: the text is the bytes of the spans, nothing between them, left out or edited

    @property
    def is_unusual(self) -> bool:
        """Whether the times in its lines are far from the times of storing."""
        return bool(self.late or self.ahead)

    @property
    def day(self) -> dt.date:
        """The day on which it was stored (UTC)."""
        date = layout.date_of(self.path) if self.path.startswith("date=") else layout.day_of(self.first_ns)
        return dt.date.fromisoformat(date)

    def source_at(self, offset: int) -> tuple[str, int | None]:
        """The source of the byte at an offset of the text, and its offset there. Unknown is empty and None."""
        if self.is_as_it_was and len(self.spans) == 1:
            return self.spans[0].source, self.spans[0].start + offset
        return "", None


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


def of_segment(segment: Segment) -> Part:
    """The part that a manifest line describes."""
    return Part(
        partition=segment.partition,
        host=segment.host,
        file=segment.file,
        path=segment.path,
        others=(),
        codec=segment.codec,
        stored=segment.bytes_stored,
        raw=segment.bytes_raw,
        first_ns=manifest.nanoseconds(segment.first_time),
        last_ns=manifest.nanoseconds(segment.last_time),
        first_sequence=segment.first_seq,
        last_sequence=segment.last_seq,
        spans=segment.spans,
        marks=stored_times.from_text(segment.times),
        zone=segment.zone,
        late=segment.late,
        ahead=segment.ahead,
        is_as_it_was=not (segment.joins or segment.filtered or segment.edited),
    )


def of_entry(entry: ExpectedFile) -> Part:
    """The part that a journal describes: an open file."""
    return Part(
        partition=entry.key.partition,
        host=entry.key.host,
        file=entry.key.file,
        path=entry.path,
        others=tuple(filter(None, (entry.also, entry.becomes))),
        codec=entry.codec,
        stored=entry.stored,
        raw=entry.raw,
        first_ns=entry.first_ns,
        last_ns=entry.last_ns,
        first_sequence=entry.first_seq,
        last_sequence=entry.last_seq,
        spans=entry.spans,
        marks=entry.marks,
        zone=entry.zone,
        is_as_it_was=not (entry.joins or entry.filtered or entry.edited),
    )
