"""kill -9 of the producer every 200 ms while a program logs and rotates every second: byte for byte in the end."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compared import common_prefix
from forked import Forked
from harness.fleet import Fleet, until
from harness.natsd import NatsServer

HOST = "web1.example.net"
MEGABYTES = float(os.environ.get("FSHIPPER_KILL_MB", "60"))
LIFE_SECONDS = 0.2
MOST_IDLE_LIVES = 5
"""After so many lives that shipped nothing, as on a busy machine, the next one lasts until it ships something."""
ROTATE_SECONDS = 1.0
BYTES_A_SECOND = 8e6
MOST_LOOK_SECONDS = 10.0


class Logging(threading.Thread):
    """Numbered lines of uneven length at a pace into app.log, which begins anew every second."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.rotations = 0
        self.needs_a_kill = False  #: it does not go on before
        self.generations: list[bytearray] = [bytearray()]
        self._random = random.Random(1)
        self._stream = path.open("ab", buffering=0)
        self._number = 0

    @property
    def written(self) -> bytes:
        return b"".join(self.generations)

    def run(self) -> None:
        begun = time.monotonic()
        rotate_at, written = begun + ROTATE_SECONDS, 0
        while written < MEGABYTES * 1e6:
            written += self._log(b"".join(self._line() for _ in range(200)))
            time.sleep(max(0.0, begun + written / BYTES_A_SECOND - time.monotonic()))
            if time.monotonic() >= rotate_at:
                rotate_at = time.monotonic() + ROTATE_SECONDS
                self.rotate()
                self.rotations += 1
                self.generations.append(bytearray())
        self._stream.close()

    def _log(self, lines: bytes) -> int:
        half = self._random.randrange(len(lines))
        self._stream.write(lines[:half])  # a line may come in two writes
        self._stream.write(lines[half:])
        self.generations[-1] += lines
        return len(lines)

    def _line(self) -> bytes:
        self._number += 1
        return b"%09d %s\n" % (self._number, b"x" * self._random.randrange(300))

    def rotate(self) -> None:
        self._stream.close()
        self.path.rename(self.path.with_name(f"app.log.{self.rotations + 1}"))
        self._stream = self.path.open("ab", buffering=0)


class CopyTruncating(Logging):
    """The file is copied and cut off; no program writes meanwhile, so the copy holds all of it."""

    def rotate(self) -> None:
        shutil.copyfile(self.path, self.path.with_name(f"app.log.{self.rotations + 1}"))
        os.ftruncate(self._stream.fileno(), 0)


class Truncating(Logging):
    """The file is cut off without a copy once the producer has seen its size; what came later is unknown to it.

    At every third time the server hangs, and what is logged after a kill is lost: no program reads without a session.
    """

    def __init__(self, path: Path, checkpoint: Path, server: NatsServer) -> None:
        super().__init__(path)
        self._checkpoint = checkpoint
        self._server = server
        self.unseen = 0
        self.kills: Callable[[], int] = lambda: 0

    def rotate(self) -> None:
        if self.rotations % 3 == 0:
            self._server.pause()
            kills, self.needs_a_kill = self.kills(), True
            until(lambda: self.kills() > kills, what="no kill came")
            self.needs_a_kill = False
            self._log(b"".join(self._line() for _ in range(500)))
        self.unseen += not self._wait_for_a_look(MOST_LOOK_SECONDS)
        os.ftruncate(self._stream.fileno(), 0)
        self._server.resume()

    def _wait_for_a_look(self, at_most: float) -> bool:
        size, deadline = self.path.stat().st_size, time.monotonic() + at_most
        while (seen := self._seen() == size) is False and time.monotonic() < deadline:
            time.sleep(0.005)
        return seen

    def _seen(self) -> int:
        rows = rows_of(self._checkpoint, "SELECT size FROM sources WHERE ended_at = 0 ORDER BY place DESC LIMIT 1")
        return rows[0][0] if rows else -1


def rows_of(checkpoint: Path, query: str) -> list[tuple]:
    """The content of a checkpoint; nothing while it is busy."""
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(checkpoint, timeout=0.1)) as database,
    ):
        return database.execute(query).fetchall()
    return []


@contextlib.contextmanager
def killed_again_and_again(fleet: Fleet, *patterns: Path, options: tuple[str, ...] = ()) -> Iterator["Loop"]:
    fleet.apply()
    arguments = ["produce", "--poll", "50ms", *options, *map(str, patterns)]
    producer = Forked(arguments, fleet.environment(HOSTNAME=HOST), fleet.directory / "produce.log")
    try:
        producer.start()
        until(lambda: "session_begun" in producer.log, what=lambda: producer.log)
        yield Loop(producer, fleet.directory / "state" / "producer" / HOST / "checkpoint.sqlite")
    finally:
        producer.close()


class Loop:
    """Kills while a writer writes; counts the lives that moved the checkpoint."""

    def __init__(self, producer: Forked, checkpoint: Path) -> None:
        self.producer = producer
        self.checkpoint = checkpoint
        self.kills = 0
        self.kills_of_those_that_shipped = 0

    def run(self, writer: Logging) -> None:
        writer.start()
        before, idle = self._shipped(), 0
        while writer.is_alive():
            time.sleep(LIFE_SECONDS)
            while idle >= MOST_IDLE_LIVES and self._may_ship(writer) and self._shipped() in ((), before):
                time.sleep(LIFE_SECONDS)
            assert self.producer.end(signal.SIGKILL) == -signal.SIGKILL, self.producer.log
            after = self._shipped()
            self.kills += 1
            self.kills_of_those_that_shipped += after != before
            idle = 0 if after != before else idle + 1
            before = after
            self.producer.start()

    @staticmethod
    def _may_ship(writer: Logging) -> bool:
        return writer.is_alive() and not writer.needs_a_kill

    def _shipped(self) -> tuple:
        return tuple(rows_of(self.checkpoint, "SELECT id, offset FROM sources ORDER BY id"))

    def finish(self, fleet: Fleet, *patterns: Path) -> None:
        """The last life ends in peace; what it left is shipped, and everything is written and sealed."""
        lives = self.producer.log_file.read_text().count("session_begun")
        until(lambda: self.producer.log_file.read_text().count("session_begun") > lives, what=lambda: self.producer.log)
        assert self.producer.end(signal.SIGTERM) == 0, self.producer.log
        fleet.ship_once(HOST, *patterns)
        fleet.drain("--seal")

    def report(self, writer: Logging) -> None:
        print(
            f"{len(writer.written) / 1e6:.0f} MB, {writer.rotations} rotations, {self.kills} kills,"
            f" {self.kills_of_those_that_shipped} of producers that had shipped"
        )
        assert writer.rotations >= MEGABYTES * 1e6 / BYTES_A_SECOND / ROTATE_SECONDS / 3
        assert self.kills_of_those_that_shipped > self.kills / 10


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
@pytest.mark.parametrize("kind", [Logging, CopyTruncating])
def test_a_file_that_starts_again_every_second_arrives_whole_through_a_kill_every_200_ms(
    kind: type[Logging], pattern: str, tmp_path: Path, natsd: NatsServer
) -> None:
    (tmp_path / "logs").mkdir()
    path, watched = tmp_path / "logs" / "app.log", tmp_path / "logs" / pattern
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        writer = kind(path)
        with killed_again_and_again(fleet, watched) as loop:
            loop.run(writer)
            loop.finish(fleet, watched)
        loop.report(writer)
        got = fleet.archived(HOST, path)
        assert got == writer.written, jumps(got)
        assert not [gap for segment in fleet.segments() for gap in segment.gaps]


def test_what_truncations_lose_through_a_kill_every_200_ms_is_recorded_to_the_byte(
    tmp_path: Path, natsd: NatsServer
) -> None:
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "app.log"
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        writer = Truncating(path, tmp_path / "state" / "producer" / HOST / "checkpoint.sqlite", natsd)
        with killed_again_and_again(fleet, path) as loop:
            writer.kills = lambda: loop.kills
            loop.run(writer)
            loop.finish(fleet, path)
        loop.report(writer)
        got, lost = fleet.archived(HOST, path), 0
        for generation in writer.generations:
            arrived = generation.rfind(b"\n", 0, common_prefix(generation, got)) + 1  # no two lines have one number
            got = got[arrived:]
            lost += len(generation) - arrived
        assert got == b"", f"{len(got)} bytes came twice or out of order, {jumps(fleet.archived(HOST, path))}"
        recorded = sum(gap.end - gap.start for segment in fleet.segments() for gap in segment.gaps)
        print(f"{lost} bytes lost, {recorded} recorded, {writer.unseen} truncations before a look")
        assert recorded == lost if not writer.unseen else recorded <= lost
        assert 0 < lost < len(writer.written)  # how much of it depends on what a busy machine ships in 200 ms


def jumps(got: bytes) -> list[tuple[int, int]]:
    """Where the numbers of the lines do not go on: twice, missing, or out of order."""
    numbers = [int(line[:9]) for line in got.splitlines()]
    return [(one, other) for one, other in itertools.pairwise(numbers) if other != one + 1]
