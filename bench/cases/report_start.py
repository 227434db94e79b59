"""The first reports after `fshipper report prepare`, as multiples of an empty Spark session with one query."""

import shutil

import sealed
from figures import Line, Reading
from harness.fleet import FSHIPPER
from suite import Case, Place

from cases import report_days

EMPTY = "empty session"
SIZES_MB = (1, 8)
TURNS = 3
IN_STARTS = "over an empty session with one query"
MOST = 2.0


def run(place: Place) -> list[Reading]:
    """Prepares, then runs each report as the first of its directory; the least time of some turns counts."""
    report_days.require()
    report_days.used(place, [FSHIPPER, "report", "prepare"], "prepare")
    archives = {size: sealed.make(place.directory / f"{size}", size * 1_000_000, 16) for size in SIZES_MB}
    reports: dict[int, list[float]] = {size: [] for size in SIZES_MB}
    starts = []
    for turn in range(TURNS):
        starts.append(report_days.start(place, 1_000_000, turn).seconds)
        for size, archive in archives.items():
            name = f"{size}-{turn}"
            reports[size].append(report_days.report(place, archive, name).seconds)
            shutil.rmtree(report_days.out_of(place, name))
    start = min(starts)
    found = [Reading(EMPTY, "from start to end", start, "s")]
    for size, taken in reports.items():
        name = _name(size)
        found += [
            Reading(name, "the first one", taken[0], "s"),
            Reading(name, "the quickest", min(taken), "s"),
            Reading(name, "the first one " + IN_STARTS, taken[0] / starts[0], "times"),
            Reading(name, "the quickest " + IN_STARTS, min(taken) / start, "times"),
        ]
    return found


def _name(size: int) -> str:
    return f"report of {size} MB"


CASE = Case(
    "report-start",
    "what does the first report cost after `fshipper report prepare`?",
    run,
    lines=tuple(
        Line(
            f"{_name(size)}: {what} at most {MOST} times an empty session",
            _name(size),
            f"{what} {IN_STARTS}",
            at_most=MOST,
        )
        for size in SIZES_MB
        for what in ("the first one", "the quickest")
    ),
    notes=("each report writes to a new directory; the empty session counts one row, and runs in the same minute",),
    most_runs=1,
)
