"""Makes a day's tables: one scan of its lines, few Spark queries of what it counted, and values of what these gave."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

from shipper.manifest import Segment
from spark_analytics.aggregate.port import Asked, Groups
from spark_analytics.archive import inventory
from spark_analytics.archive import inventory as continuity
from spark_analytics.archive.inventory import Day
from spark_analytics.archive.reconcile import Settled
from spark_analytics.lines.log_formats import Writing
from spark_analytics.metrics import pattern_tables, segment_audit, volumes, web_requests
from spark_analytics.patterns.cluster import clustered
from spark_analytics.scan import format_detection, line_scan, pattern_examples, placement, run
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.schemas import Cell, Given, Row, WebSums
from spark_analytics.tables.store import SMALL, Tables

Places = Sequence[tuple[Segment, Writing]]
"""The segments of the scan by their numbers, and how their lines are written."""

_COMPARED = ("file_daily", "host_daily", "pattern_daily", "auth_daily", "access_top")
"""The tables whose days before are looked at."""


@dataclasses.dataclass(slots=True)
class Making:
    """A day on its way from segments to tables. `day` learns of damaged segments on the way."""

    spark: SparkSession
    archive: Location
    tables: Tables
    day: Day
    wanted_days: int
    lines: int = 0
    bytes: int = 0
    rows: dict[str, list[Row]] = dataclasses.field(default_factory=dict)  #: the small tables

    @property
    def date(self) -> dt.date:
        """The day as a date."""
        return dt.date.fromisoformat(self.day.date)

    def tables_of_lines(self) -> Given:
        """Stages every table but `runs`; returns what the report is made from."""
        written = format_detection.writings(self.archive, self.day.readable)
        scanner = run.Scan(self.spark, self.archive, self.tables, written)
        scanned = scanner.of(self.day)
        self.day = scanned.day
        accounts = self._settled(scanned)
        groups = scanned.counts.placed(placement.placing(scanned, accounts, written, self.date))
        groups.write_hourly()
        may_ask = line_scan.Written.of(written.values()).requests
        places = [(segment, run.writing(written, segment)) for segment in scanned.segments]
        before = {name: self._before(name) for name in _COMPARED}
        cells, asked, _, _ = self._at_once(
            lambda: self._volumes(groups, before),
            lambda: self._web(groups) if may_ask else self._no_web(),
            lambda: self._patterns(groups, before["pattern_daily"], places),
            lambda: self._accounts(groups, {scanned.segments[n].path: account for n, account in accounts.items()}),
        )
        locations.remove(scanner.place(self.day.date))
        days = self._days_before("runs")
        return Given(rows=self.rows, before=before, days_before=days, hours=cells, web=asked.hours, web_sums=asked.sums)

    def _settled(self, scanned: run.Scanned) -> dict[int, Settled]:
        accounts = placement.settled(scanned, self.archive)
        self.lines = sum(account.lines for account in accounts.values())
        self.bytes = sum(account.bytes for account in accounts.values())
        return accounts

    # -- what derives --------------------------------------------------------------------------------------------------

    def _volumes(self, groups: Groups, before: Mapping[str, volumes.History]) -> list[Cell]:
        files = groups.by_file()
        arrivals = self.day.arrivals
        cells = volumes.cells(files)
        self._write("file_daily", volumes.file_daily(files, arrivals, before["file_daily"]))
        hosts = volumes.host_daily(files, arrivals, before["host_daily"], self.date)
        self._write("host_daily", hosts)
        sequences = continuity.sequences_missing(self.day.present)
        self._write("partition_daily", volumes.partition_daily(hosts, cells, sequences))
        return cells

    def _patterns(self, groups: Groups, before: volumes.History, places: Places) -> None:
        registries = [date for date in self.tables.days("patterns") if date < self.day.date]
        registry = self._read("patterns", registries[-1]) if registries else None
        known = [(row["pattern_id"], row["template"]) for row in registry or ()]
        found = groups.texts()
        assigned = clustered([(text, lines) for _, text, lines in found], known)
        fingerprints = pattern_tables.fingerprints(found, assigned)
        self._write("fingerprints", fingerprints)
        seen = groups.by_pattern(fingerprints)
        daily = pattern_tables.daily(seen, before, registry, self.date)
        self._write("pattern_daily", daily)
        wanted = pattern_examples.wanted(daily, fingerprints, registry or ())
        shown_lines = self._examples(groups, fingerprints, wanted, places)
        self._write("fingerprints", pattern_examples.with_examples(fingerprints, shown_lines))
        of_pattern = {wanted[text]: line for text, line in shown_lines.items()}
        self._write("patterns", pattern_tables.registry(registry or (), seen, dict(assigned), of_pattern, self.date))

    def _examples(
        self, groups: Groups, fingerprints: Sequence[Row], wanted: Mapping[str, str], places: Places
    ) -> dict[str, str]:
        if not wanted:
            return {}
        texts = {row["fingerprint"]: row["text"] for row in fingerprints if row["text"] in wanted}
        of_text = {texts[fingerprint]: number for fingerprint, number in sorted(groups.segments_of(texts).items())}
        return pattern_examples.found(self.archive, {text: places[number] for text, number in of_text.items()})

    def _web(self, groups: Groups) -> Asked:
        asked = groups.write_requests()
        self._write("access_top", web_requests.top(asked.keys))
        return asked

    def _no_web(self) -> Asked:
        self._write("access_top", [])
        parquet.write(self._place("access_hourly"), schemas.ACCESS_HOURLY, [])
        return Asked([], [], WebSums())

    def _accounts(self, groups: Groups, settled: Mapping[str, Settled]) -> None:
        self._write("auth_daily", groups.accounts())
        yesterday = (self.date - dt.timedelta(days=1)).isoformat()
        before = inventory.segments_of(self.archive, yesterday)
        self._write("audit", segment_audit.rows(self.day, segment_audit.judged(self.day, settled), before))

    def table_of_run(self, started: dt.datetime, seconds: float, status: str) -> None:
        """Stages table `runs`, the last one."""
        row = {
            "run_id": f"{self.day.date}-{started:%Y%m%dT%H%M%S}",
            "input_fingerprint": self.day.fingerprint,
            "started": started,
            "seconds": round(seconds, 3),
            "spark_version": self.spark.version,
            "master": str(self.spark.conf.get("spark.master")),
            "status": status,
            "lines": self.lines,
            "bytes": self.bytes,
        }
        self._write("runs", [row])

    # -- tables --------------------------------------------------------------------------------------------------------

    def _place(self, name: str) -> Location:
        return self.tables.staging(self.day.date) / name / SMALL

    def _write(self, name: str, rows: list[Row]) -> None:
        self.rows[name] = rows
        parquet.write(self._place(name), schemas.TABLES[name], parquet.as_rows(schemas.TABLES[name], rows))

    def _read(self, name: str, date: str) -> list[Row]:
        path = self.tables.day(name, date) / SMALL
        return parquet.read(path, schemas.TABLES[name]) if path.exists() else []

    def _before(self, name: str) -> dict[str, list[Row]]:
        return {date: self._read(name, date) for date in self._days_before(name)}

    def _days_before(self, name: str) -> list[str]:
        first, last = self.date - dt.timedelta(days=self.wanted_days), self.date - dt.timedelta(days=1)
        return self.tables.between(name, first.isoformat(), last.isoformat())

    @staticmethod
    def _at_once(*tasks: Callable[[], Any]) -> list[Any]:
        """Runs the tasks beside each other: each waits for Spark most of its time."""
        with ThreadPoolExecutor(len(tasks)) as pool:
            return [done.result() for done in [pool.submit(task) for task in tasks]]
