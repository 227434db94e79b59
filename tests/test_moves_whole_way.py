"""Another number of partitions under traffic, with kills: byte for byte, in order, and no stream is left."""

import os
import random
import time
from pathlib import Path

import pytest
from harness.fleet import Fleet, Program, until
from harness.moving import Writer, segments_of, streams_of, text_of

from shipper.partition_map import partition_for

HOSTS = int(os.environ.get("FSHIPPER_MOVE_HOSTS", "6"))
KILL_SECONDS = float(os.environ.get("FSHIPPER_MOVE_KILL_SECONDS", "1.0"))
STEPS = tuple(int(step) for step in os.environ.get("FSHIPPER_MOVE_STEPS", "4,7,3").split(","))
ROUNDS = int(os.environ.get("FSHIPPER_MOVE_ROUNDS", "1"))
MOVE_SECONDS = 120.0


def names(count: int) -> list[str]:
    return [f"web{number}.example.net" for number in range(count)]


class Killer:
    """Ends one of the programs in each second, and starts it again; the mover too, which then goes on."""

    def __init__(self, producers: list[Program], collector: Program, seed: int) -> None:
        self._chance = random.Random(seed)
        self._producers = producers
        self._collector = collector
        self.killed: list[str] = []

    def strike(self, mover: Program) -> None:
        kind = self._chance.choice(("producer", "collector", "mover"))
        victim = {"collector": self._collector, "mover": mover}.get(kind) or self._chance.choice(self._producers)
        victim.restart()
        self.killed.append(kind)


def move(fleet: Fleet, partitions: int, killer: Killer) -> None:
    """Move to so many partitions, and let the killer do its work until that has succeeded."""
    mover = fleet.start("partition", "move", "--partitions", str(partitions), "--yes", "--within", "100s")
    deadline = time.monotonic() + MOVE_SECONDS
    kill_at = time.monotonic() + 2 * KILL_SECONDS
    kills = 0
    while mover.process.poll() is None:
        assert time.monotonic() < deadline, f"not moved\n{mover.log}"
        time.sleep(0.05)
        if time.monotonic() >= kill_at and kills < MOVE_SECONDS / KILL_SECONDS / 4:
            killer.strike(mover)
            kill_at, kills = time.monotonic() + KILL_SECONDS, kills + 1
    assert mover.process.returncode == 0, mover.log


@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_moves_with_a_kill_in_each_second_lose_double_and_reorder_nothing(seed: int, tmp_path: Path, natsd) -> None:
    with Fleet(tmp_path, natsd.url, partitions=STEPS[0]) as fleet:
        fleet.apply()
        hosts = names(HOSTS)
        writers = [
            Writer(tmp_path / host / "app.log", lines_a_second=300, seed=seed * 100 + number)
            for number, host in enumerate(hosts)
        ]
        producers = [
            fleet.produce(host, writer.path, options=("--poll", "200ms"))
            for host, writer in zip(hosts, writers, strict=True)
        ]
        collector = fleet.consume()
        for producer in producers:
            until(lambda: "session_begun" in producer.log, within=60)  # noqa: B023
        for writer in writers:
            writer.start()
        killer = Killer(producers, collector, seed)
        for partitions in STEPS[1:]:
            move(fleet, partitions, killer)
            assert streams_of(fleet) == list(range(partitions))
        written = [writer.end() for writer in writers]
        for host, writer, producer in zip(hosts, writers, producers, strict=True):
            assert producer.stop() == 0, producer.log
            fleet.ship_once(host, writer.path)
        assert collector.stop() == 0, collector.log
        fleet.drain("--seal")
        for host, expected in zip(hosts, written, strict=True):
            segments = segments_of(fleet, host)
            assert text_of(fleet, host) == expected, f"{host}: {[(s.path, s.spans, s.first_time) for s in segments]}"
            assert segments[-1].partition == partition_for(host, STEPS[-1])
        audit = fleet.run("audit")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        left = [path for path in fleet.archive.rglob("*") if path.name.startswith(("_open", "_sealing", "."))]
        assert not left, left
        assert len(killer.killed) >= len(STEPS) - 1, killer.killed
