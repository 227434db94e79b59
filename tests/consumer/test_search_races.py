"""Searches while the archive changes: every line that was archived before is found once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from keeping import Past, seal_all, standing, tend, write_open
from searching import Place, expected, search, write_archive

from consumer.read.query import parse
from consumer.segments import rewrite_segment
from shipper import layout

HOSTS = [(f"web{number}.example.net", "/var/log/a.log") for number in range(3)]
FILES = {key: b"".join(b"line %03d of %s\n" % (number, key[0].encode()) for number in range(100)) for key in HOSTS}


def cut(text: bytes) -> list[bytes]:
    lines = text.splitlines(keepends=True)
    return [b"".join(lines[at : at + 20]) for at in range(0, len(lines), 20)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path, FILES, cut)


def during(archive: Path, change: Callable[[], None]) -> tuple[list[Place], list[str]]:
    """What a search finds whose first file was read before the change, with the others read after it."""
    calls = 0

    def idle() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            change()

    found = search(archive, parse("line"), jobs=1, idle=idle)
    return sorted(found.places), [each.error for each in found.search.unreadable]


def test_merged_segments_are_read_once(archive: Path, tmp_path: Path) -> None:
    places, errors = during(archive, lambda: tend(tmp_path, Past()))
    assert len(standing(tmp_path)) == 3
    assert errors == []
    assert places == expected(FILES, lambda _: True)


def test_redacted_segments_are_read_once_merged_or_not(archive: Path, tmp_path: Path) -> None:
    def change() -> None:
        for number in range(2):
            with rewrite_segment.alone(archive, [0]):
                for segment in standing(tmp_path):
                    text = rewrite_segment.text_of(archive, segment)
                    rewrite_segment.replace_segment_text(archive, segment, text.replace(b"of web1", b"XX XXXX"))
            if not number:
                tend(tmp_path, Past())

    places, errors = during(archive, change)
    assert errors == []
    assert len(places) == 300
    assert len({(place.host, place.offset) for place in places}) == 300


def test_a_day_that_retention_removes_is_left_out(archive: Path) -> None:
    def change() -> None:
        (archive / layout.REMOVED_PATH).write_text('{"date": "2026-11-20"}\n')
        shutil.rmtree(archive / "date=2026-11-20")

    places, errors = during(archive, change)
    assert errors == []
    assert len(places) <= 40


def test_an_open_file_that_is_sealed_is_read_up_to_where_it_was(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES, cut)
    state = tmp_path / "collector" / "0000"
    state.mkdir(parents=True, exist_ok=True)
    text = b"".join(b"line %d of an open file\n" % number for number in range(50))
    write_open(tmp_path, "/open.log", [text], sequence=5000, source="00000000000000c3")
    shutil.copy(tmp_path / "journal.sqlite", state / "here.p0.sqlite")
    places, errors = during(archive, lambda: seal_all(tmp_path))
    assert errors == []
    assert len([place for place in places if place.file == "/open.log"]) == 50
    assert len(places) == 350
