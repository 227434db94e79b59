"""Many files on a host, and many hosts on a collector: what scale.py, hosts.py and crowd.py measure, as cases."""

import json
import os
import subprocess
import sys
from typing import Any

from figures import Line, Reading
from programs import HERE, FailedError
from suite import Case, Place

PATIENCE_SECONDS = 600
FLEET_SECONDS = "FSHIPPER_BENCH_FLEET_SECONDS"
"""Variable with the seconds for which a fleet writes; 600 for the full form."""
FILES_OF, COLLECTOR, FLEET = "producer", "collector", "fleet"
FLEET_UNITS = {
    "blocks_a_second": "blocks/s", "megabytes_a_second": "MB/s", "most_lag": "blocks", "behind": "s", "p50": "s",
    "p99": "s", "slowest": "s", "ack_p99": "s", "collector_cpu": "cores", "driver_cpu": "cores", "driver_late_p99": "s",
}  # fmt: skip
UNITS = {
    "blocks": "blocks", "offered": "blocks/s", "taken": "blocks/s", "cpu": "cores", "behind": "s", "peak_mib": "MiB",
}  # fmt: skip


def files(place: Place) -> list[Reading]:
    """10,000 files that rest, in one directory: over a minute, as everything is scanned about twice in it."""
    rows = _said("scale.py", "--only", "flat", "--seconds", "60", "--lines", "20", place=place)
    return [Reading(FILES_OF, row["what"], row["value"], row["unit"]) for row in rows]


def hosts(place: Place) -> list[Reading]:
    """10,000 hosts that each write a block a second; the collector has one core."""
    (row,) = _said("hosts.py", "--only", "slow", "--seconds", "30", place=place)["results"]
    return [Reading(COLLECTOR, name, row[name], unit) for name, unit in UNITS.items()]


def drawn(place: Place) -> list[Reading]:
    """1,000 hosts at drawn rates on a server that syncs always: ten minutes are the full form."""
    return _fleet(place, "drawn", os.environ.get(FLEET_SECONDS) or "60")


def cluster(place: Place) -> list[Reading]:
    """10,000 hosts that send a block a second, on three servers that sync always."""
    return _fleet(place, "cluster", os.environ.get(FLEET_SECONDS) or "60")


def _fleet(place: Place, case: str, seconds: str) -> list[Reading]:
    (row,) = _said("crowd.py", "--only", case, "--seconds", seconds, place=place)["results"]
    servers = row["server_cpu"]
    return [
        *(Reading(FLEET, name, row[name], unit) for name, unit in FLEET_UNITS.items()),
        *(Reading(FLEET, f"CPU of server {number}", cpu, "cores") for number, cpu in enumerate(servers, 1)),
    ]


def _said(script: str, *arguments: str, place: Place) -> Any:
    command = [sys.executable, str(HERE / script), *arguments, "--json", "--directory", str(place.directory)]
    done = subprocess.run(
        command, env=os.environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    if not done.stdout:  # its own targets may be missed: that is no failure of the run
        raise FailedError(f"{script} ended with {done.returncode}\n{done.stderr.decode()}")
    return json.loads(done.stdout)


FILES = Case(
    "files",
    "what do 10,000 files cost that rest?",
    files,
    lines=(
        Line("CPU at rest under 2 % of a core", FILES_OF, "CPU of one core at rest", at_most=2.0),
        Line("a new line in any of them is published within 1 s", FILES_OF, "a new line, slowest", at_most=1.0),
        Line("peak memory under 150 MiB", FILES_OF, "peak memory", at_most=150.0),
    ),
    notes=("more of it: make scale",),
    most_runs=1,
)
CROWD = Case(
    "crowd",
    "does one core keep up with 10,000 hosts that write a block a second?",
    hosts,
    lines=(Line("the last block is archived within 5 s", COLLECTOR, "behind", at_most=5.0),),
    notes=("more of it: python bench/hosts.py",),
    most_runs=1,
    is_long=True,
)
DRAWN = Case(
    "fleet",
    "is one server that syncs always, and one core for the collector, enough for 1,000 hosts?",
    drawn,
    lines=(
        Line("the last block is archived within 5 s", FLEET, "behind", at_most=5.0),
        Line("p99 from write to readable under 2 s", FLEET, "p99", at_most=2.0),
        Line("the collector takes at most one core", FLEET, "collector_cpu", at_most=1.0),
        Line("the driver was not late, so it does not limit", FLEET, "driver_late_p99", at_most=0.1),
    ),
    notes=(
        "rates are drawn, log-normal around 1 kB/s; one process plays the hosts, as producers with their usual delay;",
        f"{FLEET_SECONDS}=600 is the full form; more of it: python bench/crowd.py",
    ),
    most_runs=1,
)
CLUSTER = Case(
    "fleet-cluster",
    "do three servers that sync always keep up with 10,000 hosts that send a block a second?",
    cluster,
    lines=(
        Line("the last block is archived within 5 s", FLEET, "behind", at_most=5.0),
        Line("the driver was not late, so it does not limit", FLEET, "driver_late_p99", at_most=0.1),
    ),
    notes=("three servers, collector and driver share the machine: with two cores these are what limits",),
    most_runs=1,
    is_long=True,
)
