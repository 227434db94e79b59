"""Lines of context as `grep -C` shows them, over the borders of frames, segments, open files and days."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keeping import DAY_NS, HOST, seal_all, write_open
from searching import fshipper, search

from consumer.archive.frame_index import FRAME_BYTES
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Globs, Wanted
from consumer.read.neighbours import Neighbours
from consumer.read.piece import Piece
from consumer.read.query import parse
from consumer.read.search_display import Groups, ShownHit
from consumer.web.search_process import Around, SearchRequest, command
from shipper.layout import NANOSECONDS, day_of

FILE = "/var/log/app.log"
HOUR_NS = 3600 * NANOSECONDS


def archived(place: Path, pieces: list[bytes], *, hours: int = 5, still_open: bool = False) -> Path:
    """One file in many segments, one in `hours` hours: several on most days."""
    start = 0
    for number, piece in enumerate(pieces):
        begin = DAY_NS + number * hours * HOUR_NS
        last = number == len(pieces) - 1
        write_open(
            place, FILE, [piece], start=start, sequence=7 + 10 * number, date=day_of(begin),
            stored_ns=(begin, begin + NANOSECONDS),
        )  # fmt: skip
        start += len(piece)
        if not (last and still_open):
            seal_all(place)
    archive = place / "archive"
    (archive / "_archive.json").write_text('{"id": "0000"}')
    state = place / "collector" / "0000"
    state.mkdir(parents=True)
    shutil.copy(place / "journal.sqlite", state / "here.p0.sqlite")
    return archive


def rows(archive: Path, query: str, **more: Any) -> list[str]:
    """What people are shown, without names and times."""
    wanted = Wanted(hosts=Globs(), since_ns=more.get("since_ns", 0), until_ns=more.get("until_ns"))
    parts = ArchiveReader(archive, archive.parent).find(wanted)
    neighbours = Neighbours.around(ArchiveReader(archive, archive.parent), wanted, parts)
    found = search(archive, parse(query), neighbours=neighbours, **more)
    return list(_shown(found))


def _shown(found: Any) -> Iterator[str]:
    groups = Groups()
    for hit in found.hits:
        one = ShownHit(Piece(hit.time_ns, "h", "f", "", None, hit.line), hit.before, hit.after, hit.place)
        one, is_apart = groups.next(one)
        if is_apart:
            yield "--"
        yield from (f"-{each.line.decode()}" for each in one.before)
        yield f":{one.piece.text.decode()}"
        yield from (f"-{each.line.decode()}" for each in one.after)


def grep(text: bytes, query: str, before: int, after: int) -> list[str]:
    command = ["grep", "-n", "-B", str(before), "-A", str(after), "-i", query]
    done = subprocess.run(command, input=text, capture_output=True, check=False).stdout.decode().splitlines()
    return [line if line == "--" else line.lstrip("0123456789") for line in done]


def drawn(draw: random.Random) -> list[bytes]:
    words = ["", "x", "crash", "a crash", "y", "z", "long " * 9]
    lines = [f"{draw.choices(words, (3, 9, 1, 1, 9, 9, 3))[0]}\n".encode() for _ in range(draw.randint(1, 60))]
    pieces, at = list[bytes](), 0
    while at < len(lines):
        size = draw.choice((1, 1, 2, 3, 10))
        pieces.append(b"".join(lines[at : at + size]))
        at += size
    return pieces


@pytest.mark.parametrize("seed", range(12))
def test_drawn_files_in_drawn_segments_have_the_context_of_grep(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    pieces = drawn(draw)
    archive = archived(tmp_path, pieces, hours=draw.choice((1, 5, 30)), still_open=draw.random() < 0.5)
    text = b"".join(pieces)
    for _ in range(4):
        before, after = draw.randint(0, 6), draw.randint(0, 6)
        if before or after:
            assert rows(archive, "crash", before=before, after=after) == grep(text, "crash", before, after)


@pytest.mark.parametrize("seed", range(12))
def test_a_selection_of_time_restricts_matches_and_not_context(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    pieces, hours = drawn(draw), draw.choice((1, 5, 30))
    archive = archived(tmp_path, pieces, hours=hours, still_open=draw.random() < 0.5)
    for _ in range(4):
        first = draw.randrange(len(pieces))
        last = draw.randrange(first, len(pieces))
        since_ns, until_ns = (DAY_NS + number * hours * HOUR_NS for number in (first, last + 1))
        before, after = draw.randint(1, 6), draw.randint(1, 6)
        hidden = [each.replace(b"crash", b"CRUSH") for each in pieces]
        text = b"".join(hidden[:first] + pieces[first : last + 1] + hidden[last + 1 :])
        wanted = [line.replace("CRUSH", "crash") for line in grep(text, "crash", before, after)]
        assert rows(archive, "crash", before=before, after=after, since_ns=since_ns, until_ns=until_ns) == wanted


def test_the_newest_first_no_line_is_shown_twice(tmp_path: Path) -> None:
    pieces = [b"one\ntwo\ncrash 1\n", b"three\ncrash 2\n", b"four\nfive\nsix\ncrash 3\nseven\n"]
    archive = archived(tmp_path, pieces)
    assert rows(archive, "crash", before=2, after=2, newest_first=True, limit=9) == [
        "-five", "-six", ":crash 3", "-seven", "--", "-three", ":crash 2", "-four", "--", "-one", "-two", ":crash 1",
    ]  # fmt: skip


def test_context_before_the_frames_of_the_requested_time_and_after_them_is_shown(tmp_path: Path) -> None:
    text = b"".join(b"%07d %s\n" % (number, b"x" * 20) for number in range(300_000))
    marks = [(29 * 100_000 * part, DAY_NS // NANOSECONDS + 3600 * part) for part in range(3)]
    write_open(tmp_path, FILE, [text], stored_ns=(DAY_NS, DAY_NS + 2 * HOUR_NS), seconds=marks)
    seal_all(tmp_path)
    archive = tmp_path / "archive"
    (archive / "_archive.json").write_text('{"id": "0000"}')
    assert len(text) > 8 * FRAME_BYTES
    since_ns, until_ns = DAY_NS + HOUR_NS, DAY_NS + 2 * HOUR_NS
    found = rows(archive, "/0100000|0199999/", before=2, after=2, since_ns=since_ns, until_ns=until_ns)
    numbers = [99_998, 99_999, 100_000, 100_001, 100_002, -1, 199_997, 199_998, 199_999, 200_000, 200_001]
    assert [int(row.split()[0].lstrip(":-")) if row != "--" else -1 for row in found] == numbers


def test_lines_around_a_line_in_browse_are_those_of_earlier_and_later_days(tmp_path: Path) -> None:
    second = DAY_NS // NANOSECONDS
    texts = {0: b"one\ntwo\n", 8: b"three\nfour\n", 19: b"five\n"}
    for number, (start, text) in enumerate(texts.items()):
        begin = second + number * 30 * 3600
        write_open(
            tmp_path, FILE, [text], sequence=7 + 10 * number, date=day_of(begin * NANOSECONDS), start=start,
            stored_ns=(begin * NANOSECONDS, begin * NANOSECONDS + 5), seconds=[(0, begin)],
        )  # fmt: skip
        seal_all(tmp_path)
    (tmp_path / "archive" / "_archive.json").write_text('{"id": "0000"}')
    around = Around(time="2026-11-21T06:00:00Z", offset=8, lines=2)
    made = command(SearchRequest(hosts=(HOST,), files=(FILE,), around=around))
    archive = ["--archive", str(tmp_path / "archive"), "--json"]
    output = fshipper(*archive, *made.arguments[1:]).stdout.splitlines()
    hits = [each for each in map(json.loads, output) if each["type"] == "hit" and each["offset"] == 8]
    assert [(each["before"], each["line"], each["after"]) for each in hits] == [
        (["one", "two"], "three", ["four", "five"])
    ]
