"""The first streams of a server: a collector creates them where no administrator decides about them."""

import asyncio

import pytest
from harness.fleet import Fleet
from harness.natsd import running
from harness.waiting import until

from shipper.jetstream.connection import connect
from shipper.settings import NatsSettings

USERS = 'authorization { users: [ { user: "anybody", password: "secret" } ] }'


def create_stream(url: str, name: str, subject: str) -> None:
    async def work() -> None:
        async with await connect(NatsSettings(url=url), name="test", inbox="_INBOX_test") as connection:
            await connection.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})

    asyncio.run(work())


@pytest.mark.parametrize(("configured", "expected"), [("", 1), ("0", 1), ("3", 3)])
def test_a_collector_creates_the_streams_of_an_empty_server_and_logs_it(natsd, tmp_path, configured, expected):
    log = tmp_path / "app.log"
    log.write_text("hello\n")
    with Fleet(tmp_path, natsd.url) as fleet:
        collector = fleet.start("consume", SHIPPER_PARTITIONS=configured)
        until(lambda: "session_begun" in collector.log, what=lambda: collector.log)
        assert f"partitions={expected}" in next(line for line in collector.log.splitlines() if "first_streams" in line)
        plan = fleet.run("partition", "plan", "--detailed-exitcode", SHIPPER_PARTITIONS="")
        assert plan.returncode == 0, plan.stdout  # as `partition apply` would have made them, with the map
        fleet.must("produce", "--once", str(log), HOSTNAME="web1.example.net", SHIPPER_PARTITIONS="")
        until(lambda: fleet.archived("web1.example.net", log) == b"hello\n", what=lambda: collector.log)
        assert collector.stop() == 0
        again = fleet.start("consume", SHIPPER_PARTITIONS=configured)
        until(lambda: "session_begun" in again.log, what=lambda: again.log)
        assert "first_streams" not in again.log


@pytest.mark.parametrize("why", ["users", "a stream of another program", "a map without streams", "drain"])
def test_streams_that_an_administrator_decides_about_are_not_created(tmp_path, why):
    with (
        running(tmp_path / "nats", extra=USERS if why == "users" else "") as server,
        Fleet(tmp_path, server.url) as fleet,
    ):
        user = {"NATS_USER": "anybody", "NATS_PASSWORD": "secret"} if why == "users" else {}
        if why == "a stream of another program":
            create_stream(server.url, "ORDERS", "orders.>")
        if why == "a map without streams":
            fleet.apply()
            asyncio.run(delete_streams(server.url))
        options = ("--drain",) if why == "drain" else ()
        collector = fleet.start("consume", *options, **user)
        assert collector.wait() == 69
        assert "the server has no stream LOGS_0" in collector.log
        assert "fshipper partition apply" in collector.log
        assert "first_streams" not in collector.log


async def delete_streams(url: str) -> None:
    """Delete the streams of the partitions; the map stays."""
    async with await connect(NatsSettings(url=url), name="test", inbox="_INBOX_test") as connection:
        for number in range(4):
            await connection.api(f"STREAM.DELETE.LOGS_{number}")


def test_collectors_that_start_together_create_the_streams_together(natsd, tmp_path):
    with Fleet(tmp_path, natsd.url) as fleet:
        collectors = [fleet.start("consume", SHIPPER_PARTITIONS="2") for _ in range(3)]

        def works(log: str) -> bool:
            return "session_begun" in log or "standing_by" in log

        until(lambda: all(works(each.log) for each in collectors), what=lambda: collectors[0].log)
        assert [each.process.poll() for each in collectors] == [None] * 3
        assert fleet.run("partition", "plan", "--detailed-exitcode", SHIPPER_PARTITIONS="").returncode == 0
