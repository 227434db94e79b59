"""Real collectors on a real server: locks, signals, kills, the verbs' exit codes, full streams, memory."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import nats
import pytest
from harness.fleet import Fleet, until
from harness.waiting import slowdown

from shipper.subjects import COLLECTOR

HOST = "web1.example.net"
LINES = b"".join(b"%d a line of a log\n" % number for number in range(5000))

# kill -9 at the chosen statement, in a process of its own
KILLED = """
import importlib, os, signal, sys
module, owner, name, when = sys.argv[1:5]
place = importlib.import_module(module)
place = getattr(place, owner) if owner else place
original = getattr(place, name)
def killed(*arguments, **named):
    if when == "behind":
        original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, name, killed)
from shipper.main import run
sys.exit(run(["consume", "--drain", "--seal"]))
"""


@pytest.mark.parametrize(
    ("module", "owner", "name", "when"),
    [
        ("consumer.commit.applier", "Applier", "stage", "behind"),
        ("consumer.archive.journal", "Journal", "commit", "before"),
        ("consumer.archive.journal", "Journal", "commit", "behind"),
        ("consumer.segments.sealer", "Sealer", "move_aside", "before"),
        ("consumer.segments.sealer", "Sealer", "record", "behind"),
    ],
)
def test_a_collector_killed_at_a_statement_is_followed_by_one_that_has_every_byte_once(
    module, owner, name, when, fleet, tmp_path
):
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    fleet.ship_once(HOST, path)
    died = subprocess.run(
        [sys.executable, "-c", KILLED, module, owner, name, when], env=fleet.environment(), check=False, timeout=60
    )
    assert died.returncode == -signal.SIGKILL
    fleet.drain("--seal")
    assert fleet.archived(HOST, path) == LINES
    assert sum(segment.lines for segment in fleet.segments()) == 5000
    assert not list(fleet.archive.glob("date=*/*/*/_*"))


def test_a_second_collector_of_a_partition_is_refused_and_names_the_first(fleet, tmp_path):
    first = fleet.consume()
    until(lambda: "session_begun" in first.log)
    second = fleet.run("consume", "--drain")
    assert second.returncode == 1
    assert f"in use by process {first.process.pid}" in second.stderr
    assert "a collector runs and writes everything that arrives, so there is nothing to do" in second.stderr
    assert f"ps -fp {first.process.pid}" in second.stderr
    assert "state directory" not in second.stderr
    elsewhere = fleet.run("consume", "--drain", SHIPPER_STATE=str(tmp_path / "elsewhere"))
    assert f"in use by process {first.process.pid}" in elsewhere.stderr
    assert first.stop() == 0


def test_collectors_of_different_partitions_share_an_archive(natsd, tmp_path):
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        collectors = [fleet.consume("--partitions", str(number)) for number in (0, 1)]
        hosts = ["web1.example.net", "web2.example.net", "db1.example.net"]
        for host in hosts:
            path = tmp_path / host / "app.log"
            path.parent.mkdir()
            path.write_bytes(host.encode() + b"\n" + LINES)
            fleet.ship_once(host, path)
        for host in hosts:
            path = tmp_path / host / "app.log"
            until(lambda: fleet.archived(host, path) == path.read_bytes(), what=host)  # noqa: B023
        assert {path.name for path in fleet.archive.glob("date=*/partition=*")} == {"partition=0", "partition=1"}
        assert [collector.stop() for collector in collectors] == [0, 0]


def test_sigterm_in_the_middle_of_the_load_ends_in_time_and_loses_nothing(fleet, tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(os.urandom(30_000_000).hex().encode() + b"\n")
    producer = fleet.produce(HOST, path, options=("--once",))
    for _ in range(3):
        collector = fleet.consume()
        before = len(list(fleet.archive.glob("date=*")))
        until(lambda: "session_begun" in collector.log, what=lambda: str(before))  # noqa: B023
        began = time.monotonic()
        assert collector.stop() == 0, collector.log
        assert time.monotonic() - began < 10 * slowdown()
    assert producer.wait() == 0
    fleet.drain()
    assert fleet.archived(HOST, path) == path.read_bytes()


def test_draining_empty_streams_ends_immediately_and_twice_sealed_is_sealed_once(fleet, tmp_path):
    fleet.drain()
    fleet.drain("--seal")
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    fleet.ship_once(HOST, path)
    fleet.drain("--seal")
    first = fleet.segments()
    fleet.drain("--seal")
    assert fleet.segments() == first
    assert fleet.archived(HOST, path) == LINES


def test_a_deleted_consumer_is_missed_with_a_hint_and_used_again_when_it_is_back(fleet, tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    collector = fleet.consume()
    until(lambda: "session_begun" in collector.log)

    async def delete() -> None:
        client = await nats.connect(fleet.url)
        await client.jetstream().delete_consumer("LOGS_0", COLLECTOR)
        await client.close()

    asyncio.run(delete())
    until(lambda: "partition apply" in collector.log)
    fleet.ship_once(HOST, path)
    fleet.apply()
    until(lambda: fleet.archived(HOST, path) == LINES, what=lambda: collector.log)
    assert collector.stop() == 0


def test_a_recreated_stream_is_read_on_by_the_same_collector(fleet, tmp_path):
    path = tmp_path / "app.log"
    path.touch()
    collector, producer = fleet.consume(), fleet.produce(HOST, path, options=("--poll", "100ms"))
    lines = LINES.splitlines(keepends=True)
    for start in range(0, len(lines), 1250):  # more messages than the new stream will have
        with path.open("ab") as log:
            log.writelines(lines[start : start + 1250])
        until(lambda: fleet.archived(HOST, path) == path.read_bytes(), what=lambda: producer.log)

    async def delete() -> None:
        client = await nats.connect(fleet.url)
        await client.jetstream().delete_stream("LOGS_0")
        await client.close()

    asyncio.run(delete())
    fleet.apply()
    with path.open("ab") as log:
        log.write(b"more\n")
    until(lambda: fleet.archived(HOST, path) == LINES + b"more\n", what=lambda: producer.log + collector.log)
    assert collector.stop() == 0


def test_a_missing_journal_is_not_created_again_over_the_old_files(fleet, tmp_path):
    path = tmp_path / "app.log"
    path.write_bytes(LINES)
    fleet.ship_once(HOST, path)
    fleet.drain()
    refused = fleet.run("consume", "--drain", SHIPPER_STATE=str(tmp_path / "another"))
    assert refused.returncode == 1
    assert "its journal" in refused.stderr
    assert fleet.archived(HOST, path) == LINES


def test_a_small_file_system_that_is_full_stops_the_collector_until_there_is_room(fleet, tmp_path, natsd):
    """A real ENOSPC where a mount is allowed; where it is not, the size of a file is limited instead (EFBIG)."""
    path = tmp_path / "app.log"
    path.write_bytes(os.urandom(3_000_000).hex().encode() + b"\n")
    fleet.ship_once(HOST, path)
    fleet.archive.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(fleet.archive)], check=False, capture_output=True
    )
    try:
        limit = [] if mounted.returncode == 0 else ["prlimit", "--fsize=2000000"]
        full = subprocess.Popen(
            [*limit, *(sys.executable, "-c", "import sys; from shipper.main import run; sys.exit(run(['consume']))")],
            env=fleet.environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        assert full.stderr is not None
        seen = b""
        while b"archive_failed" not in seen:
            line = full.stderr.readline()
            assert line, seen.decode()
            seen += line
        if limit:
            full.kill()
            full.communicate()
            fleet.drain()
        else:
            subprocess.run(["mount", "-o", "remount,size=64m", str(fleet.archive)], check=True)
            until(lambda: fleet.archived(HOST, path) == path.read_bytes(), what=seen.decode)
            full.send_signal(signal.SIGTERM)
            full.communicate(timeout=30)
            assert full.returncode == 0
        assert fleet.archived(HOST, path) == path.read_bytes()
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(fleet.archive)], check=True)


def test_memory_is_bounded_by_what_blocks_decode_to_and_not_by_what_they_are_sent_as(fleet, tmp_path):
    path = tmp_path / "zeros.log"
    with path.open("wb") as zeros:
        zeros.truncate(2000 * 512 * 1024)
        zeros.seek(-1, os.SEEK_END)
        zeros.write(b"\n")  # else they are padding, which is no content
    environment = fleet.environment(HOSTNAME=HOST, SHIPPER_BLOCK="512KiB")
    fleet.must("produce", "--once", str(path), HOSTNAME=HOST, SHIPPER_BLOCK="512KiB")
    peak = "import re, sys; from shipper.main import run; code = run(['consume', '--drain']); "
    peak += "print(int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]) // 1024); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-c", peak], env=environment, check=True, capture_output=True, text=True, timeout=120
    )
    assert int(done.stdout.split()[-1]) < 250
    opened = sum(each.stat().st_size for each in fleet.archive.glob("date=*/*/*/_*"))
    assert opened + sum(segment.bytes_raw for segment in fleet.segments()) == path.stat().st_size
    path.unlink()
