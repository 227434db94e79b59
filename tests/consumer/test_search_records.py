"""Records: a line with a time, and the lines without one after it, over the borders of chunks, segments and days."""

import random
from pathlib import Path
from typing import Any

import pytest
from keeping import DAY_NS, seal_all, write_open
from searching import search
from test_search_context import FILE, HOUR_NS, archived

from consumer.archive.event_times import TimeOf
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Wanted
from consumer.read import records
from consumer.read.neighbours import Neighbours
from consumer.read.query import Unit, parse
from shipper.layout import NANOSECONDS

WORDS = ("crash", "at app.py", "retry", "slow", "x", "")


def found(archive: Path, query: str, **more: Any) -> list[Any]:
    wanted = Wanted(since_ns=more.get("since_ns", 0), until_ns=more.get("until_ns"))
    parts = ArchiveReader(archive, archive.parent).find(wanted)
    neighbours = Neighbours.around(ArchiveReader(archive, archive.parent), wanted, parts)
    return search(archive, parse(query), neighbours=neighbours, unit=Unit.RECORD, **more).hits


def drawn(draw: random.Random) -> list[list[str]]:
    """The lines of some records."""
    return [
        [
            f"2026-11-20 {number // 60:02}:{number % 60:02}:00 {draw.choice(WORDS)} {number}",
            *(f"    {draw.choice(WORDS)} {draw.choice(WORDS)}" for _ in range(draw.choice((0, 0, 0, 1, 3, 9)))),
        ]
        for number in range(draw.randint(1, 30))
    ]


QUERIES = {
    "crash": lambda lines: any("crash" in line for line in lines),
    "crash retry": lambda lines: any("crash" in line for line in lines) and any("retry" in line for line in lines),
    "crash NOT slow": lambda lines: (
        any("crash" in each for each in lines) and not any("slow" in each for each in lines)
    ),
    "NOT (crash OR retry)": lambda lines: not any("crash" in line or "retry" in line for line in lines),
    "/app.py x$/": lambda lines: any(line.endswith("app.py x") for line in lines),
}


@pytest.mark.parametrize("seed", range(15))
def test_drawn_records_in_drawn_segments_are_those_of_a_slow_reference(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    whole = drawn(draw)
    lines = [f"{line}\n".encode() for record in whole for line in record]
    pieces, at = list[bytes](), 0
    while at < len(lines):
        size = draw.choice((1, 2, 3, 10))
        pieces.append(b"".join(lines[at : at + size]))
        at += size
    archive = archived(tmp_path, pieces, hours=draw.choice((1, 5, 30)), still_open=draw.random() < 0.5)
    for query, matches in QUERIES.items():
        wanted = ["\n".join(record) for record in whole if matches(record)]
        assert [hit.line.decode() for hit in found(archive, query)] == wanted, query


def test_a_record_counts_once_by_the_time_of_its_first_line(tmp_path: Path) -> None:
    pieces = [b"2026-11-20 00:10:00 one\n  crash\n  crash\n", b"  crash\n2026-11-20 05:20:00 two\n", b"  crash\n"]
    archive = archived(tmp_path, pieces)
    hits = found(archive, "crash", by=TimeOf.EVENT)
    assert [(hit.time_ns - DAY_NS) // NANOSECONDS for hit in hits] == [600, 5 * 3600 + 1200]
    assert [hit.line.count(b"\n") for hit in hits] == [3, 1]
    late = found(archive, "crash", by=TimeOf.EVENT, since_ns=DAY_NS + HOUR_NS)
    assert [hit.line for hit in late] == [b"2026-11-20 05:20:00 two\n  crash"]
    early = found(archive, "crash", by=TimeOf.EVENT, until_ns=DAY_NS + HOUR_NS)
    assert [hit.line.count(b"\n") for hit in early] == [3]


def test_a_record_that_is_too_long_is_several(tmp_path: Path) -> None:
    count = 2 * records.MAX_RECORD_LINES + 500
    text = b"2026-11-20 00:10:00 one\n" + b"  more\n" * (count - 2) + b"  crash\n2026-11-20 00:11:00 two\n"
    archive = archived(tmp_path, [text])
    assert [hit.line.count(b"\n") + 1 for hit in found(archive, "crash")] == [500]
    assert [hit.line.count(b"\n") + 1 for hit in found(archive, "more")] == [1000, 1000, 500]


def test_a_file_without_times_has_records_of_one_line(tmp_path: Path) -> None:
    archive = archived(tmp_path, [b"one crash\n  two\n", b"  crash\n"])
    assert [hit.line for hit in found(archive, "crash")] == [b"one crash", b"  crash"]


def test_records_cross_chunks_and_frames(tmp_path: Path) -> None:
    draw, lines = random.Random(1), list[bytes]()
    for number in range(20_000):
        lines += [b"2026-11-20 %02d:%02d:%02d x\n" % (number // 3600, number // 60 % 60, number % 60)]
        lines += [b"    at %s\n" % (b"y" * draw.randint(1, 200)) for _ in range(draw.randint(0, 3))]
        lines += [b"    end %d.\n" % number]
    write_open(tmp_path, FILE, [b"".join(lines)], stored_ns=(DAY_NS, DAY_NS + 6 * HOUR_NS))
    seal_all(tmp_path)
    archive = tmp_path / "archive"
    (archive / "_archive.json").write_text('{"id": "0000"}')
    hits = found(archive, "end")
    assert len(hits) == 20_000
    assert b"\n".join(hit.line for hit in hits) + b"\n" == b"".join(lines)
