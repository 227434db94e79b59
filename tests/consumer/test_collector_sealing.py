"""Segments: made once, whole, listed once, whatever happens on the way; days that are over are closed."""

import contextlib
import fcntl
import gzip
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from collecting import HOST, KilledError, Log, PartitionHarness, kill_at
from harness.fleet import unpack

from consumer.archive.journal import Journal
from consumer.model import OpenFile, Until
from consumer.segments import sealer
from consumer.segments.sealer import NewSegmentFile, Sealer
from shipper import manifest
from shipper.errors import ArchiveTrouble
from shipper.layout import FileKey

LINES = b"".join(b"%d a line of a log\n" % number for number in range(500))
DAY = "2026-11-20"  # of the streams' clock


STEPS = [
    (Sealer, "begin"),
    (Journal, "begin_sealing"),
    (Sealer, "move_aside"),
    (Path, "rename"),
    (Sealer, "finish"),
    (Sealer, "_make"),
    (sealer, "pack"),
    (NewSegmentFile, "publish"),
    (Sealer, "record"),
    (Path, "unlink"),
    (Journal, "forget"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
async def test_a_kill_at_any_step_of_sealing_makes_the_same_segment_once(owner, name, after, harness, log, monkeypatch):
    harness.ship(log, 1000)
    await harness.drain()
    with monkeypatch.context() as patched:
        kill_at(patched, owner, name, after=after)
        with harness.worker(Until.SEALED) as worker, contextlib.suppress(KilledError, ArchiveTrouble):
            await worker.run()  # a kill in a parallel task ends that task only
    assert harness.text(log) == LINES
    await harness.drain(Until.SEALED)
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    assert unpack(harness.archive / segment.path) == LINES
    assert (segment.lines, segment.bytes_raw, segment.first_seq) == (500, len(LINES), 1)
    assert [(span.start, span.end) for span in segment.spans] == [(0, len(LINES))]
    assert harness.files() == {segment.path, f"_manifest/date={DAY}/here.jsonl"}


@pytest.mark.parametrize(("codec", "suffix"), [("none", ""), ("gzip", ".gz"), ("zstd", ".zst")])
async def test_a_segment_has_the_codec_of_its_name(codec, suffix, tmp_path):
    harness, log = PartitionHarness(tmp_path, codec=codec), Log(LINES)
    harness.send(log, 0, len(LINES))
    await harness.drain(Until.SEALED)
    (segment,) = harness.segments()
    stored = (harness.archive / segment.path).read_bytes()
    raw = {"none": bytes, "gzip": gzip.decompress, "zstd": lambda _: unpack(harness.archive / segment.path)}[codec](
        stored
    )
    assert raw == LINES
    assert (segment.codec, segment.bytes_stored) == (codec, len(stored))
    assert segment.path.endswith(f"app.log-{1:020d}{suffix}")


async def test_an_open_file_of_a_segments_size_is_sealed_while_the_work_continues(tmp_path):
    harness, log = PartitionHarness(tmp_path, segment_bytes=2000, batch_bytes=1000), Log(LINES)
    harness.ship(log, 500)
    await harness.drain(Until.SEALED)
    assert len(harness.segments()) > 3
    assert harness.text(log) == LINES
    assert sum(segment.lines for segment in harness.segments()) == 500


async def test_names_keep_the_order_of_bytes_also_after_a_stream_that_counts_again(tmp_path):
    harness, log = PartitionHarness(tmp_path), Log(b"one\ntwo\nthree\nfour\n")
    for _ in range(5):
        harness.say(b"something before")
    harness.send(log, 0, 4)
    await harness.drain(Until.SEALED)
    harness.stream.recreate()
    harness.send(log, 0, 8)
    await harness.drain(Until.SEALED)
    harness.stream.recreate()
    harness.send(log, 0, 14)
    await harness.drain(Until.SEALED)
    assert harness.text(log) == b"one\ntwo\nthree\n"
    names = [segment.path for segment in harness.segments() if segment.file == log.file]
    assert [int(re.findall(r"\d{20}", name)[0]) for name in names] == [6, 7, 8]
    assert len({segment.path for segment in harness.segments()}) == len(harness.segments())


async def test_a_torn_last_line_of_the_manifest_is_cut_off(harness, log):
    harness.send(log, 0, 100)
    await harness.drain(Until.SEALED)
    path = next(harness.archive.glob("_manifest/*/here.jsonl"))
    first = path.read_bytes()
    path.write_bytes(first + first[:50])
    harness.send(log, 100, len(LINES))
    await harness.drain(Until.SEALED)
    assert path.read_bytes().startswith(first)
    assert len(harness.segments()) == 2
    assert harness.text(log) == LINES


async def test_a_segment_that_cannot_be_written_is_retried_and_reported(harness, log, monkeypatch):
    harness.send(log, 0, 1000)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(sealer, "_packed", full)
        with pytest.raises(ArchiveTrouble, match="not sealed"):
            await harness.drain(Until.SEALED)
    harness.send(log, 1000, 2000)
    await harness.drain()
    assert harness.text(log) == LINES[:2000]
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES[:2000]
    assert not [name for name in harness.files() if "/_" in name.removeprefix("_manifest")]


async def test_raw_bytes_that_were_removed_before_their_segment_was_made_are_reported(tmp_path, monkeypatch):
    harness, log, told = PartitionHarness(tmp_path), Log(LINES), []
    monkeypatch.setattr("shipper.events.archive_damaged", lambda **what: told.append(what["missing"]))
    harness.send(log, 0, 1000)
    with monkeypatch.context() as patched:
        kill_at(patched, Sealer, "finish")
        with harness.worker(Until.SEALED) as worker, pytest.raises(ArchiveTrouble):
            await worker.run()
    next(harness.archive.rglob("_sealing-*")).unlink()
    await harness.drain()
    assert told == [1000]


async def test_a_file_that_was_a_directory_before_is_archived_without_a_link(harness):
    logs = [Log(LINES, id=f"{n:016x}", file=file) for n, file in enumerate(["/a/b", "/a", "/a/b/c", "/c", "/c/d"])]
    for log in logs:
        harness.send(log, 0, 100)
    await harness.drain()
    assert all(harness.text(log) == LINES[:100] for log in logs)


async def test_two_collectors_of_one_name_do_not_cut_each_others_manifest(harness, log):
    """Their locks are on the file: what one writes while the other reads is not taken for a torn line."""
    harness.send(log, 0, 1000)
    await harness.drain(Until.SEALED)
    path = next(harness.archive.glob("_manifest/*/here.jsonl"))
    segment = manifest.from_line(path.read_bytes())
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        listing = threading.Thread(target=harness.sealer.record, args=[_renamed(segment)], kwargs={"since": 0})
        listing.start()
        listing.join(0.1)
        assert listing.is_alive()
    listing.join(10)
    assert len(harness.segments()) == 2


def _renamed(segment: manifest.Segment) -> manifest.Segment:
    fields = json.loads(manifest.to_line(segment))
    fields["path"] += ".other"
    return manifest.from_line(json.dumps(fields).encode())


def test_segments_left_by_an_operator_do_not_confuse_the_numbers(harness):
    directory = harness.archive / f"date={DAY}/partition=0/host={HOST}"
    directory.mkdir(parents=True)
    for name in (f"var~log~app.log-{7:020d}.zst", f"var~log~app.log-{900:020d}x.zst", f"other-{999:020d}.gz"):
        (directory / name).touch()
    file = OpenFile(path="x", key=FileKey(DAY, 0, HOST, "/var/log/app.log"), first_seq=3)
    with harness.journal() as journal:
        assert harness.sealer._free_name(file, journal).endswith(f"-{8:020d}.zst")
