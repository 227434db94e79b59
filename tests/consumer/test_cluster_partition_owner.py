"""One partition's worker under a lease: what it does when it loses it, and with what another epoch has left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collecting import FILE, HOST, LocalFence, Log, PartitionHarness, kill_at
from harness.fleet import unpack
from harness.waiting import becomes

from consumer.archive.directory import Layout
from consumer.commit.batch import Hole
from consumer.commit.sink import Sink
from consumer.model import SourceKey, Until
from consumer.partition.missing_ranges import Answer, HoleAction, OpenHoles
from consumer.partition.sealing import SealScheduler
from shipper.errors import Fenced, SessionLost, Unavailable
from shipper.model import Span
from shipper.testing import Clock

LINES = b"".join(b"%d a line\n" % number for number in range(500))


class LeaseLostAfter:
    """A lease that is lost at the n-th question."""

    def __init__(self, left: int, error: Callable[[], Exception] = Fenced) -> None:
        self.left = left
        self._error = error

    async def hold(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise self._error()

    async def prove(self) -> None:
        await self.hold()


class UnprovenLease(LocalFence):
    """A lease whose state cannot be requested."""

    asked = 0

    async def prove(self) -> None:
        self.asked += 1
        raise SessionLost("no answer")


@pytest.mark.parametrize("questions", range(8))
async def test_a_worker_whose_lease_is_lost_commits_and_acknowledges_nothing_more(tmp_path, questions):
    harness, log = PartitionHarness(tmp_path, batch_bytes=1), Log(LINES)
    harness.ship(log, 1000)
    harness.fence = LeaseLostAfter(questions)
    with pytest.raises(Fenced):
        await harness.drain()
    with harness.journal() as journal:
        (committed,) = [file.length for file in journal.files.values()] or [0]
        assert journal.position.applied == harness.stream.ack_floor
        assert committed == min(harness.stream.ack_floor * 1000, len(LINES))
    harness.fence = LeaseLostAfter(1000)
    await harness.drain()
    assert harness.text(log) == LINES


async def test_an_unreadable_lease_is_waited_for_and_nothing_is_written_meanwhile(harness, log):
    harness.send(log, 0, len(LINES))
    harness.fence = LeaseLostAfter(2, lambda: SessionLost("no bucket"))
    harness.patience = 0.5
    with pytest.raises(Unavailable, match="no bucket"):
        await harness.drain()
    assert harness.stream.ack_floor == 0
    harness.fence = LocalFence()
    await harness.drain()
    assert harness.text(log) == LINES


async def test_nothing_is_sealed_or_purged_that_the_next_owner_might_not_know_of(tmp_path, monkeypatch):
    monkeypatch.setattr("consumer.partition.purge.PURGE_SECONDS", 0.01)
    harness, log = PartitionHarness(tmp_path, segment_bytes=100, replay_window=0), Log(LINES)
    harness.ship(log, 1000)
    harness.stream.max_bytes = harness.stream.stored_bytes  # full: what is archived is in the way
    harness.fence = fence = UnprovenLease()
    async with harness.running():
        await becomes(lambda: harness.stream.ack_floor == harness.stream.last_sequence and fence.asked > 1)
    assert harness.segments() == []
    assert harness.stream.state.first_sequence == 1
    harness.fence = LocalFence()
    async with harness.running():
        await becomes(lambda: harness.segments() and harness.stream.state.first_sequence > harness.stream.last_sequence)


# -- epochs -------------------------------------------------------------------------------------------------------


def in_epoch(harness: PartitionHarness, number: int) -> None:
    """The next worker is of another epoch; the journal is already a copy."""
    harness.layout = Layout(harness.archive, epoch=number)


def open_names(harness: PartitionHarness) -> list[str]:
    return sorted(path.name for path in harness.archive.rglob("_open-*"))


async def nothing(_: SealScheduler) -> None:
    """The next takeover comes sooner than housekeeping."""


async def test_files_of_an_epoch_that_is_over_are_sealed_before_those_of_the_next_in_their_order(
    harness, log, monkeypatch
):
    monkeypatch.setattr(SealScheduler, "seal_finished", nothing)
    for epoch, (start, end) in enumerate([(0, 1000), (1000, 2000), (2000, 3000)]):
        in_epoch(harness, epoch)
        harness.send(log, start, end)
        await harness.drain()
    assert open_names(harness) == ["_open-var~log~app.log", "_open-var~log~app.log=1", "_open-var~log~app.log=2"]
    harness.send(log, 3000, len(LINES))
    await harness.drain(segment_bytes=100)  # the newest is to be sealed immediately
    assert b"".join(unpack(harness.archive / segment.path) for segment in harness.segments()) == LINES
    assert open_names(harness) == []


@pytest.mark.parametrize("does", ["write", "rename"])
async def test_what_a_fenced_collector_did_to_an_open_file_changes_no_committed_byte(harness, log, does):
    harness.send(log, 0, 1000)
    await harness.drain()
    if does == "write":
        (opened,) = harness.archive.rglob("_open-*")
        opened.write_bytes(LINES[:1000] + b"what was not committed\n")
    else:
        move_aside(harness)
    in_epoch(harness, 1)
    harness.send(log, 1000, len(LINES))
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert [gap for segment in harness.segments() for gap in segment.gaps] == []


async def test_a_fenced_collector_that_wakes_takes_nothing_that_the_next_owner_is_sealing(harness, log):
    harness.send(log, 0, 1000)
    await harness.drain()
    taken = move_aside(harness)
    in_epoch(harness, 1)
    harness.fence = UnprovenLease()
    harness.send(log, 1000, len(LINES))
    async with harness.running(segment_bytes=100):  # it renames its own files after those that are older
        await becomes(lambda: len(list(harness.archive.rglob("_sealing-*"))) > 1)
    assert taken.exists()


def move_aside(harness: PartitionHarness) -> Path:
    """What is open, under a name that another collector chose for it: there."""
    (opened,) = harness.archive.rglob("_open-*")
    return opened.rename(opened.with_name(f"_sealing-var~log~app.log-{99:020d}.zst"))


async def test_a_file_that_was_begun_and_never_got_a_byte_is_forgotten(harness, log, monkeypatch):
    harness.send(log, 0, len(LINES))
    kill_at(monkeypatch, Sink, "append")
    await harness.die()
    in_epoch(harness, 1)
    await harness.drain()
    assert open_names(harness) == ["_open-var~log~app.log=1"]
    await harness.drain(Until.SEALED)
    assert harness.text(log) == LINES
    assert len(harness.segments()) == 1


async def test_a_day_is_over_when_nothing_can_come_for_it_and_all_of_it_is_sealed(harness, log):
    harness.send(log, 0, 1000)
    async with harness.running() as worker:
        await becomes(lambda: worker.past() == "2026-11-19")
        harness.clock.turn(86400)
        harness.send(log, 1000, 2000)
        await becomes(lambda: worker.past() == "2026-11-20")
        assert worker.is_past("2026-11-20")
        assert len([segment for segment in harness.segments() if segment.path.startswith("date=2026-11-20/")]) == 1
        harness.clock.turn(86400)
        harness.send(log, 3000, 4000)  # after a missing range
        await becomes(lambda: worker.journal.position.reads_again)
        assert worker.past() == ""


# -- holes --------------------------------------------------------------------------------------------------------


async def test_bytes_of_another_archive_are_passed_and_the_rest_of_the_hole_is_sent_again(tmp_path):
    harness, log = PartitionHarness(tmp_path, archive="mine"), Log(LINES)
    asked = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        asked.append((question["from"], question["archive"]))
        if question["from"] == 0:
            return {"v": 1, "answer": "archived", "watermark": 1500}
        harness.send(log, 1500, len(LINES))
        return {"v": 1, "answer": "resent"}

    harness.producer(HOST, answer)
    harness.send(log, 3000, len(LINES))
    await harness.drain(Until.SEALED)
    assert asked == [(0, "mine"), (1500, "mine")]
    assert harness.text(log) == LINES[1500:]
    assert harness.gaps() == [(0, 1500, "elsewhere")]


@pytest.mark.parametrize(
    ("archived", "gaps"), [(1500, [(0, 1500, "elsewhere"), (1500, 3000, "missing")]), (5000, [(0, 3000, "elsewhere")])]
)
async def test_what_is_neither_here_nor_in_another_archive_is_distinguished(tmp_path, archived, gaps):
    harness, log = PartitionHarness(tmp_path, archive="mine"), Log(LINES)
    elsewhere, gone = {"v": 1, "answer": "archived", "watermark": archived}, {"v": 1, "answer": "gone"}
    harness.producer(HOST, lambda question: elsewhere if question["from"] < archived else gone)
    harness.send(log, 3000, len(LINES))
    await harness.drain(Until.SEALED)
    assert harness.gaps() == gaps
    assert harness.text(log) == LINES[3000:]


def test_a_missing_range_keeps_its_age_however_many_sessions_end_meanwhile():
    clock = Clock()
    hole = Hole(source=SourceKey(HOST, "a"), file=FILE, sequence=7, missing=Span(4, 8))
    holes = OpenHoles(patience=1e9, limit=100, clock=clock)
    for _ in range(3):
        holes.update({hole.source: hole})
        clock.turn(30)
        holes.begin_session()
    holes.read_to(6)
    holes.update({hole.source: hole})
    assert holes.next_action(hole, at_once=False) is HoleAction.WAIT
    clock.turn(10)
    assert holes.next_action(hole, at_once=False) is HoleAction.GIVE_UP
    holes.answered(hole, Answer.RESENT)
    holes.begin_session()
    holes.read_to(7)  # and it was not met: it is filled
    holes.update({hole.source: hole})
    assert holes.next_action(hole, at_once=False) is HoleAction.WAIT


async def test_messages_that_left_the_stream_unread_are_counted_and_reported_once(harness, capsys):
    harness.say(b"one")
    await harness.drain()
    for line in (b"two", b"three", b"four"):
        harness.say(line)
    harness.stream.purge(4)
    await harness.drain()
    await harness.drain()
    assert harness.text(file="messages.log") == b"one\nfour\n"
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "messages_gone" in line]
    assert "first=2 messages=2" in said


async def test_a_clean_end_sends_producers_the_receipts_that_are_still_due(harness, log):
    harness.producer(HOST, lambda _: None)
    harness.send(log, 0, len(LINES))
    async with harness.running():
        await becomes(lambda: harness.stream.ack_floor == 1)
    assert harness.told[-1]["receipts"][0]["watermark"] == len(LINES)
