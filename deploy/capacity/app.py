"""`fshipper capacity`: prints the sizes for a load, with the settings that they belong to."""

import dataclasses
import json

from deploy.capacity import figures
from deploy.capacity.options import CapacityOptions
from deploy.capacity.sizes import Load, Sizes, sizes_of
from shipper.errors import EXIT_OK, UsageError
from shipper.units import counted, format_bytes, format_duration, parse_size, seconds_of

LEAST_SHOWN = 0.01
VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""


def run(options: CapacityOptions) -> int:
    """Prints what the load of the options needs."""
    load = _load_of(options)
    sizes = sizes_of(load)
    if options.as_json:
        print(json.dumps({"v": VERSION, "load": dataclasses.asdict(load), "sizes": dataclasses.asdict(sizes)}))
        return EXIT_OK
    rows = _rows(load, sizes)
    width = max(len(name) for name, _ in rows)
    lines = [f"{counted(load.hosts, 'host')}, {format_bytes(load.bytes_per_day)} of text a day", ""]
    lines += [f"  {name:<{width}}  {text}" for name, text in rows]
    lines += [
        "",
        "Measured on two shared virtual cores: docs/development/benchmarks.md. Check it with fshipper status.",
    ]
    print("\n".join(lines))
    return EXIT_OK


def _load_of(options: CapacityOptions) -> Load:
    try:
        per_day = parse_size(options.per_day)
    except ValueError as error:
        raise UsageError(f"--per-day: {error}") from None
    retention = seconds_of(options.retention, "--retention")
    if per_day < options.hosts:
        raise UsageError(f"--per-day: {per_day} bytes a day are less than one of each host", hint="as 50GiB")
    return Load(
        hosts=options.hosts,
        bytes_per_day=per_day,
        retention_seconds=retention,
        outage_seconds=seconds_of(options.outage, "--outage"),
        replicas=options.replicas,
        compression=options.compression or figures.COMPRESSION,
        peak=options.peak,
    )


def _cores(number: float) -> str:
    return "under 0.01" if number < LEAST_SHOWN else f"{number:.2f}"


def _rows(load: Load, sizes: Sizes) -> list[tuple[str, str]]:
    collectors = counted(sizes.collectors, "collector")
    days = format_duration(load.retention_seconds)
    servers, per_stream = counted(load.replicas, "server"), format_bytes(sizes.stream_bytes)
    cores = [
        f"{name} {_cores(number)}"
        for name, number in (
            (collectors, sizes.collector_cores),
            ("server", sizes.server_cores),
            ("each host", sizes.producer_cores),
        )
    ]
    memory = [
        f"{name} {format_bytes(number)}"
        for name, number in (
            ("collector", sizes.collector_memory_bytes),
            ("server", sizes.server_memory_bytes),
            ("each host", sizes.producer_memory_bytes),
        )
    ]
    smaller = f"{days} at {load.compression:g} times smaller, today's text, a fifth free"
    without = f"for {format_duration(load.outage_seconds)} without a collector"
    return [
        ("archive disk", f"{format_bytes(sizes.archive_bytes)}: {smaller}"),
        ("server disk", f"{format_bytes(sizes.server_bytes)} on each of {servers}: max_file_store"),
        ("streams", f"{sizes.partitions} partitions, max_bytes {per_stream} each: {without}"),
        ("cores", f"at the peak: {', '.join(cores)}"),
        ("memory", ", ".join(memory)),
        (
            "report of a day",
            f"{format_bytes(sizes.report_memory_bytes)}, {format_duration(sizes.report_seconds)} of one core",
        ),
    ]
