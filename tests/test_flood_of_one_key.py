"""One key uses connections, subscriptions, unread answers and message ids without end: the server refuses the excess.

What it does not read is not kept for it, and the others are archived.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.attacker import ANSWER_SECONDS, ATTACKER, VICTIM, closing, connect, settle
from harness.edges import End
from harness.fleet import Fleet, until
from harness.flooding import LIMIT, attacked, flood, publish_large
from harness.natsd import running

from partitioner.access.roster import AuthMethod

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""nats-py does not close the socket of an attacker whose connection the server ended."""

ONE_CONNECTION_MIB = 25
"""What one connection that reads nothing can cost the server: `max_pending`, and answers that it has begun to make."""
ONE_PUBLISHER_MIB = 45
"""What one connection that publishes large messages can cost the server: the stream's queue, copies, and garbage."""
LINES = b"".join(b"line %d of a host\n" % number for number in range(20_000))


def write(path: Path) -> str:
    path.write_bytes(LINES)
    return str(path)


def memory_mib(end: End) -> float:
    """The most memory that the server has had so far."""
    assert end._process is not None
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{end._process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


@pytest.fixture(params=AuthMethod)
def centre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[End]:
    with attacked(tmp_path, request.param) as end:
        yield end


def test_what_one_key_takes_is_bounded_and_the_others_are_archived(centre: End, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(LINES)
    collector = centre.fleet.start("consume", **centre.as_("collector"))
    producer = centre.fleet.start("produce", str(log), HOSTNAME=VICTIM, SHIPPER_LISTEN="", **centre.as_(VICTIM))
    until(lambda: centre.fleet.archived(VICTIM, log) == LINES, what=lambda: producer.log + collector.log)
    usual = memory_mib(centre)
    assert asyncio.run(flood(centre)) == LIMIT.connections
    assert memory_mib(centre) <= usual + LIMIT.connections * ONE_CONNECTION_MIB
    with log.open("ab") as more:
        more.write(LINES)
    until(lambda: centre.fleet.archived(VICTIM, log) == 2 * LINES, what=lambda: producer.log + collector.log)
    assert (producer.stop(), collector.stop()) == (0, 0)


def test_messages_that_wait_to_be_stored_take_little_memory(tmp_path: Path) -> None:
    """600 MB by four connections: without the limit of the shipped configuration 128 MiB wait in the stream's queue."""
    with attacked(tmp_path, AuthMethod.KEYS) as centre:
        usual = memory_mib(centre)
        asyncio.run(publish_large(centre))
        assert memory_mib(centre) <= usual + LIMIT.connections * ONE_PUBLISHER_MIB


def test_producers_whose_stream_is_busy_send_again_and_each_line_is_archived_once(tmp_path: Path) -> None:
    with running(tmp_path / "natsd", sync="always", waiting_messages=1) as natsd, Fleet(tmp_path, natsd.url) as fleet:
        fleet.must("partition", "apply", "--partitions", "1")
        logs = {f"{name}.example.net": tmp_path / f"{name}.log" for name in "abc"}
        producers = [fleet.start("produce", "--once", "--block", "4KiB", write(path), HOSTNAME=host,
                                 SHIPPER_STATE=str(tmp_path / host)) for host, path in logs.items()]  # fmt: skip
        assert [each.wait() for each in producers] == [0, 0, 0]
        assert any("stream_busy" in each.log for each in producers)
        assert not any("stream_full" in each.log for each in producers)
        fleet.drain()
        for host, path in logs.items():
            assert fleet.archived(host, path) == path.read_bytes()
        fleet.must("audit")


def test_the_server_names_the_key_that_sends_most_and_a_revoked_key_loses_its_connections(centre: End) -> None:
    async def attack() -> None:
        attacker, other = [await connect(centre, name, centre.options(name)) for name in (ATTACKER, VICTIM)]
        async with closing(attacker, other):
            for _ in range(500):
                await attacker.publish(f"logs.p0.{ATTACKER}", b"x")
            await settle(attacker)
            busiest = centre.monitor("connz?auth=true&sort=msgs_from&limit=1")["connections"][0]["authorized_user"]
            listed = centre.fleet.must("hosts", "list", SHIPPER_ACCESS=str(centre.keys)).splitlines()
            assert [ATTACKER in line for line in listed if busiest in line] == [True]
            centre.hosts("revoke", ATTACKER, "--yes")
            await asyncio.to_thread(centre.reload)
            async with asyncio.timeout(ANSWER_SECONDS):
                while not attacker.is_closed:
                    await asyncio.sleep(0.02)
            await settle(other)

    asyncio.run(attack())


def test_the_list_of_hosts_shows_what_each_may_use(centre: End) -> None:
    listed = centre.fleet.must("hosts", "list", SHIPPER_ACCESS=str(centre.keys))
    assert re.search(rf"host +{re.escape(VICTIM)} .*4 connections, 16 subscriptions each, 1.0 MiB a message\n", listed)
    assert re.search(r"collector +collector .*no limits\n", listed)
