"""What reports of days take, and DuckDB with the same groups: each in turn, and the whole of it again."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sealed
from harness.fleet import FSHIPPER
from machine import settled
from programs import HERE, OTHER_TREE, FailedError, Program, Used
from suite import MissingError, Place

GB = 1_000_000_000
SMALL_BYTES, SMALL_FILES = 8_000_000, 16


@dataclass(frozen=True)
class Size:
    """Of a day's archive."""

    most_bytes: int  #: of text
    files: int


@dataclass(frozen=True)
class Measured:
    """Both programs over one archive."""

    archive: sealed.Archive
    ours: Used
    bare: Used


@dataclass(frozen=True)
class Took:
    """The least CPU of all turns: what else goes on in a machine, and around one that is shared, only adds to it."""

    first: Used  #: the very first report, of the small day: it leaves what makes later starts quicker
    small: Used  #: the small day's report
    start: Used  #: Java and Spark without a day
    days: dict[Size, Measured]


def taken(place: Place, sizes: Sequence[Size], turns: int) -> Took:
    """`turns` turns, each of all programs over all sizes: an hour in which the machine is slow is slow for all of them.

    Raises:
        MissingError: Java, pyspark or DuckDB is not here.
        FailedError: a program failed, or the two count differently.
    """
    require()
    small = sealed.make(place.directory / "small", SMALL_BYTES, SMALL_FILES)
    archives = {size: sealed.make(_directory(place, size), size.most_bytes, size.files) for size in sizes}
    first = report(place, small, "first")
    smalls, starts = [], []
    days: dict[Size, list[tuple[Used, Used]]] = {size: [] for size in sizes}
    for turn in range(turns):
        smalls.append(report(place, small, f"small-{turn}"))
        starts.append(start(place, min(size.most_bytes for size in sizes), turn))
        for size, archive in archives.items():
            days[size].append(_pair(place, archive, f"{size.most_bytes}-{size.files}-{turn}", place.number + turn))
    for archive in (small, *archives.values()):
        shutil.rmtree(archive.directory)
    measured = {size: Measured(archives[size], *map(_least, zip(*pairs, strict=True))) for size, pairs in days.items()}
    return Took(first, _least(smalls), _least(starts), measured)


def require() -> None:
    for needed, how in (("pyspark", 'pip install "fshipper[spark]"'), ("duckdb", "pip install duckdb")):
        if importlib.util.find_spec(needed) is None:
            raise MissingError(f"{needed} is not here: {how}")
    if not shutil.which("java"):
        raise MissingError("there is no java here: sudo apt-get install openjdk-17-jre-headless")


def _directory(place: Place, size: Size) -> Path:
    return place.directory / f"{size.most_bytes}-{size.files}"


def _least(turns: Sequence[Used]) -> Used:
    return min(turns, key=lambda used: used.cpu_s)


def _pair(place: Place, archive: sealed.Archive, name: str, number: int) -> tuple[Used, Used]:
    """A report and DuckDB, in every second turn the other way round."""
    if number % 2:
        bare, ours = _bare(place, archive, name), report(place, archive, name)
    else:
        ours, bare = report(place, archive, name), _bare(place, archive, name)
    _compare(place, archive, name)
    return ours, bare


def report(place: Place, archive: sealed.Archive, name: str) -> Used:
    command = [FSHIPPER, "report", "--archive", archive.directory, "--out", out_of(place, name), "--date", sealed.DATE]
    return used(place, command, f"{name}-report")


def _bare(place: Place, archive: sealed.Archive, name: str) -> Used:
    return used(place, [sys.executable, HERE / "bare_report.py", archive.directory, sealed.DATE], f"{name}-bare")


def start(place: Place, size_bytes: int, turn: int) -> Used:
    """Java and Spark, from the file of classes that the first report has left, without a day."""
    command = [sys.executable, HERE / "bare_start.py", size_bytes, _log(place, "spark")]
    return used(place, command, f"start-{turn}")


def used(place: Place, command: Sequence[object], name: str) -> Used:
    settled()
    path = {
        "PATH": str(Path(shutil.which("java") or "").parent) + ":/usr/bin:/bin",
        "SHIPPER_STATE": str(place.directory / "state"),
    }
    return Program(list(map(str, command)), path | OTHER_TREE, _log(place, name)).end()


def _log(place: Place, name: str) -> Path:
    return place.directory / f"{name}.log"


def out_of(place: Place, name: str) -> Path:
    return place.directory / f"out-{name}"


def _compare(place: Place, archive: sealed.Archive, name: str) -> None:
    """Both counted every line and byte, and of each log file the same lines in each hour."""
    bare = json.loads(_log(place, f"{name}-bare").read_text())
    ours = _hours(out_of(place, name))
    sums = (sum(map(sum, (hours.values() for hours in ours.values()))), bare["lines"])
    if set(sums) != {archive.lines} or bare["bytes"] != archive.size:
        raise FailedError(f"{sums} lines were counted of {archive.lines}, {bare['bytes']} bytes of {archive.size}")
    if ours != bare["hours"]:
        raise FailedError("the report and DuckDB have other hours")
    shutil.rmtree(out_of(place, name))


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
