"""The archive's disk is full for a while under load: nothing is lost or doubled, and every program reports it."""

import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer
from harness.ports import free_port
from volumes import Limits, Volume, volume_at

HOST = "web1.example.net"
FULL_SECONDS = float(os.environ.get("FSHIPPER_CHAOS_FULL_SECONDS", "8"))
BYTES_A_SECOND = 2e6
ROOM_BYTES = 3_000_000
SETTLE_SECONDS = 15.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volume | Limits]:
    found = volume_at(tmp_path / "archive")
    yield found
    found.close()


class Load(threading.Thread):
    """Numbered lines at a pace, until the end is requested."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.ending = threading.Event()
        path.touch()

    def run(self) -> None:
        number, begun, written = 0, time.monotonic(), 0
        with self.path.open("ab", buffering=0) as stream:
            while not self.ending.wait(max(0.0, begun + written / BYTES_A_SECOND - time.monotonic())):
                lines = b"".join(b"%09d %s\n" % (number + each, os.urandom(30).hex().encode()) for each in range(500))
                number, written = number + 500, written + stream.write(lines)


class Seen:
    """What an operator sees of the collector: readiness and the metric, polled."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self.reason = ""

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/readyz", timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as answer:
            self.reason = answer.read().decode().strip()
            return False
        except OSError:
            return False

    def trouble(self) -> bool:
        with urllib.request.urlopen(f"{self._address}/metrics", timeout=5) as answer:
            found = re.search(
                r'^fshipper_archive_trouble\{partition="0"\} (\S+)$', answer.read().decode(), re.MULTILINE
            )
        return found is not None and float(found[1]) == 1.0


def test_a_full_disk_under_load_loses_and_doubles_nothing_is_reported_and_heals_by_itself(
    tmp_path: Path, natsd: NatsServer, disk: Volume | Limits
) -> None:
    load, port = Load(tmp_path / "app.log"), free_port()
    seen, state = Seen(port), {"SHIPPER_STATE": ""}  # the journal is on the same disk, as it does by default
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        producer = fleet.produce(HOST, load.path, options=("--poll", "100ms"))
        collector = fleet.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{port}", **state)
        until(lambda: "session_begun" in producer.log and seen.ready(), what=lambda: producer.log + collector.log)
        assert not seen.trouble()
        load.start()
        disk.fill(collector.process.pid, ROOM_BYTES)
        until(lambda: seen.trouble() and not seen.ready(), what=lambda: collector.log)
        assert "No space left" in seen.reason or "disk is full" in seen.reason or "File too large" in seen.reason
        _stays_red(seen, collector)
        disk.make_room(collector.process.pid)
        since = time.monotonic()
        until(lambda: seen.ready() and not seen.trouble(), within=SETTLE_SECONDS, what=lambda: collector.log)
        healed = time.monotonic() - since
        load.ending.set()
        load.join()
        until(lambda: len(fleet.archived(HOST, load.path)) >= load.path.stat().st_size, what=lambda: collector.log)
        assert producer.stop() == 0
        assert collector.stop() == 0
        fleet.must("consume", "--drain", "--seal", **state)
        assert fleet.archived(HOST, load.path) == load.path.read_bytes()
        assert not [gap for segment in fleet.segments() for gap in segment.gaps]
        said = collector.log_file.read_text().count("archive_failed")
        assert said <= 3 + FULL_SECONDS / 10, f"said {said} times"
        print(f"full for {FULL_SECONDS:.0f} s with {load.path.stat().st_size / 1e6:.0f} MB, healed in {healed:.1f} s")


def _stays_red(seen: Seen, collector: Program) -> None:
    """As long as the disk is full no program reports that all is well."""
    green, deadline = 0, time.monotonic() + FULL_SECONDS
    while time.monotonic() < deadline:
        green += seen.ready() or not seen.trouble()
        time.sleep(0.05)
    assert green == 0, f"{green} answers said that all is well\n{collector.log}"
