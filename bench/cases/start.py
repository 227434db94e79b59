"""The start of a command: its help, next to an interpreter that imports typer, which every command needs."""

import os
import statistics
import sys

from figures import Line, Reading
from harness.fleet import FSHIPPER
from programs import Program
from suite import Case, Place

VERBS = ("produce", "consume", "search", "tail", "status", "validate")
BARE = "python with typer"
TURNS = 5
OVER = f"CPU of --help over {BARE}"
MOST = 2.5


def run(place: Place) -> list[Reading]:
    """Each command some times in turns; the median counts."""
    commands = {BARE: [sys.executable, "-c", "import importlib.metadata, typer.main"]}
    commands |= {verb: [FSHIPPER, verb, "--help"] for verb in VERBS}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(TURNS):
        for name, command in commands.items():
            taken[name].append(Program(command, os.environ, place.directory / "start.log").end().cpu_s)
    median = {name: statistics.median(values) for name, values in taken.items()}
    return [Reading(name, "CPU of --help" if name != BARE else "CPU", value, "s") for name, value in median.items()] + [
        Reading(verb, OVER, median[verb] / median[BARE], "times") for verb in VERBS
    ]


CASE = Case(
    "start",
    "what does the start of a command cost?",
    run,
    lines=tuple(Line(f"{verb}: at most {MOST} times {BARE}", verb, OVER, at_most=MOST) for verb in VERBS),
)
