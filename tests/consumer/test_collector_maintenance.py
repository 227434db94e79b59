"""Maintenance: the stream is purged after archiving, producers get receipts, memory stays bounded."""

import asyncio
import json
import zlib
from dataclasses import replace
from typing import Any

from collecting import HOST, Log, PartitionHarness
from harness.waiting import becomes

from consumer.archive.journal import Journal
from consumer.model import ArchivedSource, Changes, Position, SourceKey
from consumer.partition.receipt_sender import receipts_reply
from consumer.pipeline import _parts
from shipper import control
from shipper.layout import NANOSECONDS
from shipper.model import Delivery
from shipper.testing import MemoryPublisher

LINES = b"one\ntwo\nthree\n"


def test_marks_contain_what_is_older_than_the_replay_window(tmp_path):
    journal = Journal(tmp_path / "journal")
    for sequence, second in [(10, 100), (20, 200), (30, 300)]:
        journal.commit(Changes(position=Position(applied=sequence, applied_ns=second * NANOSECONDS)))
        journal.mark()
    assert journal.applied_before(50 * NANOSECONDS) == 0
    assert journal.applied_before(250 * NANOSECONDS) == 20
    assert journal.applied_before(250 * NANOSECONDS) == 20
    assert journal.applied_before(1000 * NANOSECONDS) == 30
    journal.close()


async def test_what_is_archived_and_older_than_the_window_is_purged(tmp_path, monkeypatch):
    monkeypatch.setattr("consumer.partition.purge.PURGE_SECONDS", 0.01)
    monkeypatch.setattr("consumer.partition.maintenance.MARK_SECONDS", 0.01)
    harness, log = PartitionHarness(tmp_path, replay_window=3600), Log(LINES)
    harness.wall.turn(7200)
    harness.send(log, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker._store.journal.position.applied == 1)
        await becomes(lambda: not len(harness.stream))
        harness.clock.turn(7200)
        harness.send(log, 4, 8)  # within the window: it stays
        await becomes(lambda: worker._store.journal.position.applied == 2)
        await becomes(lambda: worker._store.journal.applied_before(1 << 62) == 2)
    assert [message.sequence for message in harness.stream] == [2]


async def test_a_stream_that_is_nearly_full_is_purged_within_the_window(tmp_path):
    harness = PartitionHarness(tmp_path, replay_window=1e9)
    harness.stream.max_bytes = 10_000
    for _ in range(60):
        harness.say(b"x" * 100)
    async with harness.running():
        await becomes(lambda: not len(harness.stream))
    assert harness.text(file="messages.log").count(b"\n") == 60


async def test_a_stream_that_fills_up_between_two_checks_is_checked_before_its_time(tmp_path):
    harness = PartitionHarness(tmp_path, replay_window=1e9)
    harness.stream.max_bytes = 20_000
    async with harness.running() as worker:
        await becomes(lambda: worker._maintenance.stream.checked_at)
        for _ in range(150):
            harness.say(b"x" * 100)
        await becomes(lambda: not len(harness.stream), within=4.0)  # the next check is 10 s after the first


async def told_to(harness: PartitionHarness, question: dict[str, Any]) -> Any:
    """The receipts of a producer, which it may have to request again where a disk is slow."""
    async with asyncio.timeout(15):
        while (told := await harness.bus.ask(f"ctl.up.{HOST}", question, 5)) is None:
            await asyncio.sleep(0.01)
    return told


async def test_a_producer_that_asks_receives_what_is_archived_of_its_host_and_partition(tmp_path):
    harness, log = PartitionHarness(tmp_path, archive="a1"), Log(LINES)
    other = Log(LINES, id="00000000000000b2", host="web2.example.net")
    harness.send(log, 0, 8)
    harness.send(other, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker._store.journal.position.applied == 2)
        producer = MemoryPublisher(harness.bus, "LOGS_0")
        question = {"v": 1, "ask": "receipts", "partition": 0}
        told = await told_to(harness, question)
        receipt = {"source": log.id, "file": log.file, "origin": 0, "watermark": 8, "crc": zlib.crc32(LINES[:8])}
        assert told == {"v": 1, "archive": "a1", "through": 2, "receipts": [receipt], "left": 0}
        for sources, found in (([log.id, "f" * 16], [receipt]), ([other.id], []), ([], [])):
            told = await told_to(harness, question | {"sources": sources})
            assert told["receipts"] == found
        assert await harness.bus.ask(f"ctl.up.{HOST}", question | {"partition": 1}, 5) is None
        assert await harness.bus.ask(f"ctl.up.{HOST}", {"ask": "something"}, 5) is None
        await producer.close()


async def test_producers_receive_changes_from_time_to_time(tmp_path):
    harness, log, other = PartitionHarness(tmp_path, receipt_every=0.02), Log(LINES), Log(LINES, id="00000000000000b2")
    harness.producer(HOST, lambda question: None)
    harness.send(log, 0, 4)

    def told() -> list[list[tuple[str, int]]]:
        return [[(each["source"], each["watermark"]) for each in message["receipts"]] for message in harness.told]

    async with harness.running():
        await becomes(lambda: told() == [[(log.id, 4)]])
        harness.send(other, 0, 8)
        await becomes(lambda: told() == [[(log.id, 4)], [(other.id, 8)]])


async def test_more_sources_than_a_message_holds_are_reported_in_several(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "MAX_RECORDS_BYTES", 300)
    harness = PartitionHarness(tmp_path, receipt_every=0.02)
    harness.producer(HOST, lambda question: None)
    logs = [Log(LINES, id=f"{number:016x}") for number in range(20)]
    for log in logs:
        harness.send(log, 0, 4)
    async with harness.running():
        await becomes(
            lambda: {each["source"] for told in harness.told for each in told["receipts"]} == {x.id for x in logs}
        )
    assert max(len(told["receipts"]) for told in harness.told) < 5


async def test_a_copy_that_differs_from_the_hosts_file_is_never_claimed_to_be_proven(harness):
    """After a gap, or where the file was rewritten, the host's own sum still identifies its file."""
    harness.producer(HOST, lambda question: {"v": 1, "answer": "gone"})
    gap, rewritten = Log(LINES, id="0" * 15 + "1", file="/gap"), Log(LINES, id="0" * 15 + "2", file="/rewritten")
    harness.send(gap, 0, 4)
    harness.send(gap, 8, 14)
    harness.send(rewritten, 0, 4)
    rewritten.data = b"ONE\ntwo\nthree\n"
    harness.send(rewritten, 4, 8, 14)
    await harness.drain()
    with harness.journal() as journal:
        for log in (gap, rewritten):
            known = journal.source(SourceKey(HOST, log.id))
            (receipt,) = receipts_reply([known], "a1", 1).to_json()["receipts"]
            assert (receipt["watermark"], receipt["crc"], receipt["told"]) == (14, -1, zlib.crc32(log.data)), log.file


def test_what_ended_long_ago_is_forgotten_and_what_lives_is_not(tmp_path):
    journal = Journal(tmp_path / "journal")
    sources = {each.key: each for each in (replace(known(n), seen_ns=n, ended=n % 2 == 0) for n in range(10))}
    journal.commit(Changes(position=Position(), sources=sources))
    assert journal.forget_sources(5) == 3
    for number in range(10):
        gone = number in {0, 2, 4}
        assert (journal.source(SourceKey(HOST, f"{number:016x}")) is None) == gone
    journal.close()


def known(number: int, file: str = "/f", crc: int | None = 1) -> ArchivedSource:
    return ArchivedSource(
        id=f"{number:016x}", host=HOST, file=file, origin=0, watermark=9, crc=crc, seen_ns=(number * 7919) % 5000
    )


def test_the_newest_sources_are_reported_when_not_all_fit(tmp_path):
    journal = Journal(tmp_path / "journal")
    sources = {each.key: each for each in map(known, range(5000))}
    journal.commit(Changes(position=Position(), sources=sources))
    newest = journal.sources_of(HOST, newest=control.MAX_SOURCES)
    assert [each.seen_ns for each in newest] == list(range(4999, 2999, -1))
    assert journal.source(SourceKey(HOST, f"{17:016x}")) == known(17)
    journal.close()


def test_receipts_fit_into_a_message_however_long_the_paths_are():
    many = [known(number, file="/" + "\udcff" * 4000, crc=None) for number in range(2000)]
    message = receipts_reply(many, "a1", 1).to_json()
    assert 10 < len(message["receipts"]) < 2000
    assert len(json.dumps(message)) <= control.MAX_RECORDS_BYTES + 100
    assert message["receipts"][0]["crc"] == -1


def test_a_batch_is_cut_by_what_it_decodes_to():
    log = Log(bytes(512 * 1024))
    _, headers, payload = log.message(0, len(log.data))
    batch = [Delivery(number, 0, 0, "", headers, payload, "") for number in range(100)]
    parts = list(_parts(batch, 4 * 1024 * 1024))
    assert [len(part) for part in parts] == [8] * 12 + [4]
    assert [each for part in parts for each in part] == batch
