"""The manifests of an archive on disk: lines are appended for good, and found again. What is damaged is skipped."""

import fcntl
import json
import os
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from consumer.archive import manifests_of_day
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
