"""Frames as they came: what producers compressed is kept as it is, and holds the same text, whatever is in between."""

import contextlib
from pathlib import Path

import pytest
import zstandard
from collecting import FILE, HOST, Log, PartitionHarness, cuts, kill_at
from harness.fleet import Fleet, unpack, until
from keeping import seal_all, standing, state, tend, write_open
from test_collector_edits import check_account, edited, piece, send

from consumer.archive.journal import Journal
from consumer.archive.segment_io import frames as frames_of
from consumer.model import Until
from shipper.model import Encoding

TEXT = b"".join(b"%d a line of a log\n" % number for number in range(500))
SUFFIX = {"zstd": ".zst", "gzip": ".gz"}


def opened(harness: PartitionHarness) -> Path:
    (path,) = harness.archive.rglob("_open-*")
    return path


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
async def test_the_frames_of_the_blocks_are_the_segment(tmp_path, codec):
    harness, log = PartitionHarness(tmp_path, frames=codec), Log(TEXT, encoding=Encoding(codec))
    payloads = [log.message(*span)[2] for span in cuts(TEXT, 1000)]
    harness.ship(log, 1000)
    await harness.drain()
    assert opened(harness).name == f"_open-var~log~app.log{SUFFIX[codec]}"
    assert opened(harness).read_bytes() == b"".join(payloads)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    stored = (harness.archive / segment.path).read_bytes()
    assert stored == b"".join(payloads)
    assert unpack(harness.archive / segment.path) == TEXT
    assert (segment.codec, segment.bytes_stored, segment.bytes_raw) == (codec, len(stored), len(TEXT))
    assert (segment.lines, segment.joins, segment.gaps) == (500, 0, ())
    assert harness.files() == {segment.path, "_manifest/date=2026-11-20/here.jsonl"}


async def test_what_did_not_come_as_a_frame_of_this_codec_becomes_one(tmp_path):
    """Other codecs, no codec, foreign lines, the rest of a block of which the first half is there, a join."""
    harness = PartitionHarness(tmp_path, frames="zstd", output=FILE.removeprefix("/"))
    one, two = Log(TEXT, encoding=Encoding.GZIP), Log(TEXT[:995], id="00000000000000b2", encoding=Encoding.IDENTITY)
    harness.send(one, 0, 1000)
    harness.send(Log(TEXT), 500, 2000)
    harness.send(two, 0, 995)  # ends within a line
    harness.send(one, 2000, 3000)
    harness.send(Log(TEXT, encoding=Encoding.PLAIN), 3000, TEXT.index(b"\n", 3000) + 1)
    await harness.drain()
    expected = TEXT[:2000] + b"\n" + TEXT[:995] + b"\n" + TEXT[2000 : TEXT.index(b"\n", 3000) + 1]
    assert harness.text(one) == expected
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert unpack(harness.archive / segment.path) == expected
    assert segment.joins == 2


async def test_lines_of_other_publishers_become_one_frame_a_batch(tmp_path):
    harness = PartitionHarness(tmp_path, frames="zstd")
    for number in range(100):
        harness.say(b"line %d" % number)
    await harness.drain()
    with opened(harness).open("rb") as stored:
        found = [text for _, text in frames_of(stored, "zstd")]
    assert b"".join(found) == b"".join(b"line %d\n" % number for number in range(100))
    assert len(found) < 10


async def test_an_edited_block_is_kept_without_its_map(tmp_path):
    harness, text = PartitionHarness(tmp_path, frames="zstd"), b"a line\nDEBUG this\nid=7 another\n" * 20
    send(harness, [piece(text, 0, len(text))])
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert unpack(harness.archive / segment.path) == edited(text)
    check_account(harness)


async def test_a_kill_between_write_and_commit_leaves_whole_frames(tmp_path, monkeypatch):
    harness, log = PartitionHarness(tmp_path, frames="zstd"), Log(TEXT)
    harness.send(log, 0, 1000)
    await harness.drain()
    before = opened(harness).read_bytes()
    harness.send(log, 1000, len(TEXT))
    kill_at(monkeypatch, Journal, "commit")
    await harness.die()
    assert len(opened(harness).read_bytes()) > len(before)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == TEXT
    assert not harness.segments()[0].gaps


async def test_a_file_that_was_truncated_from_outside_continues_after_its_last_whole_frame(tmp_path):
    harness, log = PartitionHarness(tmp_path, frames="zstd"), Log(TEXT)
    harness.send(log, *range(0, 5001, 1000))
    await harness.drain()
    path = opened(harness)
    path.write_bytes(path.read_bytes()[:-10])
    harness.send(log, 5000, 6000)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == TEXT[:4000] + b"\n" + TEXT[5000:6000]
    (segment,) = harness.segments()
    assert [(gap.source, gap.start, gap.end, gap.reason) for gap in segment.gaps] == [
        ("", 4000, 5000, "archive_changed")
    ]


async def test_a_frame_that_cannot_be_read_ends_the_segment_and_is_kept(tmp_path):
    harness, log = PartitionHarness(tmp_path, frames="zstd"), Log(TEXT)
    harness.send(log, *range(0, 5001, 1000))
    await harness.drain()
    path = opened(harness)
    stored = bytearray(path.read_bytes())
    third = sum(len(log.message(*span)[2]) for span in cuts(TEXT[:2000], 1000))
    stored[third : third + 4] = b"\0\0\0\0"
    path.write_bytes(stored)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert unpack(harness.archive / segment.path) == TEXT[:2000]
    assert [(gap.start, gap.end, gap.reason) for gap in segment.gaps] == [(2000, 5000, "archive_changed")]
    (kept,) = harness.archive.rglob("_damaged-*")
    assert kept.read_bytes() == stored


@pytest.mark.parametrize(("before", "behind"), [("none", "zstd"), ("zstd", "none"), ("zstd", "gzip")])
async def test_another_setting_seals_what_was_open_and_mixes_nothing(tmp_path, before, behind):
    """`_open-a.zst` is the plain file of /a.zst, or holds the frames of /a: the two must not meet."""
    logs = [Log(TEXT, id=f"{n:016x}", file=file) for n, file in enumerate(["/a", "/a.zst", "/a.gz", "/a.zst.gz"])]
    harness = PartitionHarness(tmp_path, frames=before)
    for log in logs:
        harness.send(log, 0, 1000)
    await harness.drain()
    other = PartitionHarness(tmp_path, frames=behind)
    other.bus, other.stream, other.clock = harness.bus, harness.stream, harness.clock
    for log in logs:
        other.send(log, 1000, 2000)
    await other.drain()
    assert [other.text(log) for log in logs[:1]]
    await other.drain(Until.SEALED)
    assert all(other.text(log) == TEXT[:2000] for log in logs)
    assert len(other.segments()) == 2 * len(logs)


@pytest.mark.parametrize("more", [{"SHIPPER_CODEC": "none"}, {"SHIPPER_OUTPUT": "{host}.log"}])
def test_settings_that_do_not_go_together_are_refused(tmp_path, more):
    config = tmp_path / "shipper.toml"
    config.write_text('[collector]\nstore = "frames"\n')
    done = Fleet(tmp_path, "nats://127.0.0.1:1").run("consume", "--drain", SHIPPER_CONFIG=str(config), **more)
    assert done.returncode == 78
    assert "collector.store is frames" in done.stderr


def work(place: Path) -> None:
    seal_all(place)
    tend(place)


@pytest.mark.parametrize("seed", range(4))
def test_merged_frames_survive_a_kill_in_every_life(lives, places, seed):
    for number in range(2):
        blocks = [TEXT[start:end] for start, end in cuts(TEXT, 1000)]
        write_open(places.first, FILE, blocks, frames="gzip", sequence=100 * number, start=number * len(TEXT))
        seal_all(places.first) if number == 0 else None
    expected, place = places.copy(), places.copy()
    work(expected)
    (whole,) = standing(expected)
    assert unpack(expected / "archive" / whole.path) == 2 * TEXT
    lives.many(work, place, seed=seed, most=25)
    assert state(place) == state(expected)


def test_the_whole_way_through_kills_gives_the_same_text(tmp_path, natsd):
    config = tmp_path / "shipper.toml"
    config.write_text('[collector]\nstore = "frames"\nsegment = "64KiB"\n')
    log = tmp_path / "app.log"
    text = b"".join(b"%d: what happened\n" % number for number in range(40_000))
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        collector = fleet.start("consume", SHIPPER_CONFIG=str(config))
        log.touch()
        fleet.produce(HOST, log)
        for start, end in cuts(text, 300_000):
            with log.open("ab") as stream:
                stream.write(text[start:end])
            until(lambda start=start: len(archived(fleet, log)) > start, what="nothing comes")
            collector.restart()
        until(lambda: archived(fleet, log) == text, what="the text is not all there")
        collector.kill()
        fleet.must("consume", "--drain", "--seal", SHIPPER_CONFIG=str(config))
        assert fleet.archived(HOST, log) == text
        assert fleet.must("audit", str(fleet.archive))


def archived(fleet: Fleet, log: Path) -> bytes:
    """What is there now; nothing where a file is renamed meanwhile."""
    with contextlib.suppress(OSError, EOFError, zstandard.ZstdError):
        return fleet.archived(HOST, log)
    return b""
