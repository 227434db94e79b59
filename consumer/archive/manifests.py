"""The manifests of an archive on disk: lines are appended for good, and found again. What is damaged is skipped.

Of a line that was replaced to redact its text, the sums are erased; nothing else of a line ever changes.
"""

import fcntl
import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from consumer.archive.directory import manifests_of_day
from consumer.model import SourceKey
from shipper import layout, manifest
from shipper.durable_files import make_directory, replace_file, sync_directory
from shipper.manifest import Segment

TAIL_BYTES = 64 * 1024


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
        if once and any(_lists(other, once) for _, other in _lines_of(lines, since)):
            return
        lines.write(line)
        lines.flush()
        os.fsync(lines.fileno())


def is_listed(archive: Path, path: str) -> bool:
    """Whether any collector lists the segment `path`, merged into another or not."""
    date = layout.date_of(path)
    return any(lists(file, path) for file in manifests_of_day(archive, date))


def lists(file: Path, path: str) -> bool:
    """Whether the manifest `file` lists the segment `path`."""
    return any(_lists(line, path) for _, line in _lines(file))


class DayTotals(NamedTuple):
    """What a day holds."""

    bytes_raw: int = 0
    bytes_stored: int = 0
    lines: int = 0
    segments: int = 0
    hosts: int = 0


def held_by_host(archive: Path, date: str) -> dict[str, DayTotals]:
    """What each host holds on a day, by the segments that count."""
    by_path: dict[int, tuple[str, int, int, int]] = {}
    replaced: set[int] = set()
    hosts: dict[str, str] = {}
    for fields in fields_of_day(archive, date):
        raw, stored, lines = (int(fields.get(name, 0)) for name in ("bytes_raw", "bytes_stored", "lines"))
        host = str(fields.get("host"))
        by_path[hash(fields.get("path"))] = (hosts.setdefault(host, host), raw, stored, lines)
        replaced.update(map(hash, fields.get("replaces", ())))
    found: dict[str, DayTotals] = {}
    for path, (host, raw, stored, lines) in by_path.items():
        if path not in replaced:
            before = found.get(host, DayTotals())
            found[host] = DayTotals(
                before.bytes_raw + raw, before.bytes_stored + stored, before.lines + lines, before.segments + 1, 1
            )
    return found


def total(by_host: Mapping[str, DayTotals]) -> DayTotals:
    """What all hosts hold together."""
    return DayTotals(*map(sum, zip(*by_host.values(), strict=True))) if by_host else DayTotals()


def without_hosts(path: Path, hosts: Container[str]) -> None:
    """Take the lines of hosts out of a closed day's manifest, in one step."""
    lines = [line for _, line in _lines(path)]
    kept = [line for line in lines if _fields(line).get("host") not in hosts]
    if len(kept) < len(lines):
        replace_file(path, b"".join(kept))


def directories_of(archive: Path, date: str, hosts: Container[str]) -> set[str]:
    """Where the segments of hosts are, relative to the archive."""
    found = fields_of_day(archive, date)
    return {str(fields.get("path")).rpartition("/")[0] for fields in found if fields.get("host") in hosts}


def removed_hosts(archive: Path) -> dict[str, set[str]]:
    """By day: the hosts of which retention removed it, or is removing it."""
    found: dict[str, set[str]] = {}
    for _, line in _lines(archive / layout.REMOVED_HOSTS_PATH):
        fields = _fields(line)
        if isinstance(fields.get("hosts"), dict):
            found.setdefault(str(fields.get("date")), set()).update(fields["hosts"])
    return found


def removed(archive: Path) -> list[dict[str, Any]]:
    """What retention noted of the days that it took away, or is taking away, in its order."""
    return [fields for _, line in _lines(archive / layout.REMOVED_PATH) if (fields := _fields(line))]


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
        every = (_fields(line) for _, line in _lines(self._path))
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
    """Erase the sums of what was redacted, in the lines of segments that were replaced; the number of lines changed.

    Short text can be guessed from its sum. Only the digits are overwritten, in place: no line moves, so that a
    collector may append meanwhile, and a kill leaves every line readable. No reader verifies what was replaced.
    """
    places: dict[str, list[tuple[Path, int, bytes]]] = {}
    lines: list[dict[str, Any]] = []
    for path in manifests_of_day(archive, date):
        for offset, line in _lines(path):
            fields = _fields(line)
            if fields.get("host") == host:
                lines.append(fields)
                places.setdefault(str(fields.get("path")), []).append((path, offset, line))
    replaced = {str(fields.get("path")): fields.get("replaces", ()) for fields in lines}
    waiting = [str(part) for fields in lines if fields.get("redactions") for part in fields.get("replaces", ())]
    redacted = set[str]()
    while waiting:
        if (part := waiting.pop()) not in redacted:
            redacted.add(part)
            waiting += map(str, replaced.get(part, ()))
    found = [place for part in redacted for place in places.get(part, ())]
    return sum(_erase(*place) for place in found)


def _erase(path: Path, offset: int, line: bytes) -> bool:
    sums = [found.start(1) for found in _SUM.finditer(line) if found[1] != NO_SUM]
    if not sums:
        return False
    with path.open("r+b") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        for start in sums:
            os.pwrite(lines.fileno(), NO_SUM, offset + start)
        os.fsync(lines.fileno())
    return True


class Listing:
    """Where the segments of a day are listed. Remembers some hundred bytes for each, whatever its line holds."""

    def __init__(self, archive: Path, date: str) -> None:
        self._files = manifests_of_day(archive, date)
        self._places: dict[int, tuple[int, int]] = {}  # manifest and offset, by the hash of the path
        self._replaced: dict[int, tuple[int, int]] = {}
        for number, file in enumerate(self._files):
            for offset, line in _lines(file):
                fields, place = _fields(line), (number, offset)
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

    def _read(self, place: tuple[int, int] | None) -> Segment | None:
        if place is None:
            return None
        with self._files[place[0]].open("rb") as lines:
            lines.seek(place[1])
            return next(manifest.segments_in([lines.readline()]), None)


def fields_of_day(archive: Path, date: str) -> Iterator[dict[str, Any]]:
    """The fields of each line of a day, damaged ones skipped: a tenth of the time and memory of whole segments."""
    for file in manifests_of_day(archive, date):
        yield from filter(None, (_fields(line) for _, line in _lines(file)))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file with their offsets; none where there is no file."""
    try:
        with path.open("rb") as lines:
            yield from _lines_of(lines, 0)
    except FileNotFoundError:
        return


def _lines_of(lines: BinaryIO, offset: int) -> Iterator[tuple[int, bytes]]:
    lines.seek(offset)
    for line in lines:
        if line.endswith(b"\n"):
            yield offset, line
        offset += len(line)


def _lists(line: bytes, path: str) -> bool:
    quoted = json.dumps(path).encode()  # as it stands in a line: quick, and nearly always the answer
    return quoted in line and _fields(line).get("path") == path


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(line)
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

    `about`: only lines in which this path, or beginning of a path, occurs.
    """
    wanted = json.dumps(about)[1:-1].encode()
    for path in manifests_of_day(archive, date):
        with path.open("rb") as lines:
            yield from manifest.segments_in(line for line in lines if wanted in line)
