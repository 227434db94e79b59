"""Collectors that share partitions, on a real server: they come, go, die, and stop anywhere and wake up again."""

import asyncio
import time
from pathlib import Path

import pytest
from harness.fleet import until
from harness.natsd import NatsServer
from harness.waiting import slowdown
from sharing import Shared, held, is_paused, pause, stop, wake

from shipper.jetstream.admin import administration
from shipper.partition_map import partition_for
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR

HOSTS = ["web1.example.net", "web2.example.net", "db1.example.net"]  # of two partitions


@pytest.fixture
def shared(tmp_path: Path, natsd: NatsServer):
    with Shared(tmp_path, natsd.url, partitions=2, lease="2s") as shared:
        shared.apply()
        yield shared


def send(shared: Shared) -> None:
    for host in HOSTS:
        shared.send(host, 100)


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


def test_a_second_collector_shares_the_work_and_a_third_stands_by_until_one_leaves(shared):
    first = shared.consume()
    until(lambda: held(first) == {0, 1})
    send(shared)
    second = shared.consume()
    until(lambda: len(held(second)) == 1 and len(held(first)) == 1, what=lambda: second.log)
    assert held(first) | held(second) == {0, 1}
    send(shared)
    third = shared.consume()
    until(lambda: "standing_by" in third.log)
    shared.wait_until_archived(first, second)
    left = held(first)
    began = time.monotonic()
    assert first.stop() == 0
    until(lambda: held(third) == left, what=lambda: third.log)
    assert time.monotonic() - began < 10 * slowdown()
    send(shared)
    shared.wait_until_archived(second, third)
    stop(second, third)
    assert "epoch=1" not in second.log + third.log  # what is given back is continued
    assert not {path.name for path in (shared.archive / "_lock").glob("collector=*-4.lock")}


def test_when_one_is_killed_the_other_takes_over_within_ten_seconds(shared, capsys):
    first, second = shared.consume(), shared.consume()
    until(lambda: len(held(first)) == len(held(second)) == 1, what=lambda: first.log + second.log)
    send(shared)
    shared.wait_until_archived(first, second)
    first.kill()
    killed = time.monotonic()
    send(shared)
    shared.wait_until_archived(second)
    seconds = time.monotonic() - killed
    say(capsys, f"takeover behind kill -9: every byte archived {seconds:.1f} s behind the kill")
    assert seconds < 10 * slowdown()
    assert held(second) == {0, 1}
    assert second.stop() == 0


def test_a_paused_collector_is_fenced_and_writes_nothing_when_it_wakes(shared, capsys):
    first, second = shared.consume(), shared.consume()
    until(lambda: len(held(first)) == len(held(second)) == 1, what=lambda: first.log + second.log)
    send(shared)
    shared.wait_until_archived(first, second)
    pause(first)
    paused = time.monotonic()
    send(shared)
    shared.wait_until_archived(second)
    seconds = time.monotonic() - paused
    say(
        capsys, f"takeover from a paused collector (lease of 2 s): every byte archived {seconds:.1f} s behind the pause"
    )
    assert seconds < 10 * slowdown()
    wake(first)
    until(lambda: " fenced " in first.log, what=lambda: first.log)
    send(shared)
    shared.wait_until_archived(first, second)
    until(lambda: len(held(first)) == len(held(second)) == 1, what=lambda: first.log)  # and takes its share again
    send(shared)
    shared.wait_until_archived(first, second)
    stop(first, second)
    shared.drain("--seal")
    shared.wait_until_archived()
    until(lambda: not list(shared.archive.glob("date=*/*/*/_*")))
    assert shared.run("audit", str(shared.archive)).returncode == 0


STATEMENTS = [
    ("consumer.commit.sink", "Sink", "create", "before"),
    ("consumer.commit.sink", "Sink", "append", "behind"),
    ("consumer.commit.sink", "Sink", "sync", "behind"),
    ("consumer.archive.journal", "Journal", "commit", "behind"),
    ("consumer.archive.journal", "Journal", "begin_sealing", "behind"),
    ("consumer.segments.sealer", "Sealer", "finish", "before"),
    ("consumer.segments.sealer", "NewSegmentFile", "publish", "behind"),
]


def test_wherever_collectors_stop_another_continues_and_no_write_after_waking_is_lost(tmp_path, natsd):
    """One collector for each statement, each with a partition of its own."""
    partitions = len(STATEMENTS)
    hosts = {partition_for(host, partitions): host for host in (f"web{number}.example.net" for number in range(100))}
    with Shared(tmp_path, natsd.url, partitions=partitions, lease="2s", segment="4KiB") as shared:
        shared.apply()
        for host in hosts.values():
            shared.send(host, 200)
        sleepers = [shared.consume_until(*where, partition=number) for number, where in enumerate(STATEMENTS)]
        for sleeper in sleepers:
            until(lambda: is_paused(sleeper), what=lambda: sleeper.log)  # noqa: B023
        other = shared.consume()
        for host in hosts.values():
            shared.send(host, 200)
        shared.wait_until_archived(other)
        assert held(other) == set(range(partitions))
        for sleeper in sleepers:
            wake(sleeper)
        for sleeper in sleepers:
            until(lambda: " fenced " in sleeper.log, what=lambda: sleeper.log)  # noqa: B023
        for host in hosts.values():
            shared.send(host, 200)
        shared.wait_until_archived(other)
        stop(*sleepers, other)
        shared.drain("--seal")
        shared.wait_until_archived()
        audit = shared.run("audit", str(shared.archive))
        assert audit.returncode == 0, audit.stdout
        assert not list(shared.archive.glob("date=*/*/*/[._]*"))


def test_a_partition_that_cannot_be_read_from_the_start_ends_no_collector_of_others(shared):
    async def delete_consumer() -> None:
        async with administration(NatsSettings(url=(shared.url,))) as admin:
            await admin.delete_consumer("LOGS_1", COLLECTOR)

    asyncio.run(delete_consumer())
    collector = shared.consume()
    until(lambda: "has no consumer" in collector.log and held(collector) == {0, 1}, what=lambda: collector.log)
    time.sleep(11)  # at its start a collector without a server gives up after ten seconds
    send(shared)
    shared.apply()  # makes the consumer anew
    shared.wait_until_archived(collector)
    assert collector.stop() == 0
