"""Which files of an archive hold what is asked for and what the streams have no more: by manifests and journals."""

import datetime as dt
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from consumer.archive import IDENTITY, JOURNALS, manifests_of_day
from consumer.audit import manifest_listing
from consumer.audit.expected_file import ExpectedFile
from consumer.audit.journal_snapshot import JournalSnapshots
from consumer.logview.dedup import ArchivedSpans
from consumer.logview.query import Wanted
from consumer.model import ArchivedSource, SourceKey
from shipper import layout, manifest
from shipper.errors import ConfigError
from shipper.layout import NANOSECONDS
from shipper.manifest import Segment, SourceSpan

_ROUNDED_NS = 1000  # manifests have microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file of the archive; its text was stored between two moments."""

    partition: int
    host: str
    file: str
    path: str  #: relative to the archive
    others: tuple[str, ...]  #: where it may lie by now: files are renamed and sealed while others read
    codec: str
    stored: int  #: bytes on disk that count
    raw: int  #: bytes of text
    first_ns: int
    last_ns: int
    first_sequence: int
    last_sequence: int
    spans: tuple[SourceSpan, ...]
    is_as_it_was: bool  #: the text is the bytes of the spans, nothing between them, left out or edited

    def is_within(self, wanted: Wanted) -> bool:
        """Whether some of it may have been stored in the time that is asked for."""
        before_end = wanted.until_ns is None or self.first_ns < wanted.until_ns
        return before_end and self.last_ns + _ROUNDED_NS >= wanted.since_ns


def find(archive: Path, state: Path | None, wanted: Wanted, borders: Mapping[int, int]) -> list[Part]:
    """The files to read, oldest first; `borders`: by partition, from when on (ns) its stream has everything.

    Raises:
        ConfigError: there is no archive, or it cannot be read.
    """
    try:
        identity = _identity(archive)
        parts = {part.path: part for part in _sealed(archive, wanted)}
        for part in _open(archive, state, identity, wanted):
            if not parts.keys() & {part.path, *part.others}:
                parts[part.path] = part
    except OSError as error:
        raise ConfigError(
            f"the archive {archive} cannot be read: {error.strerror}", hint="read it as the collector's user or group"
        ) from None
    needed = [each for each in parts.values() if each.raw and each.first_ns < borders.get(each.partition, 1 << 63)]
    return sorted(needed, key=lambda part: (part.first_ns, part.path))


def is_archive(directory: Path) -> bool:
    """Whether a collector writes there."""
    try:
        return layout.is_archive(os.listdir(directory))
    except OSError:
        return False


def is_empty(archive: Path) -> bool:
    """Whether no line was ever archived there: it has nothing but what a collector keeps for itself."""
    try:
        names = os.listdir(archive)
    except OSError:
        return False
    return not manifest_listing.days(archive) and all(name.startswith(("_", ".")) for name in names)


def shown(parts: Iterable[Part], borders: Mapping[int, int], plain_file: str) -> ArchivedSpans:
    """What of the streams' messages these files hold already."""
    sources: dict[SourceKey, ArchivedSource] = {}
    plain: dict[tuple[int, str], tuple[int, int]] = {}
    for part in parts:
        if part.last_ns + _ROUNDED_NS < borders.get(part.partition, 1 << 63):
            continue
        for span in part.spans:
            key = SourceKey(part.host, span.source)
            sources[key] = _extended(sources.get(key), part, span)
        if part.file == plain_file:
            where = (part.partition, part.host)
            last = (part.last_sequence, part.last_ns + _ROUNDED_NS)
            plain[where] = max(plain.get(where, last), last)
    return ArchivedSpans(sources, plain)


def _extended(known: ArchivedSource | None, part: Part, span: SourceSpan) -> ArchivedSource:
    start = min(span.start, known.origin) if known else span.start
    end = max(span.end, known.watermark) if known else span.end
    return ArchivedSource(id=span.source, host=part.host, file=part.file, origin=start, watermark=end, crc=None)


def _sealed(archive: Path, wanted: Wanted) -> Iterator[Part]:
    for date in sorted(filter(lambda day: _has_day(wanted, day), manifest_listing.days(archive))):
        segments: list[Segment] = []
        for path in manifests_of_day(archive, date):
            with path.open("rb") as lines:
                segments += [each for each in manifest.segments_in(lines) if _is_of(wanted, each.host, each.file)]
        for segment in manifest.standing(segments):
            part = _of_segment(segment)
            if part.is_within(wanted):
                yield part


def _open(archive: Path, state: Path | None, identity: str, wanted: Wanted) -> Iterator[Part]:
    own = archive / JOURNALS
    directory = state / "collector" / identity if state and identity else own
    if own.is_dir() and not directory.is_dir():
        directory = own
    if not directory.is_dir():
        return
    with JournalSnapshots(directory) as journals:
        for entry in journals.entries():
            part = _of_entry(entry)
            if _is_of(wanted, part.host, part.file) and part.is_within(wanted):
                yield part


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
        first_ns=_nanoseconds(segment.first_time),
        last_ns=_nanoseconds(segment.last_time),
        first_sequence=segment.first_seq,
        last_sequence=segment.last_seq,
        spans=segment.spans,
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
        is_as_it_was=not (entry.joins or entry.filtered or entry.edited),
    )


def _is_of(wanted: Wanted, host: str, file: str) -> bool:
    return wanted.hosts.takes(host) and wanted.has_file(file)


def _has_day(wanted: Wanted, date: str) -> bool:
    return date >= layout.day_of(wanted.since_ns) and (
        wanted.until_ns is None or date <= layout.day_of(wanted.until_ns)
    )


def _identity(archive: Path) -> str:
    """The identity of an archive; empty: it has none. Raises ConfigError: there is no archive."""
    if not is_archive(archive):
        raise ConfigError(
            f"there is no archive at {archive.absolute()}", hint="name the collector's directory: --archive DIR"
        )
    try:
        return str(json.loads((archive / IDENTITY).read_bytes())["id"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _nanoseconds(text: str) -> int:
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return 0
    since = when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * (NANOSECONDS // 1_000_000)
