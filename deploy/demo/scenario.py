"""The demo from beginning to end: start, write and kill, let it settle, stop, prove, report."""

import contextlib
import hashlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from deploy.demo import proof
from deploy.demo.hosts import HOSTS, PARTITIONS, LogFeed
from deploy.demo.proof import ExpectedFile
from deploy.demo.result import DemoResult, make_report
from deploy.demo.show import DemoOutput
from deploy.demo.workspace import Workspace
from deploy.processes import Interrupts, Programs
from shipper.errors import EXIT_FINDINGS, EXIT_OK, Unavailable

BURST_BYTES = 256 * 1024
"""Maximum bytes per tick; a writer that lags catches up over several ticks."""
SPLIT_CHANCE = 0.3
"""Part of the bursts whose last line arrives in two writes; a rotation may fall between them."""
MIN_ROUNDS = 2
ROUND_SECONDS = 12.0
QUIET = 0.08
"""Part of the flow without kills at either end, so that one sees it run first, and no kill comes too late."""


class ScheduledKill(NamedTuple):
    """`victim` dies `at` seconds after the flow began."""

    at: float
    victim: str


def planned(victims: Sequence[str], seconds: float, seed: int) -> list[ScheduledKill]:
    """Kills for a flow of `seconds`, in order of time: each victim at least twice, in another order each round."""
    chance = random.Random(seed)  # noqa: S311 - seeded, to be the same again
    rounds = max(MIN_ROUNDS, int(seconds / ROUND_SECONDS))
    order = [victim for _ in range(rounds) for victim in chance.sample(victims, len(victims))]
    first, slot = seconds * QUIET, seconds * (1 - 2 * QUIET) / len(order)
    return [ScheduledKill(first + (number + chance.random()) * slot, victim) for number, victim in enumerate(order)]


class Writer:
    """The writer of one feed. Keeps the sum of what it wrote: the archive is proven against that."""

    def __init__(self, feed: LogFeed, path: Path, *, seconds: float, rotate_every: float, seed: int) -> None:
        self.feed = feed
        self.path = path
        self.octets = 0
        self.lines = 0
        self.generations = 1
        self.held = 0  #: bytes after the last newline
        self._sum = hashlib.sha256()
        self._random = random.Random(f"{seed} {feed.host} {feed.name}")  # noqa: S311 - seeded, to be the same again
        self._text = feed.text()
        self._pace = feed.bytes_planned / seconds
        self._rotate_every = rotate_every
        self._rotate_at = rotate_every * self._random.uniform(0.4, 1.2)
        self._rest = b""  # the second write of the last line
        self._renamed = False
        self._ended = False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)

    def expected(self) -> ExpectedFile:
        """What the archive has to hold: all bytes that were written, over all generations."""
        older = [self._older(number) for number in range(self.generations - 1, 0, -1)]
        return ExpectedFile(
            host=self.feed.host,
            file=str(self.path),
            sources=[*older, self.path],
            octets=self.octets,
            lines=self.lines,
            sha256=self._sum.hexdigest(),
        )

    @property
    def done(self) -> bool:
        """Whether all is written that was planned."""
        return self._ended or self.octets + len(self._rest) >= self.feed.bytes_planned

    def tick(self, elapsed: float) -> None:
        """Write what is due `elapsed` seconds after the flow began; rotate when that is due."""
        self._complete()
        owed = min(BURST_BYTES, int(elapsed * self._pace) - self.octets)
        burst = self._text.burst(owed) if owed > 0 else b""
        self._ended = self._ended or (owed > 0 and not burst)
        if len(burst) > 1 and self._random.random() < SPLIT_CHANCE:
            at = self._random.randrange(max(1, burst.rfind(b"\n", 0, -1) + 1), len(burst))
            burst, self._rest = burst[:at], burst[at:]
        self._append(burst)
        if elapsed >= self._rotate_at:
            self._rotate_at = elapsed + self._rotate_every * self._random.uniform(0.6, 1.4)
            self._rename()

    def finish(self) -> None:
        """Write the rest of an open line, and the last line without a newline if the feed requires it."""
        self._complete()
        if self.feed.unterminated:
            self._append(self._text.burst(1).rstrip(b"\r\n"))
        self._file.close()

    def close(self) -> None:
        """Let the file go as it is."""
        self._file.close()

    def _complete(self) -> None:
        """The second write of a line goes to the same file as the first one, even if it was renamed."""
        rest, self._rest = self._rest, b""
        self._append(rest)
        if self._renamed:
            self._file.close()
            self._file = self.path.open("ab", buffering=0)
            self.generations += 1
            self._renamed = False

    def _rename(self) -> None:
        """app.log -> app.log.1 -> app.log.2; the new app.log comes with the next tick.

        Never after an unterminated line: there the archive separates generations by a newline of its own.
        """
        if self.octets == 0 or (self.held and not self._rest.endswith(b"\n")):
            return
        for number in range(self.generations - 1, 0, -1):
            self._older(number).rename(self._older(number + 1))
        self.path.rename(self._older(1))
        self._renamed = True

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self.octets += len(data)
        newlines = data.count(b"\n")
        self.lines += newlines
        self.held = len(data) - data.rfind(b"\n") - 1 if newlines else self.held + len(data)
        self._sum.update(data)


TICK_SECONDS = 0.03
COUNT_SECONDS = 0.1
START_SECONDS = 60.0
STALL_SECONDS = 60.0
"""The archive does not grow, though bytes are missing: longer than the longest wait of any program by itself."""
STOP_SECONDS = 45.0
DRAIN_SECONDS = 180.0
SHOW_SECONDS = 60.0
ROTATIONS = 6
"""Of each file in a flow, about."""
SERVER, COLLECTOR = "server", "collector"


class Scenario:
    """One demo; the methods are its steps, in order."""

    def __init__(
        self,
        feeds: Sequence[LogFeed],
        seconds: float,
        seed: int,
        place: Workspace,
        programs: Programs,
        output: DemoOutput,
        interrupts: Interrupts,
    ) -> None:
        self._seconds, self._seed = seconds, seed
        self._place = place
        self._programs = programs
        self._output = output
        self._interrupts = interrupts
        self._missing = 0
        self._archived = 0
        self._next_count = 0.0
        self._writers = [
            Writer(feed, feed.path(place.hosts), seconds=seconds, rotate_every=seconds / ROTATIONS, seed=seed)
            for feed in feeds
        ]

    def run(self, *, report: bool) -> DemoResult:
        """All of it. Raises ShipperError, Interrupted."""
        try:
            self.start()
            self.flow()
        finally:
            for writer in self._writers:
                writer.close()
        self.settle()
        self.stop()
        result = self.prove()
        if result.holds:
            result = self.report(result, wanted=report)
        self._place.result.write_text(json.dumps(result.as_json(), indent=1) + "\n", encoding="utf-8")
        return result

    def start(self) -> None:
        """Start a server, the streams, a collector, and a producer for each host."""
        self._output.step(f"start a server, {PARTITIONS} partitions, a collector and {len(HOSTS)} producers")
        programs, place = self._programs, self._place
        server = programs.start(SERVER, "server", "--port", "-1", "--store", str(place.store), ready="Server is ready")
        programs.wait_until_up(server, within=START_SECONDS)
        url = server.found(r"NATS server on (nats://\S+)")
        server.arguments[server.arguments.index("-1")] = url.rpartition(":")[2]  # killed, it comes back where it was
        programs.tell(
            NATS_URL=url,
            SHIPPER_PARTITIONS=str(PARTITIONS),
            SHIPPER_DIRECTORY=str(place.archive),
            SHIPPER_STATE=str(place.state),
            SHIPPER_LISTEN="127.0.0.1:0",
        )
        programs.must("partition-apply", "partition", "apply", "--partitions", str(PARTITIONS), within=START_SECONDS)
        programs.start(COLLECTOR, "consume", ready="session_begun")
        for host in HOSTS:
            programs.start(_producer(host), "produce", *self._paths(host), ready="session_begun", HOSTNAME=host)
        # No producer ships what was rotated away before its first scan, so the writers wait for that scan.
        programs.wait_until_up(*programs.all.values(), within=START_SECONDS)

    def flow(self) -> None:
        """Write, rotate, and kill what is due."""
        seconds, writers = self._seconds, self._writers
        self._output.step(f"{len(writers)} log files grow and rotate for {seconds:.0f} s, kill -9 of all in turn")
        kills = planned(list(self._programs.all), seconds, self._seed)
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds or (
            # A slow machine that still writes your own files gets the planned time again, and no more.
            elapsed < 2 * seconds and not all(writer.done for writer in writers)
        ):
            for writer in writers:
                writer.tick(min(elapsed, seconds))
            while kills and kills[0].at <= elapsed:
                program = self._programs.all[kills.pop(0).victim]
                number = program.kill()
                program.start()
                self._output.event(f"kill -9 {program.name} (process {number}), started again")
            self._poll_programs()
            self._interrupts.nap(TICK_SECONDS)
        for writer in writers:
            writer.finish()

    def settle(self) -> None:
        """Wait until all is in the archive that can be: what has no newline waits for its producer's end."""
        self._output.step("the last lines arrive")
        wanted = sum(writer.octets - writer.held for writer in self._writers)
        archived, since = -1, time.monotonic()
        while (found := self._poll_programs()) < wanted or not all(one.up for one in self._programs.all.values()):
            if found != archived:
                archived, since = found, time.monotonic()
            elif time.monotonic() - since > STALL_SECONDS:
                self._missing = max(0, wanted - found)
                self._output.event(f"{self._missing:,} bytes are not in the archive, which does not grow any more")
                break
            self._interrupts.nap(TICK_SECONDS)
        self._show("status")

    def stop(self) -> None:
        """Stop the producers, ship the last lines without newline, stop the collector, seal, stop the server."""
        self._output.step("stop the producers, ship the line without a newline, seal the archive")
        programs = self._programs
        programs.stop(*(programs.all[_producer(host)] for host in HOSTS), within=STOP_SECONDS)
        for host in HOSTS:
            if any(writer.held for writer in self._writers if writer.feed.host == host):
                once = ("produce", "--once", *self._paths(host))
                programs.must(f"once-{host}", *once, within=DRAIN_SECONDS, HOSTNAME=host)
        programs.stop(programs.all[COLLECTOR], within=STOP_SECONDS)
        programs.must("seal", "consume", "--drain", "--seal", within=DRAIN_SECONDS)
        programs.stop(programs.all[SERVER], within=STOP_SECONDS)

    def prove(self) -> DemoResult:
        """Let the audit verify the archive, then compare it with the sources, byte for byte."""
        self._output.step("prove: every byte of the sources against the archive")
        self._show("audit")
        expected = [writer.expected() for writer in self._writers]
        files, strangers = proof.compared(self._place.archive, expected, self._interrupts.check)
        kills = {program.name: program.kills for program in self._programs.all.values()}
        for file in files:
            file["kills_survived"] = kills[SERVER] + kills[COLLECTOR] + kills[_producer(file["host"])]
        return DemoResult(self._place, self._output.seconds, files, kills, strangers, self._missing)

    def report(self, result: DemoResult, *, wanted: bool) -> DemoResult:
        """Let Spark count, where it can."""
        if not wanted:
            return replace(result, report_skipped="--no-report")
        self._output.step("Spark counts the archive")
        dates = sorted(path.name.removeprefix("date=") for path in self._place.archive.glob("_manifest/date=*"))
        try:
            return replace(result, reports=make_report(self._programs, self._place, dates))
        except Unavailable as error:
            return replace(result, report_skipped=str(error))

    def _show(self, verb: str) -> None:
        """Show what `fshipper VERB` prints, whatever it finds."""
        self._output.text(f"\n$ fshipper {verb}")
        self._output.text(self._programs.must(verb, verb, within=SHOW_SECONDS, codes=(EXIT_OK, EXIT_FINDINGS)))

    def _poll_programs(self) -> int:
        """Restart and show what changed; the bytes in the archive."""
        for program in self._programs.revive():
            self._output.event(f"{program.name} found no server and gave up, started again")
        for program in self._programs.all.values():
            if not program.stopping and program.look() and program.back_after is not None:
                self._output.event(f"{program.name} works again after {program.back_after:.1f} s")
        if time.monotonic() >= self._next_count:
            self._next_count = time.monotonic() + COUNT_SECONDS
            self._archived = archived_bytes(self._place.archive)
        self._output.progress(sum(writer.octets for writer in self._writers), self._archived)
        return self._archived

    def _paths(self, host: str) -> list[str]:
        return [str(writer.path) for writer in self._writers if writer.feed.host == host]


def archived_bytes(archive: Path) -> int:
    """Bytes that are in the archive now, in open files and in segments."""
    opened = 0
    for path in archive.glob("date=*/partition=*/host=*/_open-*"):
        with contextlib.suppress(FileNotFoundError):  # sealed since it was listed
            opened += path.stat().st_size
    return opened + proof.sealed_bytes(archive)


def _producer(host: str) -> str:
    return f"producer {host.partition('.')[0]}"
