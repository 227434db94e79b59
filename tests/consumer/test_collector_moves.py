"""Hosts that leave a partition, and hosts that come from another one: each byte once, and no false gap."""

import asyncio
import sqlite3
import zlib

import pytest
from collecting import FILE, HOST, Log, PartitionHarness

from consumer.model import SourceKey, Until
from consumer.partition.receipt_sender import RequestLimit
from shipper import codec
from shipper.control import ReceiptsRequest
from shipper.model import Handoff
from shipper.subjects import MOVER

LINES = b"one\ntwo\nthree\nfour\n"
HERE, ELSEWHERE = "00c0ffee00c0ffee", "00beef0000beef00"


def send(
    harness: PartitionHarness, log: Log, start: int, end: int, *, version: int = 0, handoff: Handoff | None = None
) -> int:
    """A block of a host that goes by `version` of the map."""
    subject, headers, payload = log.message(start, end)
    headers["Log-Map"] = str(version)
    if handoff:
        crc = "" if handoff.crc is None else f"{handoff.crc:08x}"
        headers["Log-Handoff"] = f"{handoff.offset}-{crc}-{handoff.archive}"
    return harness.bus.store(subject, headers, payload)


def leave(harness: PartitionHarness, version: int, host: str = HOST) -> int:
    return harness.bus.store(f"logs.p0.{host}", codec.move_marker(version), b"")


def came_from(log: Log, offset: int, archive: str = HERE) -> Handoff:
    return Handoff(offset, zlib.crc32(log.data[:offset]), archive)


async def test_what_comes_after_a_hosts_marker_by_an_older_map_is_dropped(harness, log):
    other = Log(LINES, host="web2.example.net")
    send(harness, log, 0, 4)
    leave(harness, 3)
    send(harness, log, 4, 8, version=2)  # of a connection that is closed
    send(harness, other, 0, 4)
    await harness.drain()
    assert harness.text(log) == LINES[:4]
    assert harness.text(other) == LINES[:4]


async def test_the_marker_holds_after_a_restart(harness, log):
    send(harness, log, 0, 4)
    leave(harness, 3)
    await harness.drain()
    send(harness, log, 4, 8, version=2)
    await harness.drain()
    assert harness.text(log) == LINES[:4]


async def test_a_host_that_moves_here_continues_after_the_last_byte_of_the_other_partition(tmp_path):
    harness, log = PartitionHarness(tmp_path, archive=HERE), Log(LINES)
    handoff = came_from(log, 8)
    send(harness, log, 4, 14, version=3, handoff=handoff)  # what was not acknowledged there comes again
    send(harness, log, 14, 19, version=3, handoff=handoff)
    await harness.drain()
    assert harness.text(log) == LINES[8:]
    with harness.journal() as journal:
        known = journal.source(SourceKey(HOST, log.id))
        assert known is not None
        assert (known.origin, known.watermark, known.crc, known.proven) == (0, 19, zlib.crc32(LINES), True)
    await harness.drain(Until.SEALED)
    assert [each.gaps for each in harness.segments()] == [()]


async def test_bytes_that_another_archive_has_are_recorded_as_elsewhere(tmp_path):
    harness, log = PartitionHarness(tmp_path, archive=HERE), Log(LINES)
    send(harness, log, 8, 19, version=3, handoff=came_from(log, 8, ELSEWHERE))
    await harness.drain(Until.SEALED)
    assert harness.gaps() == [(0, 8, "elsewhere")]


async def test_a_host_that_comes_back_continues_in_a_segment_of_its_own(tmp_path):
    harness, log = PartitionHarness(tmp_path, archive=HERE), Log(LINES)
    send(harness, log, 0, 4)
    leave(harness, 1)
    await harness.drain()
    send(harness, log, 8, 14, version=2, handoff=came_from(log, 8))
    send(harness, log, 14, 19, version=2, handoff=came_from(log, 8))
    await harness.drain(Until.SEALED)
    spans = [[(span.start, span.end) for span in each.spans] for each in harness.segments()]
    assert spans == [[(0, 4)], [(8, 19)]]
    assert harness.text(log) == LINES[:4] + LINES[8:]


async def test_a_host_that_leaves_takes_its_holes_along(harness, log):
    send(harness, log, 0, 4)
    send(harness, log, 8, 14)
    leave(harness, 1)
    await harness.drain()  # else it would request the bytes, and fail
    assert harness.text(log) == LINES[:4]


async def test_the_last_receipts_wait_until_the_hosts_files_are_put_aside(harness, log):
    send(harness, log, 0, 4)
    question = {"v": 1, "ask": "receipts", "partition": 0, "sources": [log.id], "leaving": 3}
    asker = harness.producer("nobody", lambda _: None)
    async with harness.running() as worker:
        said = await _answer(asker, question, lambda said: said["receipts"])
        assert said["left"] == 0
        leave(harness, 3)
        said = await _answer(asker, question, lambda said: said["left"] == 3)
        assert [each["watermark"] for each in said["receipts"]] == [4]
        assert not any(path.endswith(FILE[-3:]) and "_open" in path for path in worker.journal.files)


async def test_a_closed_stream_is_sealed_when_it_is_requested(harness, log):
    last = send(harness, log, 0, 19)
    asker, question = harness.producer("nobody", lambda _: None), {"v": 1, "ask": "finish", "partition": 0}
    async with harness.running():
        harness.stream.subjects = ("retired.logs.0",)
        said = await _answer(asker, question, lambda said: said["through"] == last, of=MOVER)
        await _answer(asker, question, lambda said: said["open"] == 0, of=MOVER)
        assert said["open"] in {0, 1}
    assert len(harness.segments()) == 1


@pytest.mark.parametrize(("of", "subjects"), [(HOST, ("retired.logs.0",)), (MOVER, ("logs.p0.>",))])
async def test_no_host_can_have_a_stream_sealed_and_the_partitioner_only_a_closed_one(of, subjects, harness, log):
    send(harness, log, 0, 19)
    asker = harness.producer("nobody", lambda _: None)
    async with harness.running() as worker:
        await _answer(asker, {"v": 1, "ask": "receipts", "partition": 0}, lambda said: said["receipts"])
        harness.stream.subjects = subjects
        for _ in range(3):
            assert await asker.ask(f"ctl.up.{of}", {"v": 1, "ask": "finish", "partition": 0}, 0.1) is None
        await asyncio.sleep(0.2)
        assert worker.status()["refused_questions"] == 3
        assert [path for path in worker.journal.files if "_open" in path]


async def test_questions_without_end_are_not_answered_and_do_not_keep_others_from_theirs(harness, log):
    send(harness, log, 0, 19)
    asker = harness.producer("nobody", lambda _: None)
    question = {"v": 1, "ask": "receipts", "partition": 0}  # of all its sources: 52 of them reach the limit
    async with harness.running() as worker:
        await _answer(asker, question, lambda said: said["receipts"])
        await _answer(asker, question, lambda said: said["receipts"] == [], of="flood.example.net")
        async with asyncio.timeout(15):
            while not worker.status()["refused_questions"]:
                await asker.ask("ctl.up.flood.example.net", question, 1.0)
        odd = {"v": 1, "ask": "receipts", "partition": 0, "sources": ["\ud800", 7, "x" * 99, log.id]}
        said = await _answer(asker, odd, lambda said: said["receipts"])
        assert [each["source"] for each in said["receipts"]] == [log.id]


def test_an_honest_host_requests_all_of_100_000_files_in_one_go_and_forgotten_hosts_are_few():
    now = 0.0
    questions = RequestLimit(0, clock=lambda: now)
    full = ReceiptsRequest(0, sources=tuple(f"{number:016x}" for number in range(2000)))
    assert all(questions.allows("honest", full) for _ in range(50))
    while questions.allows("flood", full):
        pass
    assert questions.allows("honest", full)
    now += 4.2
    assert [questions.allows("flood", full) for _ in range(3)] == [True, True, False]
    for number in range(30_000):
        assert questions.allows(f"h{number}", ReceiptsRequest(0, sources=()))
    assert len(questions._limit._points) <= 20_000


def test_a_journal_of_the_version_before_learns_of_departures(harness):
    with harness.journal():
        pass
    with sqlite3.connect(harness.journal_path) as database:
        database.execute("DROP TABLE departures")
        for column in ("marks", "marked_at", "marked_second", "zone"):
            database.execute(f"ALTER TABLE files DROP COLUMN {column}")
        database.execute("PRAGMA user_version = 3")
    with harness.journal() as journal:
        assert journal.left == {}


async def _answer(asker, question, enough, of=HOST):  # type: ignore[no-untyped-def]
    """The first answer that is `enough`."""
    async with asyncio.timeout(15):
        while True:
            said = await asker.ask(f"ctl.up.{of}", question, 1.0)
            if said is not None and enough(said):
                return said
            await asyncio.sleep(0.01)
