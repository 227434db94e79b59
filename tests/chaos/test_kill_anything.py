"""kill -9 of anything at any time: the archive equals the sources, byte for byte."""

import os
import random
import threading
import time
from pathlib import Path

import pytest
from compared import difference
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

ROUNDS = int(os.environ.get("FSHIPPER_CHAOS_ROUNDS", "2"))
MEGABYTES = int(os.environ.get("FSHIPPER_CHAOS_MB", "40"))
BYTES_A_SECOND = 5e6  # of each writer, so that many kills fall into the flow
HOSTS = ("web1.example.net", "web2.example.net", "db1.example.net")


class Writer(threading.Thread):
    """A program that logs: bursts of lines into one file, rotated by rename now and then."""

    def __init__(self, path: Path, megabytes: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.path = path
        self._left = int(megabytes * 1e6)
        self._random = random.Random(seed)
        self._number = 0
        self.written: list[bytes] = []

    def run(self) -> None:
        stream = self.path.open("ab")
        rotated = 0
        while self._left > 0:
            burst = self._burst()
            cut = self._random.randrange(1, len(burst))
            for part in (burst[:cut], burst[cut:]):  # a line may arrive in two writes
                stream.write(part)
                stream.flush()
            self.written.append(burst)
            self._left -= len(burst)
            time.sleep(len(burst) / BYTES_A_SECOND * self._random.uniform(0, 2))
            if self._random.random() < 0.01:
                stream.close()
                rotated += 1
                self.path.rename(self.path.with_name(f"{self.path.name}.{rotated}"))
                stream = self.path.open("ab")
        stream.close()

    def _burst(self) -> bytes:
        lines = []
        for _ in range(self._random.choice((1, 10, 500, 2000))):
            self._number += 1
            lines.append(
                b"%d %s\r\n" % (self._number, self._random.randbytes(self._random.randrange(60)).hex().encode())
            )
        return b"".join(lines)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_after_kills_of_producers_server_and_collector_every_byte_is_there_once(
    seed: int, tmp_path: Path, natsd: NatsServer
) -> None:
    chance = random.Random(seed)
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        writers = []
        for number, host in enumerate(HOSTS):
            path = tmp_path / host / "app.log"
            path.parent.mkdir()
            path.touch()
            writers.append(Writer(path, MEGABYTES / len(HOSTS), seed * 10 + number))
        producers = [
            fleet.produce(host, writer.path, options=("--poll", "200ms"))
            for host, writer in zip(HOSTS, writers, strict=True)
        ]
        collector = fleet.consume()
        victims = [*producers, collector, natsd]
        for producer in producers:  # what was rotated away before the first scan has no owner
            until(lambda: "session_begun" in producer.log)  # noqa: B023
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            time.sleep(chance.uniform(0.05, 0.6))
            chance.choice(victims).restart()
        for writer, producer in zip(writers, producers, strict=True):
            expected = b"".join(writer.written)
            host = writer.path.parent.name
            until(
                lambda: len(fleet.archived(host, writer.path)) >= len(expected),  # noqa: B023
                within=60,
                what=f"seed {seed} {host}\n{producer.log}\n{collector.log}",
            )
        time.sleep(0.5)  # what comes twice would come now
        for writer in writers:
            got, expected = fleet.archived(writer.path.parent.name, writer.path), b"".join(writer.written)
            assert got == expected, f"seed {seed}: {difference(got, expected)}\n{collector.log}"
        assert all(producer.stop() == 0 for producer in producers)
        assert collector.stop() == 0
