"""Any log, as fast as it goes: real samples and unique lines of five kinds, next to the floor of the same run.

The floor of a program is a bare loop with the codec that costs least on the whole way, the server included: read,
compress and publish; pull, decompress, write and sync. Uncompressed text costs the producer less, and the server and
the collector more. CPU counts without the start of the programs.

With FSHIPPER_FLUENT_BIT=/path/to/fluent-bit the same files go through two Fluent Bits, too: tail, forward with
acknowledgements, buffers in the file system, file output.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import fluent_bit
from figures import Line, Reading, cost, throughput, times
from machine import settled
from programs import FailedError, Program, stage
from source import Source, part
from streams import Asking
from suite import Case, Place
from unique import PRESETS, make_unique

from cases import whole
from cases.peers import until_silent
from shipper.settings import CollectorSettings, ProducerSettings

SAMPLES = "real samples"
BATCH_BYTES = {"zstd": CollectorSettings().batch, "identity": 8 * 1024 * 1024}
"""By codec: of a pull of the bare loop. The server disconnects a reader that is late with much more of plain text."""
PRODUCER, COLLECTOR, FLUENT_BIT = "producer", "collector", "Fluent Bit"
MOST_MB = 1024
POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Loops:
    """CPU seconds of both bare loops without their starts, and of the server."""

    published: float
    pulled: float
    server: float

    @property
    def total(self) -> float:
        """Of all processes."""
        return self.published + self.pulled + self.server


def run(place: Place) -> list[Reading]:
    """Each kind of log, one after the other; whether the program or its floor is first alternates."""
    readings: list[Reading] = []
    for kind in (SAMPLES, *PRESETS):
        directory = place.directory / kind.replace(" ", "-")
        directory.mkdir()
        source = _source(kind, place.source, directory / "bench.log")
        found: dict[str, list[Reading]] = {}
        ways = {"ours": _ours, "floor": _floor} | ({FLUENT_BIT: _fluent_bit} if fluent_bit.BINARY else {})
        for way in list(ways)[:: 1 if place.number % 2 else -1]:
            settled()
            found[way] = ways[way](kind, source, directory)
        readings += found["ours"] + found["floor"]
        pairs = zip(found["ours"][2:], found["floor"], strict=True)
        readings += [times(mine, least) for mine, least in pairs]
        if fluent_bit.BINARY:
            pairs = zip(found["ours"][:2], found[FLUENT_BIT], strict=True)
            readings += [*found[FLUENT_BIT], *(times(mine, its) for mine, its in pairs)]
        source.path.unlink()
    return readings


def _source(kind: str, samples: Source, path: Path) -> Source:
    if kind == SAMPLES:
        return part(samples, MOST_MB, path)
    return make_unique(kind, min(samples.size, MOST_MB * 1_000_000), path)


def _ours(kind: str, source: Source, directory: Path) -> list[Reading]:
    with stage(directory / "ours") as on:
        flow = whole.flow(on, source)
    return [
        throughput(kind, source.size, flow.seconds),
        cost(kind, source.size, flow.cpu_s, "CPU of all processes"),
        cost(f"{kind}: {PRODUCER}", source.size, flow.producer_cpu_s - flow.producer_start_cpu_s),
        cost(f"{kind}: {COLLECTOR}", source.size, flow.collector_cpu_s - flow.collector_start_cpu_s),
    ]


def _floor(kind: str, source: Source, directory: Path) -> list[Reading]:
    """Both loops with the codec that costs least on the whole way."""
    used = [_loops(codec, source, directory / f"floor-{codec}") for codec in BATCH_BYTES]
    least = min(used, key=lambda loops: loops.total)
    return [
        cost(f"{kind}: floor of the {PRODUCER}", source.size, least.published),
        cost(f"{kind}: floor of the {COLLECTOR}", source.size, least.pulled),
    ]


def _loops(codec: str, source: Source, directory: Path) -> Loops:
    """A bare publish loop, and then a bare pull loop for what it published."""
    with stage(directory) as on:
        server_before, copy = on.server_cpu_s(), directory / "bare"
        publishing = on.loop("bare_publish.py", source.path, ProducerSettings().block, codec)
        with Asking(on.server.url) as asking:
            asking.until_last_is(1)
        published = _cpu_from_now(publishing)
        pulling = on.loop("bare_pull.py", copy, BATCH_BYTES[codec], codec)
        while pulling.is_alive() and not (copy.exists() and copy.stat().st_size):
            time.sleep(POLL_SECONDS)
        pulled = _cpu_from_now(pulling)
        if copy.stat().st_size != source.size:
            raise FailedError(f"the bare loops wrote {copy.stat().st_size} of {source.size} bytes")
        return Loops(published, pulled, on.server_cpu_s() - server_before)


def _cpu_from_now(program: Program) -> float:
    """CPU seconds until its end."""
    start = program.cpu_s
    return program.end().cpu_s - start


def _fluent_bit(kind: str, source: Source, directory: Path) -> list[Reading]:
    began = time.monotonic()
    with fluent_bit.running(source.path, directory) as peer:
        seconds = until_silent(peer.target, source.size) - began
        cpu_s = peer.stop()
    of = f"{kind}: {FLUENT_BIT}"
    return [throughput(of, source.size, seconds), cost(of, source.size, cpu_s, "CPU of all processes")]


def _lines(kinds: Iterable[str]) -> tuple[Line, ...]:
    floors = [
        Line(f"{kind}: {of} within 1.25 times its floor", f"{kind}: {of}", f"CPU over {kind}: floor of the {of}",
             at_most=1.25)
        for kind in kinds for of in (PRODUCER, COLLECTOR)
    ]  # fmt: skip
    return (*floors, *(line for kind in kinds for line in _lines_of_peer(kind))) if fluent_bit.BINARY else (*floors,)


def _lines_of_peer(kind: str) -> tuple[Line, Line]:
    other, least = f"{kind}: {FLUENT_BIT}", 5 if kind == SAMPLES else 4
    return (
        Line(f"{kind}: {least} times as fast as {FLUENT_BIT}", kind, f"throughput over {other}", at_least=least),
        Line(f"{kind}: a quarter of its CPU", kind, f"CPU of all processes over {other}", at_most=0.25),
    )


CASE = Case(
    "any-log",
    "how fast is any log in the archive, and how near to the floor?",
    run,
    lines=_lines((SAMPLES, *PRESETS)),
    notes=(
        f"at most {MOST_MB} MB of each kind; throughput from the start of both programs until all is synced and",
        "acknowledged; the floor has no rules and no state: no offsets, sums, checkpoints, journal; both loops use the",
        f"codec that costs least with the server ({' or '.join(BATCH_BYTES)}); CPU of a program or loop is from the",
        "first block on, CPU of all processes contains the starts",
    ),
    is_long=True,
)
