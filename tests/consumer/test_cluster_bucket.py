"""The leases themselves are hurt: the server stops, its store is an older one, the bucket is gone, or is refused."""

import asyncio
import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import nats
import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer, running
from sharing import Shared, held, stop

from shipper.subjects import BUCKET_STREAM

HOSTS = ["web1.example.net", "web2.example.net", "db1.example.net"]  # of two partitions
LEASE = 2.0
USERS = """
authorization { users: [ { user: "admin", password: "x" }, { user: "collector", password: "x", permissions: {
  publish: { allow: ["$JS.API.CONSUMER.MSG.NEXT.*.collector", "$JS.API.CONSUMER.INFO.*.collector", "$JS.ACK.>",
    "$JS.API.CONSUMER.RESET.*.collector", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.PURGE.*",
    "$JS.API.DIRECT.GET.>", "dlq.>", "ctl.down.>"] }
  subscribe: { allow: ["_INBOX_collector.>", "ctl.up.>"] } } } ] }
"""


@pytest.fixture
def shared(tmp_path: Path, natsd: NatsServer):
    with Shared(tmp_path, natsd.url, partitions=2, lease=f"{LEASE}s") as shared:
        shared.apply()
        yield shared


def test_two_collectors_keep_their_shares_whatever_happens_to_the_leases(shared, natsd):
    first, second = shared.consume(), shared.consume()
    until(lambda: len(held(first)) == len(held(second)) == 1, what=lambda: first.log + second.log)
    everybody = held(first), held(second)

    def still_theirs() -> None:
        for host in HOSTS:
            shared.send(host, 20)
        shared.wait_until_archived(first, second)
        time.sleep(1.5 * LEASE)  # a collector that would take something over does so now
        assert (held(first), held(second)) == everybody
        assert "previous" not in first.log + second.log

    bucket = next(natsd.store.rglob(BUCKET_STREAM))
    natsd.stop()
    shutil.copytree(bucket, natsd.directory / "older")
    natsd.start()
    for host in HOSTS:
        shared.send(host, 20)
    shared.wait_until_archived(first, second)
    natsd.kill()
    shutil.rmtree(bucket)
    shutil.copytree(natsd.directory / "older", bucket)
    time.sleep(1.5 * LEASE)  # all leases would have run out, if silence of a dead server counted
    natsd.start()
    still_theirs()

    asyncio.run(delete_bucket(shared.url))
    still_theirs()
    stop(first, second)


async def delete_bucket(url: str) -> None:
    client = await nats.connect(url)
    await client.jetstream().delete_stream(BUCKET_STREAM)
    await client.close()


def test_without_the_right_to_have_leases_the_locks_decide_and_the_next_collector_stands_by(tmp_path):
    """A collector with leases never bypasses one without: that one would not be fenced, as it checks no lease."""
    with (
        running(tmp_path / "natsd", extra=USERS) as natsd,
        Fleet(tmp_path, natsd.url.replace("//", "//admin:x@"), partitions=1) as fleet,
    ):
        fleet.apply()
        path = tmp_path / "app.log"
        path.write_bytes(b"a line\n" * 100)
        admin, poor = fleet.url, natsd.url.replace("//", "//collector:x@")
        fleet.url = poor
        first = fleet.consume()
        until(lambda: held(first) == {0}, what=lambda: first.log)
        assert "leases_refused" in first.log
        second = fleet.consume()
        fleet.url = admin
        third = fleet.consume()
        until(lambda: "standing_by" in second.log and "standing_by" in third.log, what=lambda: second.log + third.log)
        assert "in use by process" in fleet.run("consume", "--drain").stderr
        first.kill()
        until(lambda: held(second) | held(third) == {0}, what=lambda: second.log + third.log)
        fleet.ship_once("web1", path)
        until(lambda: fleet.archived("web1", path) == path.read_bytes(), what=lambda: second.log + third.log)
        stop(second, third)
        assert "epoch=1" not in second.log + third.log


def test_streams_that_are_added_are_read_and_status_and_metrics_show_who_owns_what(tmp_path, natsd):
    with Shared(tmp_path, natsd.url, partitions=1, lease=f"{LEASE}s") as shared:
        shared.apply()
        ports = [18641, 18642]
        first, second = (shared.start("consume", SHIPPER_LISTEN=f"127.0.0.1:{port}") for port in ports)
        until(lambda: len(held(first) | held(second)) == 1, what=lambda: first.log + second.log)
        until(lambda: "standing_by" in first.log + second.log)
        until(lambda: sorted(status(port)["stands_by"] for port in ports) == [False, True])
        until(lambda: all(map(is_ready, ports)))  # a standby is healthy
        shared.must("partition", "move", "--partitions", "2", "--yes")
        until(lambda: len(held(first)) == len(held(second)) == 1, what=lambda: first.log + second.log)
        assert "streams_found" in first.log + second.log
        until(lambda: all(len(status(port)["partitions"]) == 1 for port in ports))
        assert all("fshipper_leases_held 1.0" in get(port, "metrics") for port in ports)
        for host in HOSTS:
            shared.send(host, 20)
        shared.wait_until_archived(first, second)
        stop(first, second)


def get(port: int, what: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{what}", timeout=5) as answer:
        return str(answer.read().decode())


def status(port: int) -> dict[str, list[object]]:
    found: dict[str, list[object]] = json.loads(get(port, "status"))
    return found


def is_ready(port: int) -> bool:
    try:
        return get(port, "readyz") == "ready\n"
    except urllib.error.HTTPError:
        return False
