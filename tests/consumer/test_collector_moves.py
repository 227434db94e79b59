"""Hosts that leave a partition, and hosts that come from another one: each byte once, and no false gap."""

import asyncio
import sqlite3
import zlib
from pathlib import Path

import pytest
from collecting import FILE, HOST, Desk, Log

from consumer.model import SourceKey
from consumer.options import Until
from consumer.partition.receipts import RequestLimit
from shipper import codec
from shipper.control import ReceiptsRequest
from shipper.model import Handoff
from shipper.subjects import MOVER

LINES = b"one\ntwo\nthree\nfour\n"
HERE, ELSEWHERE = "00c0ffee00c0ffee", "00beef0000beef00"


def send(desk: Desk, log: Log, start: int, end: int, *, version: int = 0, handoff: Handoff | None = None) -> int:
    """A block of a host that goes by `version` of the map."""
    subject, headers, payload = log.message(start, end)
    headers["Log-Map"] = str(version)
    if handoff:
        crc = "" if handoff.crc is None else f"{handoff.crc:08x}"
        headers["Log-Handoff"] = f"{handoff.offset}-{crc}-{handoff.archive}"
    return desk.bus.store(subject, headers, payload)


def leave(desk: Desk, version: int, host: str = HOST) -> int:
    return desk.bus.store(f"logs.p0.{host}", codec.move_marker(version), b"")


def came_from(log: Log, offset: int, archive: str = HERE) -> Handoff:
    return Handoff(offset, zlib.crc32(log.data[:offset]), archive)


async def test_what_comes_behind_a_hosts_marker_by_an_older_map_is_dropped(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    other = Log(LINES, host="web2.example.net")
    send(desk, log, 0, 4)
    leave(desk, 3)
    send(desk, log, 4, 8, version=2)  # of a connection that nobody has any more
    send(desk, other, 0, 4)
    await desk.drain()
    assert desk.text(log) == LINES[:4]
    assert desk.text(other) == LINES[:4]


async def test_the_marker_holds_behind_a_restart(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    send(desk, log, 0, 4)
    leave(desk, 3)
    await desk.drain()
    send(desk, log, 4, 8, version=2)
    await desk.drain()
    assert desk.text(log) == LINES[:4]


async def test_a_host_that_comes_goes_on_behind_what_the_other_partition_has(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, archive=HERE), Log(LINES)
    handoff = came_from(log, 8)
    send(desk, log, 4, 14, version=3, handoff=handoff)  # what was not acknowledged there comes again
    send(desk, log, 14, 19, version=3, handoff=handoff)
    await desk.drain()
    assert desk.text(log) == LINES[8:]
    with desk.journal() as journal:
        known = journal.source(SourceKey(HOST, log.id))
        assert known is not None
        assert (known.origin, known.watermark, known.crc, known.proven) == (0, 19, zlib.crc32(LINES), True)
    await desk.drain(Until.SEALED)
    assert [each.gaps for each in desk.segments()] == [()]


async def test_bytes_that_another_archive_has_are_recorded_as_elsewhere(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, archive=HERE), Log(LINES)
    send(desk, log, 8, 19, version=3, handoff=came_from(log, 8, ELSEWHERE))
    await desk.drain(Until.SEALED)
    (segment,) = desk.segments()
    assert [(gap.start, gap.end, gap.reason) for gap in segment.gaps] == [(0, 8, "elsewhere")]


async def test_a_host_that_comes_back_goes_on_in_a_segment_of_its_own(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path, archive=HERE), Log(LINES)
    send(desk, log, 0, 4)
    leave(desk, 1)
    await desk.drain()
    send(desk, log, 8, 14, version=2, handoff=came_from(log, 8))
    send(desk, log, 14, 19, version=2, handoff=came_from(log, 8))
    await desk.drain(Until.SEALED)
    spans = [[(span.start, span.end) for span in each.spans] for each in desk.segments()]
    assert spans == [[(0, 4)], [(8, 19)]]
    assert desk.text(log) == LINES[:4] + LINES[8:]


async def test_a_host_that_leaves_takes_its_holes_along(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    send(desk, log, 0, 4)
    send(desk, log, 8, 14)
    leave(desk, 1)
    await desk.drain()  # else it would ask for the bytes, and fail
    assert desk.text(log) == LINES[:4]


async def test_the_last_receipts_wait_until_the_hosts_files_are_put_aside(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    send(desk, log, 0, 4)
    question = {"v": 1, "ask": "receipts", "partition": 0, "sources": [log.id], "leaving": 3}
    asker = desk.producer("nobody", lambda _: None)
    async with desk.running() as worker:
        said = await _answer(asker, question, lambda said: said["receipts"])
        assert said["left"] == 0
        leave(desk, 3)
        said = await _answer(asker, question, lambda said: said["left"] == 3)
        assert [each["watermark"] for each in said["receipts"]] == [4]
        assert not any(path.endswith(FILE[-3:]) and "_open" in path for path in worker.files)


async def test_a_closed_stream_is_sealed_when_it_is_asked_for(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    last = send(desk, log, 0, 19)
    asker, question = desk.producer("nobody", lambda _: None), {"v": 1, "ask": "finish", "partition": 0}
    async with desk.running():
        desk.stream.subjects = ("retired.logs.0",)
        said = await _answer(asker, question, lambda said: said["through"] == last, of=MOVER)
        await _answer(asker, question, lambda said: said["open"] == 0, of=MOVER)
        assert said["open"] in {0, 1}
    assert len(desk.segments()) == 1


@pytest.mark.parametrize(("of", "subjects"), [(HOST, ("retired.logs.0",)), (MOVER, ("logs.p0.>",))])
async def test_no_host_can_have_a_stream_sealed_and_the_partitioner_only_a_closed_one(
    of: str, subjects: tuple[str, ...], tmp_path: Path
) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    send(desk, log, 0, 19)
    asker = desk.producer("nobody", lambda _: None)
    async with desk.running() as worker:
        await _answer(asker, {"v": 1, "ask": "receipts", "partition": 0}, lambda said: said["receipts"])
        desk.stream.subjects = subjects
        for _ in range(3):
            assert await asker.ask(f"ctl.up.{of}", {"v": 1, "ask": "finish", "partition": 0}, 0.1) is None
        await asyncio.sleep(0.2)
        assert worker.status()["refused_questions"] == 3
        assert [path for path in worker.files if "_open" in path]


async def test_questions_without_end_are_not_answered_and_do_not_keep_others_from_theirs(tmp_path: Path) -> None:
    desk, log = Desk(tmp_path), Log(LINES)
    send(desk, log, 0, 19)
    asker = desk.producer("nobody", lambda _: None)
    question = {"v": 1, "ask": "receipts", "partition": 0, "sources": [f"{number:016x}" for number in range(100)]}
    async with desk.running() as worker:
        await _answer(asker, {"v": 1, "ask": "receipts", "partition": 0}, lambda said: said["receipts"])
        await _answer(asker, question, lambda said: said["receipts"] == [], of="flood.example.net")
        async with asyncio.timeout(15):
            while not worker.status()["refused_questions"]:
                await asker.ask("ctl.up.flood.example.net", question, 1.0)
        odd = {"v": 1, "ask": "receipts", "partition": 0, "sources": ["\ud800", 7, "x" * 99, log.id]}
        said = await _answer(asker, odd, lambda said: said["receipts"])
        assert [each["source"] for each in said["receipts"]] == [log.id]


def test_an_honest_host_asks_for_all_of_100_000_files_in_one_go_and_forgotten_hosts_are_few() -> None:
    now = 0.0
    questions = RequestLimit(0, clock=lambda: now)
    full = ReceiptsRequest(0, tuple(f"{number:016x}" for number in range(2000)))
    assert all(questions.may_ask("honest", full) for _ in range(50))
    while questions.may_ask("flood", full):
        pass
    assert questions.may_ask("honest", full)
    now += 4.2
    assert [questions.may_ask("flood", full) for _ in range(3)] == [True, True, False]
    for number in range(30_000):
        assert questions.may_ask(f"h{number}", ReceiptsRequest(0, ()))
    assert len(questions._points) <= 20_000


def test_a_journal_of_the_version_before_learns_of_departures(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with desk.journal():
        pass
    with sqlite3.connect(desk.journal_path) as database:
        database.execute("DROP TABLE departures")
        database.execute("PRAGMA user_version = 3")
    with desk.journal() as journal:
        assert journal.left == {}


async def _answer(asker, question, enough, of=HOST):  # type: ignore[no-untyped-def]
    """The first answer that is `enough`."""
    async with asyncio.timeout(15):
        while True:
            said = await asker.ask(f"ctl.up.{of}", question, 1.0)
            if said is not None and enough(said):
                return said
            await asyncio.sleep(0.01)
