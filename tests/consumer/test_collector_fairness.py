"""A host that floods delays the others by a few batches of its partition, not by its flood. Counted in batches."""

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer

from consumer.pipeline import TEXT_A_PAYLOAD
from shipper.partition_map import partition_for

MIB = 1024 * 1024
BATCH = MIB
BLOCK = 512 * 1024
FLOOD = 128 * MIB
FEW = 4
SLOW, FLOODING = "slow2.example.net", "flood.example.net"
LINE = b"2026-11-20T10:00:00.000Z app[4711]: request served in 12 ms, user=17 path=/index.html status=200\n"


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Iterator[Fleet]:
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        yield fleet


def flood(fleet: Fleet) -> Path:
    """A flood in the stream, ahead of everything."""
    path = fleet.directory / "flood.log"
    path.write_bytes(LINE * (FLOOD // len(LINE)))
    fleet.ship_once(FLOODING, path)
    return path


def say(fleet: Fleet, partition: int) -> float:
    """The slow host sends a line; when the server has it."""

    async def publish() -> None:
        client = await nats.connect(fleet.url)
        await client.request(f"logs.p{partition}.{SLOW}", b"a line", timeout=30)
        await client.close()

    asyncio.run(publish())
    return dt.datetime.now(dt.UTC).timestamp()


def collector(fleet: Fleet) -> Program:
    settings = fleet.directory / "collector.toml"
    settings.write_text(f'collector.batch = {BATCH}\nlog = {{ format = "json", level = "debug" }}\n')
    return fleet.start("consume", "--config", str(settings))


def batches(program: Program, partition: int) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in program.log_file.read_text().splitlines() if "batch_committed" in line]
    for line in lines:
        line["at"] = dt.datetime.fromisoformat(line["timestamp"]).timestamp()
    return [line for line in lines if line["partition"] == partition]


def is_archived(fleet: Fleet) -> bool:
    return fleet.archived(SLOW, "messages.log") == b"a line\n"


def test_a_flood_in_another_partition_delays_a_host_by_a_few_batches(fleet):
    flooded, quiet = partition_for(FLOODING, 2), partition_for(SLOW, 2)
    assert flooded != quiet
    path = flood(fleet)
    program = collector(fleet)
    until(lambda: len(batches(program, flooded)) > FEW, within=60)
    said_at = say(fleet, quiet)
    until(lambda: is_archived(fleet), within=60)
    until(lambda: len(fleet.archived(FLOODING, path)) == path.stat().st_size, within=120)
    archived_at = batches(program, quiet)[0]["at"]
    between = [batch for batch in batches(program, flooded) if said_at < batch["at"] < archived_at]
    behind = [batch for batch in batches(program, flooded) if batch["at"] > archived_at]
    assert len(between) <= FEW
    assert len(behind) > FEW, "the flood was over: nothing was shown"


def test_however_much_is_in_a_stream_no_batch_is_longer_than_it_must_be(fleet):
    """In its own partition a host waits for what is before it: the stream's order is the order of the files."""
    path = flood(fleet)
    say(fleet, partition_for(FLOODING, 2))
    program = collector(fleet)
    until(lambda: is_archived(fleet), within=120)
    assert len(fleet.archived(FLOODING, path)) == path.stat().st_size
    written = [batch["bytes"] for batch in batches(program, partition_for(FLOODING, 2))]
    assert max(written) < TEXT_A_PAYLOAD * BATCH + BLOCK
    assert len(written) <= FLOOD // BATCH + FEW
