"""Missing blocks: waited for, requested, and given up only when no file has them; nothing after them is lost."""

import asyncio
import time
from pathlib import Path

import pytest
from collecting import HOST, Log, PartitionHarness
from harness.waiting import becomes, slowdown

from consumer.commit.batch import Hole
from consumer.model import SourceKey, Until
from consumer.partition.missing_ranges import Answer, HoleAction, OpenHoles
from shipper.errors import ShipperError
from shipper.model import Span
from shipper.testing import Clock

LINES = b"one\ntwo\nthree\nfour\n"
LASTING = {"v": 1, "answer": "resent", "lasting": True}
HOLE = Hole(source=SourceKey(HOST, "a"), file="/f", sequence=7, missing=Span(4, 8))


def test_a_hole_is_waited_for_then_requested_several_times_then_given_up():
    clock = Clock()
    holes = OpenHoles(patience=30, limit=100, clock=clock)
    holes.update({HOLE.source: HOLE})
    assert holes.next_action(HOLE, at_once=False) is HoleAction.WAIT
    clock.turn(30)
    assert holes.next_action(HOLE, at_once=False) is HoleAction.REQUEST
    holes.answered(HOLE, Answer.RESENT)
    assert holes.next_action(HOLE, at_once=True) is HoleAction.WAIT
    clock.turn(30)
    assert holes.next_action(HOLE, at_once=False) is HoleAction.REQUEST
    clock.turn(40)
    assert holes.next_action(HOLE, at_once=False) is HoleAction.GIVE_UP


def test_what_the_producer_does_not_have_is_given_up_immediately():
    holes = OpenHoles(patience=30, limit=100, clock=Clock())
    holes.update({HOLE.source: HOLE})
    assert holes.next_action(HOLE, at_once=True) is HoleAction.REQUEST
    holes.answered(HOLE, Answer.GONE)
    assert holes.next_action(HOLE, at_once=False) is HoleAction.GIVE_UP


async def test_a_resend_fills_a_hole(tmp_path):
    harness, log = PartitionHarness(tmp_path, hole_patience=1e9), Log(LINES)
    for span in [(0, 4), (8, 14), (14, 19), (4, 14), (14, 19)]:
        harness.send(log, *span)
    await harness.drain()
    assert harness.text(log) == LINES
    with harness.journal() as journal:
        assert journal.position.resume == 6


async def test_an_open_hole_is_where_the_next_collector_begins(harness, log):
    harness.send(log, 0, 4)
    behind = harness.send(log, 8, 14)
    harness.send(log, 14, 19)
    with pytest.raises(ShipperError, match=r"bytes 4-8 of /var/log/app.log on web1.example.net .* does not answer"):
        await harness.drain()
    with harness.journal() as journal:
        assert (journal.position.applied, journal.position.resume) == (3, behind)
    assert harness.text(log) == b"one\n"
    harness.send(log, 4, 8)  # its producer is back: go-back-N sends the rest too
    harness.send(log, 8, 19)
    await harness.drain()
    assert harness.text(log) == LINES


async def test_a_drain_with_an_unanswered_missing_range_seals_nothing_and_names_the_next_step(harness, log):
    harness.send(log, 4, 8)
    with pytest.raises(ShipperError) as caught:
        await harness.drain(Until.SEALED)
    assert "start its producer" in caught.value.hint
    assert len(harness.stream) == 1


async def test_the_producer_is_queried_and_what_it_sends_again_is_written(harness, log):
    asked = []

    def answer(question):
        asked.append(question)
        harness.send(log, question["from"], 19)
        return {"v": 1, "answer": "resent"}

    harness.producer(HOST, answer)
    harness.send(log, 0, 4)
    harness.send(log, 14, 19)
    await harness.drain()
    assert harness.text(log) == LINES
    assert asked == [{"v": 1, "ask": "resend", "source": log.id, "from": 4}]


async def test_a_running_collector_sends_a_request_after_its_patience(tmp_path):
    harness, log = PartitionHarness(tmp_path, hole_patience=0.05), Log(LINES)
    asked = asyncio.Event()
    harness.producer(HOST, lambda question: asked.set())
    harness.send(log, 4, 8)
    async with harness.running():
        await asyncio.wait_for(asked.wait(), 10)


async def test_bytes_that_are_gone_leave_a_gap_record_and_the_later_ones_are_written(harness, log):
    harness.producer(HOST, lambda question: {"v": 1, "answer": "gone"})
    harness.send(log, 0, 4)
    harness.send(log, 8, 14, 19)
    harness.say(b"plain")
    await harness.drain(Until.SEALED)
    assert harness.text(log) == b"one\nthree\nfour\n"
    segment = next(each for each in harness.segments() if each.file == log.file)
    assert [(gap.source, gap.start, gap.end, gap.reason) for gap in segment.gaps] == [(log.id, 4, 8, "missing")]
    assert [(span.start, span.end) for span in segment.spans] == [(0, 4), (8, 19)]
    assert harness.text(file="messages.log") == b"plain\n"  # read twice, written once
    assert (segment.first_seq, segment.last_seq) == (1, 3)


async def test_giving_up_one_hole_keeps_what_follows_another(tmp_path):
    """The older hole's blocks are in the stream: reading on after the younger one would lose them."""
    harness, old, young = (
        PartitionHarness(tmp_path),
        Log(LINES),
        Log(LINES, id="00000000000000b2", host="web2.example.net"),
    )
    patience = {"old": 2}

    def answer_late(question):
        patience["old"] -= 1
        return {"v": 1, "answer": "gone" if patience["old"] < 0 else "resent"}

    harness.producer(old.host, answer_late)
    harness.producer(young.host, lambda question: {"v": 1, "answer": "gone"})
    harness.send(old, 4, 8)
    harness.send(young, 8, 14)
    harness.send(old, 8, 19)
    await harness.drain(Until.SEALED)
    assert harness.text(old) == LINES[4:]
    assert harness.text(young) == LINES[8:14]
    gaps = {segment.host: [(gap.start, gap.end) for gap in segment.gaps] for segment in harness.segments()}
    assert gaps == {old.host: [(0, 4)], young.host: [(0, 8)]}


@pytest.mark.parametrize("max_bytes", [-1, 10_000], ids=["old", "nearly full"])
async def test_nothing_is_purged_past_an_open_hole(max_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr("consumer.partition.purge.PURGE_SECONDS", 0.01)
    monkeypatch.setattr("consumer.partition.maintenance.MARK_SECONDS", 0.01)
    harness, log = PartitionHarness(tmp_path, replay_window=0, hole_patience=1e9), Log(LINES)
    harness.wall.turn(3600)
    harness.stream.max_bytes = max_bytes
    harness.send(log, 0, 4)
    behind = harness.send(log, 8, 14)
    for _ in range(60):
        harness.say(b"x" * 100)
    async with harness.running():
        await becomes(lambda: harness.stream.state.first_sequence > 1)
        await asyncio.sleep(0.1)  # some more purges
        assert harness.stream.state.first_sequence == behind


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartitionHarness:
    """A stream that is nearly full of what follows a hole of `LINES`: two blocks and much else."""
    for seconds in ("PURGE_SECONDS", "PURGE_AGAIN_SECONDS"):
        monkeypatch.setattr(f"consumer.partition.purge.{seconds}", 0.01)
    monkeypatch.setattr("shipper.periodic.Periodic.is_due", lambda *_: True)
    harness = PartitionHarness(tmp_path, replay_window=1e9, hole_patience=1e9)
    harness.stream.max_bytes = 10_000
    harness.send(Log(LINES), 0, 4)
    harness.send(Log(LINES), 8, 14)
    for _ in range(60):
        harness.say(b"x" * 100)
    return harness


async def test_what_follows_a_hole_makes_room_in_a_full_stream_when_it_is_promised_again(full):
    log, asked = Log(LINES), []
    full.producer(HOST, lambda question: asked.append(question) or LASTING)
    async with full.running() as worker:
        await becomes(lambda: not len(full.stream))
        assert worker.status()["holes"] == 1, "it stays open until it is filled"
        for span in [(4, 8), (8, 14), (14, 19)]:
            full.send(log, *span)
        await becomes(lambda: full.text(log) == LINES)
        await becomes(lambda: worker.status()["holes"] == 0)
    assert [question["from"] for question in asked] == [4]
    assert full.text(file="messages.log").count(b"\n") == 60


async def test_a_collector_that_ends_after_an_open_hole_continues_there(full):
    log = Log(LINES)
    full.producer(HOST, lambda question: LASTING)
    async with full.running():
        await becomes(lambda: not len(full.stream))
    with full.journal() as journal:
        assert journal.position.resume == journal.position.applied + 1 == 63
    for span in [(4, 8), (8, 14), (14, 19)]:
        full.send(log, *span)
    await full.drain()
    assert full.text(log) == LINES


@pytest.mark.parametrize("answer", [None, {"v": 1, "answer": "resent"}], ids=["silent", "while the producer lives"])
async def test_a_missing_range_that_is_not_surely_filled_keeps_what_follows_it_in_a_full_stream(answer, full):
    asked = asyncio.Event()
    full.producer(HOST, lambda question: asked.set() or answer)
    async with full.running():
        await asyncio.wait_for(asked.wait(), 10)
        await asyncio.sleep(0.2)
        assert full.stream.state.first_sequence == 2


async def test_a_promise_for_one_hole_is_none_for_another(full):
    young = Log(LINES, id="00000000000000b2", host="web2.example.net")
    full.send(young, 8, 14)
    asked = {HOST: asyncio.Event(), young.host: asyncio.Event()}
    full.producer(HOST, lambda question: asked[HOST].set() or LASTING)
    full.producer(young.host, lambda question: asked[young.host].set())
    async with full.running():
        for each in asked.values():
            await asyncio.wait_for(each.wait(), 10)
        await asyncio.sleep(0.2)
        assert full.stream.state.first_sequence == 2


@pytest.mark.parametrize("size", [300, 1 << 20], ids=["slowly", "at once"])
async def test_a_collector_that_reads_again_passes_by_no_hole_that_it_has_not_met_again(size, full):
    young = Log(LINES, id="00000000000000b2", host="web2.example.net")
    full.send(young, 8, 19)
    full.producer(HOST, lambda question: LASTING)
    asked = asyncio.Event()
    full.producer(young.host, lambda question: asked.set())
    async with full.running():
        await asyncio.wait_for(asked.wait(), 10)
    async with full.running(batch_bytes=size) as worker:
        await becomes(lambda: worker.status()["holes"] == 2)
        await asyncio.sleep(0.2)
        assert full.stream.state.first_sequence == 2


async def test_many_hosts_are_queried_in_parallel(harness):
    harness.bus.longest_wait = 0.3
    for number in range(20):
        log = Log(LINES, id=f"{number:016x}", host=f"web{number}.example.net")
        harness.producer(log.host, lambda question: asyncio.sleep(10))  # receives, and never answers
        harness.send(log, 4, 8)
    began = time.monotonic()
    with pytest.raises(ShipperError):
        await harness.drain()
    assert time.monotonic() - began < 3 * slowdown()  # one after the other: 6 s


async def test_bytes_that_the_host_no_longer_reads_are_recorded_as_excluded_without_waiting(tmp_path):
    harness, log = PartitionHarness(tmp_path, hole_patience=0.01, hole_limit=1e9), Log(LINES)
    harness.producer(HOST, lambda question: {"v": 1, "answer": "gone", "why": "excluded"})
    for span in [(0, 4), (8, 19)]:
        harness.send(log, *span)
    await harness.drain(Until.SEALED)
    assert harness.gaps() == [(4, 8, "excluded")]
