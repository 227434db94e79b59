"""One host floods every stream while no collector runs: the others are complete, and keep their old days."""

import asyncio
import datetime as dt
import json
import random
import sys
import urllib.request
from pathlib import Path

import nats
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from harness.ports import free_port

sys.path.append(str(Path(__file__).parent / "consumer"))

from keeping import tend, write_segments

from consumer.archive import manifests

FLOOD, HONEST = "flood.example.net", ("web1.example.net", "web2.example.net")
TODAY = dt.datetime.now(dt.UTC).date()
OLD_DAYS = [(TODAY - dt.timedelta(days=ago)).isoformat() for ago in (3, 2)]
PARTITIONS = 2


def flood(url: str) -> int:
    """Publish until both streams refuse more; how many messages they took."""

    async def within() -> int:
        client = await nats.connect(url)
        taken = 0
        for subject in (f"logs.p{partition}.{FLOOD}" for partition in range(PARTITIONS)):
            for size in (120_000, 2000, 50):
                while (
                    b"err_code"
                    not in (await client.request(subject, random.Random(size).randbytes(size), timeout=5)).data
                ):
                    taken += 1
        await client.close()
        return taken

    return asyncio.run(within())


def test_a_flood_by_one_host_costs_the_others_no_line_and_no_old_day(tmp_path: Path, natsd: NatsServer) -> None:
    config = tmp_path / "collector.toml"
    config.write_text("[collector]\nkeep_bytes = '750kB'\n")
    with Fleet(tmp_path, natsd.url, partitions=PARTITIONS) as fleet:
        assert fleet.archive == tmp_path / "archive"
        fleet.must("partition", "apply", "--partitions", str(PARTITIONS), "--max-bytes", "4MB")
        fleet.drain()  # the journals of these partitions are there
        for day in OLD_DAYS:
            for host in HONEST:
                write_segments(
                    tmp_path, "/var/log/old.log", [b"an old line\n" * 2000], date=day, host=host, codec="none"
                )
            write_segments(tmp_path, "/var/log/old.log", [b"an old line\n" * 30000], date=day, host=FLOOD, codec="none")
        tend(tmp_path, today=lambda: TODAY, merge=0)
        assert flood(natsd.url) > 50
        logs, producers = {}, []
        for host in HONEST:
            logs[host] = tmp_path / f"{host}.log"
            logs[host].write_bytes(b"".join(b"%d a line of %s\n" % (number, host.encode()) for number in range(5000)))
            producers.append(fleet.start("produce", str(logs[host]), HOSTNAME=host, SHIPPER_LISTEN=""))
        until(lambda: any("stream_full" in each.log_file.read_text() for each in producers), what="full streams")
        filled = json.loads(fleet.must("partition", "status", "--json"))
        assert {each["top_host"] for each in filled} == {FLOOD}
        assert f"% of its messages are of {FLOOD}" in fleet.must("partition", "status")
        collector = fleet.start("consume", "--config", str(config), SHIPPER_LISTEN="")
        for host, log in logs.items():
            until(lambda: fleet.archived(host, log) == log.read_bytes(), within=90, what=host)  # noqa: B023
        assert collector.stop() == 0
        port = free_port()
        again = fleet.start("consume", "--config", str(config), SHIPPER_LISTEN=f"127.0.0.1:{port}")
        # the flood is in open files of today: it counts, and none of it can be removed
        until(lambda: "hosts_over_share" in again.log, what="retention")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=5) as answer:
            assert json.load(answer)["hosts_over_share"] == [FLOOD]
        for day in OLD_DAYS:
            until(lambda: manifests.held_by_host(fleet.archive, day).keys() == set(HONEST), what=day)  # noqa: B023
        assert again.stop() == 0
        assert f"hosts=['{FLOOD}']" in again.log
        assert {each.stop() for each in producers} == {0}
