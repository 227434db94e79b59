"""Builds a day's tables: one scan of its lines, aggregations of its groups, and tables derived from these."""

import dataclasses
import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from spark_analytics.aggregate.groups import WebAggregates
from spark_analytics.archive import inventory
from spark_analytics.metrics import pattern_tables, segment_audit, sign_ins, volumes, web_requests
from spark_analytics.patterns.cluster import cluster_texts
from spark_analytics.scan import line_examples
from spark_analytics.scan.run import AssignedDay, scan_day
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.day_tables import DayTables, HourCell, Row, RowKey, WebSums
from spark_analytics.tables.store import SMALL, Tables

_COMPARED = ("file_daily", "host_daily", "pattern_daily", "event_daily", "auth_daily", "access_top")
"""The tables whose days before are read."""

MAX_WATCHED = 5000
"""Maximum masked lines of events and of watched patterns whose log files are searched, those with most lines."""

WEEKS = 4
"""Weeks before whose same weekday a day is compared with."""


@dataclasses.dataclass(frozen=True, slots=True)
class StagedDay:
    """Writes tables of `date` to their staging directory and keeps their rows in `rows`, by table name."""

    tables: Tables
    date: dt.date
    baseline_days: int  #: days before that are read
    rows: dict[str, list[Row]] = dataclasses.field(default_factory=dict)

    def write(self, name: str, rows: list[Row]) -> None:
        """Stages table `name`."""
        self.rows[name] = rows
        schema = schemas.TABLES[name]
        values = [tuple(row.get(column) for column in schema.names) for row in rows]  # missing ones are null
        parquet.write(self.tables.staging(self.date.isoformat()) / name / SMALL, schema, values)

    def before(self, name: str) -> dict[str, list[Row]]:
        """Table `name` of the baseline days that have it, by date."""
        return {date: self._read(name, date) for date in self.days_before(name)}

    def days_before(self, name: str) -> list[str]:
        """The baseline days that table `name` has, oldest first."""
        first, last = self.date - dt.timedelta(days=self.baseline_days), self.date - dt.timedelta(days=1)
        return self.tables.between(name, first.isoformat(), last.isoformat())

    def same_weekdays(self, name: str) -> dict[str, list[Row]]:
        """Table `name` of the same weekday of the `WEEKS` weeks before, by date; empty if one of them lacks it."""
        dates = [(self.date - dt.timedelta(weeks=week)).isoformat() for week in range(WEEKS, 0, -1)]
        if not all(self.tables.has(name, date) for date in dates):
            return {}
        return {date: self._read(name, date) for date in dates}

    def last_before(self, name: str) -> list[Row] | None:
        """Table `name` of the last day before, however long ago; None if there is none."""
        days = [date for date in self.tables.days(name) if date < self.date.isoformat()]
        return self._read(name, days[-1]) if days else None

    def _read(self, name: str, date: str) -> list[Row]:
        path = self.tables.day(name, date) / SMALL
        return parquet.read(path, schemas.TABLES[name]) if path.exists() else []


@dataclasses.dataclass(slots=True)
class TableBuilder:
    """Turns the segments of a day into tables. The scan adds damaged segments to `day`."""

    spark: SparkSession
    archive: Location  #: what the paths of segments are relative to
    segments_of: inventory.SegmentsOf
    tables: Tables
    day: inventory.Day
    baseline_days: int
    lines: int = 0
    bytes: int = 0
    staged: StagedDay = dataclasses.field(init=False)
    _scanned: AssignedDay | None = None

    def __post_init__(self) -> None:
        self.staged = StagedDay(self.tables, self.day.as_date, self.baseline_days)

    def build(self) -> DayTables:
        """Stages every table except `runs`; returns the tables that the report is made from.

        The groups of the scan exist until `close`.
        """
        self._scanned = scanned = scan_day(self.spark, self.archive, self.tables, self.day)
        self.day = scanned.day
        self.lines = sum(count.lines for count in scanned.counts.values())
        self.bytes = sum(count.bytes for count in scanned.counts.values())
        scanned.groups.write_hourly()
        before = {name: self.staged.before(name) for name in _COMPARED}
        with ThreadPoolExecutor(4) as pool:  # each of them waits for Spark most of the time
            cells = pool.submit(self._volumes, scanned, before)
            web = pool.submit(self._web, scanned)
            registry = pool.submit(self._patterns, scanned, before["pattern_daily"])
            pool.submit(self._auth_and_audit, scanned).result()
        return DayTables(
            rows=self.staged.rows,
            before=before,
            days_before=self.staged.days_before("runs"),
            hours=cells.result(),
            web=web.result().hours,
            web_sums=web.result().sums,
            patterns_before=registry.result(),
            weekdays=self.staged.same_weekdays("host_daily"),
        )

    def example_lines(self, wanted: Collection[RowKey]) -> dict[RowKey, list[str]]:
        """Some lines of each of the rows `wanted` of the report; `build` must be called first."""
        if self._scanned is None or not wanted:
            return {}
        segments = [segment for segment, _ in self._scanned.segments]
        return line_examples.find_lines(self.archive, segments, self._scanned.groups.first_rows(wanted))

    def close(self) -> None:
        """Removes the groups of the scan."""
        if self._scanned is not None:
            self._scanned.groups.engine.close()
            locations.remove(self._scanned.scratch)
            self._scanned = None

    def write_run(self, started: dt.datetime, seconds: float, status: str) -> None:
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
        self.staged.write("runs", [row])

    def _volumes(self, scanned: AssignedDay, before: Mapping[str, volumes.History]) -> list[HourCell]:
        files, cells = scanned.groups.by_file(), scanned.groups.host_hours()
        arrivals = self.day.arrivals
        self.staged.write("file_daily", volumes.file_daily(files, arrivals, before["file_daily"]))
        hosts = volumes.host_daily(files, cells, arrivals, before["host_daily"], self.day.as_date)
        self.staged.write("host_daily", hosts)
        sequences = inventory.sequences_missing(self.day.present)
        self.staged.write("partition_daily", volumes.partition_daily(hosts, cells, sequences))
        return cells

    def _patterns(self, scanned: AssignedDay, before: volumes.History) -> Sequence[Row]:
        """Stages the tables of patterns; returns the last table `patterns` before."""
        registry = self.staged.last_before("patterns")
        known = [(row["pattern_id"], row["template"]) for row in registry or ()]
        texts = scanned.groups.texts()
        patterns = cluster_texts([(text, lines) for _, text, lines in texts], known)
        fingerprints = pattern_tables.fingerprints(texts, patterns)
        self.staged.write("fingerprints", fingerprints)
        lines = scanned.groups.by_pattern(fingerprints)
        daily = pattern_tables.daily(lines, before, registry, self.day.as_date)
        self.staged.write("pattern_daily", daily)
        wanted = line_examples.texts_without_example(daily, fingerprints, registry or ())
        examples = self._examples(scanned, fingerprints, wanted)
        with_examples = [row | {"example": examples.get(row["text"])} for row in fingerprints]
        self.staged.write("fingerprints", with_examples)
        self._events(scanned, with_examples, daily)
        by_pattern = {wanted[text]: line for text, line in examples.items()}
        table = pattern_tables.registry(registry or (), lines, dict(patterns), by_pattern, self.day.as_date)
        self.staged.write("patterns", table)
        return registry or ()

    def _events(self, scanned: AssignedDay, fingerprints: Sequence[Row], daily: Sequence[Row]) -> None:
        """Stages the log files of known events and of the patterns that are findings."""
        watched = pattern_tables.watched(daily)
        wanted = pattern_tables.watched_lines(fingerprints, watched)
        places = scanned.groups.places_of(wanted[:MAX_WATCHED]) if wanted else []
        self.staged.write("event_daily", pattern_tables.event_daily(places, fingerprints, watched))

    def _examples(self, scanned: AssignedDay, fingerprints: Sequence[Row], wanted: Mapping[str, str]) -> dict[str, str]:
        if not wanted:
            return {}
        texts = {row["fingerprint"]: row["text"] for row in fingerprints if row["text"] in wanted}
        segments = sorted(scanned.groups.segments_of(texts).items())
        of_text = {texts[fingerprint]: scanned.segments[number] for fingerprint, number in segments}
        return line_examples.find_examples(self.archive, of_text)

    def _web(self, scanned: AssignedDay) -> WebAggregates:
        if scanned.has_requests:
            web = scanned.groups.write_access_hourly()
        else:
            web = WebAggregates([], [], WebSums())
            self.staged.write("access_hourly", [])
        self.staged.write("access_top", web_requests.top_keys(web.keys))
        return web

    def _auth_and_audit(self, scanned: AssignedDay) -> None:
        self.staged.write("auth_daily", sign_ins.auth_daily(scanned.groups.auth_counts()))
        yesterday = (self.day.as_date - dt.timedelta(days=1)).isoformat()
        before = self.segments_of(yesterday)
        self.staged.write("redacted_daily", segment_audit.redacted_rows(self.day))
        self.staged.write("audit", segment_audit.rows(self.day, scanned.counts, before))
