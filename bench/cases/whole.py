"""From the file to the file: what a user gets with the settings as they are."""

import subprocess
import time
from dataclasses import dataclass

from comparing import same
from figures import Line, Reading, cost, memory, share, throughput
from machine import settled
from programs import Stage, stage
from source import Source
from streams import Asking
from suite import Case, Place

OURS = "end to end"
COPY = "cp with fsync"


@dataclass(frozen=True)
class Flow:
    """One way from the file to the archive."""

    seconds: float  #: from the start of the programs until all of it is written, synced and journaled
    flow_seconds: float  #: the same from the first block that the server stored
    producer_cpu_s: float
    collector_cpu_s: float
    producer_start_cpu_s: float  #: of it before that block
    collector_start_cpu_s: float
    server_cpu_s: float
    producer_mib: float
    collector_mib: float

    @property
    def cpu_s(self) -> float:
        """Of all processes."""
        return self.producer_cpu_s + self.collector_cpu_s + self.server_cpu_s


def flow(on: Stage, source: Source) -> Flow:
    """Ship a source through an idle server, both programs in parallel; the archive is compared afterwards."""
    server_before, began = on.server_cpu_s(), time.monotonic()
    collector = on.consume()
    producer = on.produce("--once", source.path)
    with Asking(on.server.url) as asking:
        first_at = asking.until_last_is(1)
        starts = producer.cpu_s, collector.cpu_s
        produced = producer.end()
        archived_at = asking.until_archived()
    collected = collector.stop()
    server_cpu_s = on.server_cpu_s() - server_before
    same(on.fleet, source)
    return Flow(
        archived_at - began, archived_at - first_at, produced.cpu_s, collected.cpu_s, *starts, server_cpu_s,
        produced.peak_mib, collected.peak_mib,
    )  # fmt: skip


def readings(found: Flow, source: Source, of: str = OURS) -> list[Reading]:
    """The values of a flow."""
    return [
        throughput(of, source.size, found.seconds),
        throughput(of, source.size, found.flow_seconds, "throughput without start"),
        cost(of, source.size, found.cpu_s, "CPU of all processes"),
        cost("producer", source.size, found.producer_cpu_s),
        memory("producer", found.producer_mib),
        cost("server", source.size, found.server_cpu_s),
        cost("collector", source.size, found.collector_cpu_s),
        memory("collector", found.collector_mib),
    ]


def copied(place: Place) -> Reading:
    """The limit of the disk and the page cache: one file becomes another, and is synced."""
    target, began = place.directory / "copy", time.monotonic()
    subprocess.run(["cp", place.source.path, target], check=True)
    subprocess.run(["sync", target], check=True)
    seconds = time.monotonic() - began
    target.unlink()
    return throughput(COPY, place.source.size, seconds)


def run(place: Place) -> list[Reading]:
    """The copy, then the programs."""
    limit = copied(place)
    settled()
    with stage(place.directory / "whole") as on:
        found = readings(flow(on, place.source), place.source)
    return [limit, *found[:2], share(found[0], limit), *found[2:]]


CASE = Case(
    "end-to-end",
    "how fast is a file in the archive, and at what cost?",
    run,
    lines=(
        Line("at most 5 CPU s a GiB over producer, server and collector", OURS, "CPU of all processes", at_most=5.0),
    ),
    notes=(
        "throughput counts from the start of both programs until all is written, synced, journaled and acknowledged;",
        "every byte of the archive was compared with the source",
    ),
)
