"""The server's store goes back to an older copy, as when power fails: with real programs, and files that are gone."""

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer
from producing import append

LONG = 180.0
"""Seconds: what is waited for comes, however slow the machine is."""
HOST, OTHER = "web1.example.net", "web2.example.net"


class Store:
    """Copies of a server's store, taken while it runs or stands."""

    def __init__(self, natsd: NatsServer, directory: Path) -> None:
        self._natsd = natsd
        self._copy = directory / "copy of the store"

    def copy(self) -> None:
        """What would be on disk if the power failed now; not from one moment, as a disk's content is not either."""
        self._natsd.pause()
        shutil.copytree(self._natsd.store, self._copy)
        self._natsd.resume()

    def roll_back(self) -> None:
        self._natsd.kill()
        shutil.rmtree(self._natsd.store)
        shutil.move(self._copy, self._natsd.store)

    def come_back(self) -> None:
        self._natsd.restart()


class Writer(threading.Thread):
    """A program that logs, rotates its log every so many lines, and deletes each generation soon after.

    It rotates a generation once its producer has it open: one that comes and goes between two scans is lost.
    """

    def __init__(self, path: Path, *, lines: int, every: int, keep: int = 1) -> None:
        super().__init__()
        self.path = path
        self.written = b""
        self.producer: Program | None = None
        self._lines, self._every, self._keep = lines, every, keep
        self.stopped = threading.Event()

    def run(self) -> None:
        for number in range(self._lines):
            line = b"%s line %07d %s\n" % (self.path.name.encode(), number, b"." * 150)
            append(self.path, line)
            self.written += line
            if number % self._every == self._every - 1:
                self._rotate()
            if self.stopped.is_set():
                return
            time.sleep(0.0002)

    def _is_open(self) -> bool:
        """Whether the producer has the file open that is written now."""
        wanted, found = self.path.stat().st_ino, set[int]()
        for descriptor in Path(f"/proc/{self.producer.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed just now
                found.add(os.stat(descriptor).st_ino)
        return wanted in found

    def _rotate(self) -> None:
        until(self._is_open, within=LONG, what=lambda: self.producer.log)
        for number in range(self._keep, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                older.rename(self.path.with_name(f"{self.path.name}.{number + 1}"))
        self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        self.path.with_name(f"{self.path.name}.{self._keep + 1}").unlink(missing_ok=True)


def produce(fleet: Fleet, host: str, path: Path) -> Program:
    return fleet.produce(host, path, options=("--poll", "50ms", "--config", str(fleet.directory / "c.toml")))


def acknowledged(directory: Path, host: str) -> int:
    """Bytes of all sources that the server has by the checkpoint of `host`."""
    database = sqlite3.connect(f"file:{directory}/state/producer/{host}/checkpoint.sqlite?mode=ro", uri=True)
    with contextlib.closing(database):
        return int(database.execute("SELECT coalesce(sum(offset - origin), 0) FROM sources").fetchone()[0])


@pytest.fixture
def fleet(tmp_path: Path, natsd: NatsServer) -> Fleet:
    (tmp_path / "c.toml").write_text('[producer]\nrotate_wait = "300ms"\n[collector]\nreceipt_every = "200ms"\n')
    return Fleet(tmp_path, natsd.url, partitions=1)


class Scene:
    """Two hosts whose logs are rotated; a copy of the store is taken amid that, and comes back at the end of it."""

    def __init__(self, fleet: Fleet, natsd: NatsServer, *, keep: int) -> None:
        self.fleet = fleet
        self.directory = fleet.directory
        self.store = Store(natsd, fleet.directory)
        self.writers = {
            host: Writer(fleet.directory / f"{host}.log", lines=2400, every=350, keep=keep) for host in (HOST, OTHER)
        }
        self.collectors: list[Program] = []

    def begin(self, *, collector: str) -> None:
        self.fleet.apply()
        self.producers = [produce(self.fleet, host, each.path) for host, each in self.writers.items()]
        if collector != "had none":
            self.collect()
        until(lambda: all("session_begun" in producer.log for producer in self.producers), within=LONG)
        for producer, writer in zip(self.producers, self.writers.values(), strict=True):
            writer.producer = producer
            writer.start()
        until(lambda: all(len(writer.written) > 130_000 for writer in self.writers.values()), within=LONG)
        self.store.copy()
        if collector == "had some":
            self.collectors[0].kill()
        for host, writer in self.writers.items():
            writer.join()
            until(
                lambda: acknowledged(self.directory, host) == len(writer.written),  # noqa: B023
                within=LONG,
                what=self.said,
            )
        for program in self.collectors:
            program.kill()

    def collect(self) -> None:
        self.collectors.append(self.fleet.consume("--config", str(self.directory / "c.toml")))

    def said(self) -> str:
        return "".join(program.log_file.read_text() for program in self.fleet.programs)

    def archived(self, host: str) -> bytes:
        return self.fleet.archived(host, self.writers[host].path)


@pytest.mark.parametrize(("collector", "keep"), [("had some", 1), ("had all", 1), ("had none", 1), ("had some", 99)])
def test_a_store_that_is_rolled_back_while_files_are_rotated_and_deleted_costs_no_byte(
    collector: str, keep: int, natsd: NatsServer, fleet: Fleet
) -> None:
    """Deleted files exist through their descriptors only; where they stay, the producers are killed meanwhile."""
    with fleet:
        scene = Scene(fleet, natsd, keep=keep)
        scene.begin(collector=collector)
        scene.store.roll_back()
        if keep > 1:
            for producer in scene.producers:
                producer.restart()
        scene.store.come_back()
        scene.collect()
        for host, writer in scene.writers.items():
            until(lambda: len(scene.archived(host)) >= len(writer.written), within=LONG, what=scene.said)  # noqa: B023
            assert scene.archived(host) == writer.written
        if collector != "had all":  # else it is reported only by a host that had not yet received that all is archived
            assert "server_lost_data" in scene.said()
        until(
            lambda: "session_begun" in scene.collectors[-1].log_file.read_text()
        )  # else no handler of the signal is installed yet
        assert [program.stop() for program in (*scene.producers, scene.collectors[-1])] == [0, 0, 0]
        assert "gap_recorded" not in scene.said()


def test_what_server_and_host_both_lost_is_recorded_as_missing_to_the_byte(natsd: NatsServer, fleet: Fleet) -> None:
    with fleet:
        scene = Scene(fleet, natsd, keep=1)
        scene.begin(collector="had some")
        scene.store.roll_back()
        for producer in scene.producers:
            producer.restart()  # what was deleted is gone with the process that held it
        scene.store.come_back()
        scene.collect()
        for host, writer in scene.writers.items():
            live = writer.path.read_bytes()
            until(lambda: scene.archived(host).endswith(live), within=LONG, what=scene.said)  # noqa: B023
        assert [producer.stop() for producer in scene.producers] == [0, 0]
        assert scene.collectors[-1].stop() == 0
        fleet.drain("--seal")
        for host, writer in scene.writers.items():
            archived = scene.archived(host)
            gaps = [gap for segment in fleet.segments() if segment.host == host for gap in segment.gaps]
            assert sum(gap.end - gap.start for gap in gaps) == len(writer.written) - len(archived) > 0
            lines = iter(writer.written.splitlines())
            assert all(line in lines for line in archived.splitlines())  # in order, none twice
