"""`fshipper partition move`, `serve` and `apply --push` as people run them, with real programs on a real server."""

import asyncio
import json
from pathlib import Path

from harness.fleet import Fleet, until
from harness.moving import streams_of
from harness.natsd import NatsServer

from shipper.jetstream.admin import administration
from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings

HOST = "web1.example.net"  # in partition 1 of 2, and 1 of 3


def test_a_move_is_planned_requested_and_done_and_then_nothing_is_left_to_do(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        assert fleet.run("partition", "move", "--partitions", "3").returncode == 69  # no streams yet
        fleet.apply()
        producer, collector = fleet.produce(HOST, log, options=("--poll", "100ms")), fleet.consume()
        until(lambda: fleet.archived(HOST, log) == b"one\n")
        dry = fleet.run("partition", "move", "--partitions", "4", "--override", f"{HOST}=3", "--dry-run", "--json")
        assert dry.returncode == 2, dry.stderr
        planned = json.loads(dry.stdout)
        assert (planned["version"], planned["creates"], planned["moves"][0]["after"]) == (2, [2, 3], 3)
        refused = fleet.run("partition", "move", "--partitions", "4")
        assert refused.returncode == 64
        assert "--yes" in refused.stderr
        assert streams_of(fleet) == [0, 1]
        done = json.loads(
            fleet.must("partition", "move", "--partitions", "4", "--override", f"{HOST}=3", "--yes", "--json")
        )
        assert (done["version"], done["hosts"], done["at_home"], done["away"]) == (2, 1, 1, [])
        log.write_bytes(b"one\ntwo\n")
        until(lambda: b"two\n" in fleet.archived(HOST, log), what=lambda: producer.log)
        (opened,) = fleet.archive.glob("live/**/app.log")
        assert "partition=3/" in str(opened.readlink())
        again = fleet.must(
            "partition", "move", "--partitions", "4", "--override", f"{HOST}=3"
        )  # no confirmation is requested
        assert "has 4 partitions already" in again
        fleet.must("partition", "move", "--partitions", "2", "--no-override", HOST, "--yes")
        assert streams_of(fleet) == [0, 1]
        rows = json.loads(fleet.must("partition", "status", "--json"))
        assert {row["map_version"] for row in rows} == {3}
        log.write_bytes(b"one\ntwo\nthree\n")
        until(lambda: fleet.archived(HOST, log).endswith(b"three\n"))
        assert (producer.stop(), collector.stop()) == (0, 0)


def test_streams_are_made_on_demand_within_limits(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        serving = fleet.start("partition", "serve", "--max-streams", "1")
        until(lambda: "session_begun" in serving.log)
        fleet.ship_once(HOST, log)
        assert len(streams_of(fleet)) == 1
        other = tmp_path / "other.log"
        other.write_bytes(b"two\n")
        refused = fleet.run("produce", "--once", str(other), HOSTNAME="db1.example.net", SHIPPER_PARTITIONS="16")
        assert refused.returncode == 69
        assert "stream_denied" in refused.stderr
        assert serving.stop() == 0


def test_a_small_collector_makes_streams_itself(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        asyncio.run(_delete_stream(natsd.url, "LOGS_1"))
        collector = fleet.consume("--serve-partitions")
        until(lambda: "session_begun" in collector.log)
        fleet.ship_once(HOST, log)
        until(lambda: fleet.archived(HOST, log) == b"one\n", what=lambda: collector.log)


def test_lines_are_pushed_to_every_subscriber(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\ntwo\n")
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.must("partition", "apply", "--partitions", "2", "--push", "out.logs")
        assert fleet.run("partition", "plan", "--partitions", "2", "--push", "out.logs").returncode == 0
        fleet.ship_once(HOST, log, options=("--encoding", "plain"))
        assert asyncio.run(_pushed(natsd.url, "out.logs.p1", 2)) == [
            (f"logs.p1.{HOST}", b"one"),
            (f"logs.p1.{HOST}", b"two"),
        ]


async def _delete_stream(url: str, name: str) -> None:
    async with administration(NatsSettings(url=url)) as admin:
        await admin.delete_stream(name)


async def _pushed(url: str, target: str, count: int) -> list[tuple[str, bytes]]:
    """What a plain subscriber of `target` gets."""
    connection = await connect(NatsSettings(url=url), name="blog", inbox="_INBOX_blog")
    arrived = asyncio.Queue()
    await connection.client.subscribe(target, cb=arrived.put)
    async with asyncio.timeout(10):
        messages = [await arrived.get() for _ in range(count)]
    await connection.close()
    return [(message.subject, message.data) for message in messages]
