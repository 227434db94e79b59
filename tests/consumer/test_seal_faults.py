"""What is not as it was committed when a file is sealed: it is reported and listed, and what is there is kept."""

import contextlib
import gzip
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from harness.fleet import unpack
from keeping import DAY, HOST, SOURCE, lines, seal_all, standing, state, write_open, write_segments

from consumer.archive import segment_io
from consumer.archive.journal import Journal
from consumer.commit.sink import Sink
from consumer.model import OpenFile
from consumer.segments.sealer import NewSegmentFile, Recorded, Sealer
from shipper import events

BLOCKS = [b"%d a line of a log\n" % number for number in range(300)]
TEXT = b"".join(BLOCKS)
FILE = "/var/log/app.log"


@pytest.fixture
def damages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    told: list[int] = []
    monkeypatch.setattr("shipper.events.archive_damaged", lambda **what: told.append(what["missing"]))
    return told


def begun(place: Path, *, codec: str = "zstd") -> tuple[Sealer, OpenFile, Callable[[], None]]:
    """A file that was renamed for sealing; the last one finishes it."""
    opened = write_open(place, FILE, BLOCKS)
    journal = Journal(place / "journal.sqlite")
    sink = Sink(place / "archive", open_files=8, links=True)
    sealer = Sealer(place / "archive", collector="here", codec=codec)
    sealing = sealer.begin(opened, journal, sink)
    recorded = Recorded.of(journal, sealing.path)
    journal.close()
    sink.close()
    return sealer, sealing, lambda: sealer.finish(sealing, recorded)


def changed(place: Path) -> list[tuple[int, int]]:
    """The gaps of no source in what is listed."""
    (segment,) = standing(place)
    assert segment.gaps[0].source == SOURCE
    return [(gap.start, gap.end) for gap in segment.gaps if (gap.source, gap.reason) == ("", "archive_changed")]


def test_a_good_file_has_no_such_gap(tmp_path, damages):
    write_segments(tmp_path, FILE, [TEXT])
    assert changed(tmp_path) == []
    assert damages == []


def test_bytes_after_what_is_committed_do_not_count(tmp_path, damages):
    """A collector that was fenced may go on writing into the file that it has open."""
    _, sealing, finish = begun(tmp_path)
    with (tmp_path / "archive" / sealing.path).open("ab", buffering=0) as sleeper:
        sleeper.write(b"never committed\n")
        finish()
        sleeper.write(b"never committed\n")
    (segment,) = standing(tmp_path)
    assert unpack(tmp_path / "archive" / segment.path) == TEXT
    assert (changed(tmp_path), damages) == ([], [])


def test_a_flipped_byte_is_reported_and_everything_is_kept(tmp_path, damages):
    _, sealing, finish = begun(tmp_path)
    raw = tmp_path / "archive" / sealing.path
    flipped = bytearray(TEXT)
    flipped[1000] ^= 1
    raw.write_bytes(flipped)
    finish()
    assert changed(tmp_path) == [(0, len(TEXT))]
    assert damages == [len(TEXT)]
    assert unpack(tmp_path / "archive" / standing(tmp_path)[0].path) == flipped


def test_missing_bytes_are_a_gap_after_those_that_are_there(tmp_path, damages):
    _, sealing, finish = begun(tmp_path)
    (tmp_path / "archive" / sealing.path).write_bytes(TEXT[:1000])
    finish()
    assert changed(tmp_path) == [(1000, len(TEXT))]
    assert damages == [len(TEXT) - 1000]
    assert unpack(tmp_path / "archive" / standing(tmp_path)[0].path) == TEXT[:1000]


def test_a_file_that_was_taken_away_is_an_empty_segment_with_a_gap(tmp_path, damages):
    _, sealing, finish = begun(tmp_path)
    (tmp_path / "archive" / sealing.path).unlink()
    finish()
    assert changed(tmp_path) == [(0, len(TEXT))]
    assert damages == [len(TEXT)]
    finish()
    assert len(lines(tmp_path)) == 1


def test_a_day_that_was_taken_away_comes_back_as_gaps(tmp_path, damages):
    _, _, finish = begun(tmp_path)
    (tmp_path / "archive" / f"date={DAY}").rename(tmp_path / "taken")
    finish()
    assert changed(tmp_path) == [(0, len(TEXT))]
    assert len(damages) == 1


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_the_manifest_has_the_sum_of_the_stored_bytes(tmp_path, codec):
    write_segments(tmp_path, FILE, [TEXT], codec=codec)
    (segment,) = standing(tmp_path)
    text, stored = segment_io.count_content(tmp_path / "archive" / segment.path, codec)
    assert (segment.bytes_stored, segment.crc32_stored) == (stored.octets, f"{stored.crc:08x}")
    assert (segment.crc32, text.octets) == (f"{text.crc:08x}", len(TEXT))


def test_a_codec_that_was_chosen_after_a_kill_is_for_the_next_segment(tmp_path):
    """The name in the journal contains its codec."""
    begun(tmp_path, codec="gzip")
    seal_all(tmp_path, codec="zstd")
    (segment,) = standing(tmp_path)
    assert segment.codec == "gzip"
    assert gzip.decompress((tmp_path / "archive" / segment.path).read_bytes()) == TEXT


@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("owner", "name"), [(NewSegmentFile, "publish"), (Sealer, "record"), (Path, "unlink"), (events, "segment_sealed")]
)
def test_a_collector_that_sleeps_while_another_finishes_changes_nothing(
    owner, name, after, tmp_path, monkeypatch, damages
):
    _, sealing, finish = begun(tmp_path)
    other = Sealer(tmp_path / "archive", collector="other", codec="zstd")
    asleep, wake = threading.Event(), threading.Event()
    original = getattr(owner, name)

    def slept(*arguments: Any, **named: Any) -> Any:
        done = original(*arguments, **named) if after else None
        if threading.current_thread() is sleeper:
            asleep.set()
            assert wake.wait(20)
        return done if after else original(*arguments, **named)

    sleeper = threading.Thread(target=ignoring(finish))
    monkeypatch.setattr(owner, name, slept)
    sleeper.start()
    assert asleep.wait(20)
    other.finish(sealing, Recorded((), (), b"", {}))
    wake.set()
    sleeper.join()
    finish()
    assert {line.path for line in lines(tmp_path)} == {sealing.sealing}
    assert unpack(tmp_path / "archive" / sealing.sealing) == TEXT
    assert [name for name in state(tmp_path) if f"host={HOST}/" in name] == [sealing.sealing]
    assert damages == []


def test_a_segment_that_another_collector_lists_is_not_listed_again(tmp_path):
    _, sealing, finish = begun(tmp_path)
    Sealer(tmp_path / "archive", collector="other", codec="zstd").finish(sealing, Recorded((), (), b"", {}))
    (tmp_path / "archive" / sealing.path).write_bytes(TEXT)  # the sleeper has it open still
    finish()
    assert [line.collector for line in lines(tmp_path)] == ["other"]


def ignoring(finish: Callable[[], None]) -> Callable[[], None]:
    """Trouble with the archive makes a collector try again."""

    def run() -> None:
        try:
            finish()
        except OSError:
            finish()

    return run


def test_raw_bytes_under_the_name_that_a_fenced_collector_gave_them_are_found(tmp_path):
    write_open(tmp_path, FILE, BLOCKS)
    opened = next((tmp_path / "archive").rglob("_open-*"))
    opened.rename(opened.with_name(f"_sealing-var~log~app.log-{99:020d}.gz"))
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    assert unpack(tmp_path / "archive" / segment.path) == TEXT
    assert changed(tmp_path) == []


def test_a_fenced_collector_that_wakes_after_its_journal_commit_leaves_the_file_that_the_next_owner_seals(tmp_path):
    file = write_open(tmp_path, FILE, BLOCKS)
    opened = tmp_path / "archive" / file.path
    taken = opened.with_name(f"_sealing-var~log~app.log-{99:020d}.zst")
    opened.rename(taken)
    sink = Sink(tmp_path / "archive", open_files=8, links=True)
    with contextlib.closing(Journal(tmp_path / "journal.sqlite")) as journal, contextlib.closing(sink):
        Sealer(tmp_path / "archive", collector="fenced", codec="zstd").begin(file, journal, sink)
    assert [path.name for path in opened.parent.glob("_*")] == [taken.name]


def test_of_several_raw_files_of_one_log_the_one_that_was_committed_is_found(tmp_path):
    write_open(tmp_path, FILE, BLOCKS)
    opened = next((tmp_path / "archive").rglob("_open-*"))
    others = [opened.with_name(f"_sealing-var~log~app.log-{number:020d}.zst") for number in (1, 50, 100)]
    for other in others:
        other.write_bytes(b"of another file of the same log\n" * 1000)
    opened.rename(opened.with_name(f"_sealing-var~log~app.log-{99:020d}.gz"))
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    assert unpack(tmp_path / "archive" / segment.path) == TEXT
    assert sorted(opened.parent.glob("_*")) == others


def test_what_is_listed_is_not_made_again_of_the_raw_bytes_of_another_file(tmp_path):
    _, sealing, finish = begun(tmp_path)
    finish()
    other = tmp_path / "archive" / sealing.path.replace(f"{7:020d}", f"{8:020d}")
    other.write_bytes(TEXT)  # the same, too: it may be what a sleeper left
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    assert unpack(tmp_path / "archive" / segment.path) == TEXT
    assert [path.name for path in other.parent.glob("_*")] == [other.name]


def test_after_a_journal_lost_its_last_commits_a_sealed_file_does_not_take_the_next_file_of_its_log(tmp_path):
    """The segment is listed; the journal is from before, and the next open file of the log has the same name."""
    _, sealing, finish = begun(tmp_path)
    finish()
    (segment,) = standing(tmp_path)
    following = tmp_path / "archive" / sealing.opened
    following.write_bytes(b"the next file of the log\n")
    seal_all(tmp_path)
    assert following.read_bytes() == b"the next file of the log\n"
    assert standing(tmp_path) == [segment]


def test_another_text_under_the_name_of_a_segment_that_is_listed_is_never_taken_away(tmp_path):
    _, sealing, finish = begun(tmp_path)
    finish()
    listed = (tmp_path / "archive" / sealing.sealing).read_bytes()
    (tmp_path / "archive" / sealing.path).write_bytes(b"something else" * 1000)
    with pytest.raises(FileExistsError):
        finish()
    assert (tmp_path / "archive" / sealing.sealing).read_bytes() == listed
    assert not list((tmp_path / "archive").rglob(".*.tmp"))


def test_a_broken_file_under_the_name_of_a_segment_that_is_not_listed_is_made_again(tmp_path):
    _, sealing, finish = begun(tmp_path)
    (tmp_path / "archive" / sealing.sealing).write_bytes(zstandard.compress(TEXT)[:-5])
    finish()
    assert unpack(tmp_path / "archive" / sealing.sealing) == TEXT


def test_a_manifest_of_many_lines_is_not_read_for_each(tmp_path, monkeypatch):
    write_segments(tmp_path, FILE, [TEXT])
    manifest = next((tmp_path / "archive").rglob("here.jsonl"))
    line = manifest.read_bytes()
    with manifest.open("ab") as listed:
        listed.write(b"".join(line.replace(b"app.log-", b"%d.log-" % number) for number in range(2000)))
    read: list[bytes] = []
    monkeypatch.setattr("consumer.archive.manifests.lists", lambda line, _path: read.append(line))
    write_segments(tmp_path, "/another.log", [TEXT])
    assert read == []
