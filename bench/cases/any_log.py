"""Any log, as fast as it goes: real samples and unique lines of five kinds, next to the floor of the same run.

The floor of a program is a bare loop with the codec that costs it least: read, compress and publish; pull, decompress,
write and sync. With FSHIPPER_FLUENT_BIT=/path/to/fluent-bit the same files go through two Fluent Bits, too: tail,
forward with acknowledgements, buffers in the file system, file output.
"""

import time
from collections.abc import Iterable
from pathlib import Path

import fluent_bit
from figures import Line, Reading, cost, throughput, times
from machine import settled
from programs import FailedError, stage
from source import Source, part
from suite import Case, Place
from unique import PRESETS, make_unique

from cases import whole
from cases.peers import until_silent
from shipper.settings import CollectorSettings, ProducerSettings

SAMPLES = "real samples"
CODECS = ("zstd", "identity")
PRODUCER, COLLECTOR, FLUENT_BIT = "producer", "collector", "Fluent Bit"
MOST_MB = 256


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
            readings += [*found[FLUENT_BIT], times(found["ours"][0], found[FLUENT_BIT][0])]
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
        cost(f"{kind}: {PRODUCER}", source.size, flow.producer_cpu_s),
        cost(f"{kind}: {COLLECTOR}", source.size, flow.collector_cpu_s),
    ]


def _floor(kind: str, source: Source, directory: Path) -> list[Reading]:
    """The least CPU of both loops over all codecs."""
    used = [_loops(codec, source, directory / f"floor-{codec}") for codec in CODECS]
    least = [min(of_loop) for of_loop in zip(*used, strict=True)]
    return [
        cost(f"{kind}: floor of the {of}", source.size, cpu_s)
        for of, cpu_s in zip((PRODUCER, COLLECTOR), least, strict=True)
    ]


def _loops(codec: str, source: Source, directory: Path) -> tuple[float, float]:
    """CPU seconds of a bare publish loop, and of a bare pull loop for what it published."""
    with stage(directory) as on:
        published = on.loop("bare_publish.py", source.path, ProducerSettings().block, codec).end()
        copy = directory / "bare"
        pulled = on.loop("bare_pull.py", copy, CollectorSettings().batch, codec).end()
        if copy.stat().st_size != source.size:
            raise FailedError(f"the bare loops wrote {copy.stat().st_size} of {source.size} bytes")
    return published.cpu_s, pulled.cpu_s


def _fluent_bit(kind: str, source: Source, directory: Path) -> list[Reading]:
    began = time.monotonic()
    with fluent_bit.running(source.path, directory) as peer:
        seconds = until_silent(peer.target, source.size) - began
        cpu_s = peer.stop()
    of = f"{kind}: {FLUENT_BIT}"
    return [throughput(of, source.size, seconds), cost(of, source.size, cpu_s, "CPU of all processes")]


def _lines(kinds: Iterable[str]) -> tuple[Line, ...]:
    return tuple(
        Line(f"{kind}: {of} within 1.25 times its floor", f"{kind}: {of}", f"CPU over {kind}: floor of the {of}",
             at_most=1.25)
        for kind in kinds for of in (PRODUCER, COLLECTOR)
    )  # fmt: skip


CASE = Case(
    "any-log",
    "how fast is any log in the archive, and how near to the floor?",
    run,
    lines=_lines((SAMPLES, *PRESETS)),
    notes=(
        f"at most {MOST_MB} MB of each kind; throughput from the start of both programs until all is synced and",
        "acknowledged; the floor has no rules and no state: no offsets, sums, checkpoints, journal; both loops use the",
        f"codec that costs them least ({' or '.join(CODECS)}); CPU contains the start of the programs",
    ),
    is_long=True,
)
