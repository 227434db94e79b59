"""One key uses connections, subscriptions, unread answers and message ids without end: the server refuses the excess.

What it does not read is not kept for it, and the others are archived.
"""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from attacker import ATTACKER, VICTIM
from edges import End
from fleet import until
from flooding import LIMIT, flood
from ports import free_ports

from partitioner.access.roster import AuthMethod

ONE_CONNECTION_MIB = 25
"""What one connection that reads nothing can cost the server: `max_pending`, and answers that it has begun to make."""
LINES = b"".join(b"line %d of a host\n" % number for number in range(20_000))


def memory_mib(end: End) -> float:
    """The most memory that the server has had so far."""
    assert end._process is not None
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{end._process.pid}/status").read_text())
    assert found
    return int(found[1]) / 1024


@pytest.fixture(params=AuthMethod)
def centre(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[End]:
    end = End(tmp_path / "centre", "hub.conf", free_ports(3), request.param, trustme.CA())
    end.hosts("add", ATTACKER, VICTIM)
    end.configure(centre_port=1)
    end.start()
    try:
        end.wait_until_ready()
        with end.fleet:
            end.run("partition", "apply", "--partitions", "1")
            yield end
    finally:
        end.kill()


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


def test_the_list_of_hosts_shows_what_each_may_use(centre: End) -> None:
    listed = centre.fleet.must("hosts", "list", SHIPPER_ACCESS=str(centre.keys))
    assert re.search(rf"host +{re.escape(VICTIM)} .*4 connections, 16 subscriptions each, 1.0 MiB a message\n", listed)
    assert re.search(r"collector +collector .*no limits\n", listed)
