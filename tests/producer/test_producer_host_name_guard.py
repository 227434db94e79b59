"""Two live producers never ship under one name unseen; a restart and a replaced machine are never refused."""

import asyncio
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from harness.fleet import Fleet, until
from harness.waiting import becomes
from producing import HOST, Producer, append

from producer import app as running
from producer.session.host_name_guard import HostNameGuard, Instance, this_instance
from shipper.config import load
from shipper.errors import ConfigError
from shipper.heartbeat import Heartbeat, decode, encode
from shipper.lifecycle import Stop
from shipper.main import run
from shipper.subjects import checked_host, is_everybodys
from shipper.testing import Bus

BEATS, SUBJECT = "LOGS_BEATS", f"logs.beat.{HOST}"
FIRST = Instance(instance="a" * 16, kernel="k1", run="1" * 16, machine="old", state="/state", pid=11)
CLONE = dataclasses.replace(FIRST, instance="b" * 16, kernel="k2", run="2" * 16, machine="clone", pid=22)
EVERY = 0.05


def said(bus: Bus) -> list[Heartbeat]:
    return [decode(message.payload) for message in bus.stream(BEATS)]


def sent_by(me: Instance, **more) -> bytes:
    beat = Heartbeat(version="1", partition=0, every=5.0, up=90.0, files=1)
    about = {"instance": me.instance, "kernel": me.kernel, "run": me.run, "machine": me.machine, "state": me.state}
    return encode(dataclasses.replace(beat, **about, pid=me.pid, **more))


def producer(directory: Path, me: Instance | None, bus: Bus | None = None) -> Producer:
    directory.mkdir(exist_ok=True)
    append(directory / "app.log", b"one\n" * 100)
    found = Producer(directory, "*.log", bus=bus, heartbeat=EVERY)
    if bus is None:
        found.bus.add_stream("LOGS_0", "logs.p0.>")
        found.bus.add_stream(BEATS, "logs.beat.>")
    found.namesake = HostNameGuard(HOST, "logs", me, wall_ns=found.bus.clock.stamp)
    return found


class Start:
    """One start of a producer, against heartbeats that a test puts on the bus while it waits."""

    def __init__(self, me: Instance = CLONE) -> None:
        self.bus = Bus()
        self.bus.add_stream(BEATS, "logs.beat.>")
        self.now = 0.0
        self.told = 0
        self.stop = Stop()
        self.meanwhile: list[bytes] = []
        self.aged_ns = 0
        self.namesake = HostNameGuard(
            HOST, "logs", me, clock=lambda: self.now, wall_ns=lambda: self.bus.clock.stamp() + self.aged_ns
        )

    def hear(self, payload: bytes) -> None:
        self.bus.store(SUBJECT, {}, payload)

    async def check(self) -> None:
        from shipper.testing import MemoryPublisher  # noqa: PLC0415

        async def tell() -> bool:
            self.told += 1
            return False

        await self.namesake.check_at_start(MemoryPublisher(self.bus, BEATS), self, tell)

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.meanwhile:
            self.hear(self.meanwhile.pop(0))


async def test_a_clone_is_refused_by_name_machine_and_way_out():
    start = Start()
    start.hear(sent_by(FIRST))
    start.meanwhile = [sent_by(FIRST, backlog=1)]
    with pytest.raises(ConfigError) as caught:
        await start.check()
    assert str(caught.value) == (
        f"another producer ships as host {HOST}: process 11 on old, state directory /state, for 90 s;"
        " this one is process 22 on clone, state directory /state"
    )
    assert "hostnamectl set-hostname NAME" in caught.value.hint
    assert (caught.value.exit_code, start.told, start.now < 2) == (78, 1, True)
    assert not start.namesake.is_checked


@pytest.mark.parametrize(
    ("me", "newest", "age_seconds", "waits"),
    [
        (CLONE, None, 0, 0),  # no heartbeat was ever sent
        (CLONE, encode(Heartbeat(version="0", partition=0, every=5.0, up=1.0, files=1)), 0, 0),  # an older producer
        (
            dataclasses.replace(FIRST, run="3" * 16),
            sent_by(dataclasses.replace(FIRST, pid=1)),
            0,
            0,
        ),  # killed, restarted
        (CLONE, sent_by(FIRST, leaves=True), 0, 0),  # it was stopped
        (CLONE, sent_by(CLONE), 0, 0),  # it is this process, after a lost session
        (CLONE, sent_by(FIRST, refused=True), 0, 0),  # it was refused itself
        (CLONE, b"rubbish", 0, 0),
        (dataclasses.replace(CLONE, kernel="k1"), sent_by(dataclasses.replace(FIRST, pid=2**22 + 1)), 0, 0),  # dead
        (CLONE, sent_by(FIRST), 21, 0),  # a machine that died, and was replaced
        (CLONE, sent_by(FIRST), 5, 15),  # the same, seconds ago: a sign of life is waited for
        (CLONE, sent_by(FIRST), -9, 20),  # the clocks differ
        (CLONE, sent_by(FIRST, every=3600.0), 0, 60),
    ],
)
async def test_an_admitted_producer_starts_and_waits_no_longer_than_a_heartbeat_is_valid(
    me, newest, age_seconds, waits, capsys
):
    start = Start(me)
    if newest:
        start.hear(newest)
    start.aged_ns = age_seconds * 10**9
    await start.check()
    assert start.namesake.is_checked
    assert start.now == pytest.approx(waits, abs=1.1)
    assert ("name_in_doubt" in capsys.readouterr().err) == bool(waits)


async def test_one_that_leaves_while_another_waits_hands_the_name_over():
    start = Start()
    start.hear(sent_by(FIRST))
    start.meanwhile = [sent_by(FIRST, leaves=True)]
    await start.check()
    assert (start.namesake.is_checked, start.now < 2) == (True, True)


async def test_a_refused_producer_sends_no_line_and_the_other_one_reports_it(tmp_path):
    first = producer(tmp_path / "first", FIRST)
    async with first.running():
        await becomes(lambda: first.stream.last_sequence and len(said(first.bus)) > 1)
        before = first.stream.last_sequence
        clone = producer(tmp_path / "clone", CLONE, first.bus)
        clone.namesake = HostNameGuard(HOST, "logs", CLONE, wall_ns=first.bus.clock.stamp)
        with pytest.raises(ConfigError, match="another producer ships as host"):
            await asyncio.wait_for(clone.run(), 10)
        assert first.stream.last_sequence == before
        assert {beat.refused for beat in said(first.bus) if beat.run == CLONE.run} == {True}
        await becomes(lambda: "process 22 on clone" in said(first.bus)[-1].other)
        assert "which was refused" in said(first.bus)[-1].other
        assert "process 22 on clone" in first.pipeline.status()["other_producer"]
    assert first.archived().text(tmp_path / "first/app.log") == b"one\n" * 100


async def test_two_that_began_at_the_same_moment_are_alarmed(tmp_path, capsys):
    first = producer(tmp_path / "first", FIRST)
    second = producer(tmp_path / "second", CLONE, first.bus)
    for each in (first, second):
        each.namesake.is_checked = True  # neither saw a heartbeat of the other
    async with first.running(), second.running():
        await becomes(lambda: any(beat.other for beat in said(first.bus)))
    assert "name_shared" in capsys.readouterr().err
    for each in (first, second):  # nothing is lost
        assert first.archived().text(each.directory / "app.log") == b"one\n" * 100


async def test_a_restart_raises_no_alarm(tmp_path, capsys):
    first = producer(tmp_path / "first", FIRST)
    for name in ("4", "5", "6"):
        first.namesake = HostNameGuard(HOST, "logs", dataclasses.replace(FIRST, run=name * 16))
        async with first.running():
            await becomes(lambda: len([beat for beat in said(first.bus) if beat.run == name * 16]) > 8)  # noqa: B023
    assert not any(beat.other for beat in said(first.bus))
    assert "name_" not in capsys.readouterr().err


async def test_a_producer_that_is_stopped_while_in_doubt_reports_nothing(tmp_path):
    bus = Bus()
    bus.add_stream("LOGS_0", "logs.p0.>")
    bus.add_stream(BEATS, "logs.beat.>")
    bus.store(SUBJECT, {}, sent_by(FIRST))
    clone = producer(tmp_path / "clone", CLONE, bus)
    clone.namesake = HostNameGuard(HOST, "logs", CLONE, wall_ns=bus.clock.stamp)
    async with clone.running():
        await becomes(lambda: clone.sessions == 1)
        await asyncio.sleep(0.1)
    assert ([beat.run for beat in said(bus)], len(bus.stream("LOGS_0"))) == ([FIRST.run], 0)


def test_an_instance_is_the_same_for_each_run_on_one_state_directory(tmp_path):
    code = (
        "import sys; from pathlib import Path; from producer.session.host_name_guard import this_instance;"
        "print(this_instance(Path(sys.argv[1])))"
    )
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    mine = [this_instance(place) for place in places]
    assert mine[0].instance != mine[1].instance
    assert (mine[0].kernel, mine[0].run) == (mine[1].kernel, mine[1].run)
    other = subprocess.run([sys.executable, "-c", code, str(places[0])], capture_output=True, text=True, check=True)
    assert f"instance='{mine[0].instance}'" in other.stdout
    assert f"kernel='{mine[0].kernel}'" in other.stdout
    assert mine[0].run not in other.stdout
    machine_id = Path("/etc/machine-id")
    if machine_id.exists() and machine_id.read_text().strip():
        assert machine_id.read_text().strip() not in other.stdout


def test_a_second_producer_of_one_name_is_refused_and_status_is_red(tmp_path, natsd):
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n" * 10)
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        fast = {"HOSTNAME": "web1", "SHIPPER_HEARTBEAT": "0.25s"}
        first = fleet.start("produce", str(path), **fast)
        until(lambda: fleet.messages() == 1, what=lambda: first.log)
        fleet.drain()
        assert fleet.run("status", "web1").returncode == 0
        for mode in ((), ("--once",)):
            elsewhere = str(tmp_path / "elsewhere")
            second = fleet.run("produce", *mode, str(path), **fast | {"SHIPPER_STATE": elsewhere}, within=60)
            assert second.returncode == 78, second.stderr
            assert f"another producer ships as host web1: process {first.process.pid} on " in second.stderr
            assert "hint: if this machine is a copy" in second.stderr
        assert fleet.messages() == 1
        until(lambda: fleet.run("status", "web1").returncode == 2, what=lambda: first.log)
        seen = fleet.run("status", "web1").stdout
        assert "two producers have this name" in seen
        assert fleet.run("status", "--state", "shared").returncode == 2
        first.kill()
        first.start()  # the same machine and state directory: never refused
        until(lambda: first.log.count("session_begun") == 2, what=lambda: first.log)
        assert first.stop() == 0


# -- names that no host may have ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("localhost.localdomain", True),
        ("web1.localhost", True),
        ("127.0.1.1", True),
        ("ip6-localhost", True),
        ("localhost1", False),
        ("web1", False),
        ("10.0.0.7", False),
        ("4f2c9ab01d3e", False),
    ],
)
def test_a_name_that_every_machine_has_is_refused(tmp_path, name, refused, capsys):
    assert is_everybodys(checked_host(name)) is refused
    settings = load({"producer.host": name, "producer.state": tmp_path}, environment={})
    if not refused:
        assert running.host_of(settings) == checked_host(name)
        return
    code = run(["produce", "--once", "--host", name, "--state", str(tmp_path), "/etc/hostname"])
    said = capsys.readouterr().err
    assert code == 78
    assert f"every machine is called {checked_host(name)}" in said
    assert "hostnamectl set-hostname" in said
    assert not list(tmp_path.iterdir())


def test_what_was_shipped_as_localhost_continues_and_is_alarmed(tmp_path, natsd):
    path = tmp_path / "app.log"
    path.write_bytes(b"line\n")
    state = tmp_path / "state/producer/localhost"
    state.mkdir(parents=True)
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        fleet.ship_once("web1", path)
        (tmp_path / "state/producer/web1/checkpoint.sqlite").rename(state / "checkpoint.sqlite")
        done = fleet.run("produce", "--once", str(path), HOSTNAME="localhost")
        assert (done.returncode, "name_unsuitable" in done.stderr) == (0, True)
        found = fleet.run("validate", str(path), HOSTNAME="localhost")
        assert (found.returncode, "every machine is called localhost" in found.stdout) == (0, True)


@pytest.mark.parametrize("name", ["", "  ", "(none)", ".", "web 1"])
def test_an_empty_or_impossible_name_is_refused(tmp_path, name, capsys):
    assert run(["produce", "--once", "--host", name, "--state", str(tmp_path), "/etc/hostname"]) == 78
    assert "host" in capsys.readouterr().err
    config = tmp_path / "fshipper.toml"
    config.write_text(f"[producer]\nhost = {name!r}\n")
    assert run(["validate", "--config", str(config), "/etc/hostname"]) == 78


def test_a_machine_whose_hosts_file_calls_it_localhost_has_its_own_name(tmp_path, monkeypatch):
    monkeypatch.setattr("producer.app.default_host", lambda: "localhost")
    monkeypatch.setattr("socket.gethostname", lambda: "Web7")
    settings = load({"producer.state": tmp_path}, environment={})
    assert running.host_of(settings) == "web7"
    (tmp_path / "producer/localhost").mkdir(parents=True)
    (tmp_path / "producer/localhost/checkpoint.sqlite").write_bytes(b"")
    assert running.host_of(settings) == "localhost"  # it shipped as that before


def test_the_id_of_a_container_is_warned_of(capsys):
    running._report_host_name("4f2c9ab01d3e")
    running._report_host_name("web1")
    assert capsys.readouterr().err.count("name_of_container") == 1
