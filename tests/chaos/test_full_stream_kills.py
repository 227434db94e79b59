"""Hosts that share a stream with too little space: each byte once, whichever is killed while they wait."""

import os
import random
import time
from pathlib import Path

import pytest
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

SECONDS = float(os.environ.get("FSHIPPER_FULL_SECONDS", "12"))
MAX_BYTES = "4MB"
LINES = 120_000
HOSTS = [f"web{number}.example.net" for number in range(3)]


def random_lines(chance: random.Random) -> bytes:
    """Half as large when it is packed: 60 bytes of chance a line."""
    return b"".join(chance.randbytes(60).hex().encode() + b"\n" for _ in range(LINES))


@pytest.mark.parametrize("seed", range(int(os.environ.get("FSHIPPER_FULL_SEEDS", "1"))))
def test_hosts_that_share_a_full_stream_arrive_whole_whichever_program_is_killed(
    seed: int, tmp_path: Path, natsd: NatsServer
) -> None:
    chance = random.Random(seed)
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.must("partition", "apply", "--partitions", "1", "--max-bytes", MAX_BYTES)
        paths = {host: tmp_path / f"{host}.log" for host in HOSTS}
        for path in paths.values():
            path.write_bytes(random_lines(chance))
        producers = [fleet.produce(host, path) for host, path in paths.items()]
        until(lambda: all("stream_full" in each.log for each in producers), what=lambda: producers[0].log)
        collector = fleet.consume()
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            time.sleep(chance.uniform(0.1, 1.0))
            chance.choice([*producers, collector]).restart()
        for host, path in paths.items():
            until(lambda: fleet.archived(host, path) == path.read_bytes(), within=90, what=lambda: collector.log)  # noqa: B023
        assert "gap_recorded" not in collector.log
