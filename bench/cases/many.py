"""Many files on a host, and many hosts on a collector: what scale.py and hosts.py measure, as cases of the suite."""

import json
import os
import subprocess
import sys
from typing import Any

from figures import Line, Reading
from programs import HERE, FailedError
from suite import Case, Place

PATIENCE_SECONDS = 600
FILES_OF, COLLECTOR = "producer", "collector"
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
