"""Line mode, a message a line: the producer and the collector, each alone, and a bare loop of nats-py in the same run.

The machine may have two cores, and the server uses one: lines per CPU second are the lines a second of a whole core.
"""

from comparing import same
from figures import Line, Reading, memory, share
from machine import settled
from programs import FailedError, Stage, Used, stage
from source import part
from suite import Case, Place

from cases.alone import in_turn

PRODUCER, BARE_PRODUCER = "line producer", "bare nats-py publish loop"
COLLECTOR, BARE_COLLECTOR = "line collector", "bare nats-py pull loop"
MOST_MB = 100
RATE, CPU_RATE = "lines a second", "lines per CPU second"


def run(place: Place) -> list[Reading]:
    """The producers each into a fresh server, then the collectors from one stream; who is first alternates."""
    source = part(place.source, MOST_MB, place.directory / "lines.log")
    lines = source.path.read_bytes().count(b"\n")
    found: dict[str, list[Reading]] = {}
    for of in in_turn(PRODUCER, BARE_PRODUCER, place):
        settled()
        with stage(place.directory / of.replace(" ", "-")) as on:
            if of == PRODUCER:
                used = on.produce("--once", "--encoding", "plain", source.path).end()
                found[of] = _readings(of, lines, used)
                found |= _collected(on, place, lines)
                same(on.fleet, source)
            else:
                found[of] = _readings(of, lines, on.loop("bare_lines.py", "publish", source.path).end())
    ours, bare = (PRODUCER, COLLECTOR), (BARE_PRODUCER, BARE_COLLECTOR)
    shares = [share(found[one][1], found[other][1]) for one, other in zip(ours, bare, strict=True)]
    return [reading for of in (*ours, *bare) for reading in found[of]] + shares


def _collected(on: Stage, place: Place, lines: int) -> dict[str, list[Reading]]:
    found = {}
    for of in in_turn(COLLECTOR, BARE_COLLECTOR, place):
        settled()
        bare = place.directory / "bare"
        program = on.consume("--drain") if of == COLLECTOR else on.loop("bare_lines.py", "pull", bare)
        found[of] = _readings(of, lines, program.end())
        if of == BARE_COLLECTOR and bare.read_bytes().count(b"\n") != lines:
            raise FailedError(f"the {of} did not write {lines} lines")
    return found


def _readings(of: str, lines: int, used: Used) -> list[Reading]:
    return [
        Reading(of, RATE, lines / used.seconds, "lines/s"),
        Reading(of, CPU_RATE, lines / used.cpu_s, "lines/CPU s"),
        memory(of, used.peak_mib),
    ]


CASE = Case(
    "lines",
    "how many lines a second does line mode send and archive?",
    run,
    lines=tuple(
        line
        for of, bare in ((PRODUCER, BARE_PRODUCER), (COLLECTOR, BARE_COLLECTOR))
        for line in (
            Line("at least 100,000 lines per CPU second", of, CPU_RATE, at_least=100_000.0),
            Line(f"at least two thirds of the {bare}", of, f"{CPU_RATE} of {bare}", at_least=100 * 2 / 3),
        )
    ),
    notes=(
        f"the first {MOST_MB} MB of the source; from the start of each program to its end; the loops send the line",
        "only: no headers, no offsets, no CRC; the pull loop writes one file, and syncs each batch of 5,000",
    ),
)
