import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.waiting import slowdown

from shipper.lifecycle import EXIT_FORCED, Stop, notify

PROGRAM = """
import asyncio
from shipper.lifecycle import Stop, stop_on_signals

async def main():
    stop = Stop()
    stop_on_signals(stop, reload=lambda: print("reloaded", flush=True))
    print("ready", flush=True)
    await stop.wait()
    print("draining", flush=True)
    await asyncio.to_thread(input)   # a drain that ends when it is told to
    print("drained", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def program():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_requests_a_stop_and_lets_the_program_drain(program, number):
    program.send_signal(number)
    assert program.stdout.readline() == "draining\n"
    out, _ = program.communicate("\n", timeout=20)
    assert (out, program.returncode) == ("drained\n", 0)


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_the_program_immediately(program, numbers):
    program.send_signal(numbers[0])
    assert program.stdout.readline() == "draining\n"
    program.send_signal(numbers[1])
    assert program.wait(20) == EXIT_FORCED == 130
    assert program.stdout.read() == ""


def test_sighup_reloads_and_ends_nothing(program):
    for _ in range(2):
        program.send_signal(signal.SIGHUP)
        assert program.stdout.readline() == "reloaded\n"
    assert program.poll() is None


async def test_a_stop_ends_a_nap_early():
    stop = Stop()
    asyncio.get_running_loop().call_soon(stop.request)
    began = time.monotonic()
    await stop.nap(3600)
    assert time.monotonic() - began < 5 * slowdown()
    await stop.nap(3600)
    await stop.wait()


async def test_a_nap_without_a_stop_ends_by_itself():
    stop = Stop()
    await stop.nap(0.01)
    assert (stop.requested, stop.seconds_since_request) == (False, 0.0)


async def test_asking_twice_changes_nothing_and_reports_once():
    stop, told = Stop(), []
    stop.on_request(lambda: told.append("told"))
    stop.request()
    first = stop.seconds_since_request
    stop.request()
    assert stop.requested
    assert stop.seconds_since_request >= first >= 0
    assert told == ["told"]


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_notified_of_the_address(tmp_path, monkeypatch, abstract):
    address = f"\0fshipper-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))
        notify("READY=1")
        assert systemd.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", [None, "", "/nowhere/notify"])
def test_nothing_happens_where_systemd_does_not_listen(monkeypatch, address):
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1")


def test_a_manager_that_takes_nothing_holds_nothing_up(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        limit = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
        began = time.monotonic()
        for _ in range(limit + 3):  # its queue is full before
            notify("WATCHDOG=1")
        assert time.monotonic() - began < 10 * slowdown()
