"""The report of a day, beside DuckDB counting lines and bytes of the same segments."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import sealed
from figures import MB, Reading, cost, memory, throughput, times
from fleet import FSHIPPER
from machine import settled
from programs import HERE, OTHER_TREE, FailedError, Program
from suite import Case, MissingError, Place

OURS, BARE = "fshipper report", "DuckDB"
MOST_MB = 100


def run(place: Place) -> list[Reading]:
    """Both over one archive of a closed day; who is first alternates."""
    for needed, how in (("pyspark", 'pip install "fshipper[spark]"'), ("duckdb", "pip install duckdb")):
        if importlib.util.find_spec(needed) is None:
            raise MissingError(f"{needed} is not here: {how}")
    if not shutil.which("java"):
        raise MissingError("there is no java here: sudo apt-get install openjdk-17-jre-headless")
    archive = sealed.make(place.directory / "archive", place.source, MOST_MB * MB)
    found = {of: _counted(of, archive, place) for of in ((OURS, BARE) if place.number % 2 else (BARE, OURS))}
    ours, bare = found[OURS], found[BARE]
    seconds = times(ours[0], bare[0])
    return [*bare, *ours, Reading(OURS, f"time over {BARE}'s", seconds.value, seconds.unit)]


def _counted(of: str, archive: sealed.Archive, place: Place) -> list[Reading]:
    settled()
    directory = place.directory / of.replace(" ", "-")
    program = _started(of, archive, directory)
    used = program.end()
    lines, size = _sums(of, archive, directory)
    if (lines, size) != (archive.lines, archive.size):
        raise FailedError(f"{of} counted {lines} lines and {size} bytes of {archive.lines} and {archive.size}")
    return [
        Reading(of, "from start to end", used.seconds, "s"),
        throughput(of, archive.size, used.seconds),
        cost(of, archive.size, used.cpu_s),
        memory(of, used.peak_mib),
    ]


def _started(of: str, archive: sealed.Archive, directory: Path) -> Program:
    report = [FSHIPPER, "report", "--archive", archive.directory, "--out", directory / "out", "--date", sealed.DATE]
    bare = [sys.executable, HERE / "bare_totals.py", archive.directory, sealed.DATE]
    path = {"PATH": str(Path(shutil.which("java") or "").parent) + ":/usr/bin:/bin"}
    return Program(list(map(str, report if of == OURS else bare)), path | OTHER_TREE, directory / "said.log")


def _sums(of: str, archive: sealed.Archive, directory: Path) -> tuple[int, int]:
    if of == BARE:
        said = json.loads((directory / "said.log").read_text())
        return said["lines"], said["bytes"]
    totals = json.loads((directory / "out" / sealed.DATE / "report.json").read_text())["totals"]
    return totals["lines"], totals["bytes"]


CASE = Case(
    "report",
    f"how long does the report of {MOST_MB} MB take?",
    run,
    notes=("DuckDB only sums lines and bytes by host and file; the report has tables, levels, hours, audit and page",),
)
