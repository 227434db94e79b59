"""Everything that takes part in one run: server, wires, disk, programs, and the logs of the hosts."""

import asyncio
import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import remembered
from harness.fleet import Fleet, Program, until
from harness.natsd import NatsServer, running
from loggers import Logger
from schedule import Blow, Schedule
from volumes import Limits, Volume, volume_at
from wires import Wire

from shipper.subjects import stream_name

LETHAL = Path(__file__).resolve().parent / "lethal"
PROGRESS_SECONDS = 3.0
"""Longest wait for a share to be archived: with trouble of its own the archive may not come forward at all."""

CONFIGURATION = """
[nats]
connect_timeout = "2s"
[producer]
ack_timeout = "1.5s"
poll = "100ms"
checkpoint_every = "50ms"
rotate_wait = "1s"
block = "16KiB"
window = "1MiB"
rate = "2MB"
encoding = "{encoding}"
[collector]
batch = "1MiB"
segment = "{segment}"
store = "{store}"
codec = "{codec}"
hole_patience = "2s"
receipt_every = "500ms"
lease = "2s"
"""


class Actor:
    """A program that is killed, hung and started again; it is known by what it is started with."""

    def __init__(self, name: str, program: Program, wire: Wire, note: Path) -> None:
        self.name = name
        self.wire = wire
        self.note = note
        self.doom = ""
        self._program = program
        self._said = 0

    @property
    def pid(self) -> int:
        return self._program.process.pid

    @property
    def alive(self) -> bool:
        return self._program.process.poll() is None

    @property
    def log(self) -> str:
        return f"--- {self.name}\n{self._program.log}"

    def kill(self) -> None:
        self._program.kill()

    @property
    def has_begun(self) -> bool:
        """Whether its present process has reported it: from then on it handles SIGTERM."""
        with self._program.log_file.open("rb") as log:
            log.seek(self._said)
            return b"_started" in log.read()

    def start(self, **environment: str) -> None:
        """Begin its next life, unless it lives."""
        if not self.alive:
            self._said = self._program.log_file.stat().st_size
            self._program.start(**environment)

    def start_doomed(self, call: str) -> None:
        """Begin a life that ends, or hangs, or fails at a call; see `lethal/`."""
        self.doom = call
        self.note.unlink(missing_ok=True)
        self.kill()
        self.start(PYTHONPATH=str(LETHAL), CHAOS_CALL=call, CHAOS_NOTE=str(self.note))

    def signal(self, number: signal.Signals) -> None:
        self._program.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self._program.wait()


class Scene:
    """One run's world below `directory`. The owner of all that is in it."""

    def __init__(self, directory: Path, chosen: Schedule, server: NatsServer, disk: "Volume | Limits | None") -> None:
        self.schedule = chosen
        self.directory = directory
        self.server = server
        self.disk = disk
        self.fleet = Fleet(directory, server.url, partitions=chosen.partitions)
        self.config = directory / "fshipper.toml"
        self.config.write_text(CONFIGURATION.format(**chosen.settings))
        self.loggers = [
            Logger(directory / "logs" / habit.host, habit, self.checkpoint(habit.host), f"{chosen.seed} {habit.host}")
            for habit in chosen.hosts
        ]
        self.notes: list[str] = []
        self.producers: list[Actor] = []
        self.collectors: list[Actor] = []

    def checkpoint(self, host: str) -> Path:
        return self.directory / "state" / "producer" / host / "checkpoint.sqlite"

    @property
    def actors(self) -> list[Actor]:
        return [*self.producers, *self.collectors]

    def victim(self, blow: Blow) -> Actor:
        """Whom a blow befalls."""
        actors = self.producers if blow.victim == "producer" else self.collectors
        return actors[blow.number % len(actors)]

    def begin(self) -> None:
        """Every program works, and every log was scanned: what is rotated away before has no owner."""
        self.fleet.apply()
        for logger in self.loggers:
            self.producers.append(self._actor("produce", str(logger.watched), HOSTNAME=logger.host))
        for number in range(self.schedule.collectors):
            self.collectors.append(self._actor("consume", **self.collectors_environment(number)))
        for actor in self.producers:
            until(lambda: "session_begun" in actor.log, what=lambda: actor.log)  # noqa: B023

    def collectors_environment(self, number: int) -> dict[str, str]:
        state = {"SHIPPER_STATE": ""} if self.schedule.journal_in_archive else {}
        return state | {"SHIPPER_COLLECTOR": f"c{number}", "SHIPPER_CONFIG": str(self.config)}

    def _actor(self, *arguments: str, **environment: str) -> Actor:
        name = f"{arguments[0]} {len(self.actors)}"
        wire = Wire(self.server.port, f"{name} {self.schedule.seed}")
        given = {"NATS_URL": wire.url, "SHIPPER_CONFIG": str(self.config)} | environment
        return Actor(name, self.fleet.start(*arguments, **given), wire, self.directory / f"note {name}")

    # -- progress -----------------------------------------------------------------------------------------------

    def write(self, octets: int) -> None:
        """So many bytes of all hosts together."""
        for logger in self.loggers:
            logger.log(octets // len(self.loggers))

    @property
    def written(self) -> int:
        return sum(len(generation) for logger in self.loggers for generation in logger.generations)

    @property
    def archived(self) -> int:
        """Bytes of log text that count: in segments, and in what journals have of other files."""
        listed = {segment.path: segment.bytes_raw for segment in self.fleet.segments()}
        rows = [row for journal in self.journals().values() for row in remembered.not_listed(journal)]
        return sum(listed.values()) + sum(raw for sealing, raw in rows if sealing not in listed)

    @property
    def lost(self) -> int:
        """Bytes that are missing by gap records, in sealed files and in open ones."""
        octets = sum(gap.end - gap.start for segment in self.fleet.segments() for gap in segment.gaps)
        return octets + sum(map(remembered.lost, self.journals().values()))

    def wait_archived(self, octets: int) -> None:
        """Until so many bytes are in the archive, or it does not come forward."""
        deadline = time.monotonic() + PROGRESS_SECONDS
        while self.archived < octets and time.monotonic() < deadline:
            time.sleep(0.002)

    # -- the server's side ---------------------------------------------------------------------------------------

    def streams(self) -> list[str]:
        return [stream_name("logs", number) for number in range(self.schedule.partitions)]

    def api(self, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer of the server itself to a JetStream request."""

        async def ask() -> dict[str, Any]:
            client = await nats.connect(self.server.url, allow_reconnect=False, connect_timeout=10)
            try:
                return json.loads((await client.request(f"$JS.API.{verb}", json.dumps(body or {}).encode(), 10)).data)
            finally:
                await client.close()

        return asyncio.run(ask())

    def journals(self) -> dict[int, Path]:
        """The collectors' journals by partition."""
        return remembered.newest(
            self.fleet.archive / "_journal" if self.schedule.journal_in_archive else self.directory / "state"
        )

    # -- the end --------------------------------------------------------------------------------------------------

    def mend(self) -> None:
        """Whatever ended by itself is started again, as a service manager would."""
        if not self.server.alive:
            self.server.start()
        for actor in self.actors:
            actor.start()
        for actor in self.actors:
            until(lambda: actor.has_begun, what=lambda: actor.log)  # noqa: B023

    def describe(self) -> str:
        """For a failure: the schedule, and the output of every program."""
        return "\n".join([str(self.schedule), *self.notes, *(actor.log for actor in self.actors)])

    def close(self) -> None:
        for program in self.fleet.programs:
            program.kill()
        for actor in self.actors:
            actor.wire.close()
        for logger in self.loggers:
            logger.close()


@contextlib.contextmanager
def scene(directory: Path, chosen: Schedule) -> Iterator[Scene]:
    """The world of a run while it lasts; of an archive on a disk of its own a copy stays for an analysis."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(directory / "natsd"))
        disk = volume_at(directory / "archive") if chosen.needs_volume else None
        if disk is not None:
            stack.callback(disk.close)
            stack.callback(shutil.copytree, disk.path, directory / "archive-kept", symlinks=True)
        world = Scene(directory, chosen, server, disk)
        stack.callback(world.close)
        yield world
