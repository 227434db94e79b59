"""A day that is over: small segments of a log file become one, with the same bytes, and every reader counts once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from harness.fleet import Fleet, unpack
from keeping import DAY, HOST, Past, lines, seal_all, standing, state, tend, write_open, write_segments

from consumer.archive.journal import Journal
from consumer.segments.sealer import Sealer
from shipper import manifest

PARTS = [b"%d a line of a log\n" % number * (number + 1) for number in range(5)]
TEXT = b"".join(PARTS)
FILE = "/var/log/app.log"


def text(place: Path, file: str = FILE) -> bytes:
    """What the segments of a file hold that count, as every reader gets it."""
    return Fleet(place, "").archived(HOST, file)


def on_disk(place: Path) -> set[str]:
    return {name for name in state(place) if name.startswith("date=")}


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_the_segments_of_a_day_become_one_with_the_same_bytes(tmp_path, codec):
    parts = write_segments(tmp_path, FILE, PARTS, codec=codec)
    tend(tmp_path)
    (whole,) = standing(tmp_path)
    assert on_disk(tmp_path) == {whole.path}
    assert unpack(tmp_path / "archive" / whole.path) == TEXT
    assert whole.replaces == tuple(part.path for part in parts)
    assert (whole.bytes_raw, whole.lines) == (len(TEXT), TEXT.count(b"\n"))
    assert whole.bytes_stored == sum(part.bytes_stored for part in parts)
    assert (whole.first_seq, whole.last_seq) == (parts[0].first_seq, parts[-1].last_seq)
    assert [(span.start, span.end) for span in whole.spans] == [(0, len(TEXT))]
    assert whole.gaps == tuple(gap for part in parts for gap in part.gaps)
    assert (tmp_path / "archive" / f"_manifest/date={DAY}/here.done").exists()


def test_a_merged_day_is_closed_and_does_not_change_again(tmp_path):
    write_segments(tmp_path, FILE, PARTS)
    tend(tmp_path)
    before = state(tmp_path)
    tend(tmp_path)
    assert state(tmp_path) == before


def test_nothing_is_merged_before_every_partition_has_passed_the_day(tmp_path):
    write_segments(tmp_path, FILE, PARTS)
    before = state(tmp_path)
    tend(tmp_path, Past(), Past("2026-11-19", 1))
    assert state(tmp_path) == before


def test_a_partition_is_merged_by_its_owner_only(tmp_path):
    write_segments(tmp_path, FILE, PARTS)
    tend(tmp_path, Past(partition=1))
    assert len(standing(tmp_path)) == len(PARTS)


def test_segments_of_two_collectors_are_merged_by_the_owner_of_the_partition(tmp_path):
    write_segments(tmp_path, FILE, PARTS[:3])
    listed = tmp_path / "archive" / f"_manifest/date={DAY}/here.jsonl"
    listed.rename(listed.with_name("gone.jsonl"))
    write_segments(tmp_path, FILE, PARTS[3:], start=len(b"".join(PARTS[:3])))
    tend(tmp_path, dead=["gone"])
    (whole,) = standing(tmp_path)
    assert (whole.collector, len(whole.replaces)) == ("here", len(PARTS))
    assert text(tmp_path) == TEXT
    assert listed.with_name("gone.done").exists()


def test_merging_can_be_switched_off(tmp_path):
    parts = write_segments(tmp_path, FILE, PARTS)
    tend(tmp_path, merge=0)
    assert standing(tmp_path) == parts


def test_segments_of_other_codecs_stay_apart(tmp_path):
    write_segments(tmp_path, FILE, PARTS[:2])
    for number, part in enumerate(PARTS[2:]):
        write_open(tmp_path, FILE, [part], sequence=100 + number)
        seal_all(tmp_path, codec="gzip")
    tend(tmp_path)
    assert [segment.codec for segment in standing(tmp_path)] == ["zstd", "gzip"]
    assert text(tmp_path) == TEXT


@pytest.mark.parametrize("harm", ["flip", "cut", "longer", "gone"])
def test_a_part_that_is_not_as_listed_is_left_alone_and_reported(tmp_path, harm, monkeypatch):
    parts = write_segments(tmp_path, FILE, PARTS)
    told = []
    monkeypatch.setattr("shipper.events.segment_damaged", lambda **what: told.append(what["path"]))
    victim = tmp_path / "archive" / parts[2].path
    stored = bytearray(victim.read_bytes())
    stored[len(stored) // 2] ^= 1
    harmed = {"flip": bytes(stored), "cut": stored[:-3], "longer": victim.read_bytes() + b"x", "gone": None}[harm]
    victim.unlink() if harmed is None else victim.write_bytes(harmed)
    tend(tmp_path)
    merged = [len(segment.replaces) for segment in standing(tmp_path)]
    assert merged == [2, 0, 2] or (harm == "gone" and sorted(merged) == [0, 4])
    assert told == ([parts[2].path] if harmed is not None else [])
    assert not victim.exists() if harmed is None else victim.read_bytes() == harmed


def test_an_unfinished_line_is_not_glued_to_another_sources(tmp_path):
    write_open(tmp_path, FILE, [b"one\ntw"], sequence=7)
    seal_all(tmp_path)
    write_open(tmp_path, FILE, [b"o\nthr"], sequence=17, start=6)
    seal_all(tmp_path)
    write_open(tmp_path, FILE, [b"other\n"], sequence=27, source="00000000000000b2")
    seal_all(tmp_path)
    tend(tmp_path)
    texts = [unpack(tmp_path / "archive" / segment.path) for segment in standing(tmp_path)]
    assert texts == [b"one\ntwo\nthr", b"other\n"]


def test_a_later_segment_gets_a_number_after_the_merged_one(tmp_path):
    """A stream that counts anew must not lead to a name that was merged away: readers count that no more."""
    write_segments(tmp_path, FILE, PARTS)
    tend(tmp_path)
    write_segments(tmp_path, FILE, [b"late\n"], start=len(TEXT))
    assert text(tmp_path) == TEXT + b"late\n"
    paths = [line.path for line in lines(tmp_path)]
    assert len(set(paths)) == len(paths)


def test_numbers_without_room_after_them_are_left_as_they_are(tmp_path):
    for number, part in enumerate([*PARTS, b"large\n" * 1000]):
        write_open(tmp_path, FILE, [part], sequence=7 + number)
        seal_all(tmp_path)
    before = standing(tmp_path)
    tend(tmp_path, merge=1000)
    assert standing(tmp_path) == before


def test_a_file_that_no_manifest_lists_stops_merging_of_its_log_file_only(tmp_path):
    parts = write_segments(tmp_path, FILE, PARTS)
    write_segments(tmp_path, "/other.log", PARTS)
    stranger = tmp_path / "archive" / parts[-1].path.replace(f"{47:020d}", f"{48:020d}")
    shutil.copy(tmp_path / "archive" / parts[0].path, stranger)
    tend(tmp_path)
    assert text(tmp_path) == TEXT == text(tmp_path, "/other.log")
    assert [len(segment.replaces) for segment in standing(tmp_path)] == [5, 0, 0, 0, 0, 0]
    assert stranger.exists()


def test_a_part_that_a_fenced_collector_made_and_listed_again_counts_no_more(tmp_path):
    parts = write_segments(tmp_path, FILE, PARTS)
    content = (tmp_path / "archive" / parts[1].path).read_bytes()
    tend(tmp_path)
    sleeper = tmp_path / "archive" / f"_manifest/date={DAY}/sleeper.jsonl"
    sleeper.write_bytes(manifest.to_line(replace(parts[1], collector="sleeper")))
    (tmp_path / "archive" / parts[1].path).write_bytes(content)
    assert text(tmp_path) == TEXT
    tend(tmp_path, name="sleeper")
    assert text(tmp_path) == TEXT
    assert not (tmp_path / "archive" / parts[1].path).exists()


def test_it_ends_between_two_steps_when_a_stop_is_requested(tmp_path):
    for number in range(4):
        write_segments(tmp_path, f"/{number}.log", PARTS[:2])
    for asked in range(1, 40):
        answers = iter([True] * asked)
        tend(tmp_path, go_on=lambda answers=answers: next(answers, False))
        if (tmp_path / "archive" / f"_manifest/date={DAY}/here.done").exists():
            break
        assert all(text(tmp_path, f"/{number}.log") == b"".join(PARTS[:2]) for number in range(4))
    assert asked > 3
    assert len(standing(tmp_path)) == 4


def test_kills_at_every_step_leave_what_the_next_start_finishes(lives, places):
    write_segments(places.first, FILE, PARTS)
    write_segments(places.first, "/b.log", PARTS[:3], codec="gzip")
    expected = places.copy()
    tend(expected)
    assert len(standing(expected)) == 2
    for place in lives.every_step(tend, places.copy):
        assert (text(place), text(place, "/b.log")) == (TEXT, b"".join(PARTS[:3]))
        tend(place)
        assert state(place) == state(expected)
        shutil.rmtree(place)


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_in_every_life_ends_with_the_same_segment(lives, places, seed):
    write_segments(places.first, FILE, PARTS)
    expected = places.copy()
    tend(expected)
    place = places.copy()
    lives.many(tend, place, seed=seed, most=12)
    assert state(place) == state(expected)


def test_a_kill_is_made_good_also_with_other_settings(lives, places):
    write_segments(places.first, FILE, PARTS)
    for place in lives.every_step(tend, places.copy):
        tend(place, merge=0)
        assert text(place) == TEXT
        assert on_disk(place) == {segment.path for segment in standing(place)}
        shutil.rmtree(place)


def test_journal_and_sealer_know_nothing_of_it(tmp_path):
    """A merged segment is found by the same rules as any other: its name parses, and sorts after its parts."""
    parts = write_segments(tmp_path, FILE, PARTS)
    tend(tmp_path)
    (whole,) = standing(tmp_path)
    assert whole.path > max(part.path for part in parts)
    opened = write_open(tmp_path, FILE, [b"more\n"], sequence=3)
    journal = Journal(tmp_path / "journal.sqlite")
    name = Sealer(tmp_path / "archive", collector="here", codec="zstd")._free_name(opened, journal)
    journal.close()
    assert name > whole.path
