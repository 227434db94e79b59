"""The inventory of a day: the files that manifests and journals list, and files that none of them lists.

A path that two collectors list counts once; what disagrees is damage.
Files that no manifest or journal lists are ignored by every reader.
"""

import contextlib
import datetime as dt
import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from consumer.archive import manifests
from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.parts import Part, of_segment
from consumer.segments.sealer import unfinished_target
from shipper import layout, manifest, moments
from shipper.duplicates import order_of
from shipper.errors import UsageError
from shipper.manifest import Damage, Segment

STATE_HINT = "name the directory of the collector's journals: SHIPPER_STATE (--state)"
_UNLISTED_HINT = "if it was moved, move it back; else take it out of the archive: no report counts it"
_MEND = "restore the manifest from a copy; what it does not list is not counted by any report"
_UNFINISHED = "a segment that a kill left unlisted; the next start of the collector finishes it"


@dataclass(slots=True, kw_only=True)
class Listed:
    """The segments of one day that count, by path, and what is wrong with the manifests."""

    entries: dict[str, Part] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)  #: parts of merged segments: they count no more
    torn: list[Finding] = field(default_factory=list)  #: last lines that were cut off, as a kill leaves them
    findings: list[Finding] = field(default_factory=list)


def listed_on(archive: Path, date: str) -> Listed:
    """Everything in the manifests of `date`. Raises OSError."""
    directory = (archive / layout.manifest_path(date, "x")).parent
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    listed, segments = Listed(), dict[str, Segment]()
    for name in names:
        relative = f"{layout.MANIFEST_DIRECTORY}/date={date}/{name}"
        if name.endswith(".jsonl"):
            _read_one(archive, relative, date, segments, listed)
        elif name.endswith(".done") and f"{name.removesuffix('.done')}.jsonl" not in names:
            text = "the day is closed, but the manifest that it closes is not there"
            listed.findings.append(_damage(date, relative, text))
    for segment in segments.values():
        listed.replaced.update(segment.replaces)
    for path in listed.replaced & listed.entries.keys():
        del listed.entries[path]
    return listed


def _read_one(archive: Path, relative: str, date: str, segments: dict[str, Segment], listed: Listed) -> None:
    own: set[str] = set()
    for number, segment in manifest.read_lines(line.text for line in manifests.lines_of(archive / relative)):
        if isinstance(segment, Damage):
            finding = _damage(date, relative, f"line {number} cannot be read: {segment.reason}")
            (listed.torn if segment.is_torn else listed.findings).append(finding)
            continue
        try:
            _check_place(segment, date)
            entry = expected(segment)
        except ValueError as error:
            listed.findings.append(_damage(date, relative, f"line {number} cannot be read: {error}"))
            continue
        if segment.path in own:
            text = f"line {number} lists {segment.path} a second time"
            listed.findings.append(_damage(date, relative, text, entry))
        elif segment.path in segments and _essence(segments[segment.path]) != _essence(segment):
            other = segments[segment.path].collector
            text = f"line {number} has other values for {segment.path} than the manifest of {other}"
            listed.findings.append(_damage(date, relative, text, entry))
        own.add(segment.path)
        if segment.path not in segments:
            segments[segment.path], listed.entries[segment.path] = segment, entry


def _check_place(segment: Segment, date: str) -> None:
    """Raises ValueError: the line lists a file at a path that is not allowed, or of a codec that is unknown."""
    if segment.codec not in layout.CODEC_SUFFIXES:
        raise ValueError(f"the codec {segment.codec!r} is unknown")
    key = layout.FileKey(date, segment.partition, segment.host, segment.file)
    if not segment.path.startswith(f"{layout.directory(key)}/{layout.file_name(segment.file)}-"):
        raise ValueError(f"the path {segment.path!r} is not the place of {segment.file} of {segment.host}")


def expected(segment: Segment) -> Part:
    """The part that a manifest line describes, with its sums. Raises ValueError: they are no hex numbers."""
    part = of_segment(segment)
    part.crc = int(segment.crc32, 16)
    part.stored_crc = int(segment.crc32_stored, 16) if segment.crc32_stored else None
    part.order = order_of(segment)
    return part


def _essence(segment: Segment) -> Segment:
    """What two collectors that sealed the same file must agree on: another library may compress otherwise."""
    return replace(segment, collector="", sealed_at="", bytes_stored=0, crc32_stored="")


def _damage(date: str, path: str, text: str, entry: Part | None = None) -> Finding:
    host, file = (entry.key.host, entry.key.file) if entry else ("", "")
    return Finding(kind=Kind.BAD_MANIFEST, date=date, path=path, text=text, host=host, file=file, hint=_MEND)


def _unlisted_files(archive: Path, date: str, known: "_AccountedFiles") -> Iterator[Finding]:
    """What of `date` does not count."""
    for directory, partition, host in host_directories(archive, date):
        files = list[os.DirEntry[str]]()
        with contextlib.suppress(FileNotFoundError), os.scandir(archive / directory) as found:  # retention took the day
            files += found
        unfinished = {file.inode() for file in files if unfinished_target(file.name)}
        for file in files:
            unlisted, size = known.unlisted(f"{directory}/{file.name}", partition), 0
            with contextlib.suppress(FileNotFoundError):
                size = file.stat(follow_symlinks=False).st_size if unlisted else 0
            if unlisted and size:
                if file.inode() in unfinished:  # it has its name, is not listed, and has its temporary name still
                    unlisted = replace(unlisted, weight=Weight.NOTE, text=_UNFINISHED, hint="")
                yield replace(unlisted, host=host, date=date, octets=size)


def host_directories(archive: Path, date: str) -> Iterator[tuple[str, int, str]]:
    """The directory of each host on `date`, with its partition and host."""
    top = f"date={date}"
    for partition in _names(archive / top, "partition="):
        for host in _names(archive / top / f"partition={partition}", "host="):
            if partition.isdecimal():
                yield f"{top}/partition={partition}/host={host}", int(partition), layout.unescape(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccountedFiles:
    """Which files of a day are accounted for."""

    paths: set[str]
    listed: Mapping[str, Part]
    epochs: Mapping[int, int]  #: of the journal of each partition

    def unlisted(self, path: str, partition: int) -> Finding | None:
        """Why a file does not count. None means that it does, or that it is none that could."""
        directory, _, name = path.rpartition("/")
        if path in self.paths:
            return None
        if (epoch := layout.epoch_of(path)) is not None:
            return self._open_stranger(path, partition, epoch)
        if name.startswith(layout.SEALING_PREFIX):
            if f"{directory}/{name.removeprefix(layout.SEALING_PREFIX)}" in self.listed:
                return None
            return _unlisted(path, "no journal knows this file that waits to be sealed")
        return None if name[0] in {"_", "."} else _unlisted(path, "no manifest lists this segment")

    def _open_stranger(self, path: str, partition: int, epoch: int) -> Finding:
        newest = self.epochs.get(partition)
        if newest is None:
            text = "the journal of its partition is missing, so the committed length of this open file is unknown"
            return _unlisted(path, text, STATE_HINT)
        if epoch < newest:
            text = "left by a collector that had lost the partition: nothing in it counts"
            return replace(_unlisted(path, text, "it may be deleted"), weight=Weight.NOTE)
        return _unlisted(path, "no journal knows this open file, so nothing in it counts")


def _unlisted(path: str, text: str, hint: str = _UNLISTED_HINT) -> Finding:
    return Finding(kind=Kind.UNLISTED_FILE, path=path, text=text, hint=hint)


def _names(directory: Path, prefix: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def chosen_days(date: str, since: str, until: str) -> tuple[str, str]:
    """First and last day of the options --date, --since and --until. Empty means that there is no bound.

    Raises:
        UsageError: one of them is no day, they contradict each other, or the first day is after the last one.
    """
    if date and (since or until):
        raise UsageError("--date goes without --since and --until", hint="give one day, or a first and a last one")
    today = dt.datetime.now(dt.UTC).date()
    first, last = (str(moments.day(text, today)) if text else "" for text in (date or since, date or until))
    if last and first > last:
        raise UsageError(f"--since {first} is after --until {last}", hint="exchange them: --since is the first day")
    return first, last


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is audited."""

    archive: Path
    journals: Path
    since: str = ""  #: first day; empty: the first that there is
    until: str = ""  #: last day; empty: the last that there is
    host: str = "*"  #: a pattern as of a shell

    def has_day(self, date: str) -> bool:
        """Whether `date` is audited."""
        return self.since <= date and (not self.until or date <= self.until)

    def has_host(self, host: str) -> bool:
        """Whether `host` is audited."""
        return fnmatch.fnmatchcase(host, self.host)


@dataclass(slots=True, kw_only=True)
class DayInventory:
    """One day according to manifests and journals, and the findings before any file is read."""

    entries: dict[str, Part] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def take_inventory(scope: Scope, date: str, rows: Sequence[Part], epochs: Mapping[int, int]) -> DayInventory:
    """The inventory of `date`. `rows`: the files in journals. `epochs`: of each partition. Raises OSError."""
    listed = listed_on(scope.archive, date)
    waiting = {row.path: row for row in rows if row.becomes not in listed.entries}
    entries = {path: entry for path, entry in (listed.entries | waiting).items() if scope.has_host(entry.key.host)}
    paths = {*listed.entries, *listed.replaced}
    for row in rows:
        paths.update((row.path, row.also, row.becomes))
    known = _AccountedFiles(paths=paths, listed=listed.entries, epochs=epochs)
    unknown = [each for each in _unlisted_files(scope.archive, date, known) if scope.has_host(each.host)]
    return DayInventory(
        entries=entries, findings=[*listed.findings, *_torn(listed, rows), *_left(scope, entries), *unknown]
    )


def hosts(scope: Scope) -> set[str]:
    """The hosts of which the archive has a directory."""
    days = filter(scope.has_day, manifests.directory_days(scope.archive))
    found = {host for date in days for _, _, host in host_directories(scope.archive, date)}
    return set(filter(scope.has_host, found))


def _left(scope: Scope, entries: Mapping[str, Part]) -> Iterator[Finding]:
    """Segments that were redacted or repaired, and are still there as they were: a kill came in between."""
    for entry in entries.values():
        removed = {each.path for each in entry.removals}
        for path in entry.replaces if entry.redactions or removed else ():
            if (scope.archive / path).exists():
                done, command = ("redacted", "the same fshipper redact")
                if path in removed:
                    done, command = ("rid of doubled bytes", "fshipper audit --repair-duplicates --yes")
                text, hint = f"it was {done}, and is still there as it was before", f"run {command} again"
                yield replace(entry.finding(Kind.UNLISTED_FILE, text, hint=hint), path=path)


def _torn(listed: Listed, rows: Sequence[Part]) -> list[Finding]:
    """A kill tears a line only while its segment still waits in the journal. Any other tear is damage."""
    if not any(row.becomes and row.becomes not in listed.entries for row in rows):
        return listed.torn
    text = "its last line was cut off by a kill; the next start of the collector writes it again"
    return [replace(finding, weight=Weight.NOTE, text=text, hint="") for finding in listed.torn]
