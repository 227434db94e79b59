"""Real programs notify a real socket of readiness, of their state, and of progress as long as there is progress."""

import os
import signal
import subprocess
import sys
import time

import pytest
from harness.fleet import Fleet, until
from listening import Manager, hanging_disk

WATCHDOG_SECONDS = 2.0
HOST = "web1.example.net"


@pytest.fixture
def manager(tmp_path):
    with Manager(tmp_path) as manager:
        yield manager


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        yield fleet


@pytest.fixture
def disk(tmp_path):
    with hanging_disk(tmp_path / "disk") as disk:
        yield disk


def write(path, text):
    with path.open("a") as file:
        file.write(text)


WINDOWS = 20
"""On a busy machine a program may get no core for longer than a watchdog waits: such a window shows nothing."""


def goes_on(manager, seconds=1.5):
    """Whether the watchdog is fed without a pause in some window from now on."""
    for _ in range(WINDOWS):
        begin = time.monotonic()
        time.sleep(seconds)
        if manager.longest_silence(begin, begin + seconds) < WATCHDOG_SECONDS:
            return True
    return False


def stops(manager):
    """Whether the watchdog is fed no more, and why, if the program can report it.

    It cannot where a thread waits for a page of SQLite's shared memory: the kernel then holds the process's memory map,
    and the event loop stops at its next allocation.
    """
    silence = 3 * WATCHDOG_SECONDS
    until(
        lambda: manager.count("WATCHDOG=1", since=time.monotonic() - silence) == 0,
        within=120,
        what=lambda: str(manager.heard[-9:]),
    )
    return "has not gone on" in manager.status or manager.newest_at < time.monotonic() - silence


def test_a_producer_reports_its_state_to_systemd(tmp_path, fleet, manager):
    log = tmp_path / "app.log"
    write(log, "one\n" * 1000)
    settings = tmp_path / "producer.toml"
    settings.write_text(f'[producer]\nfiles = ["{log}"]\n')
    program = fleet.start("produce", "--config", str(settings), HOSTNAME=HOST, **manager.environment(WATCHDOG_SECONDS))
    until(lambda: manager.count("READY=1"), what=lambda: program.log)
    until(lambda: manager.status.startswith(f"shipping as {HOST}: 1 file,"))
    assert goes_on(manager)
    settings.write_text(f'[producer]\nfiles = ["{log}"]\npol = 1\n')
    program.process.send_signal(signal.SIGHUP)
    until(lambda: manager.phases == ["READY", "RELOADING", "READY"])
    until(lambda: "unknown key producer.pol" in program.log)
    assert goes_on(manager)
    settings.write_text(f'[producer]\nfiles = ["{log}", "{tmp_path}/more.log"]\n')
    program.process.send_signal(signal.SIGHUP)
    until(lambda: manager.phases == ["READY", *["RELOADING", "READY"] * 2])
    assert goes_on(manager)
    assert program.stop() == 0
    assert manager.phases[-1] == "STOPPING"


def test_a_collector_reports_its_state_to_systemd(tmp_path, fleet, manager):
    settings = tmp_path / "collector.toml"
    settings.write_text("")
    program = fleet.start("consume", "--config", str(settings), **manager.environment(WATCHDOG_SECONDS))
    until(lambda: manager.status == "writing partitions 0,1, 0 messages to write", what=lambda: program.log)
    assert goes_on(manager)
    settings.write_text("[collector]\nkeep_dys = 3\n")
    program.process.send_signal(signal.SIGHUP)
    until(lambda: "unknown key collector.keep_dys; did you mean collector.keep_days?" in program.log)
    until(lambda: manager.phases == ["READY", "RELOADING", "READY"])
    assert manager.status == "writing partitions 0,1, 0 messages to write"
    settings.write_text('[collector]\nread_partitions = "1"\n')
    program.process.send_signal(signal.SIGHUP)
    until(lambda: manager.status == "writing partitions 1, 0 messages to write", what=lambda: program.log)
    assert goes_on(manager)
    assert program.stop() == 0
    assert manager.phases == ["READY", *["RELOADING", "READY"] * 2, "STOPPING"]


def test_a_partitioner_reports_its_state_to_systemd(tmp_path, fleet, manager):
    program = fleet.start("partition", "serve", **manager.environment(watchdog=4.0))
    until(lambda: manager.count("READY=1"), what=lambda: program.log)
    began = time.monotonic()
    until(lambda: manager.count("WATCHDOG=1", since=began) >= 3, what=lambda: program.log)
    assert "on demand" in manager.status
    assert program.stop() == 0
    assert manager.phases == ["READY", "STOPPING"]


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_server_that_hangs_is_no_reason_to_be_killed(tmp_path, natsd, fleet, manager, verb):
    """Held files and what is in flight would be lost, and a new process had no server either."""
    log = tmp_path / "app.log"
    write(log, "one\n" * 1000)
    arguments = {"produce": ["produce", str(log)], "consume": ["consume"]}[verb]
    program = fleet.start(*arguments, HOSTNAME=HOST, **manager.environment(WATCHDOG_SECONDS))
    until(lambda: manager.count("READY=1"), what=lambda: program.log)
    natsd.pause()
    write(log, "two\n" * 4_000_000)  # more than fits into the connection
    until(lambda: manager.status.startswith("waiting: "), what=lambda: manager.status)
    assert goes_on(manager, 4.0)
    natsd.resume()
    until(lambda: not manager.status.startswith("waiting: "), what=lambda: program.log)
    assert program.process.poll() is None


def test_a_producer_whose_checkpoint_hangs_feeds_no_watchdog(tmp_path, fleet, manager, disk):
    """Its event loop turns; the session does not."""
    log = tmp_path / "app.log"
    write(log, "one\n")
    state = str(disk.path / "state")
    program = fleet.start(
        "produce", str(log), HOSTNAME=HOST, SHIPPER_STATE=state, **manager.environment(WATCHDOG_SECONDS)
    )
    until(lambda: manager.status.startswith("shipping"), what=lambda: program.log)
    disk.hang()
    write(log, "two\n")
    assert stops(manager)
    assert ("progress_stopped" in program.log) == ("has not gone on" in manager.status)
    disk.go_on()
    until(lambda: manager.status.startswith("shipping"))
    assert goes_on(manager)


def test_a_collector_whose_archive_hangs_feeds_no_watchdog(tmp_path, fleet, manager, disk):
    archive = str(disk.path / "archive")
    program = fleet.start("consume", SHIPPER_DIRECTORY=archive, **manager.environment(WATCHDOG_SECONDS))
    until(lambda: manager.status.startswith("writing partitions 0,1"), what=lambda: program.log)
    disk.hang()
    write(tmp_path / "app.log", "one\n")
    fleet.ship_once(HOST, tmp_path / "app.log")
    assert stops(manager)
    disk.go_on()
    until(lambda: manager.status.startswith("writing"))
    assert goes_on(manager)


HANGS = """
import asyncio, sys, time
from shipper.lifecycle import Pulse, supervised

async def main():
    pulse = Pulse("the loop")
    async with supervised(lambda: [pulse], lambda: "working"):
        for _ in range(10):
            pulse.turn()
            await asyncio.sleep(0.1)
        print("now", flush=True)
        time.sleep(60)

asyncio.run(main())
"""


def test_an_event_loop_that_hangs_feeds_no_watchdog(tmp_path, manager):
    environment = os.environ | manager.environment(0.4)
    with subprocess.Popen([sys.executable, "-c", HANGS], env=environment, stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout.readline() == b"now\n"
            assert manager.count("WATCHDOG=1") >= 5
            begin = time.monotonic() + 0.1
            time.sleep(1.0)
            assert manager.count("WATCHDOG=1", since=begin) == 0
        finally:
            program.kill()
