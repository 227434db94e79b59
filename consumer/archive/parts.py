"""Which files of an archive hold the requested text that the streams no longer have: by manifests and journals."""

import contextlib
import datetime as dt
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from consumer.archive import manifests, stored_times
from consumer.archive.directory import IDENTITY
from consumer.archive.event_times import lag_of
from consumer.archive.expected_file import ExpectedFile
from consumer.archive.journal_snapshot import JournalSnapshots, journal_directory
from consumer.archive.manifests import listed_segments
from consumer.archive.selection import Wanted
from consumer.archive.stored_times import StoredTimes
from shipper import layout, manifest
from shipper.errors import ConfigError
from shipper.manifest import Segment, SourceSpan

OPEN_PROBES = 6
"""Places of an open file whose lines are compared with their stored times, of each kind, at every search."""
ROUNDED_NS = 1000
"""Manifests have microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of the archive; its text was stored between two moments."""

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
        """The source of the byte at an offset of the text, and its offset there; empty and None: not known."""
        if self.is_as_it_was and len(self.spans) == 1:
            return self.spans[0].source, self.spans[0].start + offset
        return "", None

    def is_within(self, wanted: Wanted) -> bool:
        """Whether some of it may be of the requested time."""
        since_ns, until_ns = wanted.stored_span(self.late, self.ahead)
        return (until_ns is None or self.first_ns < until_ns) and self.last_ns + ROUNDED_NS >= since_ns


def find(archive: Path, state: Path | None, wanted: Wanted, borders: Mapping[int, int]) -> list[Part]:
    """The files to read, oldest first; `borders`: by partition, from when on (ns) its stream has everything.

    Raises:
        ConfigError: there is no archive, or it cannot be read.
    """
    try:
        identity = _identity(archive)
        opened = list(_open(archive, state, identity, wanted))  # first: a file that is sealed now is in both lists
        parts = {part.path: part for part in _sealed(archive, wanted)}
        sealed = {_first_message(part) for part in parts.values()}
        for part in opened:
            if not parts.keys() & {part.path, *part.others} and _first_message(part) not in sealed:
                parts[part.path] = part
    except OSError as error:
        raise ConfigError(
            f"the archive {archive} cannot be read: {error.strerror}", hint="read it as the collector's user or group"
        ) from None
    needed = [each for each in parts.values() if each.raw and each.first_ns < borders.get(each.partition, 1 << 63)]
    return sorted(needed, key=lambda part: (part.first_ns, part.path))


def opened(archive: Path, state: Path | None, wanted: Wanted) -> list[Part]:
    """Files that are not sealed. Raises ConfigError: there is no archive; OSError."""
    return [part for part in _open(archive, state, _identity(archive), wanted) if part.raw]


def segments_of_day(archive: Path, date: str, host: str, file: str) -> list[Part]:
    """The segments of a file on one day. Raises OSError."""
    listed = listed_segments(archive, date, about=file if file.isascii() else "")
    of_file = manifest.standing(each for each in listed if (each.host, each.file) == (host, file))
    return [part for segment in of_file if (part := _of_segment(segment)).raw]


def is_archive(directory: Path) -> bool:
    """Whether a collector writes there."""
    try:
        return layout.is_archive(os.listdir(directory))
    except OSError:
        return False


def unreadable(archive: Path) -> str:
    """Why this user cannot list a directory that exists; empty: they can, or there is none."""
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


def _sealed(archive: Path, wanted: Wanted) -> Iterator[Part]:
    since_ns, until_ns = wanted.stored_span()
    first, last = layout.day_of(since_ns), layout.day_of(until_ns) if until_ns is not None else ""
    for date in sorted(manifests.days(archive)):
        is_outside = date < first or bool(last and date > last)
        if is_outside and wanted.allowance is None:
            continue
        lines = (line.text for line in manifests.lines_of_day(archive, date))
        listed = manifest.segments_in(filter(_tells_of_lag, lines) if is_outside else lines)
        for segment in manifest.standing(each for each in listed if _is_of(wanted, each.host, each.file)):
            part = _of_segment(segment)
            if part.is_within(wanted):
                yield part


def _tells_of_lag(line: bytes) -> bool:
    """Whether the lines of a segment are of a time far from that of storing, or it replaces others."""
    return b'"late":' in line or b'"ahead":' in line or b'"replaces":' in line


def _open(archive: Path, state: Path | None, identity: str, wanted: Wanted) -> Iterator[Part]:
    directory = journal_directory(archive, identity, state if identity else None)
    if not directory.is_dir():
        return
    with JournalSnapshots(directory) as journals:
        for entry in journals.entries():
            part = _of_entry(entry)
            if not _is_of(wanted, part.host, part.file):
                continue
            if wanted.allowance is not None and (wanted.since_ns or wanted.until_ns is not None):
                part = _with_lag(archive, part)
            if part.is_within(wanted):
                yield part


def _with_lag(archive: Path, part: Part) -> Part:
    """An open file with how late and how far ahead its lines are; a segment's manifest line has that."""
    if part.codec != "none" or not part.raw:
        return part
    times = StoredTimes.of(part.marks, first_ns=part.first_ns, last_ns=part.last_ns, raw=part.raw)
    with contextlib.suppress(OSError), (archive / part.path).open("rb") as text:
        lag = lag_of(text, times, part.day, part.zone, probes=OPEN_PROBES)
        return replace(part, late=lag.late, ahead=lag.ahead)
    return part


def _first_message(part: Part) -> tuple[int, str, str, int, int]:
    """Identity of a file that was open and is sealed: the message that it begins with, and when that was stored.

    A stream that was created again counts from 1 again.
    """
    return part.partition, part.host, part.file, part.first_sequence, part.first_ns // ROUNDED_NS


def _of_segment(segment: Segment) -> Part:
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


def _of_entry(entry: ExpectedFile) -> Part:
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


def _is_of(wanted: Wanted, host: str, file: str) -> bool:
    return wanted.hosts.takes(host) and wanted.has_file(file)


def _identity(archive: Path) -> str:
    """The identity of an archive; empty: it has none. Raises ConfigError: there is no archive, OSError: no right."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.listdir(archive)  # an archive that may not be read is not one that is missing
    if not is_archive(archive):
        raise ConfigError(
            f"there is no archive at {archive.absolute()}", hint="name the collector's directory: --archive DIR"
        )
    try:
        return str(json.loads((archive / IDENTITY).read_bytes())["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""
