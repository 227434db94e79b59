"""`fshipper wait` of real programs: what makes it wait, what it names then, and that it ends only when all is there."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import nats
import pytest
from harness import forking
from harness.fleet import Fleet, until

HOST, OTHER = "web1.example", "web2.example"
SMALL = 2_000_000


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=2) as found:
        found.apply()
        yield found


def log_of(fleet: Fleet, host: str, text: bytes = b"a line\n") -> Path:
    path = fleet.directory / host / "app.log"
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as log:
        log.write(text)
    return path


def produce(fleet: Fleet, host: str, text: bytes = b"a line\n"):
    producer = fleet.produce(host, log_of(fleet, host, text))
    until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
    return producer


def waited(fleet: Fleet, *arguments: str, timeout: str = "3s") -> tuple[int, dict]:
    done = fleet.run("wait", "--json", "--timeout", timeout, *arguments)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["complete"] is (done.returncode == 0)
    return done.returncode, found


def missing(fleet: Fleet, *arguments: str) -> dict[str, dict]:
    """What is missing, by host."""
    code, found = waited(fleet, *arguments)
    assert code == 1
    return {host["host"]: host for host in found["hosts"] if not host["complete"]}


def whole(fleet: Fleet, host: str) -> bool:
    path = fleet.directory / host / "app.log"
    return fleet.archived(host, path) == path.read_bytes()


def test_it_ends_when_the_archive_has_what_was_written_before_it_began(fleet):
    fleet.consume()
    produce(fleet, HOST)
    for number in range(3):
        log_of(fleet, HOST, b"line %d\n" % number * 1000)
        assert waited(fleet, timeout="60s")[0] == 0
        assert whole(fleet, HOST)


def test_a_host_that_never_stops_to_write_does_not_delay_it(fleet):
    fleet.consume()
    produce(fleet, HOST)
    writing = subprocess.Popen(["sh", "-c", f"while sleep 0.02; do echo a line >> {log_of(fleet, HOST)}; done"])
    try:
        assert waited(fleet, timeout="60s")[0] == 0
    finally:
        writing.kill()
        writing.wait()


def test_a_stopped_producer_makes_it_wait_and_is_named(fleet):
    fleet.consume()
    produce(fleet, HOST)
    other = produce(fleet, OTHER)
    assert waited(fleet, timeout="60s")[0] == 0
    assert other.stop() == 0
    log_of(fleet, OTHER, b"written later\n")
    found = missing(fleet)
    assert set(found) == {OTHER}
    assert (found[OTHER]["missing"], found[OTHER]["since"] is not None) == ("silent", True)
    assert "was stopped" in found[OTHER]["why"]
    assert waited(fleet, "--host", "web1*", timeout="60s")[0] == 0
    other.start()
    assert waited(fleet, timeout="60s")[0] == 0
    assert whole(fleet, OTHER)


def test_a_killed_producer_makes_it_wait(fleet):
    fleet.consume()
    producer = produce(fleet, HOST)
    assert waited(fleet, timeout="60s")[0] == 0
    producer.kill()
    assert "last heartbeat" in missing(fleet, "--host", HOST)[HOST]["why"]


def test_a_dead_collector_makes_it_wait_and_is_the_reason(fleet):
    producer = produce(fleet, HOST)
    until(lambda: fleet.lag() == 1, what=lambda: producer.log)
    until(lambda: "no collector reads them" in missing(fleet)[HOST]["why"])  # two snapshots show that
    found = missing(fleet)[HOST]
    assert (found["missing"], found["files"][0]["unarchived_bytes"]) == ("stream", len(b"a line\n"))
    text = fleet.run("wait", "--timeout", "2s")
    assert f"! {HOST}: 1 file, 7 B in the stream: " in text.stdout
    fleet.consume()
    assert waited(fleet, timeout="60s")[0] == 0
    assert whole(fleet, HOST)


def test_a_full_stream_makes_it_wait_and_is_the_reason(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", str(SMALL))
        path = log_of(fleet, HOST, b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(50_000)))
        producer = fleet.produce(HOST, path)
        until(lambda: "stream_full" in producer.log, what=lambda: producer.log)
        until(lambda: "maximum bytes exceeded" in missing(fleet)[HOST]["why"])  # its next heartbeat has the reason
        found = missing(fleet)[HOST]
        assert (found["missing"], found["files"][0]["unsent_bytes"] > 0) == ("unsent", True)
        fleet.consume()
        assert waited(fleet, timeout="120s")[0] == 0
        assert whole(fleet, HOST)


def test_a_host_that_moves_to_another_partition_makes_it_wait_until_both_have_their_part(fleet):
    producer = produce(fleet, HOST)
    until(lambda: fleet.lag() == 1, what=lambda: producer.log)
    moving = fleet.start("partition", "move", "--partitions", "4", "--override", f"{HOST}=3", "--yes")
    until(lambda: "0 of 1 hosts" in moving.log, what=lambda: moving.log)
    log_of(fleet, HOST, b"written while it moves\n")
    assert missing(fleet)[HOST]["missing"] == "stream"
    fleet.consume()
    assert waited(fleet, timeout="60s")[0] == 0
    assert whole(fleet, HOST)
    until(lambda: moving.process.poll() is not None, within=60, what=lambda: moving.log)
    log_of(fleet, HOST, b"written after the move\n")
    code, found = waited(fleet, timeout="60s")
    assert (code, found["hosts"][0]["partition"]) == (0, 3)
    assert whole(fleet, HOST)


def test_a_time_to_come_is_waited_for(fleet):
    fleet.consume()
    produce(fleet, HOST)
    began = time.time()
    until_then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began + 3))
    assert waited(fleet, "--until", until_then, timeout="60s")[0] == 0
    assert time.time() >= int(began + 3)
    code, found = waited(fleet, "--until", "2999-01-01T00:00:00Z", timeout="1s")
    assert (code, found["hosts"]) == (1, [])


async def test_an_interrupt_names_what_is_missing(fleet):
    producer = produce(fleet, HOST)
    until(lambda: fleet.lag() == 1, what=lambda: producer.log)
    rounds = asyncio.Queue()
    client = await nats.connect(fleet.url)

    async def note(message):
        if json.loads(message.data).get("scan") is False:
            await rounds.put(message)

    await client.subscribe("ctl.down.>", cb=note)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    waiting = forking.popen(["wait"], env=fleet.environment(), **pipes)
    await asyncio.wait_for(rounds.get(), 30)  # it has an answer that is new enough, and needs no further scan
    await client.close()
    waiting.send_signal(signal.SIGINT)
    output, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert f"! {HOST}: 1 file".encode() in output


def test_nothing_known_of_a_host_ends_with_69_and_a_wrong_time_with_64(fleet):
    for arguments, code in (
        ((), 69),
        (("--host", "nosuch.example"), 69),
        (("--host", "no*"), 69),
        (("--until", "soon"), 64),
        (("--timeout", "x"), 64),
        (("--host", ""), 64),
    ):
        done = fleet.run("wait", "--timeout", "3s", *arguments)
        assert (done.returncode, "hint: " in done.stderr or code == 64) == (code, True), done.stderr
    produce(fleet, HOST)
    assert fleet.run("wait", "--host", HOST, "--host", "nosuch.example").returncode == 69  # without a timeout
    closed = fleet.run("wait", "--timeout", "1s", NATS_URL="nats://127.0.0.1:1")
    assert (closed.returncode, closed.stdout) == (69, "")
