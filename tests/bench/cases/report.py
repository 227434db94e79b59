"""Reports of days of several sizes, beside DuckDB making the same groups: what a GB costs, and what any day costs."""

import importlib.util
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sealed
from figures import Line, Reading, memory, times
from fleet import FSHIPPER
from machine import settled
from programs import HERE, OTHER_TREE, FailedError, Program, Used
from suite import Case, MissingError, Place

OURS, BARE, SMALL = "fshipper report", "DuckDB", "a small day"
GB = 1_000_000_000
SIZES_GB, MORE_SIZES_GB = (0.125, 0.5, 1.0), (0.125, 0.5, 1.0, 2.0, 4.0)
FILES = (200, 4800)
"""A log file of each of 200 hosts, or one an hour."""

SMALL_BYTES, SMALL_FILES = 8_000_000, 16
TURNS = 2
"""Reports and DuckDB have their turns, of which the one with least CPU counts."""

SLOPE, FIXED, OVER = "CPU a GB", "CPU of any day", f"CPU a GB over {BARE}'s"
START, A_FILE, BESIDE = "CPU of the start", "CPU a file", "CPU of any day beside start and files"
IN_STARTS = "the same over the start's"
MOST_STARTS = 3.0
"""As in the trial that the 12 CPU seconds come from: beside 4 of the start. An hour in which a shared machine is dear
makes both dearer."""
IN_GB = "CPU s/GB"


@dataclass(frozen=True)
class Measured:
    """Both programs over one archive."""

    archive: sealed.Archive
    ours: Used
    bare: Used


def run(place: Place) -> list[Reading]:
    """Up to a GB."""
    return _all(place, SIZES_GB)


def run_large(place: Place) -> list[Reading]:
    """Up to four."""
    return _all(place, MORE_SIZES_GB)


def _all(place: Place, sizes_gb: Sequence[float]) -> list[Reading]:
    for needed, how in (("pyspark", 'pip install "fshipper[spark]"'), ("duckdb", "pip install duckdb")):
        if importlib.util.find_spec(needed) is None:
            raise MissingError(f"{needed} is not here: {how}")
    if not shutil.which("java"):
        raise MissingError("there is no java here: sudo apt-get install openjdk-17-jre-headless")
    readings = _small(place)
    start = _start(place, int(sizes_gb[0] * GB))
    at: dict[int, list[Measured]] = {
        files: [_measured(place, int(size * GB), files) for size in sizes_gb] for files in FILES
    }
    for files, found in at.items():
        readings += _readings(files, found)
    few, many = (_line([(one.archive, one.ours) for one in found]).intercept for found in at.values())
    a_file = (many - few) / (FILES[1] - FILES[0])
    started = Reading(OURS, START, start.cpu_s, "CPU s")
    beside = Reading(OURS, BESIDE, few - a_file * FILES[0] - start.cpu_s, "CPU s")
    ratio = times(beside, started)
    return [
        *readings,
        started,
        Reading(OURS, A_FILE, 1000 * a_file, "ms"),
        beside,
        Reading(OURS, IN_STARTS, ratio.value, ratio.unit),
    ]


def _small(place: Place) -> list[Reading]:
    """Reports of a small day behind the first one, which leaves what makes the next start quicker."""
    archive = sealed.make(place.directory / "small", SMALL_BYTES, SMALL_FILES)
    first, *others = (_report(place, archive, f"small-{number}") for number in range(1 + TURNS))
    shutil.rmtree(archive.directory)
    later = _least(others)
    return [
        Reading(SMALL, "from start to summary", later.seconds, "s"),
        Reading(SMALL, "CPU", later.cpu_s, "CPU s"),
        memory(SMALL, later.peak_mib),
        Reading(SMALL, "the first report of all", first.seconds, "s"),
    ]


def _start(place: Place, size_bytes: int) -> Used:
    """Java and Spark, from the file of classes that the small day has left, without a day."""
    command = [sys.executable, HERE / "bare_start.py", size_bytes, _log(place, "spark")]
    return _least([_used(place, command, f"start-{turn}") for turn in range(TURNS)])


def _line(found: Sequence[tuple[sealed.Archive, Used]]) -> statistics.LinearRegression:
    """The least squares: CPU seconds over GB."""
    return statistics.linear_regression([one.size / GB for one, _ in found], [used.cpu_s for _, used in found])


def _measured(place: Place, most_bytes: int, files: int) -> Measured:
    archive = sealed.make(place.directory / f"{most_bytes}-{files}", most_bytes, files)
    ours, bare = [], []
    for turn in range(TURNS):
        name = f"{most_bytes}-{files}-{turn}"
        if (place.number + turn) % 2:
            bare.append(_bare(place, archive, name))
            ours.append(_report(place, archive, name))
        else:
            ours.append(_report(place, archive, name))
            bare.append(_bare(place, archive, name))
        _compare(place, archive, name)
    shutil.rmtree(archive.directory)
    return Measured(archive, _least(ours), _least(bare))


def _least(turns: Sequence[Used]) -> Used:
    """The one with the least CPU: what else goes on in a machine, and around one that is shared, only adds to it."""
    return min(turns, key=lambda used: used.cpu_s)


def _readings(files: int, found: Sequence[Measured]) -> list[Reading]:
    archives = [one.archive for one in found]
    slopes, readings = {}, []
    for of, used in ((OURS, [one.ours for one in found]), (BARE, [one.bare for one in found])):
        name = f"{of}, {files} files"
        each = list(zip(archives, used, strict=True))
        line = _line(each)
        slopes[of] = Reading(name, SLOPE, line.slope, IN_GB)
        readings += [Reading(name, f"CPU of {day.size / GB:.3g} GB", one.cpu_s, "CPU s") for day, one in each]
        readings += [
            slopes[of],
            Reading(name, FIXED, line.intercept, "CPU s"),
            Reading(name, f"from start to end of {archives[-1].size / GB:.3g} GB", used[-1].seconds, "s"),
            memory(name, max(one.peak_mib for one in used)),
        ]
    ratio = times(slopes[OURS], slopes[BARE])
    return [*readings, Reading(slopes[OURS].of, OVER, ratio.value, ratio.unit)]


# -- the programs ------------------------------------------------------------------------------------------------------


def _report(place: Place, archive: sealed.Archive, name: str) -> Used:
    command = [FSHIPPER, "report", "--archive", archive.directory, "--out", _out(place, name), "--date", sealed.DATE]
    return _used(place, command, f"{name}-report")


def _bare(place: Place, archive: sealed.Archive, name: str) -> Used:
    return _used(place, [sys.executable, HERE / "bare_report.py", archive.directory, sealed.DATE], f"{name}-bare")


def _used(place: Place, command: Sequence[object], name: str) -> Used:
    settled()
    path = {
        "PATH": str(Path(shutil.which("java") or "").parent) + ":/usr/bin:/bin",
        "SHIPPER_STATE": str(place.directory / "state"),
    }
    return Program(list(map(str, command)), path | OTHER_TREE, _log(place, name)).end()


def _log(place: Place, name: str) -> Path:
    return place.directory / f"{name}.log"


def _out(place: Place, name: str) -> Path:
    return place.directory / f"out-{name}"


def _compare(place: Place, archive: sealed.Archive, name: str) -> None:
    """Both counted every line and byte, and of each log file the same lines in each hour."""
    bare = json.loads(_log(place, f"{name}-bare").read_text())
    ours = _hours(_out(place, name))
    sums = (sum(map(sum, (hours.values() for hours in ours.values()))), bare["lines"])
    if set(sums) != {archive.lines} or bare["bytes"] != archive.size:
        raise FailedError(f"{sums} lines were counted of {archive.lines}, {bare['bytes']} bytes of {archive.size}")
    if ours != bare["hours"]:
        raise FailedError("the report and DuckDB have other hours")
    shutil.rmtree(_out(place, name))


def _hours(out: Path) -> dict[str, dict[str, int]]:
    import duckdb  # noqa: PLC0415 - the case says what is missing

    found: dict[str, dict[str, int]] = {}
    asked = (
        "SELECT regexp_extract(file, '[^/]+$'), strftime(hour AT TIME ZONE 'UTC', '%Y-%m-%dT%H'), sum(lines)"
        " FROM read_parquet(?) GROUP BY ALL ORDER BY ALL"
    )
    for file, hour, lines in duckdb.execute(asked, [f"{out}/tables/hourly/*/*.parquet"]).fetchall():
        found.setdefault(file, {})[hour] = int(lines)
    return found


LINES = (
    Line("a small day's summary within 12 s", SMALL, "from start to summary", at_most=12.0),
    *(Line(f"at most 2.5 times {BARE}'s CPU a GB", f"{OURS}, {files} files", OVER, at_most=2.5) for files in FILES),
    Line("at most 12 CPU s of any day beside start and files", OURS, BESIDE, at_most=12.0),
    Line(
        "any day beside start and files at most 3 times the start (12 CPU s to 4)", OURS, IN_STARTS, at_most=MOST_STARTS
    ),
)
NOTES = (
    f"CPU is of Python and Java; of {TURNS} turns the one with less counts, of {BARE} and of reports",
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
