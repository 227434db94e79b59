"""What the manifests of a day list. A path that two collectors list counts once; what disagrees is damage."""

import io
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from consumer.archive.expected_file import ExpectedFile, of_segment
from consumer.archive.finding import Finding, Kind
from shipper import layout, manifest
from shipper.manifest import Damage, Segment

_DAY = re.compile(r"date=(\d{4}-\d\d-\d\d)")
_MEND = "restore the manifest from a copy; what it does not list is not counted by any report"


@dataclass(slots=True, kw_only=True)
class Listed:
    """The segments of one day that count, by path, and what is wrong with the manifests."""

    entries: dict[str, ExpectedFile] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)  #: parts of merged segments: they count no more
    torn: list[Finding] = field(default_factory=list)  #: last lines that were cut off, as a kill leaves them
    findings: list[Finding] = field(default_factory=list)


def days(archive: Path) -> set[str]:
    """The days that have a manifest."""
    return _days_in(archive / layout.MANIFEST_DIRECTORY)


def directory_days(archive: Path) -> set[str]:
    """The days that have a directory of files."""
    return _days_in(archive)


def read(archive: Path, date: str) -> Listed:
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


def signature(archive: Path, date: str) -> dict[str, tuple[int, int]]:
    """Size and time of change of each manifest of `date`: the same before and after means that nothing came."""
    directory = (archive / layout.manifest_path(date, "x")).parent
    try:
        with os.scandir(directory) as found:
            return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in found}
    except FileNotFoundError:
        return {}


def _read_one(archive: Path, relative: str, date: str, segments: dict[str, Segment], listed: Listed) -> None:
    own: set[str] = set()
    try:
        lines = io.BytesIO((archive / relative).read_bytes())
    except FileNotFoundError:  # retention removed the day meanwhile
        return
    for number, segment in manifest.read_lines(lines):
        if isinstance(segment, Damage):
            finding = _damage(date, relative, f"line {number} cannot be read: {segment.reason}")
            (listed.torn if segment.is_torn else listed.findings).append(finding)
            continue
        try:
            _check_place(segment, date)
            entry = of_segment(segment, date)
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


def _essence(segment: Segment) -> Segment:
    """What two collectors that sealed the same file must agree on: another library may compress otherwise."""
    return replace(segment, collector="", sealed_at="", bytes_stored=0, crc32_stored="")


def _damage(date: str, path: str, text: str, entry: ExpectedFile | None = None) -> Finding:
    host, file = (entry.key.host, entry.key.file) if entry else ("", "")
    return Finding(kind=Kind.BAD_MANIFEST, date=date, path=path, text=text, host=host, file=file, hint=_MEND)


def _days_in(directory: Path) -> set[str]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return set()
    return {found[1] for name in names if (found := _DAY.fullmatch(name))}
