"""Each alert fires in a real Prometheus that scrapes real programs, when what it warns of really happens."""

import asyncio
import contextlib
import json
import random
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer, running
from harness.ports import free_port

from shipper.heartbeat import Heartbeat, encode

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
HOST = "web1.example.net"
WITHIN = 90.0
ROOM_BYTES = 64 * 1024 * 1024

pytestmark = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")), reason="needs the Debian package prometheus"
)


def hurried(rules: str) -> str:
    """The rules with what must last for minutes lasting for a second, and what is old after minutes old after three."""
    return re.sub(r"for: \w+", "for: 1s", rules).replace("> 300", "> 3")


class Watched:
    """A Prometheus that scrapes one collector and one producer, and the server that they use."""

    def __init__(self, directory: Path, fleet: Fleet, natsd: NatsServer) -> None:
        self.directory = directory
        self.fleet = fleet
        self.natsd = natsd
        self.ports = {"collector": free_port(), "producer": free_port(), "prometheus": free_port()}
        self.programs: dict[str, Program] = {}
        self._seen: set[str] = set()

    def consume(self, **more: str) -> Program:
        listen = f"127.0.0.1:{self.ports['collector']}"
        return self._run("collector", "consume", SHIPPER_LISTEN=listen, **more)

    def produce(self, *arguments: str, **more: str) -> Program:
        listen = f"127.0.0.1:{self.ports['producer']}"
        return self._run("producer", "produce", *arguments, HOSTNAME=HOST, SHIPPER_LISTEN=listen,
                         SHIPPER_HEARTBEAT="1s", **more)  # fmt: skip

    def ship(self) -> Path:
        """A log file that a producer has shipped, and follows."""
        log = self.directory / "app.log"
        log.write_bytes(b"a line\n" * 1000)
        self.produce(str(log))
        until(lambda: self.fleet.archived(HOST, log) == log.read_bytes())
        return log

    def jam(self) -> None:
        """Messages of a host that the collector cannot write, until the streams are nearly full."""
        self.ship()
        for day in self.fleet.archive.glob("date=*"):
            for partition in (0, 1):
                jam = day / f"partition={partition}" / "host=jam.example.net"
                jam.parent.mkdir(exist_ok=True)
                jam.write_bytes(b"a file where a directory has to be")
        self.publish(*((f"logs.p{number % 2}.jam.example.net", b"x" * 3000, None) for number in range(2600)))

    def _run(self, name: str, *arguments: str, **more: str) -> Program:
        self.stop(name)
        self.programs[name] = self.fleet.start(*arguments, **more)
        return self.programs[name]

    def stop(self, name: str) -> None:
        if name in self.programs:
            self.programs.pop(name).kill()

    def query(self, expression: str) -> list[dict]:
        address = f"http://127.0.0.1:{self.ports['prometheus']}/api/v1/query?query={urllib.parse.quote(expression)}"
        with urllib.request.urlopen(address, timeout=5) as answer:
            return json.load(answer)["data"]["result"]

    def metrics(self, name: str) -> str:
        """What a program itself reports now; Prometheus remembers the values of earlier ones."""
        address = f"http://127.0.0.1:{self.ports[name]}/metrics"
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as answer:
            return str(answer.read().decode())
        return ""

    def firing(self) -> set[str]:
        return {each["metric"]["alertname"] for each in self.query('ALERTS{alertstate="firing"}')}

    def until_fires(self, alert: str) -> None:
        until(lambda: alert in self.firing(), within=WITHIN, what=lambda: f"{alert}; firing: {self.firing()}")

    def publish(self, *messages: tuple[str, bytes, dict[str, str] | None]) -> None:
        async def within() -> None:
            client = await nats.connect(self.natsd.url)
            for subject, payload, headers in messages:
                await client.publish(subject, payload, headers=headers)
            await client.flush()
            await client.close()

        asyncio.run(within())


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Watched]:
    directory = tmp_path
    with running(directory / "natsd") as natsd, Fleet(directory, natsd.url, partitions=2) as fleet:
        fleet.must("partition", "apply", "--partitions", "2", "--max-bytes", "4MB")
        watched = Watched(directory, fleet, natsd)
        (directory / "fshipper.rules.yml").write_text(hurried((DEPLOY / "fshipper.rules.yml").read_text()))
        configuration = (DEPLOY / "prometheus.yml").read_text().replace("15s", "500ms")
        for shipped, name in (("9601", "collector"), ("9600", "producer")):
            configuration = configuration.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{watched.ports[name]}")
        (directory / "prometheus.yml").write_text(configuration)
        watched.consume()
        with (directory / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(
                ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb",
                 f"--web.listen-address=127.0.0.1:{watched.ports['prometheus']}"],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            until(lambda: is_ready(watched), what="Prometheus")
            yield watched
        finally:
            process.kill()
            process.wait()


def is_ready(watched: Watched) -> bool:
    try:
        return bool(watched.query("fshipper_partition_collectors"))
    except OSError:
        return False


def test_promtool_finds_the_rules_sound_and_their_own_tests_green() -> None:
    for arguments in (
        ("check", "rules", "fshipper.rules.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "fshipper.rules.test.yml"),
    ):
        done = subprocess.run(["promtool", *arguments], cwd=DEPLOY, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_healthy_fleet_fires_nothing(prometheus: Watched) -> None:
    prometheus.ship()
    until(lambda: prometheus.query('fshipper_hosts{state="quiet"} == 1 or fshipper_hosts{state="shipping"} == 1'))
    time.sleep(3)  # so long would each need
    assert prometheus.firing() == set()


def with_all(expression: str) -> str:
    """The query of a panel as Grafana sends it, with All of each variable."""
    return expression.replace("$__rate_interval", "1m").replace("$partition", ".*").replace("$host", ".*")


def test_every_panel_of_the_dashboard_has_a_curve_or_its_metric_counts_errors(prometheus: Watched) -> None:
    dashboard = json.loads((DEPLOY.parent / "grafana" / "dashboard.json").read_text())
    trouble = {"Missing bytes", "Sessions that ended in trouble"}  # by labels that come with trouble
    prometheus.ship()

    def empty() -> list[str]:
        return [
            panel["title"]
            for panel in dashboard["panels"]
            for target in panel.get("targets", ())
            if not prometheus.query(with_all(target["expr"]))
        ]

    until(lambda: set(empty()) <= trouble, within=30, what=empty)


def test_a_message_that_cannot_be_applied(prometheus: Watched) -> None:
    prometheus.publish(("logs.p0.any.host", b"x", {"Log-Id": "not an id"}))
    prometheus.until_fires("FshipperDeadLetters")


def test_bytes_that_were_truncated_before_they_were_read(prometheus: Watched) -> None:
    log = prometheus.directory / "slow.log"
    log.write_bytes(b"a line that is read slowly\n" * 1_500_000)
    prometheus.produce("--rate", "2MB", str(log))
    until(lambda: re.search(r"^fshipper_published_bytes_total [1-9]", prometheus.metrics("producer"), re.MULTILINE))
    log.write_bytes(b"")
    prometheus.until_fires("FshipperBytesLost")
    prometheus.until_fires("FshipperGap")


def test_a_checkpoint_that_cannot_be_read(prometheus: Watched) -> None:
    log = prometheus.ship()
    prometheus.stop("producer")
    state = prometheus.directory / "state" / "producer" / HOST
    for path in state.rglob("*"):
        if path.is_file():
            path.write_bytes(b"no checkpoint")
    prometheus.produce(str(log))
    prometheus.until_fires("FshipperCheckpointErrors")


def test_a_name_that_two_producers_have(prometheus: Watched) -> None:
    beat = Heartbeat(version="1", partition=0, every=3600.0, up=1.0, files=1, run="1", other="process 7 on a clone")
    prometheus.publish(("logs.beat.cloned.example.net", encode(beat), None))
    prometheus.until_fires("FshipperSharedName")
    prometheus.fleet.must("status", "--forget", "cloned.example.net")


def test_a_host_that_sends_questions_it_has_no_right_to(prometheus: Watched) -> None:
    question = json.dumps({"v": 1, "ask": "finish", "partition": 0}).encode()

    def asked_and_fired() -> bool:
        prometheus.publish(*[(f"ctl.up.{HOST}", question, None)] * 200)
        return "FshipperRefusedQuestions" in prometheus.firing()

    until(asked_and_fired, within=WITHIN, what="FshipperRefusedQuestions")


def test_a_host_that_holds_more_than_its_share(prometheus: Watched) -> None:
    noise = random.Random(11)
    prometheus.ship()
    prometheus.publish(*(("logs.p0.flood.example.net", noise.randbytes(100_000), None) for _ in range(10)))
    until(lambda: prometheus.fleet.lag() == 0, what="all is archived")
    prometheus.stop("collector")
    prometheus.fleet.drain("--seal")
    config = prometheus.directory / "small.toml"
    config.write_text("[collector]\nkeep_bytes = '200kB'\n")
    prometheus.consume(SHIPPER_CONFIG=str(config))
    prometheus.until_fires("FshipperHostOverShare")


def test_a_host_that_spends_more_than_its_budget(prometheus: Watched) -> None:
    """It reports petabytes as missing."""
    headers = {"Log-Id": "00000000000000e1", "Log-File": "/far.log", "Log-Span": f"{1 << 50}-{(1 << 50) + 2}",
               "Log-Origin": "0", "Log-Lines": "1", "Log-Crc": "00000000-00000000"}  # fmt: skip

    def published_and_fired() -> bool:
        prometheus.publish(("logs.p0.far.example.net", b"x\n", headers))
        return "FshipperHostOverBudget" in prometheus.firing()

    until(published_and_fired, within=WITHIN, what="FshipperHostOverBudget")


def test_bytes_that_are_in_the_archive_twice(prometheus: Watched) -> None:
    data = b"a line that two partitions hold\n"
    sums = f"{zlib.crc32(data):08x}"
    headers = {"Log-Id": "00000000000000d1", "Log-File": "/doubled.log", "Log-Span": f"0-{len(data)}",
               "Log-Origin": "0", "Log-Lines": "1", "Log-Crc": f"{sums}-{sums}",
               "Log-Time": "2026-11-20T10:00:00Z"}  # fmt: skip
    prometheus.stop("collector")
    prometheus.publish(("logs.p0.doubled.example.net", data, headers))
    prometheus.fleet.drain("--seal")
    prometheus.publish(("logs.p1.doubled.example.net", data, headers))
    prometheus.fleet.drain_unseen(1)
    prometheus.consume()
    prometheus.until_fires("FshipperDoubledBytes")
    prometheus.fleet.must("audit", "--repair-duplicates", "--yes")
    until(lambda: "FshipperDoubledBytes" not in prometheus.firing(), within=WITHIN)


def test_a_host_that_became_silent(prometheus: Watched) -> None:
    prometheus.ship()
    until(lambda: prometheus.query('fshipper_hosts{state=~"quiet|shipping"} == 1'))
    prometheus.stop("producer")
    prometheus.until_fires("FshipperSilentHost")


def test_lines_that_wait_at_a_host(prometheus: Watched) -> None:
    log = prometheus.directory / "slow.log"
    log.write_bytes(b"a line that is read slowly\n" * 40_000)
    prometheus.produce("--rate", "1kB", str(log))
    prometheus.until_fires("FshipperBacklogAge")


def test_an_archive_that_cannot_be_written_and_messages_that_wait_for_it(prometheus: Watched) -> None:
    prometheus.jam()
    for alert in ("FshipperArchiveTrouble", "FshipperCollectorLag", "FshipperStreamFull", "FshipperHostFillsStream"):
        prometheus.until_fires(alert)


def test_a_host_whose_lines_do_not_move(prometheus: Watched) -> None:
    """Its stream is full, while heartbeats come."""
    prometheus.jam()
    prometheus.until_fires("FshipperStreamFull")
    log = prometheus.directory / "noise.log"
    log.write_bytes(random.Random(7).randbytes(6_000_000) + b"\n")  # does not pack
    prometheus.produce(str(log))
    prometheus.until_fires("FshipperStuckHost")


def test_a_partition_without_a_writer_and_then_no_collector_at_all(prometheus: Watched) -> None:
    prometheus.consume(SHIPPER_READ_PARTITIONS="0")
    prometheus.until_fires("FshipperPartitionWithoutCollector")
    prometheus.stop("collector")
    prometheus.until_fires("FshipperNoCollector")


def test_a_disk_that_is_nearly_full(prometheus: Watched) -> None:
    small = prometheus.directory / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "small", str(small)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a file system may not be mounted here")
    try:
        (small / "large").write_bytes(bytes(ROOM_BYTES * 93 // 100))
        prometheus.consume(SHIPPER_DIRECTORY=str(small / "archive"))
        prometheus.until_fires("FshipperArchiveDisk")
    finally:
        prometheus.stop("collector")
        subprocess.run(["umount", "--lazy", small], check=True)
