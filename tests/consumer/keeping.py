"""An archive on disk as collectors leave it, without a server: open files, segments, days, and what is there then.

place = tmp_path                                  # place/archive, place/journal.sqlite
write_open(place, "/var/log/a.log", [b"one\\n"])   # committed, as a batch does
seal_all(place)                                   # as the next start of a collector does
state(place)                                      # every file with its bytes, manifests without their clock
"""

import contextlib
import datetime as dt
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from consumer.archive.journal import Journal
from consumer.archive.stored_times import StoredTimes
from consumer.commit.sink import Sink
from consumer.model import Changes, Extent, Loss, OpenFile, Position, SourceKey
from consumer.segments.compaction import Merger
from consumer.segments.day_close import DayCloser
from consumer.segments.retention import HOSTS, Retention
from consumer.segments.sealer import Recorded, Sealer
from shipper import layout, manifest
from shipper.compression import Compressor
from shipper.layout import NANOSECONDS, FileKey
from shipper.manifest import Segment
from shipper.model import Encoding, Span

TODAY = dt.date(2026, 11, 25)
DAY = "2026-11-20"
DAY_NS = 1_795_132_800 * NANOSECONDS
HOST = "web1.example.net"
SOURCE = "00000000000000a1"
CLOCKS = ("sealed_at", "closed_at", "removed_at")


def write_open(
    place: Path,
    file: str,
    blocks: Sequence[bytes],
    *,
    sequence: int = 7,
    host: str = HOST,
    date: str = DAY,
    start: int = 0,
    frames: str = "",
    source: str = SOURCE,
    behind: bytes = b"",
    stored_ns: tuple[int, int] = (DAY_NS, DAY_NS + 5),
    seconds: Sequence[tuple[int, int]] = (),
    zone: str = "",
) -> OpenFile:
    """An open file of one source and one gap, committed; `behind` is what a kill, or a fenced owner, wrote after it.

    `seconds`: its marks, offsets with seconds since 1970; none: begun by a version that did not keep them.
    """
    key = FileKey(date, 0, host, file)
    text = b"".join(blocks)
    stored = b"".join(map(Compressor(Encoding(frames)).encode, blocks)) if frames else text
    suffix = layout.CODEC_SUFFIXES[frames] if frames else ""
    opened = OpenFile(
        path=layout.open_path(key) + suffix,
        key=key,
        length=len(stored),
        raw=len(text),
        crc=zlib.crc32(text),
        lines=text.count(b"\n"),
        first_seq=sequence,
        last_seq=sequence + len(blocks),
        first_ns=stored_ns[0],
        last_ns=stored_ns[1],
        last_source=source,
        ends_open=not text.endswith(b"\n"),
        marks=StoredTimes([at for at, _ in seconds], [second for _, second in seconds], 0, 0).plain,
        marked_at=seconds[-1][0] if seconds else 0,
        marked_second=seconds[-1][1] if seconds else 0,
        zone=zone,
    )
    path = place / "archive" / opened.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stored + behind)
    with contextlib.closing(Journal(place / "journal.sqlite")) as journal:
        end = start + len(text)
        journal.commit(
            Changes(
                position=Position(applied=sequence + len(blocks), applied_ns=DAY_NS),
                files={opened.path: opened},
                extents=[Extent(opened.path, source, Span(start, end))],
                losses=[Loss(opened.path, SourceKey(host, source), Span(end, end + 3), "deleted")],
            )
        )
    return opened


def write_segments(
    place: Path, file: str, parts: Sequence[bytes], *, codec: str = "zstd", **more: Any
) -> list[Segment]:
    """One segment after the other, as `seal_all` makes them."""
    start = more.pop("start", 0)
    for number, part in enumerate(parts):
        write_open(place, file, [part], sequence=10 * number + 7, start=start, **more)
        seal_all(place, codec=codec)
        start += len(part)
    key = (more.get("host", HOST), file)
    return [segment for segment in standing(place) if (segment.host, segment.file) == key]


def seal_all(place: Path, *, codec: str = "zstd") -> None:
    """Seal what is open, and go on with what was begun."""
    sink = Sink(place / "archive", open_files=8, links=True)
    with contextlib.closing(Journal(place / "journal.sqlite")) as journal, contextlib.closing(sink):
        sealer = Sealer(place / "archive", collector="here", codec=codec)
        for file in list(journal.files.values()):
            if file.sealing:
                sealer.take_up(file, journal)
            sealing = file if file.sealing else sealer.begin(file, journal, sink)
            sealer.find(sealing, journal)
            sealer.finish(sealing, Recorded.of(journal, sealing.path))
            journal.forget(sealing)


class Past:
    """A partition whose collector is done with every day up to `date`."""

    def __init__(self, date: str = "9999-12-31", partition: int = 0) -> None:
        self.partition = partition
        self._date = date

    def is_past(self, date: str) -> bool:
        return date <= self._date


def tend(place: Path, *owned: Past, name: str = "here", go_on: Callable[[], bool] = lambda: True, **more: Any) -> None:
    """What a collector does now and then about its days."""
    sealer = Sealer(place / "archive", collector=name, codec="zstd")
    dead = more.pop("dead", ())
    settings = {"merge": 1 << 20, "segment": 1 << 27, "keep_days": 0, "keep_bytes": 0, "today": lambda: TODAY} | more
    day_closer(place / "archive", sealer, **settings).run(
        {each.partition: each.is_past for each in owned or (Past(),)}, go_on, dead
    )


def day_closer(
    archive: Path, sealer: Sealer, *, merge: int, segment: int, keep_days: int, keep_bytes: int, keep_by: str = HOSTS,
    **more: Any,
) -> DayCloser:  # fmt: skip
    """What closes the days of an archive."""
    merger = Merger(archive, sealer, below=merge, most=segment)
    retention = Retention(archive, keep_days=keep_days, keep_bytes=keep_bytes, keep_by=keep_by)
    return DayCloser(archive, sealer, merger, retention, **more)


def lines(place: Path) -> list[Segment]:
    """Every manifest line."""
    paths = sorted((place / "archive").glob("_manifest/date=*/*.jsonl"))
    return [manifest.from_line(line) for path in paths for line in path.read_bytes().splitlines()]


def standing(place: Path) -> list[Segment]:
    """The segments that count, by path."""
    return sorted(manifest.standing(lines(place)), key=lambda segment: segment.path)


def state(place: Path) -> dict[str, Any]:
    """Every file of the archive with its content; of JSON lines everything but the clock, in any order."""
    root = place / "archive"
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: _timeless(content) if name.startswith("_manifest/") else content for name, content in found.items()}


def _timeless(content: bytes) -> list[str]:
    read = [json.loads(line) for line in content.splitlines()]
    return sorted(json.dumps({name: line[name] for name in line if name not in CLOCKS}) for line in read)
