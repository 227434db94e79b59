"""A real collector on a disk that fails in one way after the other: nothing is acknowledged, all is made good."""

import errno
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER, Fleet, Program, until
from harness.natsd import NatsServer
from hostile import publish

HOST = "web1.example.net"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system that fails")


class Disk:
    """A small file system of its own, and what may happen to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", "size=8m", "disk", path)
        self._ballast = path / "ballast"

    def fill(self, room: int = 0) -> None:
        """Nothing, or only `room` bytes, are left."""
        with self._ballast.open("wb") as ballast:
            until(lambda: self._takes(ballast.fileno(), room), what=f"{self.path} cannot be filled")

    def _takes(self, ballast: int, room: int) -> bool:
        found = os.statvfs(self.path)
        try:
            os.posix_fallocate(ballast, 0, found.f_bavail * found.f_frsize - room)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return False  # more was written meanwhile
            raise
        return True

    def empty(self) -> None:
        self._ballast.unlink()

    def protect(self) -> None:
        """Read-only, for every open from now on."""
        self._run("mount", "--bind", self.path, self.path)
        self._run("mount", "-o", "remount,bind,ro", self.path)

    def vanish(self) -> None:
        """An empty directory is in its place, as a disk that is not mounted."""
        self._run("mount", "-t", "tmpfs", "-o", "size=8m", "other", self.path)

    def uncover(self) -> None:
        self._run("umount", "--lazy", self.path)

    def close(self) -> None:
        while subprocess.run(["umount", "--lazy", self.path], check=False, capture_output=True).returncode == 0:
            pass

    @staticmethod
    def _run(*command: object) -> None:
        subprocess.run([str(word) for word in command], check=True)


@pytest.fixture
def disk(fleet: Fleet) -> Iterator[Disk]:
    disk = Disk(fleet.archive)
    yield disk
    disk.close()


class Observed:
    """A collector that runs, and its findingsself. It may not do what file modes forbid."""

    def __init__(self, fleet: Fleet, natsd: NatsServer, *options: str) -> None:
        self.fleet, self._natsd = fleet, natsd
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]
        log = fleet.directory / "observed.log"
        listen = f"127.0.0.1:{self._port}"
        self.program = Modest(["consume", *options], fleet.environment(SHIPPER_LISTEN=listen), log)
        fleet.programs.append(self.program)
        until(lambda: "session_begun" in self.log, what=lambda: self.log)

    @property
    def log(self) -> str:
        return self.program.log_file.read_text()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def is_green(self) -> bool:
        gauge = 'fshipper_archive_trouble{partition="0"} 0.0' in self.get("/metrics")[1]
        return gauge and self.get("/readyz")[0] == 200

    def say(self, line: bytes, host: str = HOST) -> None:
        publish(self._natsd, (f"logs.p0.{host}", {}, line))

    def endures(self, what: str, hurt: Callable[[], None], mend: Callable[[], None], *hosts: str) -> None:
        """`hurt`, then a line of each host, then `mend`: red in between and nothing acknowledged, green afterwards."""
        said = len(self.log)
        hurt()
        for host in hosts:
            self.say(what.encode(), host)
        until(lambda: "archive_failed" in self.log[said:], what=lambda: self.log)
        assert self.get("/readyz")[0] == 503
        assert 'fshipper_archive_trouble{partition="0"} 1.0' in self.get("/metrics")[1]
        assert self.fleet.lag() > 0
        assert not self.is_green()
        mend()
        until(self.is_green, what=lambda: self.log)
        for host in hosts:
            until(lambda: what.encode() in self.fleet.archived(host, "messages.log"), what=lambda: self.log)  # noqa: B023
        news = self.log[said:]
        reasons = [line.partition("archive_failed")[2] for line in news.splitlines() if "archive_failed" in line]
        assert len(reasons) == len(set(reasons)), news  # each is logged once, however often it was tried
        assert news.count("archive_recovered") == 1, news
        assert "session_begun" not in news


class Modest(Program):
    """Root without the right to pass over file modes."""

    def start(self, **more: str) -> None:
        rights = "-dac_override,-dac_read_search"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", FSHIPPER, *self.arguments],
                env=self._environment | more, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip


def test_a_target_that_is_full_read_only_forbidden_or_gone_suspends_the_collector_until_it_is_mended(
    fleet, disk, natsd
):
    collector = Observed(fleet, natsd)
    collector.say(b"before")
    until(lambda: fleet.archived(HOST, "messages.log") == b"before\n")
    until(collector.is_green)
    (day,) = fleet.archive.glob("date=*/partition=0")
    collector.endures("full", disk.fill, disk.empty, "full1.net", HOST)
    collector.endures("readonly", disk.protect, disk.uncover, "ro1.net", HOST)
    collector.endures("forbidden", lambda: day.chmod(0o500), lambda: day.chmod(0o755), "no1.net", HOST)
    collector.endures("gone", disk.vanish, disk.uncover, "gone1.net", HOST)
    assert fleet.archived(HOST, "messages.log") == b"before\nfull\nreadonly\nforbidden\ngone\n"
    assert "archive_damaged" not in collector.log
    assert collector.program.stop() == 0
    fleet.drain("--seal")
    assert fleet.lag() == 0


def test_a_journal_on_a_full_disk_stops_everything_and_one_that_has_room_again_continues(fleet, natsd):
    disk = Disk(fleet.directory / "state")
    try:
        collector = Observed(fleet, natsd)
        collector.say(b"before")
        until(lambda: fleet.archived(HOST, "messages.log") == b"before\n")
        collector.endures("full", disk.fill, disk.empty, HOST, *(f"h{number}.net" for number in range(60)))
        assert fleet.archived(HOST, "messages.log") == b"before\nfull\n"
        assert collector.program.stop() == 0
    finally:
        fleet.programs[-1].kill()
        disk.close()


def test_sealing_on_a_full_disk_leaves_nothing_and_does_not_stop_what_still_fits(fleet, disk, natsd):
    config = fleet.directory / "fshipper.toml"
    config.write_text('[collector]\nsegment = "1MiB"\n')
    collector = Observed(fleet, natsd, "--config", str(config))
    noise, more = os.urandom(400_000).hex().encode(), os.urandom(200_000).hex().encode()
    collector.say(noise)
    until(lambda: len(fleet.archived(HOST, "messages.log")) == len(noise) + 1)
    disk.fill(room=900_000)  # the rest of a segment fits, its compressed copy does not
    collector.say(more)
    until(lambda: "archive_failed" in collector.log and "sealing" in collector.log, what=lambda: collector.log)
    collector.say(b"small")
    until(lambda: b"small" in fleet.archived(HOST, "messages.log"), what=lambda: collector.log)
    assert not list(fleet.archive.rglob(".*.tmp"))
    disk.empty()
    until(fleet.segments, what=lambda: collector.log)
    assert fleet.archived(HOST, "messages.log") == noise + b"\n" + more + b"\nsmall\n"
    assert collector.program.stop() == 0


BROKEN = """
import errno, os, sys
flag, call = sys.argv[1:3]
original = getattr(os, call)
def broken(*arguments):
    if os.path.exists(flag):
        raise OSError(errno.EIO, "Input/output error")
    return original(*arguments)
setattr(os, call, broken)
from shipper.main import run
sys.exit(run(["consume"]))
"""


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_an_io_error_is_waited_out_and_what_was_not_synced_is_written_again(call, fleet, natsd, tmp_path):
    flag = tmp_path / "broken"
    flag.touch()
    publish(natsd, *((f"logs.p0.{HOST}", {}, b"%d" % number) for number in range(100)))
    log = tmp_path / "broken.log"
    with log.open("wb") as said:
        collector = subprocess.Popen(
            [sys.executable, "-c", BROKEN, str(flag), call], env=fleet.environment(), stdout=said, stderr=said
        )
    try:
        until(lambda: "archive_failed" in log.read_text(), what=log.read_text)
        assert fleet.lag() == 100
        flag.unlink()
        expected = b"".join(b"%d\n" % number for number in range(100))
        until(lambda: fleet.archived(HOST, "messages.log") == expected, what=log.read_text)
        until(lambda: fleet.lag() == 0)
    finally:
        collector.kill()
        collector.wait()
    assert json.dumps(log.read_text()).count("archive_failed") == 1
