"""How long lines are collected: until the delay is over, a block is full, a reader follows, or the work ends."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.waiting import becomes
from producing import HOST, Producer, append

from producer.linger import FOLLOWED_SECONDS, LOOK_SECONDS, PACE_SECONDS, Collecting, Linger
from producer.scan_schedule import MOST_MUTED
from shipper.control import FOLLOW_SECONDS, FollowRequest
from shipper.subjects import control_ask, control_down

BLOCK_BYTES = 64 * 1024
HOUR = 3600.0
TICK_SECONDS = 0.01


class Clocked:
    """Lines that are written all the time at one rate, on a clock that the test moves."""

    def __init__(self, max_delay: float, rate: int) -> None:
        self.now = 1000.0
        self.roused = 0
        self.is_in_flight = False
        self.linger = Linger(
            max_delay, rouse=self.rouse, is_in_flight=lambda: self.is_in_flight, clock=lambda: self.now
        )
        self._collecting = Collecting(self.linger, BLOCK_BYTES)
        self._rate = rate
        self._read_at = self.now
        self.looks = 0

    def rouse(self) -> None:
        self.roused += 1

    def delay(self) -> float:
        """Seconds from the first write after the last read to the next read, the pause of notifications included."""
        self._read_at = self.now
        self.now += self.linger.pause
        while not self._collecting.is_due(self.now, self._written):
            self.now = max(self.now + TICK_SECONDS, self._collecting.next_at())
            assert self.now < self._read_at + 100
        self._collecting.end()
        return self.now - self._read_at

    def _written(self) -> int:
        self.looks += 1
        return round((self.now - self._read_at) * self._rate)


@pytest.mark.parametrize(
    ("max_delay", "rate", "longest", "shortest"),
    [
        (1.0, 1_000, 1.0, 1.0),
        (0.02, 1_000, 0.02, 0.02),
        (10.0, 1_000, 1.0, 1.0),  # the usual delay: no collector requests another pace
        (1.0, 100_000_000, 0.3, 0.1),  # a block is full long before the delay is over
        (10.0, 2 * BLOCK_BYTES, 0.7, 0.5),
    ],
)
def test_what_is_written_all_the_time_is_read_when_its_oldest_byte_is_old_or_a_block_is_full(
    max_delay: float, rate: int, longest: float, shortest: float
) -> None:
    clocked = Clocked(max_delay, rate)
    for _ in range(5):
        assert shortest - TICK_SECONDS <= clocked.delay() <= longest + 2 * TICK_SECONDS


def test_a_quiet_host_is_not_checked_for_full_blocks_again_and_again() -> None:
    clocked = Clocked(10.0, 1_000)
    clocked.linger.pace(10.0)
    clocked.delay()
    clocked.looks = 0
    for _ in range(5):
        clocked.delay()
    assert clocked.looks <= 2 * 5


def test_a_follower_is_served_early_for_a_while_and_wakes_the_host_once() -> None:
    clocked = Clocked(1.0, 1_000)
    clocked.linger.follow()
    clocked.linger.follow()
    assert clocked.roused == 1
    assert clocked.delay() <= FOLLOWED_SECONDS + TICK_SECONDS
    clocked.now += FOLLOW_SECONDS
    assert clocked.delay() >= 1.0 - TICK_SECONDS
    clocked.linger.follow()
    assert clocked.roused == 2


@pytest.mark.parametrize(
    ("max_delay", "pace", "expected"),
    [
        (10.0, 0.0, 1.0),
        (10.0, 0.3, 1.0),  # never more blocks than without a pace
        (10.0, 4.0, 4.0),
        (2.0, 10.0, 2.0),  # the user's maximum
        (0.1, 10.0, 0.1),
    ],
)
def test_the_collector_may_request_a_longer_delay_up_to_the_maximum_of_the_host(
    max_delay: float, pace: float, expected: float
) -> None:
    clocked = Clocked(max_delay, 1_000)
    clocked.linger.pace(pace)
    assert clocked.delay() == pytest.approx(expected, abs=2 * TICK_SECONDS)
    assert clocked.linger.delay == expected
    clocked.linger.follow()
    assert clocked.delay() <= FOLLOWED_SECONDS + TICK_SECONDS
    clocked.now += PACE_SECONDS  # the collector is gone, or of a version without a pace
    assert clocked.delay() == pytest.approx(min(1.0, max_delay), abs=2 * TICK_SECONDS)


def test_while_an_ack_is_due_lines_wait_longer_unless_a_reader_follows() -> None:
    clocked = Clocked(5.0, 1_000)
    clocked.is_in_flight = True
    assert clocked.delay() == pytest.approx(5.0, abs=2 * TICK_SECONDS)
    clocked.linger.follow()
    assert clocked.delay() <= FOLLOWED_SECONDS + TICK_SECONDS


def test_nobody_makes_a_host_slower_than_its_setting_nor_a_drain_wait() -> None:
    clocked = Clocked(0.02, 1_000)
    clocked.linger.follow()
    assert clocked.delay() <= 0.02 + TICK_SECONDS
    draining = Clocked(10.0, 1_000)
    draining.linger.drain()
    assert draining.delay() <= FOLLOWED_SECONDS + TICK_SECONDS
    assert FOLLOWED_SECONDS < LOOK_SECONDS


@pytest.fixture(autouse=True)
def _no_safety_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan reads what is being collected, too."""
    monkeypatch.setattr("producer.scan_schedule.SAFETY_SCAN_SECONDS", HOUR)


@pytest.fixture
def _an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.linger.USUAL_DELAY_SECONDS", HOUR)


def collecting(directory: Path, *patterns: str) -> Producer:
    """A producer that collects lines for an hour, and that finds changes by notifications."""
    return Producer(directory, *patterns, max_delay=HOUR, poll=0.2, watch=True)


def is_watched(producer: Producer) -> Callable[[], bool]:
    """Whether only notifications lead to reads from now on."""
    scans = producer.pipeline._scans
    return lambda: scans._has_hints and not scans._wake.names_changed


def is_collected(producer: Producer, path: Path) -> Callable[[], bool]:
    """Whether lines of a file wait for more."""
    return lambda: str(path) in producer.pipeline._scheduler._wake.grown


@pytest.mark.usefixtures("_an_hour")
async def test_lines_are_collected_and_a_stop_sends_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    for path in paths:
        append(path, b"one\n")
    producer = collecting(tmp_path, "a.log", "b.log")
    async with producer.running():
        await becomes(lambda: len(producer.stream) == 2)
        await becomes(is_watched(producer))
        append(paths[0], b"collected\n")
        await becomes(is_collected(producer, paths[0]))
        append(paths[1], b"not notified\n")
        await asyncio.sleep(5 * 0.2)  # further turns of the loop send nothing
        assert len(producer.stream) == 2
    assert [producer.archived().text(str(path)) for path in paths] == [path.read_bytes() for path in paths]


@pytest.mark.usefixtures("_an_hour")
@pytest.mark.parametrize(("files", "is_muted"), [(2, True), (MOST_MUTED + 1, False)])
async def test_after_the_first_write_in_a_small_directory_names_are_notified_and_writes_are_not(
    tmp_path: Path, files: int, is_muted: bool
) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(files)]
    for path in paths:
        append(path, b"one\n")
    producer = collecting(tmp_path, "*.log")
    async with producer.running():
        await becomes(lambda: len(producer.stream) == files)
        await becomes(is_watched(producer))
        watcher = producer.pipeline._scans._watcher
        for round_ in range(2):
            append(paths[0], b"first\n")
            await becomes(is_collected(producer, paths[0]))
            assert list(watcher.muted) == ([str(tmp_path)] if is_muted else [])
            append(paths[1], b"second\n")
            append(tmp_path / f"new{round_}.log", b"found by its name\n")
            sent = files + 3 * (round_ + 1)
            await becomes(lambda sent=sent: len(producer.stream) == sent)
            await becomes(is_watched(producer))
    assert all(producer.archived().text(path) == path.read_bytes() for path in tmp_path.glob("*.log"))


@pytest.mark.usefixtures("_an_hour")
@pytest.mark.parametrize("early", ["full block", "rotated", "follower"])
async def test_lines_are_sent_early(tmp_path: Path, early: str) -> None:
    path = tmp_path / "app.log"
    append(path, b"one\n")
    producer = collecting(tmp_path, "app.log*")
    async with producer.running():
        await becomes(lambda: len(producer.stream) == 1)
        await becomes(is_watched(producer))
        append(path, b"collected\n")
        await becomes(is_collected(producer, path))
        if early == "full block":
            append(path, b"more of it\n" * (BLOCK_BYTES // 10))
        elif early == "rotated":
            path.rename(tmp_path / "app.log.1")
            path.write_bytes(b"")
        else:
            await producer.bus.ask(control_ask(HOST), FollowRequest().to_json(), 0.1)
        await becomes(lambda: len(producer.stream) > 1)
        assert not producer.stop.requested


@pytest.mark.parametrize("hostile", [{}, {"ask": "follow", "seconds": 1e9}, {"ask": ["follow"]}, {"ask": "resend"}])
async def test_a_request_holds_the_pace_for_its_fixed_time_only(tmp_path: Path, hostile: dict[str, object]) -> None:
    append(tmp_path / "app.log", b"one\n")
    producer = collecting(tmp_path, "app.log")
    async with producer.running():
        await becomes(lambda: len(producer.stream) == 1)
        linger = producer.pipeline._scans._collecting._linger
        for subject in (control_ask(HOST), control_down(HOST)):
            await producer.bus.ask(subject, {"v": 1, **hostile}, 0.1)
        assert linger._followed_until <= linger._clock() + FOLLOW_SECONDS
    assert producer.sessions == 1


RECEIPTS = {"v": 1, "archive": "a1", "through": 0, "receipts": []}


@pytest.mark.parametrize(
    ("subject", "pace", "expected"),
    [
        (control_down(HOST), 3000, 3.0),
        (control_down(HOST), 10_000, 4.0),  # the maximum of the host
        (control_down(HOST), 10_001, 1.0),
        (control_down(HOST), -1, 1.0),
        (control_down(HOST), 3e3, 1.0),
        (control_down(HOST), "3000", 1.0),
        (control_down(HOST), None, 1.0),
        (control_ask(HOST), 3000, 1.0),  # an operator sends no receipts
    ],
)
async def test_a_pace_comes_with_receipts_of_a_collector_and_within_bounds(
    tmp_path: Path, subject: str, pace: object, expected: float
) -> None:
    append(tmp_path / "app.log", b"one\n")
    producer = Producer(tmp_path, "app.log", max_delay=4.0)
    async with producer.running():
        await becomes(lambda: len(producer.stream) == 1)
        linger = producer.pipeline._scans._collecting._linger
        await producer.bus.ask(subject, {**RECEIPTS, "pace": pace, "ask": "follow"}, 0.1)
        linger._followed_until = 0.0
        assert linger.delay == expected
        await producer.bus.ask(subject, RECEIPTS, 0.1)  # of a collector without a pace
        assert linger.delay == 1.0
