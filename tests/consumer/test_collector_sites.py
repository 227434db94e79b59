"""A partition that is sourced from an edge site: what its producers receive, and what leaves the site when."""

import functools
from pathlib import Path

import pytest
from collecting import HOST, Log, PartitionHarness
from harness.waiting import becomes

from consumer.partition import purge as keeping
from shipper.errors import RightMissing, SessionLost
from shipper.model import StreamState
from shipper.testing import Bus, MemoryInbox

LINES = b"one\ntwo\nthree\n"
AHEAD = 100
"""Messages that the site had purged before the centre began to source it."""


class Site:
    """The answers of the site, and up to where it was purged."""

    def __init__(self) -> None:
        self.state = StreamState(AHEAD + 1, AHEAD + 9, 9, 900, 1000, "then")  # nearly full
        self.trouble: Exception | None = None
        self.answer: int | None = 1
        self.asked = 0
        self.below: list[int] = []


class SitedInbox(MemoryInbox):
    """Reads the centre's copy of the site's stream."""

    def __init__(self, site: Site, bus: Bus, stream: str) -> None:
        super().__init__(bus, stream)
        self._site = site

    async def state(self) -> StreamState:
        return (await super().state())._replace(site="edge1")

    async def at_origin(self, sequence: int) -> int | None:
        return sequence + AHEAD if self._stream().get(sequence) else None

    async def site_state(self) -> StreamState | None:
        self._site.asked += 1
        if self._site.trouble:
            raise self._site.trouble
        return self._site.state

    async def purge_site(self, below: int) -> int | None:
        self._site.below.append(below)
        return self._site.answer


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr("consumer.partition.purge.PURGE_SECONDS", 0.01)
    monkeypatch.setattr(keeping, "SITE_SECONDS", 0.01)
    return Site()


@pytest.fixture
def harness(tmp_path: Path, site: Site) -> PartitionHarness:
    found = PartitionHarness(tmp_path, archive="a1")
    found.inbox = functools.partial(SitedInbox, site)
    return found


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The events about sites, in their order."""
    heard: list[str] = []
    for name in ("site_purged", "site_away", "site_refused", "site_differs"):
        monkeypatch.setattr(keeping.events, name, lambda name=name, **_: heard.append(name))
    return heard


async def told(harness: PartitionHarness) -> int:
    answer = None
    while answer is None:
        answer = await harness.bus.ask(f"ctl.up.{HOST}", {"v": 1, "ask": "receipts", "partition": 0}, 5)
    return answer["through"]


async def test_producers_receive_the_sequences_of_the_site(harness):
    log = Log(LINES)
    harness.send(log, 0, 4, 8)
    async with harness.running() as worker:
        await becomes(lambda: worker.journal.position.applied == 2)
        assert await told(harness) == AHEAD + 2


async def test_nothing_is_promised_while_it_is_unknown_where_the_last_message_was(harness):
    harness.send(Log(LINES), 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker.journal.position.applied == 1)
        harness.stream.delete(1)
        assert await told(harness) == 0


async def test_what_is_archived_leaves_a_site_that_is_nearly_full(harness, site, said):
    log = Log(LINES)
    harness.send(log, 0, 4, 8)
    async with harness.running() as worker:
        await becomes(lambda: 3 in site.below)
        await becomes(lambda: "site_purged" in said)
        assert worker.status()["site"] == {"messages": 9, "bytes": 900, "max_bytes": 1000, "away": False}
    assert max(site.below) == 3


async def test_nothing_after_an_open_hole_leaves_the_site(harness, site):
    log = Log(LINES)
    harness.send(log, 0, 4)
    harness.send(log, 8, 14)
    async with harness.running() as worker:
        await becomes(lambda: worker.status()["holes"])
        site.below.clear()
        await becomes(lambda: len(site.below) > 2)
    assert set(site.below) == {2}


async def test_what_follows_a_hole_makes_room_at_a_full_site_when_it_is_surely_sent_again(harness, site, monkeypatch):
    monkeypatch.setattr("shipper.periodic.Periodic.is_due", lambda *_: True)
    log, asked = Log(LINES), []
    site.answer = 0  # nothing before the hole is left there
    harness.producer(HOST, lambda question: asked.append(question) or {"v": 1, "answer": "resent", "lasting": True})
    harness.send(log, 0, 4)
    harness.send(log, 8, 14)
    async with harness.running() as worker:
        await becomes(lambda: 3 in site.below)
        assert worker.status()["holes"] == 1
        harness.send(log, 4, 8, 14)
        await becomes(lambda: harness.text(log) == LINES)
    assert asked


async def test_what_is_young_stays_at_a_site_that_has_room(harness, site):
    site.state = site.state._replace(bytes=100)
    harness.send(Log(LINES), 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: worker.journal.position.applied == 1)
        await becomes(lambda: site.asked > 3)
    assert not site.below


async def test_a_copy_keeps_its_last_message_which_contains_the_position_of_the_site(harness):
    harness.stream.max_bytes = 5000
    for _ in range(30):
        harness.say(b"x" * 100)
    async with harness.running():
        await becomes(lambda: len(harness.stream) == 1)
    assert [message.sequence for message in harness.stream] == [30]
    assert harness.text(file="messages.log").count(b"\n") == 30


async def test_an_unreachable_site_delays_nothing_and_is_reported_once(harness, site, said):
    site.trouble = SessionLost("edge1 does not answer")
    log = Log(LINES)
    harness.send(log, 0, 4)
    async with harness.running() as worker:
        await becomes(lambda: site.asked > 3)
        harness.send(log, 4, 14)
        await becomes(lambda: worker.journal.position.applied == 2)
        assert said == ["site_away"]
        site.trouble = None
        await becomes(lambda: 3 in site.below)
    assert harness.text(log) == LINES


async def test_a_site_without_the_right_to_answer_is_queried_again_much_later(harness, site, said):
    site.trouble = RightMissing("no right")
    harness.send(Log(LINES), 0, 14)
    async with harness.running() as worker:
        await becomes(lambda: said)
        for _ in range(5):
            harness.say(b"more")
        await becomes(lambda: worker.journal.position.applied == 6)
    assert said == ["site_refused"]
    assert site.asked == 1


async def test_a_site_that_differs_is_reported(harness, site, said):
    site.answer = None
    harness.send(Log(LINES), 0, 14)
    async with harness.running():
        await becomes(lambda: said)
    assert set(said) == {"site_differs"}
