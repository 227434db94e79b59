"""How long from the write of a line until it can be read in the archive: ten hosts, a hundred lines a second each."""

import sys
import time
from pathlib import Path

from figures import Line, Reading, percentile
from harness.fleet import Fleet
from programs import HERE, FailedError, Program, Stage, stage
from suite import Case, Place

from shipper import layout

OF = "a line"
HOSTS = 10
LINES_A_SECOND = 1000
LINE_BYTES = 100
WARM_SECONDS, SECONDS = 4.0, 15.0
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.002


def run(place: Place) -> list[Reading]:
    """Writer, producers, server, collector and watcher share the machine, as they are."""
    with stage(place.directory / "latency") as on:
        logs = {f"h{number}.example.net": place.directory / f"h{number}.log" for number in range(HOSTS)}
        for path in logs.values():
            path.write_bytes(b"0 first\n")
        programs = [on.produce(path, host=host) for host, path in logs.items()] + [on.consume()]
        files = {host: Watched(_opened(on.fleet, host)) for host in logs}
        before, began = _cpu_s(on, programs), time.monotonic()
        writer = _writer(place, logs)
        delays = _delays(list(files.values()), writer)
        cores = (_cpu_s(on, programs) - before) / (time.monotonic() - began)
        for file in files.values():
            file.close()
        written = sum(path.read_bytes().count(b"\n") for path in logs.values())
        seen = sum(file.lines for file in files.values())
    if seen != written:
        raise FailedError(f"{written} lines were written, {seen} could be read in the archive")
    return _readings(delays, cores)


def _readings(delays: list[float], cores: float) -> list[Reading]:
    at = {f"p{per_cent:g}": percentile(delays, per_cent) for per_cent in (50, 95, 99)} | {"slowest": max(delays)}
    return [
        *(Reading(OF, what, 1000 * seconds, "ms") for what, seconds in at.items()),
        Reading(OF, "lines timed", len(delays), "lines"),
        Reading("all processes", "CPU", 100 * cores, "% of a core"),
    ]


def _opened(fleet: Fleet, host: str) -> Path:
    """The open file of a host, once its first line is there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := list(fleet.archive.glob(f"date=*/partition=*/host={layout.escape(host)}/{layout.OPEN_PREFIX}*")):
            return found[0]
        time.sleep(0.05)
    raise FailedError(f"nothing of {host} came to the archive within {PATIENCE_SECONDS:.0f} s")


def _writer(place: Place, logs: dict[str, Path]) -> Program:
    command = [sys.executable, HERE / "steady.py", LINES_A_SECOND, LINE_BYTES, WARM_SECONDS + SECONDS, *logs.values()]
    return Program(list(map(str, command)), {}, place.directory / "writer.log")


class Watched:
    """An open file of the archive, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._rest = b""
        self.lines = 0

    def news(self) -> list[int]:
        """When the lines that are new were written (ns); lines without a time are counted only."""
        more = self._file.read(1 << 20)
        if not more:
            return []
        *lines, self._rest = (self._rest + more).split(b"\n")
        self.lines += len(lines)
        return [written for line in lines if (written := int(line.split(b" ", 1)[0]))]

    def close(self) -> None:
        self._file.close()


def _delays(files: list[Watched], writer: Program) -> list[float]:
    """Seconds from write to readable of every line after the warm-up, until all are there."""
    warm = time.monotonic_ns() + int(WARM_SECONDS * 1e9)
    delays: list[float] = []
    last = time.monotonic()
    while writer.is_alive() or time.monotonic() - last < 2.0:
        for file in files:
            if times := file.news():
                now, last = time.monotonic_ns(), time.monotonic()
                delays += [(now - written) / 1e9 for written in times if written > warm]
        time.sleep(POLL_SECONDS)
    writer.end()
    return delays


def _cpu_s(on: Stage, programs: list[Program]) -> float:
    return on.server_cpu_s() + sum(program.cpu_s for program in programs)


CASE = Case(
    "latency",
    f"when can a line be read in the archive, at {LINES_A_SECOND} lines a second over {HOSTS} hosts?",
    run,
    lines=(Line("p99 under 250 ms", OF, "p99", at_most=250.0),),
    notes=(
        f"each line holds the time of its write; the archive's open files are read every {1000 * POLL_SECONDS:g} ms;",
        f"{SECONDS:g} s after a warm-up of {WARM_SECONDS:g} s; settings as they are, every batch synced",
    ),
)
