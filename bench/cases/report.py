"""Reports of days of several sizes and DuckDB making the same groups: what a GB costs, and what any day costs."""

import statistics
from collections.abc import Sequence

import sealed
from figures import Line, Reading, memory, times
from programs import Used
from suite import Case, Place

from cases.report_days import GB, Measured, Size, Took, taken

OURS, BARE, SMALL = "fshipper report", "DuckDB", "a small day"
SIZES_GB, MORE_SIZES_GB = (0.125, 0.5, 1.0), (0.125, 0.5, 1.0, 2.0, 4.0)
FILES = (200, 4800)
"""A log file of each of 200 hosts, or one an hour."""

TURNS, TURNS_OF_LARGE = 3, 2
"""Of which the one with the least CPU counts."""

SLOPE, FIXED, OVER = "CPU a GB", "CPU of any day", f"CPU a GB over {BARE}'s"
START, A_FILE, BESIDE = "CPU of the start", "CPU a file", "CPU of any day beside start and files"
IN_STARTS = "the same over the start's"
MOST_STARTS = 3.0
"""As in the trial that the 12 CPU seconds come from: next to 4 of the start. An hour in which a shared machine is slow
makes both slower."""
IN_GB = "CPU s/GB"


def run(place: Place) -> list[Reading]:
    """Up to a GB."""
    return readings(taken(place, _sizes(SIZES_GB), TURNS))


def run_large(place: Place) -> list[Reading]:
    """Up to four."""
    return readings(taken(place, _sizes(MORE_SIZES_GB), TURNS_OF_LARGE))


def _sizes(sizes_gb: Sequence[float]) -> list[Size]:
    return [Size(int(size * GB), files) for files in FILES for size in sizes_gb]


def readings(took: Took) -> list[Reading]:
    """Of both programs what a GB costs and what any day costs, in `FILES[0]` and in `FILES[1]` log files."""
    by_files = {files: [day for size, day in took.days.items() if size.files == files] for files in FILES}
    of_sizes = [reading for files, found in by_files.items() for reading in _of_files(files, found)]
    return [*_small(took), *of_sizes, *_any_day(took.start, by_files)]


def _small(took: Took) -> list[Reading]:
    return [
        Reading(SMALL, "from start to summary", took.small.seconds, "s"),
        Reading(SMALL, "CPU", took.small.cpu_s, "CPU s"),
        memory(SMALL, took.small.peak_mib),
        Reading(SMALL, "the first report of all", took.first.seconds, "s"),
    ]


def _any_day(start: Used, by_files: dict[int, list[Measured]]) -> list[Reading]:
    """What is left of any day without Java's and Spark's start, and without what each file costs."""
    few, many = (_line([(one.archive, one.ours) for one in found]).intercept for found in by_files.values())
    a_file = (many - few) / (FILES[1] - FILES[0])
    started = Reading(OURS, START, start.cpu_s, "CPU s")
    beside = Reading(OURS, BESIDE, few - a_file * FILES[0] - start.cpu_s, "CPU s")
    ratio = times(beside, started)
    return [
        started,
        Reading(OURS, A_FILE, 1000 * a_file, "ms"),
        beside,
        Reading(OURS, IN_STARTS, ratio.value, ratio.unit),
    ]


def _line(found: Sequence[tuple[sealed.Archive, Used]]) -> statistics.LinearRegression:
    """The least squares: CPU seconds over GB."""
    return statistics.linear_regression([one.size / GB for one, _ in found], [used.cpu_s for _, used in found])


def _of_files(files: int, found: Sequence[Measured]) -> list[Reading]:
    archives = [one.archive for one in found]
    slopes, told = {}, []
    for of, used in ((OURS, [one.ours for one in found]), (BARE, [one.bare for one in found])):
        name = f"{of}, {files} files"
        each = list(zip(archives, used, strict=True))
        line = _line(each)
        slopes[of] = Reading(name, SLOPE, line.slope, IN_GB)
        told += [Reading(name, f"CPU of {day.size / GB:.3g} GB", one.cpu_s, "CPU s") for day, one in each]
        told += [
            slopes[of],
            Reading(name, FIXED, line.intercept, "CPU s"),
            Reading(name, f"from start to end of {archives[-1].size / GB:.3g} GB", used[-1].seconds, "s"),
            memory(name, max(one.peak_mib for one in used)),
        ]
    ratio = times(slopes[OURS], slopes[BARE])
    return [*told, Reading(slopes[OURS].of, OVER, ratio.value, ratio.unit)]


LINES = (
    Line("a small day's summary within 12 s", SMALL, "from start to summary", at_most=12.0),
    *(Line(f"at most 2.5 times {BARE}'s CPU a GB", f"{OURS}, {files} files", OVER, at_most=2.5) for files in FILES),
    Line("at most 12 CPU s of any day beside start and files", OURS, BESIDE, at_most=12.0),
    Line(
        "any day beside start and files at most 3 times the start (12 CPU s to 4)", OURS, IN_STARTS, at_most=MOST_STARTS
    ),
)
NOTES = (
    f"CPU is of Python and Java; of some turns of everything the one with the least counts, of {BARE} and of reports",
    "slope and share of any day are the least squares over the sizes",
    "the start is Java's and Spark's, to the first row counted; what a file costs is the difference of both any days",
    f"{BARE} makes the report's groups (host, file, hour, level, masked line, who signed in) and no tables or page",
)
CASE = Case(
    "report",
    f"what does the report of a day cost, up to {SIZES_GB[-1]:.0f} GB?",
    run,
    lines=LINES,
    notes=NOTES,
    most_runs=1,
)
LARGE = Case(
    "report-large",
    f"what does the report of a day cost, up to {MORE_SIZES_GB[-1]:.0f} GB?",
    run_large,
    lines=LINES,
    notes=NOTES,
    most_runs=1,
    is_long=True,
)
