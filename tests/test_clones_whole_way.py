"""Two machines that are copies of each other: the archive has both logs, and every view shows that there are two."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from harness.fleet import Fleet, until

from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.model import ArchivedSource

HOST = "web1.example.net"
SHARED = b"".join(b"before %d\n" % number for number in range(50))
TEXTS = {
    "shorter": (b"of the first %d\n" * 200, b"of the second\n" * 20),
    "longer": (b"of the first\n" * 20, b"of the second\n" * 200),
    "as long": (b"first\n" * 20, b"other\n" * 20),
}


class Machine:
    """One of two machines with the same disk: a log file, a state directory, and the checkpoint knows its inode."""

    def __init__(self, fleet: Fleet, directory: Path) -> None:
        self.fleet, self.log, self.state = fleet, directory / "app.log", directory / "state"
        self.environment = {"HOSTNAME": HOST, "SHIPPER_STATE": str(self.state), "SHIPPER_HEARTBEAT": "0"}
        directory.mkdir()

    def append(self, data: bytes) -> None:
        with self.log.open("ab") as log:
            log.write(data)

    def ship(self) -> None:
        self.fleet.must("produce", "--once", str(self.log), **self.environment)

    def start(self):
        return self.fleet.start("produce", "--once", str(self.log), **self.environment)

    def cloned(self, directory: Path) -> "Machine":
        """A copy of the machine, with the device and inode numbers that a copied disk has."""
        clone = Machine(self.fleet, directory)
        shutil.copytree(self.state, clone.state, ignore=shutil.ignore_patterns("*.lock"))
        shutil.copy2(self.log, clone.log)
        (checkpoint,) = clone.state.rglob("checkpoint.sqlite")
        with sqlite3.connect(checkpoint) as database:
            database.execute("UPDATE sources SET inode = ?", (str(clone.log.stat().st_ino),))
        database.close()
        return clone


@pytest.fixture
def fleet(tmp_path, natsd):
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        yield fleet


@pytest.fixture
def machines(fleet, tmp_path) -> tuple[Machine, Machine]:
    first = Machine(fleet, tmp_path / "first")
    first.append(SHARED)
    first.ship()
    return first, first.cloned(tmp_path / "second")


def check_both(fleet: Fleet, first: Machine, second: Machine, one: bytes, other: bytes) -> None:
    """Both logs are whole in the archive, the shared lines once; and the audit is red."""
    held = fleet.archived(HOST, first.log)
    assert held in {SHARED + one + other, SHARED + other + one}
    audit = fleet.run("audit", "--archive", str(fleet.archive))
    assert audit.returncode == 2, audit.stdout
    assert "two producers continued one source" in audit.stdout
    seen = fleet.run("status", HOST)  # also where no collector runs any more
    assert (seen.returncode, "two producers continued one log file" in seen.stdout) == (2, True), seen.stdout


def forks(fleet: Fleet) -> list[ArchivedSource]:
    (directory,) = (fleet.directory / "state/collector").iterdir()
    with JournalSnapshots(directory) as journals:
        ids = {fork for _, found in journals.forks() for fork in found}
        return [known for known in journals.sources() if known.id in ids]


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
def test_two_clones_that_ship_at_the_same_moment_are_both_archived(fleet, machines, texts):
    for machine, text in zip(machines, texts, strict=True):
        machine.append(text)
    runs = [machine.start() for machine in machines]
    assert [run.wait() for run in runs] == [0, 0]
    said = fleet.run("consume", "--drain")
    assert said.returncode == 0, said.stderr
    assert "source_forked" in said.stderr
    check_both(fleet, *machines, *texts)
    assert len(forks(fleet)) == 1
    fleet.drain("--seal")
    check_both(fleet, *machines, *texts)


def test_clones_that_continue_keep_separate_sources(fleet, machines):
    first, _ = machines
    wanted = [b"", b""]
    for turn in range(4):
        for number, machine in enumerate(machines):
            text = b"turn %d of machine %d\n" % (turn, number) * (3 + 4 * number * turn)
            machine.append(text)
            wanted[number] += text
            machine.ship()
        fleet.drain(*(["--seal"] if turn == 1 else []))
    held = fleet.archived(HOST, first.log)
    for number in range(2):
        lines = [line for line in held.splitlines(True) if b"machine %d" % number in line]
        assert b"".join(lines) == wanted[number]
    assert len(held) == len(SHARED) + len(wanted[0]) + len(wanted[1])
    assert len(forks(fleet)) == 1


def test_undetected_clones_are_red_in_status_and_the_archive_has_both(fleet, machines):
    """As after a copy of a running machine: two processes of one instance, which take each other for themselves."""
    first, _ = machines
    collector = fleet.consume()
    running = [fleet.start("produce", str(each.log), **each.environment) for each in machines]
    until(lambda: all("session_begun" in program.log for program in running))
    wanted = [b"", b""]
    for turn in range(6):
        for number, machine in enumerate(machines):
            text = b"turn %d of machine %d\n" % (turn, number) * (1 + (turn + number) % 3)
            machine.append(text)
            wanted[number] += text
        if turn == 3:
            collector.restart()
    until(
        lambda: len(fleet.archived(HOST, first.log)) == len(SHARED) + sum(map(len, wanted)), what=lambda: collector.log
    )
    held = fleet.archived(HOST, first.log)
    for number in range(2):
        assert b"".join(x for x in held.splitlines(True) if b"machine %d" % number in x) == wanted[number]
    until(lambda: fleet.run("status", HOST).returncode == 2, what=lambda: collector.log)
    assert "two producers continued one log file" in fleet.run("status", HOST).stdout
    hosts = fleet.run("audit", "--hosts", "--archive", str(fleet.archive))
    assert (hosts.returncode, "MISSING" in hosts.stdout) == (2, False), hosts.stdout
    collector.restart()  # the content of the journal is shown again
    until(lambda: fleet.run("status", "--state", "shared").returncode == 2, what=lambda: collector.log)
    for program in running:
        assert program.stop() == 0


def test_a_clone_that_starts_while_the_server_is_down_is_refused_or_archived(fleet, machines, natsd):
    for number, machine in enumerate(machines):
        machine.environment["SHIPPER_HEARTBEAT"] = "0.25s"
        machine.append(b"while it was down, machine %d\n" % number * (5 + number))
    natsd.kill()
    running = [fleet.start("produce", str(each.log), **each.environment) for each in machines]
    until(lambda: all("session_ended" in program.log for program in running))
    natsd.start()
    until(lambda: all("session_begun" in each.log or each.process.poll() is not None for each in running))
    texts = [each.log.read_bytes()[len(SHARED) :] for each in machines]
    until(lambda: fleet.messages() >= 1 + sum(program.process.poll() is None for program in running))
    refused = [program.process.poll() == 78 for program in running]
    fleet.drain()
    held = fleet.archived(HOST, machines[0].log)
    for text, was_refused in zip(texts, refused, strict=True):
        assert was_refused or held.count(text) == 1
    assert not all(refused)
    if not any(refused):
        check_both(fleet, *machines, *texts)


# -- one producer alone is never taken for two ---------------------------------------------------------------------


def killed(fleet: Fleet, machine: Machine) -> None:
    program = fleet.start("produce", str(machine.log), **machine.environment)
    until(lambda: "session_begun" in program.log)
    machine.append(b"killed %d\n" % len(fleet.programs) * 5000)
    until(lambda: fleet.lag() > 0)
    program.kill()
    machine.append(b"after the kill\n" * 10)
    machine.ship()


def restored(fleet: Fleet, machine: Machine) -> None:
    backup = machine.state.with_name("backup")
    shutil.copytree(machine.state, backup)
    for turn in range(3):
        machine.append(b"after the backup %d\n" % turn * 100)
        machine.ship()
    fleet.drain(*(["--seal"] if len(machine.log.read_bytes()) % 2 else []))
    shutil.rmtree(machine.state)
    backup.rename(machine.state)
    machine.append(b"after the restore\n")
    machine.ship()


def restored_and_quiet(fleet: Fleet, machine: Machine) -> None:
    """What is sent again ends before what the archive has, as its process is killed on the way."""
    backup = machine.state.with_name("backup")
    shutil.copytree(machine.state, backup)
    machine.append(b"".join(b"%d\n" % number for number in range(200_000)))
    machine.ship()
    fleet.drain("--seal")
    shutil.rmtree(machine.state)
    backup.rename(machine.state)
    whole = machine.log.read_bytes()
    program = fleet.start("produce", "--rate", "64KiB", str(machine.log), **machine.environment)
    until(lambda: fleet.lag() > 1)
    program.kill()
    fleet.drain()
    assert fleet.archived(HOST, machine.log) == whole
    machine.ship()


def moved(fleet: Fleet, machine: Machine) -> None:
    machine.state = machine.state.rename(machine.state.with_name("elsewhere"))
    machine.environment["SHIPPER_STATE"] = str(machine.state)
    machine.append(b"moved\n" * 10)
    machine.ship()


def reinstalled(fleet: Fleet, machine: Machine) -> None:
    """The state directory is lost; a collector reports where to continue."""
    collector = fleet.consume()
    until(lambda: fleet.lag() == 0, what=lambda: collector.log)
    shutil.rmtree(machine.state)
    machine.append(b"reinstalled\n" * 10)
    machine.ship()
    until(lambda: fleet.lag() == 0, what=lambda: collector.log)
    assert collector.stop() == 0


def moved_to_another_partition(fleet: Fleet, machine: Machine) -> None:
    collector = fleet.consume()
    here = json.loads(fleet.must("partition", "status", "--json"))
    number = next(row["partition"] for row in here if not row["messages"])
    fleet.must("partition", "move", "--partitions", "2", "--override", f"{HOST}={number}", "--yes", "--within", "60s")
    machine.append(b"in the other partition\n" * 10)
    machine.ship()
    until(lambda: fleet.lag() == 0, what=lambda: collector.log)
    assert collector.stop() == 0


def another_collector(fleet: Fleet, machine: Machine) -> None:
    first, second = fleet.consume("--name", "one"), fleet.consume("--name", "two")
    machine.append(b"two collectors\n" * 10)
    machine.ship()
    until(lambda: fleet.lag() == 0, what=lambda: first.log)
    first.kill()
    machine.append(b"one collector\n" * 10)
    machine.ship()
    until(lambda: fleet.lag() == 0, within=60, what=lambda: second.log)
    assert second.stop() == 0


ALONE = [killed, restored, restored_and_quiet, moved, reinstalled, moved_to_another_partition, another_collector]


@pytest.mark.parametrize(
    ("happens", "store"), [*((each, "plain") for each in ALONE), (killed, "frames"), (restored_and_quiet, "frames")]
)
def test_one_producer_is_never_taken_for_two(tmp_path, natsd, happens, store):
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        config = tmp_path / "fshipper.toml"
        config.write_text(f'[collector]\nstore = "{store}"\n')
        plain = fleet.environment
        fleet.environment = lambda **more: plain(**{"SHIPPER_CONFIG": str(config)} | more)  # type: ignore[method-assign]
        machine = Machine(fleet, tmp_path / "machine")
        machine.append(SHARED)
        machine.ship()
        happens(fleet, machine)
        fleet.drain()
        assert fleet.archived(HOST, machine.log) == machine.log.read_bytes()
        assert forks(fleet) == []
        audit = fleet.run("audit", "--archive", str(fleet.archive))
        assert audit.returncode == 0, audit.stdout
