"""The inventory of a day: its manifests and its files on disk. Reads the directories of one day, never the root.

It also finds gaps in the manifests: in sequences of the streams and in offsets of the sources.
"""

import contextlib
import dataclasses
import datetime as dt
import functools
import hashlib
import io
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from shipper import layout, manifest, units
from shipper.duplicates import Doubled, Index, doubled
from shipper.errors import ConfigError, Unavailable
from shipper.manifest import Gap, Segment, SourceSpan
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location

TABLES_VERSION = 6
"""Increased when the same input gives other tables: then every day is reported again."""

MAX_TEXT_RATIO = 1000
"""Most bytes of text for one stored byte of a host: a real log that repeats itself reaches some hundred."""

FREE_TEXT_BYTES = 16 << 30
"""Text of a host and day that is read whatever its ratio is."""

_DAY_DIRECTORY = re.compile(r"date=(\d{4}-\d\d-\d\d)")
MAX_NUMBER = 1 << 53
"""Limit above any number in a valid manifest."""

MAX_PARTITION = (1 << 31) - 1
_PATH = re.compile(r"date=(?P<date>[^/]*)/.*-(?P<number>\d{20})(?:\.[a-z]+)?", re.DOTALL)
_SOURCE = re.compile(rb'"source": ?"([^"]*)"')
_SURROGATE = re.compile("[\ud800-\udfff]")


SegmentsOf = Callable[[str], Sequence[Segment]]
"""The segments that the manifests of a day list."""


class NothingSealed(Unavailable):
    """Nothing is sealed for the day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The valid manifest lines of a day, and the problems of the others."""

    segments: tuple[Segment, ...]  #: the last line of each path, without merged ones
    merged: frozenset[str]
    """Paths of segments that were replaced by others, which may be on disk for a moment, and of those that a repair
    of doubled bytes has left empty."""
    repeated: int  #: lines that a later line for the same path replaced
    torn: tuple[str, ...]  #: manifests whose last line a crash cut off
    damaged: tuple[str, ...]  #: `<manifest>:<line number>: <reason>` of lines that cannot be read
    open_collectors: tuple[str, ...]  #: collectors that have not closed the day
    names: tuple[str, ...]  #: manifest files that were read


@dataclass(frozen=True, kw_only=True)
class Day:
    """A day of the archive: what the manifests list, and what is on disk. Paths are relative to the archive."""

    date: str
    manifests: Manifests
    sizes: dict[str, int]  #: bytes on disk of every sealed file, listed or not
    open_files: int
    open_bytes: int
    damaged: frozenset[str] = frozenset()  #: paths of segments that could not be read to their end
    doubled: tuple[Doubled, ...] = ()  #: segments with bytes that an earlier one, of this day or before, also has
    removed_hosts: tuple[str, ...] = ()  #: hosts of which retention by size removed this day, sorted
    left_out_hosts: tuple[str, ...] = ()  #: hosts with more text than `MAX_TEXT_RATIO` allows: nothing of it is read

    @property
    def as_date(self) -> dt.date:
        """The day as a date."""
        return dt.date.fromisoformat(self.date)

    @functools.cached_property
    def present(self) -> tuple[Segment, ...]:
        """Listed segments that are on disk."""
        return tuple(segment for segment in self.manifests.segments if segment.path in self.sizes)

    @functools.cached_property
    def unreadable(self) -> frozenset[str]:
        """Paths of segments that are not read: damaged, or compressed and shorter than listed (Spark would fail)."""
        short = (
            segment.path
            for segment in self.present
            if segment.codec != "none" and self.sizes[segment.path] < segment.bytes_stored
        )
        return self.damaged.union(short)

    @functools.cached_property
    def readable(self) -> tuple[Segment, ...]:
        """Listed segments that are on disk and can be read."""
        return tuple(segment for segment in self.present if segment.path not in self.unreadable)

    @functools.cached_property
    def unregistered(self) -> tuple[str, ...]:
        """Sealed files that no manifest lists."""
        listed = {segment.path for segment in self.manifests.segments}
        return tuple(sorted(self.sizes.keys() - listed - self.manifests.merged))

    @functools.cached_property
    def arrivals(self) -> dict[tuple[int, str, str], dt.datetime]:
        """When JetStream stored the last block of each log file: by (partition, host, file)."""
        newest: dict[tuple[int, str, str], str] = {}
        for segment in self.manifests.segments:
            key = (segment.partition, escaped(segment.host), escaped(segment.file))
            newest[key] = max(newest.get(key, ""), segment.last_time)
        return {key: time for key, text in newest.items() if (time := time_of(text))}

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all input of the tables: manifests, sizes of the sealed files, collectors that closed the day."""
        listed = sorted(manifest.to_line(segment) for segment in self.manifests.segments)
        sizes = sorted(f"{path} {size}" for path, size in self.sizes.items())
        read = self.manifests
        others = (TABLES_VERSION, self.date, read.damaged, read.torn, read.open_collectors)
        digest = hashlib.sha256(b"".join(listed))
        digest.update(json.dumps([others, sizes]).encode())
        for each in self.doubled:  # without any the hash is that of older versions, so the day is not reported again
            digest.update(f"{each.segment.path} {each.spans}".encode())
        return digest.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether every collector has closed the day, so that it will not change any more."""
        return not self.manifests.open_collectors

    def bytes_there(self, segment: Segment) -> int:
        """Raw bytes of the segment as listed; of a plain file as on disk, because a crash may have truncated it."""
        return self.sizes.get(segment.path, segment.bytes_raw) if segment.codec == "none" else segment.bytes_raw


def time_of(text: str) -> dt.datetime | None:
    """An RFC 3339 time, to the second; None if it is not valid."""
    try:
        return dt.datetime.fromisoformat(text[:19]).replace(tzinfo=dt.UTC)
    except ValueError:
        return None


def hour_of(text: str) -> int | None:
    """The hour of an RFC 3339 time, in seconds since 1970; None if it is not valid, or not from 1970 to 2089."""
    time = time_of(text)
    hour = -1 if time is None else int(time.timestamp()) // 3600
    return hour * 3600 if hour in range(1 << 20) else None


def escaped(text: str) -> str:
    """`text` as valid UTF-8: other bytes of a file name become visible escapes."""
    return _SURROGATE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text)


def days(archive: Location) -> list[str]:
    """The days that have a manifest, oldest first."""
    manifests = archive / layout.MANIFEST_DIRECTORY
    found = (_DAY_DIRECTORY.fullmatch(name) for name in locations.names(manifests))
    return sorted(  # a collector that was killed before its first line leaves an empty directory
        day[1]
        for day in found
        if day and any(name.endswith((".jsonl", ".done")) for name in locations.names(manifests / day[0]))
    )


def check_archive(archive: Location) -> None:
    """Checks that `archive` is an archive: a report of another directory would find no problems.

    Raises:
        ConfigError: there is no directory, it is empty, or it is something else.
    """
    named = "name the collector's directory with --archive or SHIPPER_DIRECTORY"
    if not archive.is_dir():
        raise ConfigError(f"there is no archive at {archive}", hint=named)
    try:
        names = locations.names(archive)
    except PermissionError as error:
        raise _unreadable(error, archive) from None
    if not layout.is_archive(names):
        content = "is empty" if not names else f"has no {layout.IDENTITY} and no {layout.MANIFEST_DIRECTORY}"
        raise ConfigError(
            f"{archive} is no archive of a collector: the directory {content}",
            hint=f"{named}; a collector makes it an archive: `fshipper consume --drain --seal`",
        )


def _unreadable(error: PermissionError, archive: Location) -> ConfigError:
    return ConfigError(
        f"{error.filename or archive} cannot be read", hint="run the report as the collector's user or group"
    )


def read_day(archive: Location, date: str) -> Day:
    """The inventory of `date`, without reading a line of a log file.

    Raises:
        ConfigError: there is no archive at `archive`, or it cannot be read.
        NothingSealed: nothing was sealed on that day.
        Unavailable: retention removed it.
    """
    check_archive(archive)
    try:
        if removed := _removed(archive, date):
            raise removed
        manifests, left_out = _bounded(_read_manifests(archive, date))
        sizes, open_sizes = _on_disk(archive, date)
    except PermissionError as error:
        raise _unreadable(error, archive) from None
    return Day(
        date=date,
        manifests=manifests,
        sizes=sizes,
        open_files=len(open_sizes),
        open_bytes=sum(open_sizes),
        removed_hosts=_removed_hosts(archive, date),
        left_out_hosts=left_out,
    )


def _bounded(read: Manifests) -> tuple[Manifests, tuple[str, ...]]:
    """`read` without the segments of hosts that store too much text in few bytes, and the names of these hosts.

    A few kilobytes that a host sends can hold hundreds of megabytes of text, which every reader has to unpack.
    """
    text, stored = Counter[str](), Counter[str]()
    for segment in read.segments:
        if segment.bytes_stored:  # older versions did not note it
            text[segment.host] += segment.bytes_raw
            stored[segment.host] += segment.bytes_stored
    hosts = {host for host in text if text[host] > max(FREE_TEXT_BYTES, MAX_TEXT_RATIO * stored[host])}
    paths = frozenset(segment.path for segment in read.segments if segment.host in hosts)
    return without(read, paths), tuple(sorted(map(escaped, hosts)))


def without(read: Manifests, paths: Set[str]) -> Manifests:
    """`read` without the segments of `paths`, whose files are known all the same."""
    segments = tuple(segment for segment in read.segments if segment.path not in paths)
    return dataclasses.replace(read, segments=segments, merged=read.merged | paths)


def with_duplicates(archive: Location, day: Day) -> Day:
    """`day` with its doubled segments: an earlier segment, of this day or before, has the same bytes. Reads manifests.

    The later copy counts as doubled, so a day does not change because of a later one.
    """
    index = held_before([archive], day.date, day.manifests.segments)
    return dataclasses.replace(day, doubled=tuple(doubled(day.manifests.segments, before=index)))


def held_before(archives: Iterable[Location], date: str, segments: Iterable[Segment]) -> Index:
    """What `archives` hold of the sources of `segments` from days before `date`."""
    hosts = {(segment.host, span.source) for segment in segments for span in segment.spans}
    sources = {source.encode("ascii", "replace") for _, source in hosts}
    index = Index()
    for archive in archives:
        for day in days(archive):
            if day < date and not _removed(archive, day):
                for segment in _segments_with(archive, day, sources):
                    for span in segment.spans:
                        if (segment.host, span.source) in hosts:
                            index.add(segment.host, span.source, span.start, span.end)
    return index


def _segments_with(archive: Location, date: str, sources: Set[bytes]) -> list[Segment]:
    """The valid segments of a day that name one of `sources`; other lines are not parsed."""
    directory = (archive / layout.manifest_path(date, "x")).parent
    found = []
    for name in locations.names(directory):
        for line in (directory / name).read_bytes().split(b"\n") if name.endswith(".jsonl") else ():
            if not sources.isdisjoint(_SOURCE.findall(line)):
                with contextlib.suppress(ValueError):  # the report of that day lists damaged lines
                    found.append(_segment(line))
    return manifest.standing(found)


def segments_of(archive: Location, date: str) -> tuple[Segment, ...]:
    """The segments that the manifests of `date` list; none without manifests."""
    try:
        return _read_manifests(archive, date).segments
    except Unavailable:
        return ()


def _read_manifests(archive: Location, date: str) -> Manifests:
    directory = (archive / layout.manifest_path(date, "x")).parent
    names = locations.names(directory)
    listed = [name for name in names if name.endswith(".jsonl")]
    closed = {name.removesuffix(".done") for name in names if name.endswith(".done")}
    if not listed and not closed:
        raise _nothing_sealed(archive, date)
    read: list[Segment] = []
    torn, damaged = [], []
    for name in listed:
        for number, line in enumerate(io.BytesIO((directory / name).read_bytes()), start=1):
            try:
                if line.strip():
                    read.append(_segment(line))
            except ValueError as error:
                if line.endswith(b"\n"):
                    damaged.append(f"{escaped(name)}:{number}: {error}")
                else:
                    torn.append(escaped(name))
    return Manifests(
        segments=tuple(segment for segment in manifest.standing(read) if not segment.is_emptied),
        merged=frozenset(
            path for segment in read for path in (*segment.replaces, *([segment.path] if segment.is_emptied else ()))
        ),
        repeated=len(read) - len({segment.path for segment in read}),
        torn=tuple(torn),
        damaged=tuple(damaged),
        open_collectors=tuple(
            layout.unescape(escaped(name.removesuffix(".jsonl")))
            for name in listed
            if name.removesuffix(".jsonl") not in closed
        ),
        names=tuple(escaped(name) for name in listed),
    )


def _segment(line: bytes) -> Segment:
    """The segment of a manifest line, with numbers that sums of tables can represent.

    Raises:
        ValueError: the line is not valid.
    """
    segment = manifest.from_line(line)
    numbers = [segment.partition, segment.lines, segment.bytes_raw, segment.bytes_stored]
    numbers += [segment.first_seq, segment.last_seq, segment.duplicates, segment.joins]
    for part in _parts(segment):
        numbers += [part.start, part.end]
    if min(numbers) < 0 or max(numbers) >= MAX_NUMBER:
        raise ValueError("a field is of the wrong type")
    if not _is_in_place(segment):
        raise ValueError("its path is not that of its host, partition, file and codec")
    return segment


def _parts(segment: Segment) -> tuple[SourceSpan | Gap, ...]:
    return *segment.spans, *segment.gaps


def _is_in_place(segment: Segment) -> bool:
    """Whether the path is the one that the collector writes to: Spark takes host and codec from it."""
    named = _PATH.fullmatch(segment.path)
    if not named or segment.codec not in layout.CODEC_SUFFIXES or segment.partition > MAX_PARTITION:
        return False
    key = layout.FileKey(named["date"], segment.partition, segment.host, segment.file)
    return segment.path == layout.segment_path(key, int(named["number"]), segment.codec)


def _removed(archive: Location, date: str) -> Unavailable | None:
    """The error for a day that retention removed, and of which it may still remove the manifests; else None."""
    noted = _removals(archive / layout.REMOVED_PATH, date)
    if not noted or (archive / f"date={date}").exists():
        return None
    last = noted[-1]
    return Unavailable(
        f"{date} was removed from {archive} by {last.get('reason')} at {last.get('removed_at')}:"
        f" {_counted(last.get('lines'), 'line')} of {_counted(last.get('hosts'), 'host')}",
        hint="choose another --date; the collector's keep_days and keep_bytes define how long days are kept",
    )


def _removed_hosts(archive: Location, date: str) -> tuple[str, ...]:
    """The hosts of which retention by size removed `date`, or is removing it."""
    hosts = (noted.get("hosts") for noted in _removals(archive / layout.REMOVED_HOSTS_PATH, date))
    return tuple(sorted({escaped(host) for each in hosts if isinstance(each, dict) for host in each}))


def _removals(path: Location, date: str) -> list[dict[str, Any]]:
    """The records of `date` in a file of retention; after a kill a line may be incomplete: nothing was removed yet."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                noted = json.loads(line)
                if isinstance(noted, dict) and noted.get("date") == date:
                    found.append(noted)
    return found


def _counted(number: object, noun: str) -> str:
    """The number in a record, which may have been edited."""
    return units.counted(number, noun) if isinstance(number, int) else f"an unknown number of {noun}s"


def _nothing_sealed(archive: Location, date: str) -> NothingSealed:
    known = days(archive)
    some = ", ".join(known[-7:])
    listing = f"days with a manifest: {'… ' if len(known) > 7 else ''}{some}" if known else "no day has one yet"  # noqa: PLR2004
    return NothingSealed(
        f"nothing is sealed for {date} in {archive}; {listing}",
        hint="choose another --date, or seal what is open with `fshipper consume --drain --seal`",
    )


def _on_disk(archive: Location, date: str) -> tuple[dict[str, int], list[int]]:
    """Sizes of the day's sealed files by path, and of its open ones."""
    sealed: dict[str, int] = {}
    being_written: list[int] = []
    day = f"date={date}"
    for path, size in locations.sizes(archive / day):
        name = path.rpartition("/")[2]
        if name.startswith(layout.OPEN_PREFIX):
            being_written.append(size)
        elif name[0] not in {"_", "."}:
            sealed[f"{day}/{path}"] = size
    return sealed, being_written


Range = tuple[int, int]


def sequences_missing(segments: Iterable[Segment]) -> dict[int, tuple[int, int, int]]:
    """(first, last, missing) of each partition's stream; `missing` sequences are in no segment's range.

    Blocks of several hosts share a stream, so the ranges overlap. A sequence that no range covers was lost, or belongs
    to no segment: a duplicate, a dead letter, or a file that is still open.
    """
    ranges: dict[int, list[Range]] = defaultdict(list)
    for segment in segments:
        ranges[segment.partition].append((segment.first_seq, segment.last_seq + 1))
    return {
        partition: (min(listed)[0], max(end for _, end in listed) - 1, _uncovered(sorted(listed)))
        for partition, listed in ranges.items()
    }


def _uncovered(ranges: Sequence[Range]) -> int:
    missing, end = 0, ranges[0][0]
    for start, next_end in ranges:
        missing += max(0, start - end)
        end = max(end, next_end)
    return missing


def sequences_overlapping(segments: Iterable[Segment]) -> int:
    """Number of sequences that are in the ranges of two segments of one log file."""
    overlap, end = 0, -1
    for start, last in sorted((segment.first_seq, segment.last_seq) for segment in segments):
        overlap += max(0, min(end, last) - start + 1)
        end = max(end, last)
    return overlap


def offset_gaps(segments: Sequence[Segment], before: Iterable[Segment] = ()) -> dict[tuple[int, str, str], int]:
    """Bytes by (partition, host, file) between two spans of a source that are in no recorded gap.

    `before` are segments of the day before: their spans give the offset of each source at midnight.
    """
    owner: dict[str, tuple[int, str, str]] = {}
    spans: dict[str, list[Range]] = defaultdict(list)
    explained: dict[str, list[Range]] = defaultdict(list)
    at_midnight: dict[str, int] = {}
    for segment in segments:
        for span in segment.spans:
            owner[span.source] = (segment.partition, segment.host, segment.file)
            spans[span.source].append((span.start, span.end))
        for gap in segment.gaps:
            explained[gap.source].append((gap.start, gap.end))
    for segment in before:
        for part in _parts(segment):
            at_midnight[part.source] = max(at_midnight.get(part.source, 0), part.end)
    gaps: dict[tuple[int, str, str], int] = defaultdict(int)
    for source, listed in spans.items():
        begin = at_midnight.get(source, min(listed)[0])
        later = [gap for gap in explained[source] if gap[1] > begin]  # an earlier one borders no uncovered range
        if missing := _uncovered(sorted([(begin, begin), *listed, *later])):
            gaps[owner[source]] += missing
    return dict(gaps)


# -- waiting for the end of a day --------------------------------------------------------------------------------------

POLL_SECONDS = 5.0
"""Interval between two reads of the archive, in seconds."""


def until_closed(archive: Location, dates: Sequence[str], seconds: float, tell: Callable[[str], None]) -> None:
    """Waits as `until_days_closed` for the days of one archive."""
    until_days_closed(functools.partial(read_day, archive), dates, seconds, tell)


def until_days_closed(
    read: Callable[[str], Day], dates: Sequence[str], seconds: float, tell: Callable[[str], None]
) -> None:
    """Returns when every collector has closed `dates` and no file of these is open, at the latest after `seconds`.

    `read` gives the inventory of a day. `tell` is called with the collectors and files that are awaited when these
    change, and when the time is over.

    Raises:
        ConfigError: there is no archive, or it cannot be read.
        Unavailable: retention removed a day.
    """
    end = time.monotonic() + seconds
    for date in dates:
        said = ""
        while awaited := _awaited(read, date):
            left = end - time.monotonic()
            if left <= 0:
                tell(f"{date}: waited in vain for {awaited}; it is reported as it is")
                break
            if awaited != said:
                tell(f"{date}: waiting for {awaited}, at most {left:.0f} s more")
                said = awaited
            time.sleep(min(POLL_SECONDS, left))


def _awaited(read: Callable[[str], Day], date: str) -> str:
    """What is missing before the day is closed, in words; empty if it is closed."""
    try:
        day = read(date)
    except NothingSealed:
        return "its first segment"
    if day.manifests.open_collectors:
        return " and ".join(day.manifests.open_collectors)
    return f"files that are still open ({day.open_files})" if day.open_files else ""
