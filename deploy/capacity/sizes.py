"""The sizes for a number of hosts, bytes a day and a retention. Pure."""

import math
from dataclasses import dataclass

from deploy.capacity import figures

DAY_SECONDS = 86_400
GIB = 1024**3
FREE_SHARE = 0.2
"""Share of a disk that stays free: merges and a late day need space."""
LEAST_PARTITIONS, MOST_PARTITIONS = 4, 64
HEARTBEAT_BYTES = 32 * 1024**2
USED_SHARE = 0.7
"""Share of a core that a collector uses at the peak: the rest is for catching up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the hosts write, and how long it is kept."""

    hosts: int
    bytes_per_day: int
    retention_seconds: float
    outage_seconds: float
    replicas: int
    compression: float
    peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What this needs. Cores are those at the peak."""

    archive_bytes: int  #: of the disk of the archive, with its free share
    stream_bytes: int  #: `max_bytes` of each stream
    server_bytes: int  #: `max_file_store` of each server
    partitions: int
    collectors: int
    collector_cores: float
    server_cores: float
    producer_cores: float  #: of each host
    collector_memory_bytes: int  #: of each collector
    server_memory_bytes: int
    producer_memory_bytes: int
    report_memory_bytes: int
    report_seconds: float  #: of one core, for a day


def sizes_of(load: Load) -> Sizes:
    """The sizes for `load`."""
    peak_gib = load.bytes_per_day / GIB / DAY_SECONDS * load.peak
    # A host that always writes sends a block a second. Bytes and blocks are both counted, which is the safe side.
    of_blocks = load.hosts / figures.BLOCKS_PER_SECOND_OF_A_CORE
    collector_cores = peak_gib * figures.COLLECTOR_CPU_SECONDS_PER_GIB + of_blocks
    collectors = max(1, math.ceil(collector_cores / USED_SHARE))
    partitions = min(MOST_PARTITIONS, max(LEAST_PARTITIONS, 2 * collectors))
    days = load.retention_seconds / DAY_SECONDS
    stored = load.bytes_per_day * days / load.compression + load.bytes_per_day  # today's open files are not compressed
    waiting = load.bytes_per_day * load.outage_seconds / DAY_SECONDS
    stream = math.ceil(waiting / partitions / (1 - FREE_SHARE))
    megabyte = 1024**2
    return Sizes(
        archive_bytes=math.ceil(stored / (1 - FREE_SHARE)),
        stream_bytes=stream,
        server_bytes=partitions * stream + HEARTBEAT_BYTES,
        partitions=partitions,
        collectors=collectors,
        collector_cores=collector_cores,
        server_cores=peak_gib * figures.SERVER_CPU_SECONDS_PER_GIB * load.replicas,
        producer_cores=peak_gib / load.hosts * figures.PRODUCER_CPU_SECONDS_PER_GIB,
        collector_memory_bytes=figures.COLLECTOR_MIB * megabyte,
        server_memory_bytes=figures.SERVER_MIB * megabyte,
        producer_memory_bytes=figures.PRODUCER_MIB * megabyte,
        report_memory_bytes=figures.REPORT_MIB * megabyte,
        report_seconds=figures.REPORT_FIXED_CPU_SECONDS + load.bytes_per_day / 1e9 * figures.REPORT_CPU_SECONDS_PER_GB,
    )
