"""`rate`: the reader slows down, nothing is dropped, and everything else goes on."""

import asyncio
import time
from pathlib import Path

from harness.fleet import Fleet
from harness.natsd import NatsServer
from harness.waiting import becomes, slowdown
from producing import Producer, append

from producer.rate_limit import RateLimit
from shipper.testing.server import Clock


def test_a_bucket_gives_a_second_immediately_and_then_what_runs_in() -> None:
    clock = Clock()
    pace = RateLimit(1000, clock=clock)
    assert pace.budget(1 << 20) == 1000
    assert pace.budget(300) == 300
    pace.spend(1000)
    assert pace.budget(1 << 20) == 0
    clock.turn(0.25)
    assert pace.budget(1 << 20) == 250
    clock.turn(3600)
    assert pace.budget(1 << 20) == 1000


def test_what_was_read_beyond_the_budget_is_waited_for() -> None:
    clock = Clock()
    pace = RateLimit(1000, clock=clock)
    pace.spend(4000)
    assert 3.0 <= pace.ready_at - clock() < 3.01
    clock.turn(2.9)
    assert pace.budget(1 << 20) == 0
    clock.turn(0.2)
    assert 98 <= pace.budget(1 << 20) <= 100


def test_over_an_hour_blocks_of_any_size_keep_the_rate() -> None:
    clock = Clock()
    pace = RateLimit(10_000, clock=clock)
    began, read = clock(), 0
    while clock() - began < 3600:
        clock.turn(max(0.001, pace.ready_at - clock()))
        if pace.budget(1 << 20):
            pace.spend(256 * 1024)
            read += 256 * 1024
    assert abs(read - 3600 * 10_000) <= 10_000 + 2 * 256 * 1024


def test_without_a_rate_there_is_always_budget() -> None:
    clock = Clock()
    pace = RateLimit(0, clock=clock)
    pace.spend(1 << 40)
    assert pace.budget(1 << 20) == 1 << 20
    assert pace.ready_at <= clock()


async def naps_within(producer: Producer, seconds: float) -> int:
    """How often the main loop goes to sleep in so long a time."""
    wake = producer.pipeline._scheduler._wake
    wait, naps = wake.wait, 0

    async def counted(at_most: float) -> None:
        nonlocal naps
        naps += 1
        await wait(at_most)

    wake.wait = counted
    await asyncio.sleep(seconds)
    return naps


def lines(number: int) -> bytes:
    return b"".join(b"%07d\n" % line for line in range(number))


async def test_the_reader_slows_down_and_nothing_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(15_000))  # 120 kB: a second's worth immediately, the remainder takes another half
    producer = Producer(tmp_path, "app.log", block=4096, rate=80_000)
    began = time.monotonic()
    await producer.ship_once()
    assert time.monotonic() - began >= 0.45
    assert producer.archived().text(path) == path.read_bytes()


def test_the_command_takes_a_size_a_second(tmp_path: Path, natsd: NatsServer) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(15_000))
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once("web1.example.net", path, options=("--rate", "50kB", "--block", "4096"))
        fleet.drain()
        assert fleet.archived("web1.example.net", path) == path.read_bytes()


async def test_while_it_waits_it_sleeps_and_acks_and_scans_continue(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(1000))
    producer = Producer(tmp_path, "app.log", block=4096, rate=1, poll=0.1)
    async with producer.running():
        await becomes(lambda: producer.archived().text(path))
        await becomes(
            lambda: not len(producer.pipeline.delivery.window)
        )  # acknowledged, though the next read is an hour away
        shipped = len(producer.archived().text(path))
        append(path, b"seen by a look\n")
        await becomes(lambda: producer.pipeline.status()["backlog_bytes"] == path.stat().st_size - shipped)
        assert 1 <= await naps_within(producer, 0.5) < 20
        assert len(producer.archived().text(path)) == shipped
        began = time.monotonic()
    assert time.monotonic() - began < 2 * slowdown()  # a stop does not wait for the pace
    producer.options["rate"] = 0
    await producer.ship_once()
    assert producer.archived().text(path) == path.read_bytes()


async def test_a_producer_with_nothing_to_read_sleeps_from_scan_to_scan_whatever_its_pace(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(10))
    for rate in (0, 1 << 30):
        producer = Producer(tmp_path, "app.log", rate=rate, poll=0.1)
        async with producer.running():
            await becomes(lambda: producer.sessions and not producer.pipeline.ready())  # noqa: B023
            await becomes(lambda: not len(producer.pipeline.delivery.window))  # noqa: B023
            assert await naps_within(producer, 0.5) < 20


async def test_it_wakes_when_there_is_something_in_the_bucket_however_rare_its_scans_are(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(lines(12_000))
    producer = Producer(tmp_path, "app.log", block=4096, rate=80_000, poll=600.0)
    async with producer.running():
        await becomes(lambda: producer.archived().text(path) == path.read_bytes(), within=5)
