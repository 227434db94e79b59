"""A stream that is nearly full: status, metric and log name the host that has the most messages in it."""

import asyncio
import json
import urllib.request
from pathlib import Path

import nats
from harness.fleet import Fleet, until
from harness.ports import free_port

FLOOD, FIRST = "web9.example.net", "web1.example.net"


def publish(url: str, host: str, count: int, octets: int) -> None:
    async def within() -> None:
        client = await nats.connect(url)
        for _ in range(count):
            await client.request(f"logs.p0.{host}", b"x" * octets, timeout=5)
        await client.close()

    asyncio.run(within())


def test_the_host_with_the_most_messages_of_a_stream_that_is_nearly_full_is_named(tmp_path, natsd):
    port = free_port()
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.must("partition", "apply", "--partitions", "2", "--max-bytes", "1MB")
        publish(natsd.url, FIRST, 10, 1000)
        publish(natsd.url, FLOOD, 70, 10_000)

        def partitions() -> list[tuple[str, float | None]]:
            found = json.loads(fleet.must("partition", "status", "--json"))
            return [(each["top_host"], each["top_host_percent"]) for each in found]

        assert partitions() == [("", None)] * 2  # 71 % full
        publish(natsd.url, FLOOD, 20, 10_000)
        assert partitions() == [(FLOOD, 90.0), ("", None)]
        assert f"LOGS_0 is 92% full: 90% of its messages are of {FLOOD}" in fleet.must("partition", "status")
        (trouble, _) = json.loads(fleet.run("status", "--json").stdout)["partitions"]
        assert trouble["why"].endswith(f"full, and 90 % of its messages are of {FLOOD}")

        # a collector of the other partition measures all of them
        collector = fleet.start(
            "consume", SHIPPER_READ_PARTITIONS="1", SHIPPER_LISTEN=f"127.0.0.1:{port}", SHIPPER_LOG_FORMAT="json"
        )

        def ratio() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    lines = answer.read().decode().splitlines()
            except OSError:
                return ""
            found = (line for line in lines if line.startswith('fshipper_partition_top_host_ratio{partition="0"}'))
            return next(found, "").rpartition(" ")[2]

        until(lambda: ratio() == "0.9", what=lambda: collector.log)
        (said,) = [json.loads(line) for line in collector.log.splitlines() if "stream_crowded" in line]
        assert (said["partition"], said["host"]) == (0, FLOOD)


def test_a_limit_of_messages_for_each_host_stops_that_host_only(tmp_path, natsd):
    """It is an option of the template, for streams that are created; no default has it."""
    template = tmp_path / "template.json"
    shipped = json.loads((Path(__file__).parents[2] / "deploy" / "nats" / "stream.json").read_text())
    shipped["stream"] |= {"max_msgs_per_subject": 50, "discard_new_per_subject": True}
    template.write_text(json.dumps(shipped))
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--template", str(template))
        publish(natsd.url, FLOOD, 60, 1000)
        log = tmp_path / "app.log"
        log.write_bytes(b"a line\n" * 1000)
        fleet.must("produce", "--once", str(log), HOSTNAME=FIRST)
        (status,) = json.loads(fleet.must("partition", "status", "--json"))
        assert (status["messages"], status["first_seq"]) == (51, 1)  # nothing that was stored is dropped
        fleet.drain()
        assert fleet.archived(FIRST, log) == log.read_bytes()


def test_a_host_name_that_commands_a_terminal_is_escaped(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", "1MB")
        publish(natsd.url, "evil\x1b[31m", 95, 10_000)
        shown = fleet.must("partition", "status")
        assert "of its messages are of evil\\x1b[31m" in shown
        assert "\x1b" not in shown
