"""What the archive and the reports have of a file."""

import glob
from dataclasses import replace
from pathlib import Path

from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Globs, Wanted
from consumer.explain.ladder import Evidence, InArchive, Report
from shipper.errors import ConfigError
from shipper.nearest import did_you_mean
from shipper.settings import Settings
from shipper.units import counted, format_bytes

ARCHIVE_BYTES = 2 * 1024 * 1024 * 1024
"""Maximum bytes of text of the archive that are searched for a line, the newest first."""


def from_archive(settings: Settings, known: Evidence, line: bytes) -> Evidence:
    """The newest file of the archive that has the line, or that has text of the file."""
    directory = settings.collector.directory
    reader = ArchiveReader(directory, settings.collector.state)
    try:
        parts = reader.find(Wanted(hosts=Globs((known.host,)), files=Globs((glob.escape(known.file),))))
    except ConfigError as error:
        return replace(known, no_archive=str(error))
    if not parts:
        others = {part.file for part in reader.find(Wanted(hosts=Globs((known.host,))))}
        meant = did_you_mean(known.file, others).strip()
        return replace(known, no_archive=f"the archive {directory} has nothing of this file{meant and f'; {meant}'}")
    newest_first = sorted(parts, key=lambda part: (part.last_ns, part.last_seq), reverse=True)
    if not line:
        part = newest_first[0]
        return replace(known, archive=InArchive(part, -1, part.last_ns, part.last_ns))
    read, damaged = 0, 0
    for part in newest_first:
        if read >= ARCHIVE_BYTES:
            return replace(known, no_archive=f"only the newest {format_bytes(read)} of the archive were searched")
        try:
            if (offset := _last_offset(reader, part, line)) >= 0:
                return replace(known, archive=InArchive(part, offset, *part.stored_times().bounds(offset)))
        except OSError:
            damaged += 1
        read += part.raw
    unread = f", and {counted(damaged, 'file')} could not be read" if damaged else ""
    return replace(known, no_archive=f"{counted(len(parts), 'file')} of the archive, none has the line{unread}")


def _last_offset(reader: ArchiveReader, part: Part, line: bytes) -> int:
    """Where the last line with the text is in a part; -1: nowhere."""
    at, found, rest = 0, -1, b""
    with reader.open_text(part, 0, part.raw) as chunks:
        for chunk in chunks:
            text = rest + chunk
            if (place := text.rfind(line)) >= 0:
                found = at - len(rest) + place
            at += len(chunk)
            rest = text[-(len(line) - 1) :] if len(line) > 1 else b""
    return found


def report_of(known: Evidence, reports: str) -> Report | None:
    """The report of the day; None: reports are not known here."""
    directory = Path(reports)
    if known.archive is None or "://" in reports or not directory.is_dir():
        return None
    path = directory / known.archive.part.key.date / "report.json"
    try:
        return Report(str(path), path.stat().st_mtime)
    except FileNotFoundError:
        return Report(str(path), 0.0)
    except OSError:
        return None
