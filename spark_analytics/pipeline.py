"""A day's report from beginning to end: look, count, settle, write, show. Read this file first."""

import datetime as dt
import importlib.metadata
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper import layout
from spark_analytics import inventory, io, page, report, summary, transforms
from spark_analytics.inventory import Day
from spark_analytics.report import Report
from spark_analytics.session import open_session

_V = TypeVar("_V")
ORDER = ("partition", "host", "file", "hour", "level")
HEAT_MAP_HOSTS = 25
"""The most hosts in the heat map: a cell of it weighs as much as a row of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to report, from where, to where."""

    archive: Path
    out: Path
    date: dt.date
    top: int  #: the most entries of a list on the page
    master: str | None  #: of Spark; None: all cores of this machine, or what spark-submit says


def run(request: Request) -> Report:
    """Counts a day of the archive and writes its tables, its page and the index of all pages.

    Raises:
        ShipperError: with the next step for a person.
    """
    began = time.monotonic()
    request = _absolute(request)
    day = inventory.read_day(request.archive, request.date.isoformat())
    with io.claimed(request.out):
        log = request.out / "spark.log"
        with open_session(master=request.master, log=log) as spark, io.explained(log):
            made = make(spark, request, day, began)
        publish(request.out, made)
    return made


def make(spark: SparkSession, request: Request, day: Day, began: float) -> Report:
    """Writes the day's tables and returns its numbers; `began` is the monotonic time at which the run did."""
    hourly, audit = _count(spark, request, day)
    return _summed(spark, request, day, hourly, audit, began)


def _absolute(request: Request) -> Request:
    """Without `..` too: Spark takes it out of the paths that it reports, and they are joined with ours."""
    return replace(request, archive=Path(os.path.abspath(request.archive)), out=Path(os.path.abspath(request.out)))


def _count(spark: SparkSession, request: Request, day: Day) -> tuple[DataFrame, DataFrame]:
    """Reads every line once and writes the tables `hourly` and `audit`; returns both as written."""
    rows = io.read_rows(spark, request.archive, day.present)
    segments = io.segments_frame(spark, request.archive, day)
    settled = transforms.settle(transforms.count_rows(rows), segments, request.date).persist()
    unlisted = transforms.unregistered(io.files_frame(spark, [_unlisted(path) for path in day.unregistered]))
    audit = transforms.audit(settled).unionByName(unlisted)
    out, date = request.out, day.date
    hourly = io.write_table(transforms.hourly(settled), out, "hourly", date, ORDER)
    audit = io.write_table(audit, out, "audit", date, transforms.KEY)
    settled.unpersist()
    for name, table, order in (
        ("hourly", hourly, ORDER),
        ("hosts", transforms.host_days(hourly), ORDER[:2]),
        ("audit", audit, ORDER[:3]),
    ):
        io.write_csv(_dated(table, date), out / "csv" / date / f"{name}.csv", order)
    return hourly, audit


def _dated(table: DataFrame, date: str) -> DataFrame:
    return table.select(F.lit(date).alias("date"), *table.columns)


def _unlisted(path: str) -> tuple[int, str, str]:
    """(partition, host, stored name) of a sealed file that no manifest lists."""
    named = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    partition = named.get("partition", "")
    host = layout.unescape(inventory.shown(named.get("host", "")))
    return int(partition) if partition.isdecimal() else -1, host, inventory.shown(path.rsplit("/", 1)[-1])


def _summed(
    spark: SparkSession, request: Request, day: Day, hourly: DataFrame, audit: DataFrame, began: float
) -> Report:
    """The report's numbers, from the two tables."""
    hosts = _collected(report.HostDay, transforms.host_days(hourly))
    hours = _collected(report.HourLevel, transforms.hour_levels(hourly, request.date))
    account = _account(audit, request.top)
    return Report(
        date=day.date,
        verdict=report.verdict(account, day),
        totals=report.totals(hosts, hours, day),
        levels=_by_level(hours),
        partitions=report.by_partition(hosts),
        hosts=tuple(hosts[: request.top]),
        files=tuple(_collected(report.FileDay, transforms.file_days(hourly).limit(request.top))),
        hours=tuple(hours),
        host_hours=_host_hours(spark, request, hourly, hosts),
        audit=account,
        run=_facts(spark, request, day, began),
    )


def _account(audit: DataFrame, top: int) -> report.Audit:
    worst = audit.where(F.col("status") != "complete").orderBy(F.desc("status"), *transforms.KEY).limit(top)
    sums = [row.asDict() for row in transforms.audit_totals(audit).collect()]
    return report.audit_of(sums, _collected(report.AuditRow, worst))


def _host_hours(
    spark: SparkSession, request: Request, hourly: DataFrame, hosts: Sequence[report.HostDay]
) -> tuple[report.HostHour, ...]:
    largest = [(host.partition, host.host, "") for host in hosts[: min(request.top, HEAT_MAP_HOSTS)]]
    chosen = io.files_frame(spark, largest)
    return tuple(_collected(report.HostHour, transforms.host_hours(hourly, chosen, request.date)))


def _by_level(hours: Sequence[report.HourLevel]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for hour in hours:
        sums[hour.level] = sums.get(hour.level, 0) + hour.lines
    return sums


def _collected(kind: type[_V], table: DataFrame) -> list[_V]:
    """The rows of `table` as values: the fields' names are the columns'."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return [kind(*row) for row in table.select(*names).collect()]


def _facts(spark: SparkSession, request: Request, day: Day, began: float) -> report.Run:
    return report.Run(
        archive=str(request.archive),
        out=str(request.out),
        generated=dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - began, 1),
        spark_version=spark.version,
        master=str(spark.conf.get("spark.master")),
        manifests=day.manifests.names,
        program_version=_version(),
    )


def _version() -> str:
    try:
        return importlib.metadata.version("fshipper")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout or a zip
        return "unknown"


def publish(out: Path, made: Report) -> None:
    """Writes the day's page, then the index, and last the link to the newest day."""
    directory = out / made.date
    io.write_text(directory / "report.json", json.dumps(summary.as_json(made), indent=1) + "\n")
    io.write_text(directory / "report.html", page.rendered(made))
    known: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in io.reports(out)]
    io.write_text(out / "index.html", page.index(known))
    io.point_to(out / "latest", known[0]["date"])
