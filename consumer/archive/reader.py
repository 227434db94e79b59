"""Finds the files of an archive that hold the requested text, and opens them.

Manifests list what is sealed, journals what is open. A file that is sealed while both are read is found once.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from consumer.archive import manifests, segment_reader
from consumer.archive.directory import IDENTITY
from consumer.archive.event_times import lag_of
from consumer.archive.journal_snapshot import JournalSnapshots, journal_directory
from consumer.archive.parts import ROUNDED_NS, Part, is_archive, of_segment
from consumer.archive.segment_reader import SegmentReader
from consumer.archive.selection import Wanted
from shipper import default_paths, layout, manifest
from shipper.errors import ConfigError

OPEN_PROBES = 6
"""Places of an open file whose lines are compared with their stored times, of each kind, at every search."""


@dataclass(frozen=True, slots=True)
class ArchiveReader:
    """Reads an archive while collectors may write it."""

    directory: Path
    state: Path | None = None  #: `SHIPPER_STATE`, if the journals are not in the archive

    def find(self, wanted: Wanted, borders: Mapping[int, int] = {}) -> list[Part]:
        """The files to read, oldest first. `borders`: by partition, from when on (ns) its stream has everything.

        Raises:
            ConfigError: there is no archive, or it cannot be read.
        """
        try:
            identity = self._identity()
            opened = list(self._opened(identity, wanted))  # first: a file that is sealed now is in both lists
            parts = {part.path: part for part in self._sealed(wanted)}
            sealed = {_first_message(part) for part in parts.values()}
            for part in opened:
                if not parts.keys() & {part.path, *part.others} and _first_message(part) not in sealed:
                    parts[part.path] = part
        except OSError as error:
            raise ConfigError(
                f"the archive {self.directory} cannot be read: {error.strerror}",
                hint="read it as the collector's user or group",
            ) from None
        needed = [each for each in parts.values() if each.raw and each.first_ns < borders.get(each.partition, 1 << 63)]
        return sorted(needed, key=lambda part: (part.first_ns, part.path))

    def opened(self, wanted: Wanted) -> list[Part]:
        """Files that are not sealed. Raises OSError, or ConfigError: there is no archive."""
        return [part for part in self._opened(self._identity(), wanted) if part.raw]

    def segments_of_day(self, date: str, host: str, file: str) -> list[Part]:
        """The segments of a file on one day. Raises OSError."""
        listed = manifests.listed_segments(self.directory, date, about=file if file.isascii() else "")
        of_file = manifest.standing(each for each in listed if (each.host, each.file) == (host, file))
        return [part for segment in of_file if (part := of_segment(segment)).raw]

    def open(self, part: Part, since_ns: int, until_ns: int | None) -> AbstractContextManager[SegmentReader]:
        """The lines of a part that may have been stored in that time, and some before them. Raises as `open_part`."""
        return segment_reader.open_part(self.directory, part, since_ns, until_ns)

    def open_text(self, part: Part, start: int, end: int) -> AbstractContextManager[Iterator[bytes]]:
        """Bytes `start` to `end` of the text of a part, in chunks. Raises as `open_part`."""
        return segment_reader.open_text(self.directory, part, start, end)

    def _sealed(self, wanted: Wanted) -> Iterator[Part]:
        since_ns, until_ns = wanted.stored_span()
        first, last = layout.day_of(since_ns), layout.day_of(until_ns) if until_ns is not None else ""
        for date in sorted(manifests.days(self.directory)):
            is_outside = date < first or bool(last and date > last)
            if is_outside and wanted.allowance is None:
                continue
            lines = (line.text for line in manifests.lines_of_day(self.directory, date))
            listed = manifest.segments_in(filter(_tells_of_lag, lines) if is_outside else lines)
            for segment in manifest.standing(each for each in listed if wanted.takes(each.host, each.file)):
                part = of_segment(segment)
                if wanted.may_be_in(part):
                    yield part

    def _opened(self, identity: str, wanted: Wanted) -> Iterator[Part]:
        directory = journal_directory(self.directory, identity, self.state if identity else None)
        if not directory.is_dir():
            return
        with JournalSnapshots(directory) as journals:
            needs_lag = wanted.allowance is not None and (wanted.since_ns or wanted.until_ns is not None)
            for each in journals.entries():
                if wanted.takes(each.host, each.file):
                    part = _with_lag(self.directory, each) if needs_lag else each
                    if wanted.may_be_in(part):
                        yield part

    def _identity(self) -> str:
        """The identity of the archive, empty if it has none.

        Raises ConfigError: there is no archive. OSError: it may not be read.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.listdir(self.directory)  # an archive that may not be read is not one that is missing
        if not is_archive(self.directory):
            raise ConfigError(
                f"there is no archive at {self.directory.absolute()}",
                hint=default_paths.find_archive_hint(self.directory),
            )
        try:
            return str(json.loads((self.directory / IDENTITY).read_bytes())["id"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return ""


def _tells_of_lag(line: bytes) -> bool:
    """Whether the lines of a segment are of a time far from that of storing, or it replaces others."""
    return b'"late":' in line or b'"ahead":' in line or b'"replaces":' in line


def _with_lag(archive: Path, part: Part) -> Part:
    """An open file with how late and how far ahead its lines are. A segment's manifest line has that."""
    if part.codec != "none" or not part.raw:
        return part
    with contextlib.suppress(OSError), (archive / part.path).open("rb") as text:
        lag = lag_of(text, part.stored_times(), part.day, part.zone, probes=OPEN_PROBES)
        return replace(part, late=lag.late, ahead=lag.ahead)
    return part


def _first_message(part: Part) -> tuple[int, str, str, int, int]:
    """Identity of a file that was open and is sealed: the message that it begins with, and when that was stored.

    A stream that was created again counts from 1 again.
    """
    return *part.key[1:], part.first_seq, part.first_ns // ROUNDED_NS
