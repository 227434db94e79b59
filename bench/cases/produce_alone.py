"""The producer into an idle stream, compared with a bare loop that compresses and publishes the same blocks."""

from figures import Line, Reading, cost, memory, share, throughput
from machine import settled
from programs import Program, Stage, stage
from streams import Asking
from suite import Case, Place

from shipper.settings import ProducerSettings

OURS = "producer"
BARE = "bare publish loop"


def run(place: Place) -> list[Reading]:
    """One after the other, each into a fresh server; who is first alternates."""
    found: dict[str, list[Reading]] = {}
    for of in (OURS, BARE) if place.number % 2 else (BARE, OURS):
        settled()
        with stage(place.directory / of.replace(" ", "-")) as on:
            found[of] = _measured(of, on, place)
    ours, bare = found[OURS], found[BARE]
    return [*bare, *ours[:2], share(ours[0], bare[0]), share(ours[1], bare[1]), *ours[2:]]


def _measured(of: str, on: Stage, place: Place) -> list[Reading]:
    source, server_before = place.source, on.server_cpu_s()
    program = _started(of, on, place)
    with Asking(on.server.url) as asking:
        first_seconds = asking.until_last_is(1) - program.began
    used = program.end()
    return [
        throughput(of, source.size, used.seconds),
        throughput(of, source.size, used.seconds - first_seconds, "throughput without start"),
        cost(of, source.size, used.cpu_s),
        cost(of, source.size, on.server_cpu_s() - server_before, "CPU of the server"),
        memory(of, used.peak_mib),
    ]


def _started(of: str, on: Stage, place: Place) -> Program:
    if of == OURS:
        return on.produce("--once", place.source.path)
    return on.loop("bare_publish.py", place.source.path, ProducerSettings().block)


CASE = Case(
    "producer",
    "how fast does a producer publish?",
    run,
    lines=(
        Line(f"at least 80 % of the {BARE}", OURS, f"throughput of {BARE}", at_least=80.0),
        Line("resident at full speed under 120 MiB", OURS, "peak memory", at_most=120.0),
    ),
    notes=(
        "from the start of the program to its end, every block acknowledged; without start: from the first block on",
    ),
)
