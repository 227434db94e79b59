"""One program alone, compared with a bare loop that does its work without its rules.

The producer into an idle stream: the loop compresses and publishes the same blocks. The collector out of a full
stream: the loop pulls, decompresses, writes and syncs.
"""

import time
from collections.abc import Callable

from comparing import same
from figures import Line, Reading, cost, memory, share, throughput
from machine import settled
from programs import FailedError, Program, Stage, stage
from streams import Asking
from suite import Case, Place

from shipper.settings import CollectorSettings, ProducerSettings

PRODUCER, BARE_PRODUCER = "producer", "bare publish loop"
COLLECTOR, BARE_COLLECTOR = "collector", "bare pull loop"
POLL_SECONDS = 0.005


def produce(place: Place) -> list[Reading]:
    """One after the other, each into a fresh server; who is first alternates."""
    found: dict[str, list[Reading]] = {}
    for of in in_turn(PRODUCER, BARE_PRODUCER, place):
        settled()
        with stage(place.directory / of.replace(" ", "-")) as on:
            found[of] = _measured(of, on, place, _publishing, _first_published)
    return _compared(found[PRODUCER], found[BARE_PRODUCER])


def collect(place: Place) -> list[Reading]:
    """Both read the same stream, one after the other; who is first alternates."""
    found: dict[str, list[Reading]] = {}
    with stage(place.directory / "stage") as on:
        on.produce("--once", place.source.path).end()
        for of in in_turn(COLLECTOR, BARE_COLLECTOR, place):
            settled()
            found[of] = _measured(of, on, place, _pulling, _first_written)
            if of == BARE_COLLECTOR:
                _check_size(on, place)
        same(on.fleet, place.source)
    return _compared(found[COLLECTOR], found[BARE_COLLECTOR])


def in_turn(ours: str, bare: str, place: Place) -> tuple[str, str]:
    return (ours, bare) if place.number % 2 else (bare, ours)


def _compared(ours: list[Reading], bare: list[Reading]) -> list[Reading]:
    return [*bare, *ours[:2], share(ours[0], bare[0]), share(ours[1], bare[1]), *ours[2:]]


def _measured(
    of: str,
    on: Stage,
    place: Place,
    started: Callable[[str, Stage, Place], Program],
    first_at: Callable[[str, Stage], float],
) -> list[Reading]:
    source, server_before = place.source, on.server_cpu_s()
    program = started(of, on, place)
    first_seconds = first_at(of, on) - program.began
    used = program.end()
    return [
        throughput(of, source.size, used.seconds),
        throughput(of, source.size, used.seconds - first_seconds, "throughput without start"),
        cost(of, source.size, used.cpu_s),
        cost(of, source.size, on.server_cpu_s() - server_before, "CPU of the server"),
        memory(of, used.peak_mib),
    ]


def _publishing(of: str, on: Stage, place: Place) -> Program:
    if of == PRODUCER:
        return on.produce("--once", place.source.path)
    return on.loop("bare_publish.py", place.source.path, ProducerSettings().block)


def _first_published(_of: str, on: Stage) -> float:
    with Asking(on.server.url) as asking:
        return asking.until_last_is(1)


def _pulling(of: str, on: Stage, place: Place) -> Program:
    if of == COLLECTOR:
        return on.consume("--drain")
    return on.loop("bare_pull.py", place.directory / "bare", CollectorSettings().batch)


def _first_written(of: str, on: Stage) -> float:
    """When the first bytes were written (monotonic)."""
    deadline = time.monotonic() + 60.0
    where = on.fleet.directory.parent.glob if of == BARE_COLLECTOR else on.fleet.archive.glob
    pattern = "bare" if of == BARE_COLLECTOR else "date=*/partition=*/host=*/_*"
    while not any(path.stat().st_size for path in where(pattern)):
        if time.monotonic() > deadline:
            raise FailedError(f"the {of} wrote nothing within a minute")
        time.sleep(POLL_SECONDS)
    return time.monotonic()


def _check_size(on: Stage, place: Place) -> None:
    """The bare loop's copy is checked by its size: it keeps no rules, but it must have done the work."""
    target = on.fleet.directory.parent / "bare"
    if target.stat().st_size != place.source.size:
        raise FailedError(f"the {BARE_COLLECTOR} wrote {target.stat().st_size} of {place.source.size} bytes")
    target.unlink()


PRODUCE = Case(
    "producer",
    "how fast does a producer publish?",
    produce,
    lines=(
        Line(f"at least 80 % of the {BARE_PRODUCER}", PRODUCER, f"throughput of {BARE_PRODUCER}", at_least=80.0),
        Line("resident at full speed under 120 MiB", PRODUCER, "peak memory", at_most=120.0),
    ),
    notes=(
        "from the start of the program to its end, every block acknowledged; without start: from the first block on",
    ),
)
COLLECT = Case(
    "collector",
    "how fast does a collector empty a full stream?",
    collect,
    lines=(
        Line(f"at least 80 % of the {BARE_COLLECTOR}", COLLECTOR, f"throughput of {BARE_COLLECTOR}", at_least=80.0),
    ),
    notes=(
        "from the start of the program to its end, all of it synced; without start: from the first byte written on",
    ),
)
