"""Sealed zstd segments: frames of about 1 MiB with a seek table and time marks, which other programs pass over."""

import io
import itertools
import subprocess
import zlib
from pathlib import Path

import duckdb
import pytest
import zstandard
from collecting import Log, PartitionHarness, cuts
from keeping import DAY_NS, Past, lines, seal_all, standing, tend, write_open, write_segments
from searching import search

from consumer.archive import frame_index, segment_io
from consumer.archive.event_times import Lag, TimeOf
from consumer.archive.frame_index import Frame, FrameIndex
from consumer.archive.stored_times import StoredTimes
from consumer.model import Until
from consumer.read.query import parse
from consumer.segments import rewrite_segment
from shipper.layout import NANOSECONDS
from shipper.manifest import Segment

MIB = 1024 * 1024
FILE = "/var/log/app.log"
TEXT = b"".join(b"%07d a line of a log, %d\n" % (number, number * number) for number in range(150_000))
SECOND = NANOSECONDS


def index_of(place: Path, segment: Segment) -> FrameIndex:
    with (place / "archive" / segment.path).open("rb") as stream:
        found = frame_index.read(stream)
    assert found is not None
    return found


def check(place: Path, segment: Segment, text: bytes) -> FrameIndex:
    """Each frame is where the table has it, holds the text and begins a line; everything is in the frames."""
    stored, index, at, begin = (place / "archive" / segment.path).read_bytes(), index_of(place, segment), 0, 0
    for frame in index.frames:
        unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(stored[at : at + frame.stored])
        assert unpacked == text[begin : begin + frame.raw]
        assert frame.lines in {unpacked.count(b"\n"), frame_index.UNKNOWN_LINES}
        at, begin = at + frame.stored, begin + frame.raw
    assert begin == len(text) == segment.bytes_raw
    assert stored[at:] == frame_index.encode(index)
    assert segment.bytes_stored == len(stored)
    assert segment.crc32_stored == f"{zlib.crc32(stored):08x}"
    return index


@pytest.fixture
def sealed(tmp_path: Path) -> Segment:
    write_open(tmp_path, FILE, [TEXT], stored_ns=(DAY_NS, DAY_NS + 100 * SECOND))
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    return segment


def test_a_sealed_segment_has_frames_of_a_mebibyte_that_end_lines(tmp_path: Path, sealed: Segment) -> None:
    index = check(tmp_path, sealed, TEXT)
    assert len(index.frames) == len(TEXT) // MIB + 1
    assert all(3 * MIB // 4 <= frame.raw <= 5 * MIB // 4 for frame in index.frames[:-1])
    assert not index.is_exact
    assert index.frames[0].time_ns == DAY_NS


def test_other_programs_read_it_unchanged(tmp_path: Path, sealed: Segment) -> None:
    path = tmp_path / "archive" / sealed.path
    assert subprocess.run(["zstd", "-dc", path], capture_output=True, check=True).stdout == TEXT
    assert subprocess.run(["zstdgrep", "-c", "0149999 a", path], capture_output=True, check=True).stdout == b"1\n"
    subprocess.run(["zstd", "-t", path], capture_output=True, check=True)
    rows = duckdb.sql(
        f"select count(*) from read_csv('{path}', header=false, delim='\x01', columns={{'l': 'varchar'}},"
        " compression='zstd')"
    )
    assert rows.fetchall() == [(150_000,)]


def test_a_short_segment_has_no_index(tmp_path: Path) -> None:
    (segment,) = write_segments(tmp_path, FILE, [b"one\n"])
    with (tmp_path / "archive" / segment.path).open("rb") as stream:
        assert frame_index.read(stream) is None


async def test_blocks_as_they_came_have_their_exact_times(tmp_path: Path) -> None:
    harness, log = PartitionHarness(tmp_path), Log(TEXT)
    for span in cuts(TEXT, 300_000):
        harness.send(log, *span)
        harness.clock.turn(7.0)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    index = check(tmp_path, segment, TEXT)
    assert index.is_exact
    assert len(index.frames) == len(list(cuts(TEXT, 300_000)))
    gaps = {later.time_ns - earlier.time_ns for earlier, later in itertools.pairwise(index.frames)}
    assert {gap // SECOND for gap in gaps} == {7}


def test_merged_segments_have_one_table_for_all_parts(tmp_path: Path) -> None:
    third = TEXT.index(b"\n", len(TEXT) // 3) + 1
    parts = [TEXT[:third], TEXT[third : third + 26], TEXT[third + 26 :]]  # the second one is short, without an index
    start = 0
    for number, part in enumerate(parts):
        begin = DAY_NS + number * 100 * SECOND
        write_open(
            tmp_path, FILE, [part], sequence=10 * number + 7, start=start, stored_ns=(begin, begin + 99 * SECOND)
        )
        seal_all(tmp_path)
        start += len(part)
    tend(tmp_path, Past(), merge=1 << 26)
    (whole,) = standing(tmp_path)
    assert len(whole.replaces) == 3
    index = check(tmp_path, whole, b"".join(parts))
    starts = [frame.time_ns for frame in index.frames]
    assert starts == sorted(starts)
    assert {DAY_NS, DAY_NS + 100 * SECOND, DAY_NS + 200 * SECOND} <= set(starts)


def test_older_segments_are_merged_as_before_and_get_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = TEXT.index(b"\n", len(TEXT) // 2) + 1
    with monkeypatch.context() as patch:  # what earlier versions wrote: one frame, no index
        patch.setattr(
            "consumer.segments.sealer.pack", lambda text, packed, codec, _: segment_io.pack(text, packed, codec)
        )
        segments = write_segments(tmp_path, FILE, [TEXT[:half], TEXT[half:]])
    for segment in segments:
        with (tmp_path / "archive" / segment.path).open("rb") as stream:
            assert frame_index.read(stream) is None
            assert frame_index.frames_in(stream, segment.bytes_stored) == [(segment.bytes_stored, 0)]
    assert len(search(tmp_path / "archive", parse("/ a line .*9$/")).hits) == 30_000
    tend(tmp_path, Past(), merge=1 << 26)
    (whole,) = standing(tmp_path)
    assert len(check(tmp_path, whole, TEXT).frames) == 2
    assert len(search(tmp_path / "archive", parse("/ a line .*9$/")).hits) == 30_000


def test_a_redacted_segment_keeps_its_times(tmp_path: Path, sealed: Segment) -> None:
    text = TEXT.replace(b"0000007 a line", b"XXXXXXX X XXXX")
    with rewrite_segment.alone(tmp_path / "archive", [0]):
        made = rewrite_segment.replace_segment_text(tmp_path / "archive", sealed, text)
    index = check(tmp_path, made, text)
    assert index.frames[0].time_ns == DAY_NS
    assert DAY_NS + 20 * SECOND < index.frames[len(index.frames) // 2].time_ns < DAY_NS + 80 * SECOND
    assert len(lines(tmp_path)) == 2


def test_a_window_of_one_percent_reads_at_most_three_percent(tmp_path: Path) -> None:
    text = TEXT * 25
    first, ends = DAY_NS // SECOND, [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]
    marks = [(at, first + 86_000 * at // len(text)) for at in ends[:-1:40]]
    write_open(tmp_path, FILE, [text], stored_ns=(DAY_NS, DAY_NS + 86_000 * SECOND), seconds=marks)
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    since = DAY_NS + 40_000 * SECOND
    found = search(tmp_path / "archive", parse("a line"), since_ns=since, until_ns=since + 860 * SECOND)
    assert 0.009 * 25 * 150_000 < len(found.hits) < 0.011 * 25 * 150_000
    assert 0 < found.search.totals.bytes_read <= 0.03 * segment.bytes_stored
    window = {"since_ns": since, "until_ns": since + 860 * SECOND}
    by_event = search(tmp_path / "archive", parse("a line"), by=TimeOf.EVENT, **window).search.totals
    assert 0 < by_event.bytes_read <= 0.05 * segment.bytes_stored


def test_times_of_frames_that_are_estimates_hide_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst that an earlier version stored: its bytes are at the end of the day, and so are its estimated times."""
    lines = [b"2026-11-20 00:10:00 burst %07d\n" % number for number in range(150_000)]
    write_open(tmp_path, FILE, [b"".join(lines)], stored_ns=(DAY_NS, DAY_NS + 86_000 * SECOND))
    monkeypatch.setattr("consumer.segments.sealer.lag_of", lambda *_: Lag())  # earlier versions compared no times
    seal_all(tmp_path)
    since = DAY_NS + 600 * SECOND
    window = {"by": TimeOf.EVENT, "since_ns": since, "until_ns": since + SECOND}
    assert len(search(tmp_path / "archive", parse("burst"), **window).hits) == len(lines)


@pytest.mark.parametrize("cut", [1, 8, 9, 30, 200])
def test_a_table_that_is_damaged_or_cut_off_is_not_used(tmp_path: Path, sealed: Segment, cut: int) -> None:
    stored = (tmp_path / "archive" / sealed.path).read_bytes()
    damaged = tmp_path / "damaged"
    damaged.write_bytes(stored[:-cut])
    with damaged.open("rb") as stream:
        assert frame_index.read(stream) is None
    flipped = bytearray(stored)
    flipped[-cut - 9] ^= 0xFF
    damaged.write_bytes(flipped)
    with damaged.open("rb") as stream:
        found = frame_index.read(stream)
        assert found is None or found.stored == index_of(tmp_path, sealed).stored


def test_a_line_longer_than_a_frame_is_one_frame_up_to_four_mebibytes(tmp_path: Path) -> None:
    text = b"x" * (9 * MIB) + b"\nshort\n"
    packed = segment_io.CountingWriter(io.BytesIO())
    segment_io.pack(io.BytesIO(text), packed, "zstd", StoredTimes.estimated(DAY_NS, DAY_NS, len(text)))
    write_open(tmp_path, FILE, [text])
    seal_all(tmp_path)
    (segment,) = standing(tmp_path)
    assert max(frame.raw for frame in check(tmp_path, segment, text).frames) <= 4 * MIB + segment_io.CHUNK_BYTES


def test_of_frames_whose_times_go_back_those_of_the_time_are_read() -> None:
    times = StoredTimes([0, 10, 20], [1, 5, 3], 3 * SECOND, 30)
    frames = tuple(Frame(10, 10, second * SECOND, 1) for second in times.seconds)
    index = FrameIndex(frames, is_exact=True, times=times.plain)
    assert index.within(times, 3 * SECOND, None) == range(1, 3)
    assert index.within(times, 0, 2 * SECOND) == range(1)
    assert index.within(times, 1 * SECOND, 4 * SECOND) == range(3)


def test_a_frame_whose_last_second_is_that_of_the_first_wanted_moment_is_read() -> None:
    times = StoredTimes([0, 10, 20], [1, 2, 3], 3 * SECOND, 30)
    frames = tuple(Frame(10, 10, second * SECOND, 1) for second in times.seconds)
    index = FrameIndex(frames, is_exact=True, times=times.plain)
    assert index.within(times, 2 * SECOND + SECOND // 2, None) == range(1, 3)
