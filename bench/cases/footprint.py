"""What a producer takes that has nothing to do, and how soon it has something to show."""

import time

from figures import Line, Reading, memory
from machine import memory_mib
from programs import stage
from streams import Asking
from suite import Case, Place

OF = "producer"
LINES = b"2026-11-20T10:00:00.000Z app[4711]: request served in 12 ms, user=17 path=/index.html status=200\n" * 100
REST_SECONDS = 2.0  # the first checkpoint and the first scans are over
IDLE_SECONDS = 30.0


def run(place: Place) -> list[Reading]:
    """One file with some lines: start, first block, then nothing for half a minute."""
    path = place.directory / "quiet.log"
    path.write_bytes(LINES)
    with stage(place.directory / "footprint") as on, Asking(on.server.url) as asking:
        program = on.produce(path)
        first_seconds = asking.until_last_is(1) - program.began
        time.sleep(REST_SECONDS)
        before, began = program.cpu_s, time.monotonic()
        time.sleep(IDLE_SECONDS)
        idle = 100 * (program.cpu_s - before) / (time.monotonic() - began)
        resident, peak = memory_mib(program.pid, "VmRSS"), program.peak_mib
        program.stop()
    return [
        Reading(OF, "start to first block", first_seconds, "s"),
        Reading(OF, "CPU at rest", idle, "% of a core"),
        memory(OF, resident, "resident at rest"),
        memory(OF, peak),
    ]


CASE = Case(
    "footprint",
    "what does a producer take that rests?",
    run,
    lines=(
        Line("start to first block under 1 s", OF, "start to first block", at_most=1.0),
        Line("resident at rest under 60 MiB", OF, "resident at rest", at_most=60.0),
        Line("CPU at rest under 0.5 % of a core", OF, "CPU at rest", at_most=0.5),
    ),
    notes=(f"one file that does not grow, {IDLE_SECONDS:.0f} s; settings as they are",),
)
