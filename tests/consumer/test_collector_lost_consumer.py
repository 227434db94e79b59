"""An operator deletes the consumer of the collector, which creates it again, or names who has the right to."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from harness.fleet import Fleet, until
from harness.natsd import running

from partitioner.topology import shipped_template
from shipper.jetstream.admin import administration
from shipper.jetstream.pull_consumer import ConsumerRecovery, shipped_consumer
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR

HOST, STREAM = "web1.example.net", "LOGS_0"


def administer(url: str, what: str, **more: Any) -> Any:
    async def do() -> Any:
        async with administration(NatsSettings(url=url, **more)) as admin:
            return await getattr(admin, what)(STREAM, COLLECTOR)

    return asyncio.run(do())


def config_of(url: str, **more: Any) -> Mapping[str, Any]:
    info = administer(url, "consumer", **more)
    return info["config"] if info else {}


def test_a_consumer_that_is_deleted_under_traffic_is_made_again_as_it_was_and_the_archive_is_the_file(tmp_path, natsd):
    log = tmp_path / "app.log"
    log.write_bytes(b"")
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"consumer": dict(shipped_template().consumer) | {"max_ack_pending": 4321}}))
    written = b""
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--template", str(template))
        made = config_of(natsd.url)
        collector = fleet.consume()
        fleet.produce(HOST, log)
        with log.open("ab", buffering=0) as file:
            for number in range(3):
                for line in range(500):
                    file.write(b"%d-%d %s\n" % (number, line, b"x" * 50))
                written = log.read_bytes()
                until(lambda: fleet.archived(HOST, log), what=lambda: collector.log)
                assert administer(natsd.url, "delete_consumer")
                for line in range(500):
                    file.write(b"%d+%d %s\n" % (number, line, b"x" * 50))
                written = log.read_bytes()
                until(lambda: config_of(natsd.url) == made, what="the consumer is there")
                until(lambda w=written: fleet.archived(HOST, log) == w, what=lambda: collector.log)
        assert config_of(natsd.url) == made
        assert "consumer_created" in collector.log
        assert fleet.run("partition", "plan", "--partitions", "1", "--template", str(template)).returncode == 0


def test_a_drain_creates_the_consumer_that_is_missing_when_it_starts_as_apply_would(tmp_path, natsd):
    log = tmp_path / "app.log"
    log.write_bytes(b"one\ntwo\n")
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        made = config_of(natsd.url)
        fleet.ship_once(HOST, log)
        administer(natsd.url, "delete_consumer")
        fleet.drain()
        assert fleet.archived(HOST, log) == b"one\ntwo\n"
        assert config_of(natsd.url) == made
        assert "nothing to do" in fleet.must("partition", "plan", "--partitions", "1")


RIGHTS = """
authorization {{ users = [
  {{ user: all, password: all }}
  {{ user: collector, password: collector, permissions: {{
       publish: {{ deny: ["$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.DURABLE.>"] }} }} }}
] }}
"""


def test_without_the_right_the_collector_waits_names_the_command_and_continues_when_it_was_run(tmp_path):
    log = tmp_path / "app.log"
    log.write_bytes(b"one\n")
    everything = {"NATS_USER": "all", "NATS_PASSWORD": "all"}
    with (
        running(tmp_path / "natsd", extra=RIGHTS.format()) as natsd,
        Fleet(tmp_path, natsd.url, partitions=1) as fleet,
    ):
        fleet.must("partition", "apply", "--partitions", "1", **everything)
        collector = fleet.start("consume", NATS_USER="collector", NATS_PASSWORD="collector")
        fleet.must("produce", "--once", str(log), HOSTNAME=HOST, **everything)
        until(lambda: fleet.archived(HOST, log) == b"one\n", what=lambda: collector.log)
        administer(natsd.url, "delete_consumer", user="all", password="all")
        with log.open("ab") as file:
            file.write(b"two\n")
        fleet.must("produce", "--once", str(log), HOSTNAME=HOST, **everything)
        until(lambda: "CONSUMER.CREATE" in natsd.log, what=lambda: collector.log)  # it has tried
        until(lambda: "has no consumer" in collector.log, what=lambda: collector.log)
        assert "fshipper partition apply --partitions N" in collector.log
        assert "consumer_created" not in collector.log
        assert collector.process.poll() is None
        assert natsd.log.count("Publish Violation") == 1
        fleet.must("partition", "apply", "--partitions", "1", **everything)
        until(lambda: fleet.archived(HOST, log) == b"one\ntwo\n", what=lambda: collector.log)


def test_the_consumer_of_the_collector_is_that_of_the_shipped_template():
    assert shipped_consumer() == shipped_template().consumer
    config = ConsumerRecovery().config(STREAM, COLLECTOR)
    assert {key: config[key] for key in shipped_template().consumer} == shipped_template().consumer
    assert config["durable_name"] == COLLECTOR


@pytest.mark.parametrize("again", [False, True])
def test_a_consumer_is_created_only_after_it_was_missing_for_a_while(again, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("shipper.jetstream.pull_consumer.time.monotonic", lambda: now[0])
    lost = ConsumerRecovery()
    assert not lost.is_due(STREAM)
    now[0] += 1.9
    if again:
        lost.found(STREAM, {})
    assert not lost.is_due(STREAM)
    now[0] += 0.2
    assert lost.is_due(STREAM) is not again
    lost.refused()
    now[0] += 59
    assert not lost.is_due(STREAM)
    now[0] += 2
    assert lost.is_due(STREAM)
