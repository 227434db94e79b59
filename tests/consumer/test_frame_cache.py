"""Segments of frames as they came: never other bytes than the open file's, whatever happened on the way."""

import contextlib
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from collecting import KilledError, Log, PartitionHarness, cuts, kill_at
from harness.fleet import unpack
from keeping import standing, write_open

from consumer.archive.frame_index import Frame
from consumer.archive.journal import Journal
from consumer.commit.frame_cache import FEW_FRAMES, LEAST_TEXT_BYTES, FrameCache, Frames
from consumer.commit.sink import Sink
from consumer.model import Until
from consumer.segments import sealer as seal
from consumer.segments.sealer import NewSegmentFile, Recorded
from shipper.model import Encoding

LINES = b"".join(b"%d a line of a log\n" % number for number in range(500))
PATH = "date=2026-11-20/partition=0/host=web1.example.net/_open-a"


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codecs of what was packed anew."""
    seen: list[str] = []
    original = seal.pack

    def pack(text: Any, to: Any, codec: str, time_at: Any) -> Any:
        seen.append(codec)
        return original(text, to, codec, time_at)

    monkeypatch.setattr(seal, "pack", pack)
    return seen


@pytest.fixture
def ready(tmp_path: Path) -> FrameCache:
    return FrameCache("zstd", tmp_path)


async def test_a_segment_is_made_of_the_blocks_as_they_came(harness, log, packed):
    harness.ship(log, 1000)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    stored = (harness.archive / segment.path).read_bytes()
    assert stored == b"".join(log.message(*span)[2] for span in cuts(LINES, 1000))
    assert unpack(harness.archive / segment.path) == LINES
    assert (segment.lines, segment.bytes_raw, segment.bytes_stored) == (500, len(LINES), len(stored))
    assert not packed


async def test_what_did_not_come_as_whole_frames_is_packed_again(harness, log, packed):
    harness.send(log, 0, 1000)
    harness.send(log, 500, 2000)  # its first half is there already
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES[:2000]
    assert packed == ["zstd"]


@pytest.mark.parametrize("encoding", [Encoding.GZIP, Encoding.IDENTITY])
async def test_frames_of_another_codec_are_of_no_use(tmp_path, packed, encoding):
    harness, log = PartitionHarness(tmp_path), Log(LINES, encoding=encoding)
    harness.send(log, 0, len(LINES))
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert packed == ["zstd"]


@pytest.mark.parametrize("codec", ["gzip", "none"])
async def test_segments_have_the_codec_that_was_requested(tmp_path, codec, packed):
    harness, log = PartitionHarness(tmp_path, codec=codec), Log(LINES)
    harness.send(log, 0, len(LINES))
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert packed == [codec]


async def test_another_source_after_an_unterminated_line_adds_a_newline_that_is_in_no_frame(tmp_path, packed):
    harness, one, two = PartitionHarness(tmp_path), Log(b"a line\nno end"), Log(b"another\n", id="00000000000000b2")
    harness.send(one, 0, len(one.data))
    harness.send(two, 0, len(two.data))
    await harness.drain(Until.SEALED)
    assert harness.text(one) == b"a line\nno end\nanother\n"
    assert packed == ["zstd"]


@pytest.mark.parametrize(("owner", "name"), [(Sink, "append"), (Sink, "sync"), (Journal, "commit")])
async def test_a_batch_that_failed_and_came_again_is_in_the_segment_once(tmp_path, owner, name, monkeypatch, packed):
    harness, log = PartitionHarness(tmp_path, batch_bytes=1), Log(LINES)
    harness.ship(log, 1000)
    original, calls = getattr(owner, name), []

    def fails_once(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return original(*arguments, **named)

    monkeypatch.setattr(owner, name, fails_once)
    await harness.drain(Until.SEALED)
    assert len(calls) > 3
    assert harness.text(log) == LINES
    (segment,) = harness.segments()
    assert (segment.lines, segment.bytes_raw) == (500, len(LINES))
    assert not packed


async def test_a_restart_has_no_frames_and_packs_what_the_file_holds(harness, log, packed):
    harness.send(log, 0, 5000)
    await harness.drain()
    harness.send(log, 5000, len(LINES))
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert packed == ["zstd"]


@pytest.mark.parametrize("step", ["publish", "record", "unlink"])
def test_a_kill_while_a_segment_is_made_of_frames_leaves_one_segment(step, tmp_path, monkeypatch):
    opened = write_open(tmp_path, "/var/log/app.log", [LINES])
    journal, sink = Journal(tmp_path / "journal.sqlite"), Sink(tmp_path / "archive", open_files=8, links=True)
    sealer = seal.Sealer(tmp_path / "archive", collector="here", codec="zstd")
    sealing = sealer.begin(opened, journal, sink)
    recorded = Recorded.of(journal, sealing.path)
    halves = LINES[:5000], LINES[5000:]
    frames = Frames(tuple(map(zstandard.ZstdCompressor(level=1).compress, halves)), 500)
    owner = {"publish": NewSegmentFile, "record": seal.Sealer, "unlink": Path}[step]
    kill_at(monkeypatch, owner, step, after=step != "unlink")
    with pytest.raises(KilledError):
        sealer.finish(sealing, recorded, frames)
    sealer.take_up(sealing, journal)
    sealer.finish(sealing, recorded)  # the next life has no frames
    (segment,) = standing(tmp_path)
    stored = (tmp_path / "archive" / segment.path).read_bytes()
    assert stored == b"".join(frames.frames)
    assert (unpack(tmp_path / "archive" / segment.path), segment.bytes_stored) == (LINES, len(stored))
    assert not (tmp_path / "archive" / sealing.path).exists()
    journal.close()
    sink.close()


def test_frames_are_kept_while_they_follow_each_other(ready):
    ready.add(PATH, 0, b"one", text_bytes=10, lines=1)
    ready.add(PATH, 10, b"two", text_bytes=5, lines=2)
    assert ready.take(PATH, 15) == Frames((b"one", b"two"), 3, (Frame(3, 10, 0, 1), Frame(3, 5, 0, 2)))
    assert ready.take(PATH, 15) is None


def test_a_frame_that_was_never_committed_is_forgotten(ready):
    ready.add(PATH, 0, b"one", text_bytes=10, lines=1)
    ready.add(PATH, 10, b"two", text_bytes=5, lines=2)
    assert ready.take(PATH, 10) == Frames((b"one",), 1, (Frame(3, 10, 0, 1),))


def test_bytes_that_came_in_no_frame_break_the_chain_for_good(ready):
    ready.add(PATH, 0, b"one", text_bytes=10, lines=1)
    ready.add(PATH, 11, b"two", text_bytes=5, lines=2)
    ready.add(PATH, 16, b"three", text_bytes=5, lines=2)
    assert ready.take(PATH, 21) is None
    ready.add(PATH, 0, b"one", text_bytes=10, lines=1)  # the next file of that name
    assert ready.take(PATH, 10) == Frames((b"one",), 1, (Frame(3, 10, 0, 1),))


def test_many_small_frames_are_not_worth_their_room(ready):
    at = 0
    for _ in range(FEW_FRAMES + 2):
        ready.add(PATH, at, b"f", text_bytes=100, lines=1)
        at += 100
    assert ready.take(PATH, at) is None
    at = 0
    for _ in range(FEW_FRAMES + 2):
        ready.add(PATH, at, b"f", text_bytes=LEAST_TEXT_BYTES, lines=1)
        at += LEAST_TEXT_BYTES
    assert ready.take(PATH, at) is not None


def test_the_memory_is_bounded_and_the_file_that_waited_longest_makes_room(tmp_path):
    ready = FrameCache("zstd", tmp_path, most_bytes=100)
    ready.add("a", 0, b"x" * 60, text_bytes=1000, lines=1)
    ready.add("b", 0, b"x" * 30, text_bytes=1000, lines=1)
    ready.add("a", 1000, b"x" * 10, text_bytes=1000, lines=1)
    ready.add("c", 0, b"x" * 20, text_bytes=1000, lines=1)
    assert [ready.take(path, size) is None for path, size in (("b", 1000), ("a", 2000), ("c", 1000))] == [
        True, False, False,
    ]  # fmt: skip
    ready.add("d", 0, b"x" * 101, text_bytes=1000, lines=1)
    assert ready.take("d", 1000) is None


FRAMES = [random.Random(number).randbytes(1 << 19) for number in range(9)]


def cached_on_disk(directory: Path) -> FrameCache:
    """A cache with frames of "a" for which there is no memory."""
    ready = FrameCache("zstd", directory, most_bytes=1 << 21)
    for number, frame in enumerate(FRAMES[:6]):
        ready.add("a", 1000 * number, frame, text_bytes=1000, lines=1)
    return ready


def test_frames_without_memory_move_to_a_file_without_a_name(tmp_path):
    ready = cached_on_disk(tmp_path)
    ready.add("a", 5000, FRAMES[7], text_bytes=1000, lines=1)  # the sixth was not committed
    ready.add("b", 0, b"small", text_bytes=1000, lines=1)
    assert not list(tmp_path.iterdir())
    frames, others = ready.take("a", 6000), ready.take("b", 1000)
    assert frames is not None
    assert others is not None
    expected = b"".join([*FRAMES[:5], FRAMES[7]])
    assert b"".join(frames.frames) == expected
    assert (frames.lines, len(frames.marks), frames.crc) == (6, 6, zlib.crc32(expected))
    assert ready.take("a", 6000) is None


def test_without_such_files_or_space_the_frames_are_dropped(tmp_path):
    ready = cached_on_disk(tmp_path / "missing")
    assert ready.take("a", 6000) is None


def test_frames_that_the_disk_changed_are_made_anew_of_the_text(tmp_path, packed):
    opened = write_open(tmp_path, "/var/log/app.log", [LINES])
    sink = Sink(tmp_path / "archive", open_files=8, links=True)
    with contextlib.closing(Journal(tmp_path / "journal.sqlite")) as journal, contextlib.closing(sink):
        sealer = seal.Sealer(tmp_path / "archive", collector="here", codec="zstd")
        sealing = sealer.begin(opened, journal, sink)
        recorded, frame = Recorded.of(journal, sealing.path), zstandard.compress(LINES)
        with pytest.raises(OSError, match="changed on the disk"):
            sealer.finish(sealing, recorded, Frames((frame[:-1] + b"?",), 500, (), zlib.crc32(frame)))
        assert not standing(tmp_path)
        sealer.finish(sealing, recorded)
    (segment,) = standing(tmp_path)
    assert unpack(tmp_path / "archive" / segment.path) == LINES
    assert packed == ["zstd"]
