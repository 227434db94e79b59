"""A collector was killed and stayed away: how soon has it caught up, while producers go on?"""

import sys
import time

from comparing import same
from figures import Line, Reading, cost, memory, throughput
from machine import settled
from programs import HERE, Program, Stage, stage
from source import Source, repeated
from streams import Asking
from suite import Case, Place

OF = "collector"
TIMES = 4  # the source, so that a GiB makes four
LINES_A_SECOND, LINE_BYTES = 5_000, 1_000  # what goes on meanwhile: 5 MB a second
STEADY_HOST = "steady.example.net"
LONG_SECONDS = 3600.0


def run(place: Place) -> list[Reading]:
    """Kill the collector, fill the stream, start it while another host goes on writing."""
    steady = place.directory / "steady.log"
    steady.write_bytes(b"first\n")
    with stage(place.directory / "stage") as on, Asking(on.server.url) as asking:
        on.produce(steady, host=STEADY_HOST)
        first = on.consume()
        asking.until_last_is(1)
        asking.until_archived()
        first.kill()
        backlog = repeated(place.source, TIMES, place.directory / "backlog.log")
        on.produce("--once", backlog.path).end()
        settled()
        readings = _caught_up(place, on, asking, backlog)
        same(on.fleet, backlog)
        same(on.fleet, Source(steady, steady.stat().st_size, ""), STEADY_HOST)
    return readings


def _caught_up(place: Place, on: Stage, asking: Asking, backlog: Source) -> list[Reading]:
    writer = _writer(place)
    try:
        before, collector = asking.acknowledged(), on.consume()
        first_at = asking.until_acknowledged(before + 1)
        seconds = asking.until_archived() - collector.began
        cpu_s = collector.cpu_s
    finally:
        writer.kill()
    time.sleep(1.0)  # what the writer left is read
    asking.until_archived()
    used = collector.stop()
    return [
        throughput(OF, backlog.size, seconds, "catching up"),
        Reading(OF, "start to lag 0", seconds, "s"),
        Reading(OF, "start to first batch committed", first_at - collector.began, "s"),
        cost(OF, backlog.size, cpu_s),
        memory(OF, used.peak_mib),
    ]


def _writer(place: Place) -> Program:
    command = [
        sys.executable,
        HERE / "steady.py",
        LINES_A_SECOND,
        LINE_BYTES,
        LONG_SECONDS,
        place.directory / "steady.log",
    ]
    return Program(list(map(str, command)), {}, place.directory / "writer.log")


CASE = Case(
    "catching-up",
    f"how soon has a collector caught up that was away for {TIMES} times the source?",
    run,
    lines=(Line("at least 150 MB/s while producers go on", OF, "catching up", at_least=150.0),),
    notes=(
        "from the start of a collector that had been killed until its lag is 0; another host writes 5 MB/s meanwhile;",
        "only the backlog's bytes are counted, and every byte of both was compared",
    ),
    most_runs=1,
)
