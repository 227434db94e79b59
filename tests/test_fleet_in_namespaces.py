"""A centre and nine hosts in network namespaces of their own: they join, ship, are searched, and one is revoked."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness.natsd import binary
from harness.waiting import until

HOSTS = 9
PROGRAM = [sys.executable, "-m", "shipper"]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Machines:
    """Network namespaces on one bridge: machine 0 is the centre, 10.77.0.1."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tag = f"fsh{os.getpid() % 100_000}"
        self.running: list[subprocess.Popen[bytes]] = []

    def name(self, number: int) -> str:
        return f"{self.tag}n{number}"

    def make(self) -> None:
        ip("netns", "add", self.name(0))
        ip("-n", self.name(0), "link", "set", "lo", "up")
        ip("-n", self.name(0), "link", "add", "br0", "type", "bridge")
        ip("-n", self.name(0), "addr", "add", "10.77.0.1/24", "dev", "br0")
        ip("-n", self.name(0), "link", "set", "br0", "up")
        for number in range(1, HOSTS + 1):
            name, link = self.name(number), f"h{number}"
            ip("netns", "add", name)
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", link, "netns", self.name(0))
            ip("-n", self.name(0), "link", "set", link, "master", "br0", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")

    def command(self, number: int, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.name(number), *arguments]

    def environment(self, number: int) -> dict[str, str]:
        home = self.directory / f"machine{number}"
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        return kept | {"HOME": str(home), "SHIPPER_STATE": str(home / "state"), "SHIPPER_LISTEN": "127.0.0.1:0"}

    def run(self, number: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = self.command(number, *PROGRAM, *arguments)
        environment = self.environment(number)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    def must(self, number: int, *arguments: str) -> str:
        ended = self.run(number, *arguments)
        assert ended.returncode == 0, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def start(self, number: int, *arguments: str) -> Path:
        log = self.directory / f"program{len(self.running)}.log"
        with log.open("wb") as file:
            command = self.command(number, *arguments)
            self.running.append(subprocess.Popen(command, env=self.environment(number), stdout=file, stderr=file))
        return log

    def end(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(60)
        for number in range(HOSTS + 1):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", self.name(number))


@pytest.fixture
def machines(tmp_path):
    machines = Machines(tmp_path)
    try:
        if os.geteuid() or not shutil.which("ip"):
            pytest.skip("no network namespaces here: needs root and the package iproute2")
        try:
            machines.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        yield machines
    finally:
        machines.end()


def test_nine_hosts_join_a_site_and_a_revoked_one_is_out(tmp_path, machines):
    began, seconds = time.monotonic(), {}

    def passed(step: str) -> None:
        seconds[step] = time.monotonic() - began

    site, etc, archive, report = (tmp_path / name for name in ("nats", "etc", "archive", "report"))
    here, collector = ("--dir", str(site)), ("--config", str(etc / "collector.toml"))
    machines.must(
        *(0, "fleet", "init", "10.77.0.1", *here, "--etc", str(etc)),
        *("--store", str(tmp_path / "store"), "--archive", str(archive)),
    )
    server = machines.start(0, binary(), "-c", str(site / "nats-server.conf"))
    apply = ("partition", "apply", "--partitions", "2", "--yes", "--config", str(etc / "partitioner.toml"))
    until(lambda: machines.run(0, *apply).returncode == 0, within=60, what=server.read_text)
    machines.start(0, *PROGRAM, "consume", *collector)
    joining = machines.start(0, *PROGRAM, "fleet", "serve", *here)
    passed("site")

    configs, tokens = {}, {}
    for number in range(1, HOSTS + 1):
        host, log = f"web{number}.example.net", tmp_path / f"app{number}.log"
        log.write_text(f"2026-11-28T10:00:00Z INFO hello from machine {number}\n")
        tokens[number] = machines.must(0, "fleet", "token", host, *here).strip()
        own = tmp_path / f"machine{number}/etc"
        join = ("join", tokens[number], str(log), "--host", host, "--etc", str(own), "--no-start")
        until(lambda join=join, number=number: machines.run(number, *join).returncode == 0, what=joining.read_text)
        configs[number] = str(own / "producer.toml")
        machines.start(number, *PROGRAM, "produce", "--config", configs[number])
        passed(f"host {number} joined")
    for number in (1, HOSTS):
        text = f"hello from machine {number}"
        search = ("search", text, "--archive", str(archive), "--by", "stored")
        until(lambda search=search: machines.run(0, *search).returncode == 0, within=60)
        passed(f"line of host {number} found")

    stolen = machines.run(
        2, "join", tokens[1], "--host", "web1.example.net", "--etc", str(tmp_path / "thief"), "--no-start"
    )
    assert "the token was used by web1.example.net from 10.77.0.2" in stolen.stderr
    assert stolen.returncode == 1
    machines.must(0, "fleet", "revoke", "web3.example.net", "--yes", *here)
    until(lambda: machines.run(3, "validate", "--connect", "--config", configs[3]).returncode == 69, within=60)
    passed("host 3 revoked")
    machines.must(0, "report", "--archive", str(archive), "--out", str(report), "--date", "today")
    assert list(report.rglob("*.html"))
    passed("report")
    print("\n".join(f"{second:6.1f} s  {step}" for step, second in seconds.items()))
