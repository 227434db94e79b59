"""The collector out of a full stream, compared with a bare loop that pulls, decompresses, writes and syncs."""

import time

from comparing import same
from figures import Line, Reading, cost, memory, share, throughput
from machine import settled
from programs import FailedError, Program, Stage, stage
from suite import Case, Place

from shipper.settings import CollectorSettings

OURS = "collector"
BARE = "bare pull loop"
POLL_SECONDS = 0.005


def run(place: Place) -> list[Reading]:
    """Both read the same stream, one after the other; who is first alternates."""
    with stage(place.directory / "stage") as on:
        on.produce("--once", place.source.path).end()
        found = {of: _measured(of, on, place) for of in ((OURS, BARE) if place.number % 2 else (BARE, OURS))}
        same(on.fleet, place.source)
    ours, bare = found[OURS], found[BARE]
    return [*bare, *ours[:2], share(ours[0], bare[0]), share(ours[1], bare[1]), *ours[2:]]


def _measured(of: str, on: Stage, place: Place) -> list[Reading]:
    settled()
    source, server_before = place.source, on.server_cpu_s()
    program = _started(of, on, place)
    first_seconds = _first_byte(of, on) - program.began
    used = program.end()
    _whole(of, on, place)
    return [
        throughput(of, source.size, used.seconds),
        throughput(of, source.size, used.seconds - first_seconds, "throughput without start"),
        cost(of, source.size, used.cpu_s),
        cost(of, source.size, on.server_cpu_s() - server_before, "CPU of the server"),
        memory(of, used.peak_mib),
    ]


def _started(of: str, on: Stage, place: Place) -> Program:
    if of == OURS:
        return on.consume("--drain")
    return on.loop("bare_pull.py", place.directory / "bare", CollectorSettings().batch)


def _first_byte(of: str, on: Stage) -> float:
    """When the first bytes were written (monotonic)."""
    deadline = time.monotonic() + 60.0
    where = on.fleet.directory.parent.glob if of == BARE else on.fleet.archive.glob
    pattern = "bare" if of == BARE else "date=*/partition=*/host=*/_*"
    while not any(path.stat().st_size for path in where(pattern)):
        if time.monotonic() > deadline:
            raise FailedError(f"the {of} wrote nothing within a minute")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def _whole(of: str, on: Stage, place: Place) -> None:
    """The bare loop's copy is checked by its size: it keeps no rules, but it must have done the work."""
    if of == BARE:
        target = on.fleet.directory.parent / "bare"
        if target.stat().st_size != place.source.size:
            raise FailedError(f"the {BARE} wrote {target.stat().st_size} of {place.source.size} bytes")
        target.unlink()


CASE = Case(
    "collector",
    "how fast does a collector empty a full stream?",
    run,
    lines=(Line(f"at least 80 % of the {BARE}", OURS, f"throughput of {BARE}", at_least=80.0),),
    notes=(
        "from the start of the program to its end, all of it synced; without start: from the first byte written on",
    ),
)
