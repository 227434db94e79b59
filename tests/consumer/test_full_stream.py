"""A full stream: producers wait in their sessions, and what is missing before a hole always arrives."""

import asyncio
import json
import os
from pathlib import Path

import nats
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer

HOST = "web1.example.net"
MAX_BYTES = 4_000_000


def random_lines(count: int) -> bytes:
    """Half as large when it is packed: 60 bytes of chance a line."""
    return b"".join(os.urandom(60).hex().encode() + b"\n" for _ in range(count))


def small_fleet(tmp_path: Path, natsd: NatsServer) -> Fleet:
    fleet = Fleet(tmp_path, natsd.url, partitions=1)
    fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", str(MAX_BYTES))
    return fleet


def blocked(fleet: Fleet, path: Path, *, lines: int) -> Program:
    """A producer of a file for which its stream has no space."""
    path.write_bytes(random_lines(lines))
    producer = fleet.produce(HOST, path, options=("--once",))
    until(lambda: "10077" in producer.log, what=lambda: producer.log)
    return producer


def archived_whole(fleet: Fleet, producer: Program, path: Path) -> str:
    """The log of a collector that freed space until the producer had sent all, and archived it byte for byte."""
    collector = fleet.consume()
    assert producer.wait(60) == 0, collector.log
    until(lambda: fleet.archived(HOST, path) == path.read_bytes(), what=lambda: collector.log)
    assert collector.stop() == 0
    return collector.log


async def _delete(url: str, first: int, last: int) -> None:
    client = await nats.connect(url)
    try:
        for sequence in range(first, last + 1):
            answer = await client.request(
                "$JS.API.STREAM.MSG.DELETE.LOGS_0", json.dumps({"seq": sequence}).encode(), timeout=30
            )
            assert json.loads(answer.data)["success"]
    finally:
        await client.close()


def test_a_producer_that_is_blocked_by_a_full_stream_continues_when_the_collector_makes_room(tmp_path, natsd):
    with small_fleet(tmp_path, natsd) as fleet:
        path = tmp_path / "app.log"
        producer = blocked(fleet, path, lines=100_000)
        assert "stream_purged" in archived_whole(fleet, producer, path)


def test_a_hole_that_is_longer_than_a_full_stream_has_room_is_filled_and_not_given_up(tmp_path, natsd):
    """What follows the hole would keep the space that the missing bytes need, and vice versa."""
    with small_fleet(tmp_path, natsd) as fleet:
        path = tmp_path / "app.log"
        producer = blocked(fleet, path, lines=200_000)
        asyncio.run(_delete(natsd.url, 2, 9))  # the producer fills the space with what comes after
        until(lambda: fleet.messages() > 12, what=lambda: producer.log)
        assert "gap" not in archived_whole(fleet, producer, path)
