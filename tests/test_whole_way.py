"""Host files to per-host files to a report, with the commands that the README shows."""

import asyncio
import csv
import json
import os
from collections import Counter
from pathlib import Path

import nats
import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

HOSTS = ("web1.example.net", "db1.example.net", "mail1.example.net")
REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "loghub"

MADE = {
    "crlf.log": b"".join(b"2026-11-20 10:%02d:00,001 INFO line %d\r\n" % (n % 60, n) for n in range(2000))[:-2],
    "lf.log": b"".join(b"2026-11-20T10:%02d:00Z ERROR line %d\n" % (n % 60, n) for n in range(3000)),
    "empty-lines.log": b"\n\n\r\n\nlast without newline",
    "one-byte.log": b"x",
    "empty.log": b"",
    "bytes.log": bytes(range(256)) * 50 + b"\n" + b"\xff\xfe\x00\n" * 10,
    "long.log": b"y" * 1_500_000 + b"\nshort\n",
    "name with space,~ and ünïcode%41.log": b"one\ntwo\n",
    "_hidden.log": b"begins with an underscore\n",
}


def sources(directory: Path) -> list[Path]:
    """Awkward files, and the real ones where they are available."""
    directory.mkdir()
    for name, content in MADE.items():
        (directory / name).write_bytes(content)
    return [*(directory / name for name in MADE), *sorted(REAL.glob("*.log"))]


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "identity", "plain"])
def test_each_archived_file_equals_its_source_byte_for_byte(encoding: str, tmp_path: Path, natsd: NatsServer) -> None:
    files = sources(tmp_path / "logs")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        hosts = HOSTS if encoding == "zstd" else HOSTS[:1]
        for host in hosts:
            fleet.ship_once(host, *files, options=("--encoding", encoding))
        fleet.drain()
        for host in hosts:
            for file in files:
                assert fleet.archived(host, file) == file.read_bytes(), f"{host} {file} {encoding}"
        live = fleet.archive / "live" / HOSTS[0] / str(files[0])[1:]
        assert live.read_bytes() == files[0].read_bytes()


def test_shipping_again_sends_nothing_and_a_grown_file_only_what_is_new(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"one\ntwo without newline")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        fleet.ship_once(HOSTS[0], log)
        before = fleet.messages()
        fleet.ship_once(HOSTS[0], log)
        assert fleet.messages() == before
        with log.open("ab") as more:
            more.write(b", now with\nthree\n")
        fleet.ship_once(HOSTS[0], log)
        fleet.drain()
        assert fleet.archived(HOSTS[0], log) == log.read_bytes()


async def test_a_line_from_plain_nats_arrives_in_its_hosts_file(tmp_path: Path, natsd: NatsServer) -> None:
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        client = await nats.connect(natsd.url)
        for line in (b"sample log line", b"", b"second"):
            await client.publish("logs.p1.my.host", line)
        await client.close()
        fleet.drain()
        fleet.drain()
        assert (fleet.archive / "live/my.host/messages.log").read_bytes() == b"sample log line\n\nsecond\n"


async def test_in_line_mode_a_core_subscriber_sees_lines(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    lines = [b"line %d" % number for number in range(500)]
    log.write_bytes(b"\n".join(lines) + b"\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        client = await nats.connect(natsd.url)
        seen: list[bytes] = []
        all_seen = asyncio.Event()

        async def on_message(message: nats.aio.msg.Msg) -> None:
            if not message.subject.startswith("logs.beat."):  # `--once` sends a heartbeat at its end
                seen.append(message.data)
            if len(seen) >= len(lines):
                all_seen.set()

        await client.subscribe("logs.>", cb=on_message)
        await client.flush()
        await asyncio.to_thread(fleet.ship_once, "my.host", log, options=("--encoding", "plain"))
        async with asyncio.timeout(20):
            await all_seen.wait()
        await client.close()
        assert seen == lines


def test_the_report_counts_what_wc_counts(tmp_path: Path, natsd: NatsServer) -> None:
    files = [file for file in sources(tmp_path / "logs") if file.stat().st_size]
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        for host in HOSTS:
            fleet.ship_once(host, *files)
        fleet.drain("--seal")
        lines: Counter[str] = Counter()
        octets: Counter[str] = Counter()
        for date in sorted({segment.path[5:15] for segment in fleet.segments()}):  # two, when midnight passes
            out = tmp_path / "report"
            totals = json.loads(fleet.must("report", "--date", date, "--out", str(out), "--json"))["totals"]
            with (out / "csv" / date / "hosts.csv").open() as sheet:
                hosts = list(csv.DictReader(sheet))
            for host in hosts:
                lines[host["host"]] += int(host["lines"])
                octets[host["host"]] += int(host["bytes"])
            assert totals["lines"] == sum(int(host["lines"]) for host in hosts)
        expected = [file.read_bytes() for file in files]
        assert lines == dict.fromkeys(HOSTS, sum(content.count(b"\n") for content in expected))
        assert octets == dict.fromkeys(HOSTS, sum(map(len, expected)))


def test_a_growing_and_rotated_file_is_followed(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"before\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer, collector = fleet.produce(HOSTS[0], log), fleet.consume()
        until(lambda: fleet.archived(HOSTS[0], log) == b"before\n", what=lambda: producer.log + collector.log)
        with log.open("ab") as old:
            old.write(b"after\n")
            os.rename(log, tmp_path / "app.log.1")
            log.write_bytes(b"new generation\n")
            old.write(b"late line into the renamed file\n")
        expected = b"before\nafter\nlate line into the renamed file\nnew generation\n"
        until(lambda: sorted(fleet.archived(HOSTS[0], log).splitlines()) == sorted(expected.splitlines()))
        log.write_bytes(b"truncated\n")
        until(lambda: fleet.archived(HOSTS[0], log).endswith(b"truncated\n"))
        assert producer.stop() == 0
        assert collector.stop() == 0
