"""Days, silence and templates: what is over is closed, what is not stays open, and `live/` follows."""

import datetime as dt
import os
from pathlib import Path

from collecting import HOST, Log, PartitionHarness, cuts
from harness.fleet import unpack
from harness.waiting import becomes
from keeping import day_closer

from consumer.model import Until
from consumer.segments.day_close import DayCloser
from shipper.manifest import standing

LINES = b"".join(b"%d a line of a log\n" % number for number in range(500))
DAY = "2026-11-20"  # of the streams' clock


def days(harness: PartitionHarness) -> DayCloser:
    """What tends the days of the harness's archive, on 2026-11-23."""
    settings = {"merge": 1 << 24, "segment": 1 << 27, "keep_days": 0, "keep_bytes": 0}
    return day_closer(harness.archive, harness.sealer, **settings, today=lambda: dt.date(2026, 11, 23))


async def test_blocks_of_two_days_go_to_two_days_and_the_older_is_sealed_and_closed(harness, log):
    harness.send(log, 0, 1000)
    async with harness.running() as worker:
        await becomes(lambda: len(harness.text(log)) == 1000)
        assert not harness.segments()
        assert not worker.is_past(DAY)
        harness.clock.turn(86400)
        harness.send(log, 1000, 2000)
        await becomes(harness.segments)
        await becomes(lambda: worker.is_past(DAY))
        days(harness).run({0: worker.is_past}, lambda: True)  # "past" for the partition, the collector and the calendar
        assert not worker.is_past("2026-11-21")
    (segment,) = harness.segments()
    assert segment.path.startswith(f"date={DAY}/")
    assert unpack(harness.archive / segment.path) == LINES[:1000]
    assert next(harness.archive.glob("date=2026-11-21/*/*/_open-*")).read_bytes() == LINES[1000:2000]


async def test_a_day_is_closed_when_every_partition_has_passed_it_and_not_before(harness, log):
    harness.send(log, 0, 1000)
    await harness.drain(Until.SEALED)

    past = [True, False]
    owned = {0: lambda _: past[0], 1: lambda _: past[1]}
    days(harness).run(owned, lambda: True)
    assert not list(harness.archive.glob("_manifest/*/*.done"))
    past[1] = True
    days(harness).run(owned, lambda: True, everywhere=lambda _: False)
    assert not list(harness.archive.glob("_manifest/*/*.done"))
    days(harness).run(owned, lambda: True)
    assert [path.name for path in harness.archive.glob("_manifest/*/*.done")] == ["here.done"]
    assert harness.sealer.dates() == []


async def test_segments_of_a_day_are_merged_before_it_is_closed(harness, log):
    for start, end in cuts(LINES[:4000], 1000):
        harness.send(log, start, end)
        await harness.drain(Until.SEALED)
    harness.clock.turn(86400)
    harness.send(log, 4000, 5000)
    harness.wall.turn(86400)
    async with harness.running() as worker:
        await becomes(lambda: worker.is_past(DAY))
        days(harness).run({0: worker.is_past}, lambda: True)
    (whole,) = standing(harness.segments())
    assert len(whole.replaces) == 4
    assert unpack(harness.archive / whole.path) == LINES[:4000]
    assert [path.name for path in harness.archive.glob("_manifest/*/*.done")] == ["here.done"]


async def test_a_silent_stream_closes_the_day_when_it_is_over(harness, log):
    """Nothing new comes that could show that the day is over: the clock does, while the stream is read to its end."""
    harness.send(log, 0, 1000)
    async with harness.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not worker.is_past(DAY)
        harness.wall.turn(86400)
        await becomes(harness.segments)
        await becomes(lambda: worker.is_past(DAY))


async def test_an_open_hole_keeps_its_day_open(tmp_path):
    harness, log = PartitionHarness(tmp_path, hole_patience=1e9), Log(LINES)
    harness.send(log, 0, 1000)
    harness.send(log, 2000, 3000)
    harness.clock.turn(86400)
    harness.send(log, 3000, 4000)
    harness.wall.turn(2 * 86400)
    async with harness.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not worker.is_past(DAY)
    with harness.worker() as worker:  # a restart knows of it before the hole is met again
        assert not worker.is_past(DAY)


async def test_a_silent_file_is_sealed(tmp_path):
    harness, log = PartitionHarness(tmp_path, idle_seal=3600), Log(LINES)
    harness.send(log, 0, 1000)
    async with harness.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not harness.segments()
        harness.wall.turn(3601)
        await becomes(harness.segments)
        harness.send(log, 1000, 2000)
        await becomes(lambda: len(harness.text(log)) == 2000)
    assert harness.text(log) == LINES[:2000]


async def test_the_live_link_follows_the_open_file(harness, log):
    link = harness.archive / "live" / HOST / "var/log/app.log"
    harness.send(log, 0, 1000)
    await harness.drain()
    assert link.read_bytes() == LINES[:1000]
    assert not Path(os.readlink(link)).is_absolute()  # the archive may be moved
    harness.clock.turn(86400)
    harness.send(log, 1000, 2000)
    await harness.drain()
    assert link.read_bytes() == LINES[1000:2000]
    await harness.drain(Until.SEALED)
    assert not link.is_symlink()


async def test_a_template_decides_where_lines_go_and_nothing_is_sealed(tmp_path):
    harness, log = PartitionHarness(tmp_path, template="{host}/%Y-%m-%d.log"), Log(b"one\ntwo\n")
    harness.send(log, 0, 8)
    harness.say(b"plain")
    await harness.drain(Until.SEALED)
    harness.clock.turn(86400)
    harness.say(b"next day")
    await harness.drain(Until.SEALED)
    assert harness.files() == {f"{HOST}/2026-11-20.log", f"{HOST}/2026-11-21.log"}
    assert (harness.archive / HOST / "2026-11-20.log").read_bytes() == b"one\ntwo\nplain\n"
    assert (harness.archive / HOST / "2026-11-21.log").read_bytes() == b"next day\n"


async def test_a_template_file_of_an_old_day_is_closed_and_appended_when_more_comes(tmp_path):
    harness = PartitionHarness(tmp_path, template="{host}.log")
    harness.say(b"one")
    harness.wall.turn(2 * 86400)
    async with harness.running() as worker:
        await becomes(lambda: worker._store.journal.position.applied == 1 and not worker._store.journal.files)
        harness.say(b"two")
        await becomes(lambda: worker._store.journal.position.applied == 2)
    harness.say(b"three")
    await harness.drain()
    assert (harness.archive / f"{HOST}.log").read_bytes() == b"one\ntwo\nthree\n"


async def test_the_stream_is_read_on_while_the_many_files_of_an_old_day_are_sealed(tmp_path, monkeypatch):
    monkeypatch.setattr("consumer.partition.sealing.SEALING_SECONDS", 0.0)  # one file at a time
    harness = PartitionHarness(tmp_path)
    for number in range(20):
        harness.send(Log(LINES, id=f"{number:016x}", file=f"/var/log/{number}.log"), 0, 1000)
    await harness.drain()
    harness.wall.turn(2 * 86400)
    with harness.worker() as worker:
        worker._maintenance.stream.read_to_end()
        await worker._maintenance.sealing.seal_finished()
        assert len([file for file in worker._store.journal.files.values() if not file.sealing]) == 19
        await worker._maintenance.end()
    await harness.drain(Until.SEALED)
    assert len(harness.segments()) == 20
