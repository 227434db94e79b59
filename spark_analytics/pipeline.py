"""A day's report from start to end: inventory, scan, aggregate, evaluate, commit, publish. Read this file first."""

import contextlib
import datetime as dt
import functools
import importlib.metadata
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shipper.errors import ShipperError
from spark_analytics.archive.archives import Archives
from spark_analytics.archive.inventory import Day
from spark_analytics.runtime import interrupts
from spark_analytics.runtime.session import open_session
from spark_analytics.runtime.tuning import temporary_settings
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables.store import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analytics.report.inputs import Run
    from spark_analytics.report.model import Facts

_OF_A_DAY = (
    "spark_analytics.build_tables", "spark_analytics.report.build", "spark_analytics.report.load",
    "spark_analytics.report.publish", "spark_analytics.tables.spark_io",
)  # fmt: skip
"""The modules that make a day's report. They are imported while Java starts, which takes longer."""

_REPORT_SETTINGS = {"spark.sql.ansi.enabled": "false"}
"""Without overflow checks of each sum: counts of a day's lines and bytes do not overflow. Not for users' SQL, which
must get an error."""

TEXT_BYTES_PER_PARQUET_BYTE = 10
"""Bytes of log text that a query reads in the time of one byte of its tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to report, from where, to where."""

    archive: Location | Archives
    out: Location
    top: int  #: the most entries of a list on the page
    master: str | None  #: of Spark; None: all cores of this machine, or the master of spark-submit
    baseline_days: int = 7  #: days before that the day is compared with
    browse: str = ""  #: address of `fshipper browse`, for links to lines; empty: no links
    timezone: str = "UTC"  #: of the times in sentences and on pages
    force: bool = False  #: report a day again although its input did not change

    @property
    def archives(self) -> Archives:
        """The archives, also if there is one only."""
        return Archives.at(self.archive)


@dataclass(frozen=True, slots=True)
class DayResult:
    """The outcome of one day."""

    date: str
    state: str  #: of its completeness: damaged, gaps, doubled, open or complete
    facts: "Facts | None"  #: None if the existing report has the same input


def run(request: Request, dates: Sequence[str]) -> Iterator[DayResult]:
    """Reports each of `dates` in order; Spark starts with the first day whose input has changed.

    Raises:
        ShipperError: with a hint for the user.
    """
    tables, log, archives = Tables(request.out), locations.log_of(request.out), request.archives
    first = archives.with_duplicates(archives.read_day(dates[0]))  # fails before anything is written
    with locations.exclusive(request.out), contextlib.ExitStack() as stack:
        tables.recover()
        spark = None
        for date in dates:
            began = time.monotonic()
            day = first if date == first.date else archives.with_duplicates(archives.read_day(date))
            if not request.force and (state := existing_state(request, tables, day)):
                yield DayResult(date, state, None)
                continue
            if spark is None:
                imports = threading.Thread(target=lambda: [*map(importlib.import_module, _OF_A_DAY)], daemon=True)
                imports.start()
                size_bytes = len(dates) * _text_bytes([day])
                spark = stack.enter_context(_session(request.master, log, size_bytes, writes_classes=True))
            facts = make(spark, request, day, began)
            yield DayResult(date, facts.completeness.state.value, facts)


@contextlib.contextmanager
def _session(
    master: str | None, log: Path, size_bytes: int | None, *, writes_classes: bool = False
) -> "Iterator[SparkSession]":
    """A session of which errors of Spark and Java become errors with a hint."""
    with open_session(master=master, log=log, size_bytes=size_bytes, writes_classes=writes_classes) as spark:
        from spark_analytics.tables import spark_io  # noqa: PLC0415 - see _OF_A_DAY

        with spark_io.translated_errors(log):
            yield spark


def _text_bytes(days: Sequence[Day]) -> int:
    return sum(segment.bytes_raw for day in days for segment in day.manifests.segments)


def _query_bytes(tables: Tables, days: Sequence[Day]) -> int | None:
    """The size of the tables, of compacted days and of the lines of `days`, as bytes of log text; None: unknown."""
    if not isinstance(tables.out, Path):
        return None  # its files cannot be listed without a session
    try:
        found = [each for place in (tables.root, tables.out / "raw") for each in locations.sizes(place)]
    except OSError:  # a directory that this user may not read: the query may not need it
        return None
    parquet_bytes = sum(size for name, size in found if name.endswith(".parquet"))
    return TEXT_BYTES_PER_PARQUET_BYTE * parquet_bytes + _text_bytes(days)


def existing_state(request: Request, tables: Tables, day: Day) -> str | None:
    """The state of a day whose tables and report exist and have the same input and zone; else None."""
    made = tables.run_of(day.date) or {}
    try:
        shown = json.loads((request.out / day.date / "report.json").read_bytes())
        same = made["input_fingerprint"] == shown["run"]["input_fingerprint"] == day.fingerprint
        is_shown = shown["run"].get("timezone", "UTC") == request.timezone
        return str(made["status"]) if same and is_shown else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(spark: "SparkSession", request: Request, day: Day, began: float) -> "Facts":
    """Builds the day's tables and its report; `began` is the monotonic time at which the run started."""
    from spark_analytics.build_tables import TableBuilder  # noqa: PLC0415 - see _OF_A_DAY
    from spark_analytics.report import build, load, publish  # noqa: PLC0415

    started, tables, archives = dt.datetime.now(dt.UTC), Tables(request.out), request.archives
    with tables.dropped_if_interrupted(day.date):
        tables.begin(day.date)
        builder = TableBuilder(spark, archives.root, archives.segments_of, tables, day, request.baseline_days)
        with temporary_settings(spark, _REPORT_SETTINGS):
            day_tables = builder.build()
            day = builder.day
            run_info = _run_info(spark, request, day, began)
            evidence = load.evidence(day_tables, day, run_info, wanted_days=request.baseline_days)
            facts = build.facts(evidence, top=request.top)
            facts = build.with_lines(facts, builder.example_lines(build.rows_of(facts)))
        builder.close()
        status = facts.completeness.state.value
        builder.write_run(started, time.monotonic() - began, status)
        made = {"input_fingerprint": day.fingerprint, "started": started.isoformat(), "status": status}
        with interrupts.uninterrupted():
            tables.commit(day.date, made)
            publish.publish(request.out, facts, evidence, rows=request.top, browse=request.browse)
    return facts


def compact(archive: Location | Archives, out: Location, date: str, master: str | None) -> Location:
    """Writes the lines of a day as Parquet and returns their directory."""
    from spark_analytics.query import raw_lines  # noqa: PLC0415

    archives, log = Archives.at(archive), locations.log_of(out)
    day = archives.read_day(date)
    with locations.exclusive(out), _session(master, log, _text_bytes([day])) as spark:
        return raw_lines.compact(spark, archives.root, out, day)


def query(
    sql: str, archive: Location | Archives | None, out: Location, dates: Sequence[str], form: str, master: str | None
) -> None:
    """Prints the rows of `sql` over the tables under `out` and the lines of `dates`."""
    from spark_analytics.query import sql as sql_query  # noqa: PLC0415

    with _query_session(archive, out, dates, master) as (spark, register, _):
        register()
        sql_query.show(spark.sql(sql), sql_query.Format(form))


def shell(
    archive: Location | Archives | None, out: Location, dates: Sequence[str], form: str, master: str | None
) -> None:
    """Runs the statements of standard input over the tables under `out` and the lines of `dates`, on one session."""
    from spark_analytics.query import shell as query_shell  # noqa: PLC0415
    from spark_analytics.query import sql as sql_query  # noqa: PLC0415

    with _query_session(archive, out, dates, master) as (spark, register, log):
        register()
        query_shell.Shell(spark, Tables(out), register, log, sql_query.Format(form)).run(sys.stdin)


@contextlib.contextmanager
def _query_session(
    archive: Location | Archives | None, out: Location, dates: Sequence[str], master: str | None
) -> "Iterator[tuple[SparkSession, Callable[[], None], Path]]":
    """A session tuned to what the query may read, what makes its views, and its log."""
    from spark_analytics.query import sql as sql_query  # noqa: PLC0415

    archives = Archives.at(archive) if archive else None
    days = [archives.read_day(date) for date in dates] if archives else []
    tables, root = Tables(out), archives.root if archives else None
    with _log_of_query() as log, _session(master, log, _query_bytes(tables, days)) as spark:
        yield spark, functools.partial(sql_query.register, spark, tables, root, days), log


@contextlib.contextmanager
def _log_of_query() -> Iterator[Path]:
    """A log file that is kept only if an error refers to it."""
    opened, name = tempfile.mkstemp(prefix="fshipper-query-", suffix=".log")
    os.close(opened)
    log, is_needed = Path(name), False
    try:
        with interrupts.removed_at_end(log):
            yield log
    except ShipperError:
        is_needed = True
        raise
    finally:
        if not is_needed:
            log.unlink(missing_ok=True)


def _run_info(spark: "SparkSession", request: Request, day: Day, began: float) -> "Run":
    from spark_analytics.report.inputs import Run  # noqa: PLC0415

    try:
        version = importlib.metadata.version("fshipper")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout or a zip
        version = "unknown"
    return Run(
        archive=str(request.archive),
        out=str(request.out),
        generated=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - began, 1),
        spark_version=spark.version,
        master=str(spark.conf.get("spark.master")),
        manifests=day.manifests.names,
        program_version=version,
        input_fingerprint=day.fingerprint,
        timezone=request.timezone,
    )
