"""Does the cost stay linear: a GiB of eight and a GiB of one, a thousand hosts and one host?"""

import json
import sys
from collections.abc import Callable

from comparing import as_fed
from figures import Line, Reading, cost, memory, throughput, times
from machine import settled
from programs import HERE, FailedError, Program, Stage, stage
from source import repeated
from suite import Case, Place

from cases import whole

FACTOR = 8
LARGE, SMALL = f"{FACTOR} times the source", "the source"
ONE, MANY = "1 host", "1,000 hosts"
MANY_HOSTS = 1000
BLOCKS_A_MB, MOST_BLOCKS = 140, 150_000
FED = "fed.json"


def sizes(place: Place) -> list[Reading]:
    """The source, and the same eight times over as one file, end to end."""
    small = _whole(place, "small", SMALL, 1)
    large = _whole(place, "large", LARGE, FACTOR)
    cpu = times(large[2], small[2])
    return [*small, *large, Reading(LARGE, "CPU a GiB over the source's", cpu.value, cpu.unit)]


def _whole(place: Place, directory: str, of: str, count: int) -> list[Reading]:
    source = repeated(place.source, count, place.directory / f"{directory}.log")
    settled()
    with stage(place.directory / directory) as on:
        found = whole.flow(on, source)
    source.path.unlink()
    peaks = [memory(of, found.producer_mib, "producer's peak memory"), memory(of, found.collector_mib, "collector's")]
    return [*whole.readings(found, source, of)[:3], *peaks]


def hosts(place: Place) -> list[Reading]:
    """The same small blocks from one host and from a thousand; only the collector is measured."""
    blocks = max(MANY_HOSTS, min(MOST_BLOCKS, place.source.size // 1_000_000 * BLOCKS_A_MB) // MANY_HOSTS * MANY_HOSTS)
    ways: dict[str, Callable[[], list[Reading]]] = {
        ONE: lambda: _collected(place, ONE, 1, blocks),
        MANY: lambda: _collected(place, MANY, MANY_HOSTS, blocks),
    }
    found = {of: ways[of]() for of in ((MANY, ONE) if place.number % 2 else (ONE, MANY))}
    cpu = times(found[MANY][1], found[ONE][1])
    return [*found[ONE], *found[MANY], Reading(MANY, "CPU a GiB over one host's", cpu.value, cpu.unit)]


def _collected(place: Place, of: str, count: int, blocks: int) -> list[Reading]:
    with stage(place.directory / f"hosts-{count}") as on:
        _feeder(on, place, count, blocks).end()
        settled()
        used = on.consume("--drain").end()
        size = as_fed(on.fleet, json.loads((on.fleet.directory / FED).read_text()))
    if not size:
        raise FailedError("nothing was fed")
    return [
        throughput(of, size, used.seconds),
        cost(of, size, used.cpu_s),
        Reading(of, "CPU a block", 1e6 * used.cpu_s / blocks, "µs"),
        memory(of, used.peak_mib),
    ]


def _feeder(on: Stage, place: Place, count: int, blocks: int) -> Program:
    report = on.fleet.directory / FED
    command = [sys.executable, HERE / "feed.py", on.server.url, count, 1, 0, blocks // count, report]
    return Program(list(map(str, command)), {}, place.directory / f"feeder-{count}.log")


SIZES = Case(
    "growth",
    f"does a GiB cost the same when there are {FACTOR}?",
    sizes,
    lines=(Line("CPU a GiB within 10 %", LARGE, "CPU a GiB over the source's", at_most=1.1),),
    notes=("end to end, as in that case; the source is what --mb says, a GiB without it",),
    is_long=True,
)
HOSTS = Case(
    "hosts",
    "does a GiB cost the same when it comes from a thousand hosts?",
    hosts,
    lines=(Line("CPU a GiB within 1.5 times", MANY, "CPU a GiB over one host's", at_most=1.5),),
    notes=("the collector alone, from a full stream of blocks of 200 to 4,000 bytes: the same number of each",),
)
