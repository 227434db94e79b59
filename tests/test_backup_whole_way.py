"""The server is lost, and another one gets a backup: the archive continues, byte for byte.

FSHIPPER_BACKUP_MB: the size of the stream's content.
"""

import asyncio
import base64
import json
import os
import random
from pathlib import Path

from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running

from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings

HOST = "web1.example.net"
MEGABYTES = int(os.environ.get("FSHIPPER_BACKUP_MB", "30"))
LINE_BYTES = 200
AS_IT_IS = ("--encoding", "identity")


def lines(seed: int, octets: int) -> bytes:
    """Lines that no codec makes much smaller."""
    noise = base64.b64encode(random.Random(seed).randbytes(octets * 3 // 4))
    return b"".join(noise[at : at + LINE_BYTES] + b"\n" for at in range(0, len(noise), LINE_BYTES))


def say(server: NatsServer, *texts: bytes) -> None:
    """Plain messages: one line each, from any client."""

    async def within() -> None:
        connection = await connect(NatsSettings(url=server.url), name="test", inbox="_INBOX_test")
        for text in texts:
            assert b'"seq"' in (await connection.client.request(f"logs.p0.{HOST}", text, timeout=30)).data
        await connection.close()

    asyncio.run(within())


def write(path: Path, data: bytes) -> None:
    with path.open("ab") as log:
        log.write(data)


def spoken(fleet: Fleet) -> bytes:
    return fleet.archived(HOST, "messages.log")


def stream_bytes(fleet: Fleet) -> int:
    (row,) = json.loads(fleet.must("partition", "status", "--json"))
    return int(row["bytes"])


def test_the_collector_continues_in_a_restored_stream_where_it_was_and_nothing_is_lost_or_doubled(
    tmp_path: Path, natsd: NatsServer
) -> None:
    log, half = tmp_path / "app.log", MEGABYTES * 500_000
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet, running(tmp_path / "new") as empty:
        fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", "4GB")
        write(log, lines(1, half))
        fleet.ship_once(HOST, log, options=AS_IT_IS)
        say(natsd, b"one", b"two")
        fleet.drain()
        write(log, lines(2, half))
        fleet.ship_once(HOST, log, options=AS_IT_IS)
        say(natsd, b"three")
        held = stream_bytes(fleet)
        fleet.must("partition", "backup", str(tmp_path / "backup"))
        natsd.kill()
        fleet.url = empty.url
        fleet.must("partition", "restore", str(tmp_path / "backup"))
        assert stream_bytes(fleet) == held > MEGABYTES * 1_000_000
        drained = fleet.run("consume", "--drain")
        assert (drained.returncode, "history_changed" in drained.stderr) == (0, False), drained.stderr
        assert fleet.archived(HOST, log) == log.read_bytes()
        write(log, lines(3, 100_000))
        fleet.ship_once(HOST, log, options=AS_IT_IS)
        say(empty, b"four")
        fleet.drain()
        assert fleet.archived(HOST, log) == log.read_bytes()
        assert spoken(fleet) == b"one\ntwo\nthree\nfour\n"
        assert fleet.run("audit").returncode == 0


def test_a_backup_that_is_older_than_what_was_archived_doubles_nothing_and_hides_nothing_new(
    tmp_path: Path, natsd: NatsServer
) -> None:
    log = tmp_path / "app.log"
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet, running(tmp_path / "new") as empty:
        fleet.apply()
        write(log, lines(1, 300_000))
        fleet.ship_once(HOST, log)
        say(natsd, b"one")
        fleet.drain()
        fleet.must("partition", "backup", str(tmp_path / "backup"))
        write(log, lines(2, 300_000))
        fleet.ship_once(HOST, log)
        say(natsd, b"two", b"three")
        fleet.drain()
        write(log, lines(3, 300_000))
        fleet.ship_once(HOST, log)  # acknowledged, in no backup, in no archive
        natsd.kill()
        fleet.url = empty.url
        fleet.must("partition", "restore", str(tmp_path / "backup"))
        write(log, lines(4, 300_000))
        say(empty, *[b"new %d" % number for number in range(20)])  # under numbers that others had
        producer = fleet.produce(HOST, log)
        until(lambda: fleet.run("consume", "--drain").returncode == 0 and fleet.archived(HOST, log) == log.read_bytes())
        assert producer.stop() == 0
        assert spoken(fleet) == b"one\ntwo\nthree\n" + b"".join(b"new %d\n" % number for number in range(20))
        assert fleet.run("audit").returncode == 0


def test_a_backup_that_is_taken_and_restored_under_flow_is_one_moment_of_the_stream(
    tmp_path: Path, natsd: NatsServer
) -> None:
    log = tmp_path / "app.log"
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet, running(tmp_path / "new") as empty:
        fleet.apply()
        write(log, lines(1, 6_000_000))
        producer, collector = fleet.produce(HOST, log), fleet.consume()
        for number in range(5):
            write(log, lines(number, 1_000_000))
            fleet.must("partition", "backup", str(tmp_path / "backup"), "--replace")
        natsd.kill()
        producer.stop()
        collector.stop()
        fleet.url = empty.url
        fleet.must("partition", "restore", str(tmp_path / "backup"))
        fleet.ship_once(HOST, log)
        fleet.drain()
        assert fleet.archived(HOST, log) == log.read_bytes()
        assert fleet.run("audit").returncode == 0
