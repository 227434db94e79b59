"""The manifests of an archive on disk: lines are appended for good, and found again. What is damaged is skipped.

Of a line that was replaced to redact its text, the sums are erased; nothing else of a line ever changes.

Every reader of a day uses `lines_of_day`. A reader then takes whole segments (`listed_segments`, `current_segments`),
or only a few fields of each line, which costs a tenth of the time and memory (`counted`).
"""

import fcntl
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from consumer.archive.directory import manifests_of_day
from consumer.model import SourceKey
from shipper import layout, manifest
from shipper.durable_files import make_directory, replace_file, sync_directory
from shipper.manifest import Segment

TAIL_BYTES = 64 * 1024
_DAY = re.compile(r"date=(\d{4}-\d\d-\d\d)")
_Value = TypeVar("_Value")


class Line(NamedTuple):
    """A line of a manifest. The last line may have no newline: a kill cut it off while it was written."""

    manifest: Path
    offset: int
    text: bytes


def lines_of_day(archive: Path, date: str) -> Iterator[Line]:
    """The lines of all manifests of a day. A manifest that retention removes meanwhile has none."""
    for path in manifests_of_day(archive, date):
        yield from lines_of(path)


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file, none where there is no file."""
    try:
        with path.open("rb") as stream:
            offset = 0
            for text in stream:
                yield Line(path, offset, text)
                offset += len(text)
    except FileNotFoundError:
        return


def days(archive: Path) -> set[str]:
    """The days that have a manifest."""
    return _days_in(archive / layout.MANIFEST_DIRECTORY)


def directory_days(archive: Path) -> set[str]:
    """The days that have a directory of files."""
    return _days_in(archive)


def _days_in(directory: Path) -> set[str]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return set()
    return {found[1] for name in names if (found := _DAY.fullmatch(name))}


def signature(archive: Path, date: str) -> dict[str, tuple[int, int]]:
    """Size and time of change of each manifest of `date`: the same before and after means that nothing came."""
    directory = (archive / layout.manifest_path(date, "x")).parent
    try:
        with os.scandir(directory) as found:
            return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in found}
    except FileNotFoundError:
        return {}


def append(path: Path, line: bytes, *, once: str = "", since: int = 0) -> None:
    """Append `line` durably, unless the segment `once` is listed after the first `since` bytes.

    A torn last line, as a kill leaves it, is cut off first.
    """
    make_directory(path.parent)
    with path.open("a+b") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)  # other partitions, and other processes that were given the same name
        length = _whole_length(lines.fileno())
        if length == 0:  # before the first line, so that no kill leaves lines in a file whose name may be lost
            sync_directory(path.parent)
        lines.truncate(length)
        lines.seek(since)
        if once and any(lists(other, once) for other in lines):
            return
        lines.write(line)
        lines.flush()
        os.fsync(lines.fileno())


def is_listed(archive: Path, path: str) -> bool:
    """Whether any collector lists the segment `path`, merged into another or not."""
    return any(lists(line.text, path) for line in lines_of_day(archive, layout.date_of(path)))


def lists(line: bytes, path: str) -> bool:
    """Whether a manifest line is that of the segment `path`."""
    quoted = json.dumps(path).encode()  # as it stands in a line: quick, and nearly always the answer
    return quoted in line and _fields(line).get("path") == path


class DayTotals(NamedTuple):
    """What a day holds."""

    bytes_raw: int = 0
    bytes_stored: int = 0
    lines: int = 0
    segments: int = 0
    hosts: int = 0


def held_by_host(archive: Path, date: str) -> dict[str, DayTotals]:
    """What each host holds on a day, by the segments that count."""
    hosts: dict[str, str] = {}

    def held(fields: dict[str, Any]) -> tuple[str, int, int, int]:
        raw, stored, lines = (int(fields.get(name, 0)) for name in ("bytes_raw", "bytes_stored", "lines"))
        host = str(fields.get("host"))
        return hosts.setdefault(host, host), raw, stored, lines

    found: dict[str, DayTotals] = {}
    for host, raw, stored, lines in counted(archive, date, held):
        before = found.get(host, DayTotals())
        found[host] = DayTotals(
            before.bytes_raw + raw, before.bytes_stored + stored, before.lines + lines, before.segments + 1, 1
        )
    return found


def total(by_host: Mapping[str, DayTotals]) -> DayTotals:
    """What all hosts hold together."""
    return DayTotals(*map(sum, zip(*by_host.values(), strict=True)))


def without_hosts(path: Path, hosts: Container[str]) -> None:
    """Take the lines of hosts out of a closed day's manifest, in one step."""
    lines = [line.text for line in lines_of(path) if line.text.endswith(b"\n")]
    kept = [line for line in lines if _fields(line).get("host") not in hosts]
    if len(kept) < len(lines):
        replace_file(path, b"".join(kept))


def directories_of(archive: Path, date: str, hosts: Container[str]) -> set[str]:
    """Where the segments of hosts are, relative to the archive."""
    found = (_fields(line.text) for line in lines_of_day(archive, date))
    return {str(fields.get("path")).rpartition("/")[0] for fields in found if fields.get("host") in hosts}


def removed_hosts(archive: Path) -> dict[str, set[str]]:
    """By day: the hosts of which retention removed it, or is removing it."""
    found: dict[str, set[str]] = {}
    for line in lines_of(archive / layout.REMOVED_HOSTS_PATH):
        fields = _fields(line.text)
        if isinstance(fields.get("hosts"), dict):
            found.setdefault(str(fields.get("date")), set()).update(fields["hosts"])
    return found


def removed(archive: Path) -> list[dict[str, Any]]:
    """What retention noted of the days that it took away, or is taking away, in its order."""
    return [fields for line in lines_of(archive / layout.REMOVED_PATH) if (fields := _fields(line.text))]


def removed_days(archive: Path) -> set[str]:
    """The days that retention took away, or is taking away."""
    return {str(fields.get("date")) for fields in removed(archive)}


class RedactedSources:
    """The sources of which text was redacted, as their record grows."""

    def __init__(self, archive: Path) -> None:
        self._path = archive / layout.REDACTED_SOURCES_PATH
        self._read_bytes = 0
        self._known: set[SourceKey] = set()

    def new(self) -> set[SourceKey]:
        """Those that were recorded since the last call. Raises OSError."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return set()
        if size == self._read_bytes:
            return set()
        every = (_fields(line.text) for line in lines_of(self._path))
        found = {SourceKey(str(fields.get("host")), str(fields.get("source"))) for fields in every if fields}
        new, self._known, self._read_bytes = found - self._known, found, size
        return new

    def record(self, keys: Iterable[SourceKey]) -> None:
        """Record sources durably, each once. Raises OSError."""
        self.new()
        for key in sorted(set(keys) - self._known):
            append(self._path, json.dumps({"v": 1, "host": key.host, "source": key.id}).encode() + b"\n")


_SUM = re.compile(rb'"crc32(?:_stored)?"\s*:\s*"([0-9a-f]{8})"')
NO_SUM = b"0" * 8
"""In the line of a segment that was replaced to redact it."""


def erase_sums(archive: Path, date: str, host: str) -> int:
    """Erase the sums of redacted text in the lines of replaced segments, and return how many lines were changed.

    Short text can be guessed from its sum. Only the digits are overwritten, in place: no line moves, so that a
    collector may append meanwhile, and a kill leaves every line readable. No reader verifies what was replaced.
    """
    places: dict[str, list[Line]] = {}
    lines: list[dict[str, Any]] = []
    for line in lines_of_day(archive, date):
        fields = _fields(line.text)
        if fields.get("host") == host:
            lines.append(fields)
            places.setdefault(str(fields.get("path")), []).append(line)
    replaced = {str(fields.get("path")): fields.get("replaces", ()) for fields in lines}
    waiting = [str(part) for fields in lines if fields.get("redactions") for part in fields.get("replaces", ())]
    redacted = set[str]()
    while waiting:
        if (part := waiting.pop()) not in redacted:
            redacted.add(part)
            waiting += map(str, replaced.get(part, ()))
    found = [place for part in redacted for place in places.get(part, ())]
    return sum(map(_erase, found))


def _erase(line: Line) -> bool:
    sums = [found.start(1) for found in _SUM.finditer(line.text) if found[1] != NO_SUM]
    if not sums:
        return False
    with line.manifest.open("r+b") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        for start in sums:
            os.pwrite(lines.fileno(), NO_SUM, line.offset + start)
        os.fsync(lines.fileno())
    return True


class Listing:
    """Where the segments of a day are listed. Remembers some hundred bytes for each, whatever its line holds."""

    def __init__(self, archive: Path, date: str) -> None:
        self._places: dict[int, tuple[Path, int]] = {}  # manifest and offset, by the hash of the path
        self._replaced: dict[int, tuple[Path, int]] = {}
        for line in lines_of_day(archive, date):
            fields, place = _fields(line.text), (line.manifest, line.offset)
            if isinstance(fields.get("path"), str):
                self._places[hash(fields["path"])] = place
                self._replaced.update((hash(part), place) for part in fields.get("replaces", ()))

    def find(self, path: str) -> Segment | None:
        """The segment `path` according to its last line."""
        found = self._read(self._places.get(hash(path)))
        return found if found is not None and found.path == path else None

    def replacing(self, path: str) -> Segment | None:
        """The segment that `path` was merged into."""
        found = self._read(self._replaced.get(hash(path)))
        return found if found is not None and path in found.replaces else None

    def _read(self, place: tuple[Path, int] | None) -> Segment | None:
        if place is None:
            return None
        with place[0].open("rb") as lines:
            lines.seek(place[1])
            return next(manifest.segments_in([lines.readline()]), None)


def counted(archive: Path, date: str, take: Callable[[dict[str, Any]], _Value]) -> list[_Value]:
    """What `take` makes of the fields of each segment of a day that counts, in the order of the lines.

    A line is damaged and skipped where `take` raises KeyError, TypeError or ValueError: the audit reports it.
    """
    by_path: dict[int, _Value] = {}  # by the hashes of paths: a day may have a million of them
    replaced: set[int] = set()
    for line in lines_of_day(archive, date):
        fields = _fields(line.text)
        try:
            value, path = take(fields), hash(fields["path"])
            parts = [hash(part) for part in fields.get("replaces", ())]
        except (KeyError, TypeError, ValueError):
            continue
        by_path[path] = value
        replaced.update(parts)
    return [value for path, value in by_path.items() if path not in replaced]


def _fields(line: bytes) -> dict[str, Any]:
    """The fields of a line, none where it is damaged or has no newline."""
    try:
        fields = json.loads(line) if line.endswith(b"\n") else {}
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _whole_length(descriptor: int) -> int:
    """Bytes of a file up to and with its last newline. Reads the end only: a day may have a million lines."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - TAIL_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def current_segments(archive: Path, date: str) -> list[Segment]:
    """The segments of a day that count, in the order of their paths."""
    return sorted(manifest.standing(listed_segments(archive, date)), key=lambda segment: segment.path)


def listed_segments(archive: Path, date: str, about: str = "") -> Iterator[Segment]:
    """Every segment that a manifest of a day lists, those that were replaced, too.

    `about`: only lines in which this text occurs, such as a host or the beginning of a path.
    """
    wanted = json.dumps(about)[1:-1].encode()
    return manifest.segments_in(line.text for line in lines_of_day(archive, date) if wanted in line.text)
