"""How long from the write of a line until it can be read in the archive: ten hosts, a hundred lines a second each."""

import sys
import time
from pathlib import Path

from figures import Line, Reading, percentile
from harness.fleet import Fleet
from programs import HERE, FailedError, Program, Stage, stage
from suite import Case, Place

from shipper import layout

OF, FOLLOWED = "a line", "a line, while a reader follows"
HOSTS = 10
LINES_A_SECOND = 1000
LINE_BYTES = 100
WARM_SECONDS, SECONDS = 4.0, 15.0
TICK_SECONDS = 0.001
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.002


def run(place: Place) -> list[Reading]:
    """Writer, producers, server, collector and watcher share the machine, as they are; then with a follower."""
    return [*_timed(OF, place, is_followed=False), *_timed(FOLLOWED, place, is_followed=True)]


def _timed(of: str, place: Place, *, is_followed: bool) -> list[Reading]:
    with stage(place.directory / f"latency-{is_followed}") as on:
        logs = {f"h{number}.example.net": on.fleet.directory / f"h{number}.log" for number in range(HOSTS)}
        for path in logs.values():
            path.write_bytes(b"0 first\n")
        programs = [on.produce(path, host=host) for host, path in logs.items()] + [on.consume()]
        files = [Watched(opened(on.fleet, host)) for host in logs]
        if is_followed:
            on.follow()
        before, began = _cpu_s(on, programs), time.monotonic()
        writing = writer(logs, on.fleet.directory, LINES_A_SECOND, LINE_BYTES, WARM_SECONDS + SECONDS, TICK_SECONDS)
        found = delays(files, writing)
        cores = (_cpu_s(on, programs) - before) / (time.monotonic() - began)
        for file in files:
            file.close()
        written = sum(path.read_bytes().count(b"\n") for path in logs.values())
        seen = sum(file.lines for file in files)
    if seen != written:
        raise FailedError(f"{written} lines were written, {seen} could be read in the archive")
    return _readings(of, found, cores)


def _readings(of: str, found: list[float], cores: float) -> list[Reading]:
    at = {f"p{per_cent:g}": percentile(found, per_cent) for per_cent in (50, 95, 99)} | {"slowest": max(found)}
    return [
        *(Reading(of, what, 1000 * seconds, "ms") for what, seconds in at.items()),
        Reading(of, "lines timed", len(found), "lines"),
        Reading(of, "CPU of all processes", 100 * cores, "% of a core"),
    ]


def opened(fleet: Fleet, host: str) -> Path:
    """The open file of a host, once its first line is there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := list(fleet.archive.glob(f"date=*/partition=*/host={layout.escape(host)}/{layout.OPEN_PREFIX}*")):
            return found[0]
        time.sleep(0.05)
    raise FailedError(f"nothing of {host} came to the archive within {PATIENCE_SECONDS:.0f} s")


def writer(
    logs: dict[str, Path], directory: Path, rate: float, line_bytes: int, seconds: float, tick: float
) -> Program:
    """Writes `rate` lines a second, in turn over the files."""
    command = [sys.executable, HERE / "steady.py", rate, line_bytes, seconds, tick, *logs.values()]
    return Program(list(map(str, command)), {}, directory / "writer.log")


class Watched:
    """An open file of the archive, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._rest = b""
        self.lines = 0

    def news(self, sample: int) -> list[int]:
        """When every so many of the new lines was written (ns); lines without a time are counted only."""
        more = self._file.read(1 << 20)
        if not more:
            return []
        *lines, self._rest = (self._rest + more).split(b"\n")
        self.lines += len(lines)
        return [written for line in lines[::sample] if (written := int(line.split(b" ", 1)[0]))]

    def close(self) -> None:
        self._file.close()


def delays(files: list[Watched], writing: Program, *, sample: int = 1) -> list[float]:
    """Seconds from write to readable of every line (or one of `sample`) after the warm-up, until all are there."""
    warm = time.monotonic_ns() + int(WARM_SECONDS * 1e9)
    found: list[float] = []
    last = time.monotonic()
    while writing.is_alive() or time.monotonic() - last < 2.0:
        for file in files:
            if times := file.news(sample):
                now, last = time.monotonic_ns(), time.monotonic()
                found += [(now - written) / 1e9 for written in times if written > warm]
        time.sleep(POLL_SECONDS)
    writing.end()
    return found


def _cpu_s(on: Stage, programs: list[Program]) -> float:
    return on.server_cpu_s() + sum(program.cpu_s for program in programs)


CASE = Case(
    "latency",
    f"when can a line be read in the archive, at {LINES_A_SECOND} lines a second over {HOSTS} hosts?",
    run,
    lines=(
        Line("p99 under 1.2 s", OF, "p99", at_most=1200.0),
        Line("p99 under 150 ms while a reader follows", FOLLOWED, "p99", at_most=150.0),
    ),
    notes=(
        f"each line holds the time of its write; the archive's open files are read every {1000 * POLL_SECONDS:g} ms;",
        f"{SECONDS:g} s after a warm-up of {WARM_SECONDS:g} s; settings as they are, every batch synced",
    ),
)
