"""Days, silence and templates: what is over is closed, what is not stays open, and `live/` follows."""

import datetime as dt
import os
from pathlib import Path

import pytest
from collecting import HOST, Desk, Log, becomes, cuts
from fleet import unpack
from keeping import day_closer

from consumer.options import Until
from consumer.segments.day_close import DayCloser
from shipper.manifest import standing

LINES = b"".join(b"%d a line of a log\n" % number for number in range(500))
DAY = "2026-11-20"  # of the streams' clock


def days(desk: Desk) -> DayCloser:
    """What tends the days of the desk's archive, on 2026-11-23."""
    settings = {"merge": 1 << 24, "segment": 1 << 27, "keep_days": 0, "keep_bytes": 0}
    return day_closer(desk.archive, desk.sealer, **settings, today=lambda: dt.date(2026, 11, 23))


async def test_blocks_of_two_days_go_to_two_days_and_the_older_is_sealed_and_closed(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    desk.send(log, 0, 1000)
    async with desk.running() as worker:
        await becomes(lambda: len(desk.text(log)) == 1000)
        assert not desk.segments()
        assert not worker.is_past(DAY)
        desk.clock.turn(86400)
        desk.send(log, 1000, 2000)
        await becomes(desk.segments)
        await becomes(lambda: worker.is_past(DAY))
        days(desk).run([worker], lambda: True)  # "past" for the partition, the collector and the calendar
        assert not worker.is_past("2026-11-21")
    (segment,) = desk.segments()
    assert segment.path.startswith(f"date={DAY}/")
    assert unpack(desk.archive / segment.path) == LINES[:1000]
    assert next(desk.archive.glob("date=2026-11-21/*/*/_open-*")).read_bytes() == LINES[1000:2000]


async def test_a_day_is_closed_when_every_partition_is_past_it_and_not_before(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    desk.send(log, 0, 1000)
    await desk.drain(Until.SEALED)

    class Other:
        partition = 0
        past = False

        def is_past(self, date: str) -> bool:
            return self.past

    one, other = Other(), Other()
    one.past = True
    days(desk).run([one, other], lambda: True)
    assert not list(desk.archive.glob("_manifest/*/*.done"))
    other.past = True
    days(desk).run([one, other], lambda: True, everywhere=lambda _: False)
    assert not list(desk.archive.glob("_manifest/*/*.done"))
    days(desk).run([one, other], lambda: True)
    assert [path.name for path in desk.archive.glob("_manifest/*/*.done")] == ["here.done"]
    assert desk.sealer.dates() == []


async def test_segments_of_a_day_are_merged_before_it_is_closed(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    for start, end in cuts(LINES[:4000], 1000):
        desk.send(log, start, end)
        await desk.drain(Until.SEALED)
    desk.clock.turn(86400)
    desk.send(log, 4000, 5000)
    desk.wall.turn(86400)
    async with desk.running() as worker:
        await becomes(lambda: worker.is_past(DAY))
        days(desk).run([worker], lambda: True)
    (whole,) = standing(desk.segments())
    assert len(whole.replaces) == 4
    assert unpack(desk.archive / whole.path) == LINES[:4000]
    assert [path.name for path in desk.archive.glob("_manifest/*/*.done")] == ["here.done"]


async def test_a_silent_stream_closes_the_day_when_it_is_over(tmp_path: Path) -> None:
    """Nothing new comes that could show that the day is over: the clock does, while the stream is read to its end."""
    desk, log = Desk(tmp_path), Log(LINES)
    desk.send(log, 0, 1000)
    async with desk.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not worker.is_past(DAY)
        desk.wall.turn(86400)
        await becomes(desk.segments)
        await becomes(lambda: worker.is_past(DAY))


async def test_an_open_hole_keeps_its_day_open(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, hole_patience=1e9), Log(LINES)
    desk.send(log, 0, 1000)
    desk.send(log, 2000, 3000)
    desk.clock.turn(86400)
    desk.send(log, 3000, 4000)
    desk.wall.turn(2 * 86400)
    async with desk.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not worker.is_past(DAY)
    with desk.worker() as worker:  # a restart knows of it before the hole is met again
        assert not worker.is_past(DAY)


async def test_a_silent_file_is_sealed(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, idle_seal=3600), Log(LINES)
    desk.send(log, 0, 1000)
    async with desk.running() as worker:
        await becomes(lambda: worker._maintenance.stream.read_at)
        assert not desk.segments()
        desk.wall.turn(3601)
        await becomes(desk.segments)
        desk.send(log, 1000, 2000)
        await becomes(lambda: len(desk.text(log)) == 2000)
    assert desk.text(log) == LINES[:2000]


async def test_the_live_link_follows_the_open_file(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    link = desk.archive / "live" / HOST / "var/log/app.log"
    desk.send(log, 0, 1000)
    await desk.drain()
    assert link.read_bytes() == LINES[:1000]
    assert not Path(os.readlink(link)).is_absolute()  # the archive may be moved
    desk.clock.turn(86400)
    desk.send(log, 1000, 2000)
    await desk.drain()
    assert link.read_bytes() == LINES[1000:2000]
    await desk.drain(Until.SEALED)
    assert not link.is_symlink()


async def test_a_template_says_where_lines_go_and_nothing_is_sealed(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, template="{host}/%Y-%m-%d.log"), Log(b"one\ntwo\n")
    desk.send(log, 0, 8)
    desk.say(b"plain")
    await desk.drain(Until.SEALED)
    desk.clock.turn(86400)
    desk.say(b"next day")
    await desk.drain(Until.SEALED)
    assert desk.files() == {f"{HOST}/2026-11-20.log", f"{HOST}/2026-11-21.log"}
    assert (desk.archive / HOST / "2026-11-20.log").read_bytes() == b"one\ntwo\nplain\n"
    assert (desk.archive / HOST / "2026-11-21.log").read_bytes() == b"next day\n"


async def test_a_template_file_of_an_old_day_is_let_go_and_appended_when_more_comes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, template="{host}.log")
    desk.say(b"one")
    desk.wall.turn(2 * 86400)
    async with desk.running() as worker:
        await becomes(lambda: worker._store.journal.position.applied == 1 and not worker._store.journal.files)
        desk.say(b"two")
        await becomes(lambda: worker._store.journal.position.applied == 2)
    desk.say(b"three")
    await desk.drain()
    assert (desk.archive / f"{HOST}.log").read_bytes() == b"one\ntwo\nthree\n"


async def test_the_stream_is_read_on_while_the_many_files_of_an_old_day_are_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consumer.partition.sealing.SEALING_SECONDS", 0.0)  # one file at a time
    desk = Desk(tmp_path)
    for number in range(20):
        desk.send(Log(LINES, id=f"{number:016x}", file=f"/var/log/{number}.log"), 0, 1000)
    await desk.drain()
    desk.wall.turn(2 * 86400)
    with desk.worker() as worker:
        worker._maintenance.stream.read_to_end()
        await worker._maintenance.sealing.seal_finished()
        assert len([file for file in worker._store.journal.files.values() if not file.sealing]) == 19
        await worker._maintenance.end()
    await desk.drain(Until.SEALED)
    assert len(desk.segments()) == 20
