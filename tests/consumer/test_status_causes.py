"""`fshipper status` after real faults: one sentence for one cause, as tests/situations.tsv has it."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import nats
import pytest
from harness.fleet import Fleet, until
from harness.natsd import running
from harness.ports import free_port
from harness.situations import shows

TMPFS_BYTES = 3 * 1024 * 1024
SOON = ("--dead-after", "1s", "--stuck-after", "1s")
RED = "\x1b[1;31m"


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=2) as found:
        found.apply()
        yield found


@pytest.fixture
def small(tmp_path):
    """A file system with little space."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "small", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system may not be mounted here")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def write(fleet: Fleet, host: str, octets: int = 170) -> Path:
    path = fleet.directory / host / "app.log"
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as log:
        while path.stat().st_size < octets:
            log.write(os.urandom(60).hex().encode() + b"\n")
            log.flush()
    return path


def produce(fleet: Fleet, host: str):
    return fleet.start("produce", str(write(fleet, host)), HOSTNAME=host, SHIPPER_HEARTBEAT="0.25s")


def status(fleet: Fleet, *arguments: str) -> str:
    return fleet.run("status", *SOON, *arguments).stdout


def found(fleet: Fleet, *arguments: str) -> dict:
    return json.loads(fleet.run("status", "--json", *SOON, *arguments).stdout)


def whys(fleet: Fleet) -> list[str]:
    return [problem["why"] for problem in found(fleet)["problems"] if problem["kind"] != "host"]


def test_a_full_disk_is_one_red_line_however_many_partitions_wait(fleet, small):
    port = free_port()
    collector = fleet.start(
        "consume", SHIPPER_DIRECTORY=str(small / "archive"), SHIPPER_LISTEN=f"127.0.0.1:{port}"
    )  # fmt: skip
    hosts = ["web1.example", "web2.example"]
    until(
        lambda: len([each for each in found(fleet)["partitions"] if each["collector"]]) == 2, what=lambda: collector.log
    )
    (small / "filler").write_bytes(bytes(shutil.disk_usage(small).free - 64 * 1024))
    for host in hosts:
        fleet.ship_once(host, write(fleet, host, TMPFS_BYTES // 4))
    until(lambda: any("archive disk full" in why for why in whys(fleet)), what=lambda: collector.log)
    (small / "filler2").write_bytes(bytes(max(0, shutil.disk_usage(small).free)))
    until(lambda: any("full: 0 B" in why for why in whys(fleet)), what=lambda: f"{whys(fleet)}\n{collector.log}")

    problems = found(fleet)["problems"]
    assert [(each["kind"], each["state"]) for each in problems] == [("disk", "dead")], problems
    shown = status(fleet)
    shows("the archive disk is full", shown)
    assert "no collector reads them" not in shown
    assert fleet.run("status", *SOON).returncode == 2
    assert found(fleet)["verdict"] == "dead"

    (small / "filler").unlink()
    (small / "filler2").unlink()
    until(lambda: not whys(fleet), within=60, what=lambda: f"{whys(fleet)}\n{collector.log}")


def test_a_collector_that_was_stopped_paused_or_killed_is_named(fleet):
    fleet.ship_once("web1.example", write(fleet, "web1.example"))
    shows("no collector ever ran", status(fleet))
    collector = fleet.consume("--name", "vm")
    until(lambda: not fleet.lag(), what=lambda: collector.log)

    assert collector.stop() == 0
    fleet.ship_once("web2.example", write(fleet, "web2.example"))
    shows("the collector was stopped", status(fleet))

    collector.start()
    until(lambda: not fleet.lag(), what=lambda: collector.log)
    collector.kill()
    until(lambda: "no sign of collector vm" in status(fleet), within=60, what=lambda: status(fleet))
    shows("the collector was killed, and nothing waits", status(fleet))
    assert fleet.run("status", *SOON).returncode == 0
    fleet.ship_once("web3.example", write(fleet, "web3.example"))
    shows("the collector was killed", status(fleet))

    collector.start()
    until(lambda: not fleet.lag(), what=lambda: collector.log)
    collector.process.send_signal(signal.SIGSTOP)
    fleet.ship_once("web4.example", write(fleet, "web4.example"))
    until(lambda: "no sign of vm" in status(fleet), within=60, what=lambda: status(fleet))
    shows("the collector hangs", status(fleet))
    collector.process.send_signal(signal.SIGCONT)


def test_hosts_that_end_die_or_send_no_heartbeats_are_told_apart(fleet):
    collector = fleet.consume()
    fleet.ship_once("once.example", write(fleet, "once.example"))
    running_host, stopped, killed = (
        produce(fleet, host) for host in ("runs.example", "stopped.example", "killed.example")
    )

    async def publish():
        client = await nats.connect(fleet.url)
        await client.publish("logs.p0.plain.example", b"a line")
        await client.flush()
        await client.close()

    asyncio.run(publish())
    until(
        lambda: (
            {each["host"] for each in found(fleet)["hosts"] if each["shipped_bytes"]}
            >= {"runs.example", "stopped.example", "killed.example"}
        ),
        what=lambda: running_host.log,
    )
    assert stopped.stop() == 0
    killed.kill()
    until(lambda: found(fleet)["counts"]["dead"] == 2, what=lambda: status(fleet))

    by_host = {each["host"]: each for each in found(fleet)["hosts"]}
    assert {host: each["state"] for host, each in by_host.items()} == {
        "once.example": "ended", "runs.example": by_host["runs.example"]["state"], "stopped.example": "dead",
        "killed.example": "dead", "plain.example": "unknown",
    }  # fmt: skip
    assert all(each["last_line_seconds_ago"] is not None for each in by_host.values())
    shown = status(fleet)
    assert "once.example" not in shown
    shows("a host shipped with --once", shown)
    shows("a host shipped with --once, and is named", status(fleet, "once.example"))
    assert fleet.run("status", *SOON, "once.example").returncode == 0
    shows("a host was stopped", shown)
    shows("a host was killed", shown)
    shows("a host sends no heartbeats", shown)
    shows("some hosts are not known", shown)
    assert "last line" in shown.splitlines()[0]
    assert collector.stop() == 0


def test_a_full_stream_names_the_host_and_what_it_waits_for(fleet):
    async def narrow():
        client = await nats.connect(fleet.url)
        for number in range(2):
            answer = await client.request(f"$JS.API.STREAM.INFO.LOGS_{number}", b"", timeout=5)
            config = json.loads(answer.data)["config"] | {"max_bytes": 300_000}
            await client.request(f"$JS.API.STREAM.UPDATE.LOGS_{number}", json.dumps(config).encode(), timeout=5)
        await client.close()

    asyncio.run(narrow())
    write(fleet, "web1.example", 2_000_000)
    produce(fleet, "web1.example")
    until(lambda: found(fleet)["counts"]["stuck"], within=60, what=lambda: status(fleet))
    until(lambda: any("takes no more" in why for why in whys(fleet)), what=lambda: status(fleet))
    shows("a stream is full, and no collector reads it", status(fleet))
    shows("a host waits for a full stream", status(fleet))
    assert [each["kind"] for each in found(fleet)["problems"]] == ["collector"]


def test_a_partition_without_a_consumer(fleet):
    async def remove():
        client = await nats.connect(fleet.url)
        await client.request("$JS.API.CONSUMER.DELETE.LOGS_0.collector", b"", timeout=5)
        await client.close()

    asyncio.run(remove())
    shows("a partition has no consumer", status(fleet))


def test_a_server_that_is_down_has_no_streams_or_refuses_the_user(tmp_path):
    fleet = Fleet(tmp_path, f"nats://127.0.0.1:{free_port()}")
    shows("no server answers", fleet.run("status").stderr)
    users = 'authorization { users [ {user: low, password: x, permissions: {publish: ["logs.>"]}} ] }'
    with running(tmp_path / "natsd", extra=users) as natsd:
        address = natsd.url.removeprefix("nats://")
        shows("the password is wrong", fleet.run("status", NATS_URL=f"nats://low:no@{address}").stderr)
        shows("the user may not read the streams", fleet.run("status", NATS_URL=f"nats://low:x@{address}").stderr)
    with running(tmp_path / "natsd2") as natsd:
        shows("the server has no streams", fleet.run("status", NATS_URL=natsd.url).stderr)
