"""Makes a day's tables: one scan of its lines, few Spark queries of what it counted, and values of what these gave."""

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper.manifest import Segment
from spark_analytics import (
    access,
    audit,
    auth,
    continuity,
    examples,
    hourly,
    inventory,
    io,
    locations,
    mining,
    parquet,
    sample,
    scan,
    schemas,
    volumes,
)
from spark_analytics import settle as settling
from spark_analytics.families import ANY, Kind, Writing
from spark_analytics.given import Given, Row, Web, WebSums
from spark_analytics.inventory import Day, shown
from spark_analytics.locations import Location
from spark_analytics.patterns.cluster import clustered
from spark_analytics.settle import Counted, Settled
from spark_analytics.tables import Tables

MOST_DAMAGED = 20
"""Damaged segments that are found one by one, each by a scan that it ends; a day with more is given up."""

_UNKNOWN = Writing(ANY, Kind.PLAIN)
Places = Sequence[tuple[Segment, Writing]]
"""The segments of the scan by their numbers, and how their lines are written."""

SMALL = "part-0.zstd.parquet"
"""The file of a table that is written here and not by Spark."""

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

    # -- one scan ------------------------------------------------------------------------------------------------------

    def tables_of_lines(self) -> Given:
        """Stages every table but `runs`; returns what the report is made from."""
        written = sample.writings(self.archive, self.day.readable)
        counts, segments, found = self._scanned(written)
        settled = self._settled(segments, found)
        groups = hourly.placed(
            hourly.settled(counts, self._corrections(found, settled)), self._placing(segments, written), self.date
        )
        made = hourly.hourly(groups, self._silent(segments, found, settled), self.date)
        io.stage(made, self.tables, "hourly", self.day.date, (*hourly.FILE, "hour", "level"))
        requests = scan.Written.of(written.values()).requests
        places = [(segment, _writing(written, segment)) for segment in segments]
        before = {name: self._before(name) for name in _COMPARED}
        cells, web, _, _ = self._at_once(
            lambda: self._volumes(before),
            lambda: self._web(groups) if requests else self._no_web(),
            lambda: self._patterns(counts, before["pattern_daily"], places),
            lambda: self._accounts(groups, {segments[number].path: account for number, account in settled.items()}),
        )
        self._drop_counts()
        days = self._days_before("runs")
        return Given(rows=self.rows, before=before, days_before=days, hours=cells, web=web[0], web_sums=web[1])

    def _scanned(self, written: Mapping[sample.LogFile, Writing]) -> tuple[DataFrame, Sequence[Segment], list[Counted]]:
        """What was counted, of which segments. A segment that ends the scan is left out of the next one.

        The groups are written and read back: a plan that begins with the scan would be looked through by each query.
        """
        log = locations.log_of(self.tables.out)
        while True:
            segments = self.day.readable
            try:
                with io.explained(log):
                    counts = io.kept(self._counts(segments, written), self._counts_directory)
                    return counts, segments, [_counted(row) for row in hourly.sums(counts).collect()]
            except io.DamagedSegment as error:
                self._leave_out(error)

    @property
    def _counts_directory(self) -> Location:
        return self.tables.staging(self.day.date) / "counts"

    def _drop_counts(self) -> None:
        locations.remove(self._counts_directory)

    def _leave_out(self, error: io.DamagedSegment) -> None:
        found = next((s.path for s in self.day.readable if error.path.endswith(f"/{s.path}")), None)
        if found is None or len(self.day.damaged) >= MOST_DAMAGED:
            raise error
        self.day = dataclasses.replace(self.day, damaged=self.day.damaged | {found})

    def _counts(self, segments: Sequence[Segment], written: Mapping[sample.LogFile, Writing]) -> DataFrame:
        forms = scan.Written.of(_writing(written, segment) for segment in segments)
        known = [
            forms.columns(locations.uri(self.archive, segment.path), number, _writing(written, segment))
            for number, segment in enumerate(segments)
        ]
        rows = io.read_rows(self.spark, self.archive, segments)
        return scan.count_rows(rows, io.frame(self.spark, known, scan.SEGMENT_SCHEMA), forms)

    # -- settling ------------------------------------------------------------------------------------------------------

    def _settled(self, segments: Sequence[Segment], found: Sequence[Counted]) -> dict[int, Settled]:
        by_number = {counted.segment: counted for counted in found}
        accounts = {number: self._account(by_number.get(number), segment) for number, segment in enumerate(segments)}
        self.lines = sum(account.lines for account in accounts.values())
        self.bytes = sum(account.bytes for account in accounts.values())
        return accounts

    def _account(self, counted: Counted | None, segment: Segment) -> Settled:
        there = self.day.bytes_there(segment)
        account = settling.settled(counted, lines_manifest=segment.lines, bytes_there=there)
        if account is None and counted is not None:
            is_marked, is_cut = sample.ends(self.archive / segment.path, segment.codec)
            account = settling.looked_at(counted, is_marked=is_marked, is_cut=is_cut)
        return account or settling.NOTHING

    def _corrections(self, found: Sequence[Counted], settled: Mapping[int, Settled]) -> DataFrame | None:
        rows = [
            (one.segment, *one.last, account.surplus, *one.first, account.mark)
            for one in found
            if (account := settled[one.segment]).surplus or account.mark
        ]
        return io.frame(self.spark, rows, hourly.CORRECTIONS) if rows else None

    def _placing(self, segments: Sequence[Segment], written: Mapping[sample.LogFile, Writing]) -> DataFrame:
        rows = [
            (number, s.partition, shown(s.host), shown(s.file), _writing(written, s).family, s.first_time)
            for number, s in enumerate(segments)
        ]
        text = "segment INT, partition INT, host STRING, file STRING, family STRING, stored_at STRING"
        frame = io.frame(self.spark, rows, text)
        return frame.withColumn("stored_at", F.col("stored_at").try_cast("timestamp")).select(*schemas.SEGMENTS.names)

    def _silent(
        self, segments: Sequence[Segment], found: Sequence[Counted], settled: Mapping[int, Settled]
    ) -> DataFrame:
        """Listed segments without a row, missing ones too: their log files are there, with 0 lines."""
        spoke = {segments[one.segment].path for one in found}
        sizes = {segments[number].path: account.bytes for number, account in settled.items()}
        rows = [
            (s.partition, shown(s.host), shown(s.file), s.first_time, sizes.get(s.path, 0))
            for s in self.day.manifests.segments
            if s.path not in spoke
        ]
        frame = io.frame(self.spark, rows, "partition INT, host STRING, file STRING, hour STRING, bytes LONG")
        return frame.withColumn("hour", F.date_trunc("HOUR", F.col("hour").try_cast("timestamp")))

    # -- what derives --------------------------------------------------------------------------------------------------

    def _volumes(self, before: Mapping[str, volumes.History]) -> list[Any]:
        files = [volumes.FileSums(*row) for row in volumes.by_file(self._staged("hourly")).collect()]
        arrivals = self.day.arrivals
        cells = volumes.cells(files)
        self._write("file_daily", volumes.file_daily(files, arrivals, before["file_daily"]))
        hosts = volumes.host_daily(files, arrivals, before["host_daily"], self.date)
        self._write("host_daily", hosts)
        sequences = continuity.sequences_missing(self.day.present)
        self._write("partition_daily", volumes.partition_daily(hosts, cells, sequences))
        return cells

    def _patterns(self, counts: DataFrame, before: volumes.History, places: Places) -> None:
        registries = [date for date in self.tables.days("patterns") if date < self.day.date]
        registry = self._read("patterns", registries[-1]) if registries else None
        known = [(row["pattern_id"], row["template"]) for row in registry or ()]
        found = [tuple(row) for row in mining.texts(counts).collect()]
        assigned = clustered([(text, lines) for _, text, lines in found], known)
        fingerprints = mining.fingerprints(found, assigned)
        self._write("fingerprints", fingerprints)
        named = self._staged("fingerprints").select("fingerprint", "pattern_id")
        seen = [mining.Seen(*row) for row in mining.by_pattern(self._staged("hourly"), named).collect()]
        daily = mining.daily(seen, before, registry, self.date)
        self._write("pattern_daily", daily)
        wanted = examples.wanted(daily, fingerprints, registry or ())
        shown_lines = self._examples(counts, wanted, places)
        self._write("fingerprints", examples.with_examples(fingerprints, shown_lines))
        of_pattern = {wanted[text]: line for text, line in shown_lines.items()}
        self._write("patterns", mining.registry(registry or (), seen, dict(assigned), of_pattern, self.date))

    def _examples(self, counts: DataFrame, wanted: Mapping[str, str], places: Places) -> dict[str, str]:
        if not wanted:
            return {}
        rows = mining.places(counts, wanted).collect()
        return examples.found(self.archive, {text: places[number] for text, number in rows})

    def _web(self, groups: DataFrame) -> tuple[list[Web], WebSums]:
        requests = groups.where(F.col("status").isNotNull() & (F.col("lines") > 0)).withColumnRenamed(
            "remote", "client"
        )
        order = (*hourly.FILE, "hour", "status")
        io.stage(access.hourly(requests), self.tables, "access_hourly", self.day.date, order)
        self._write("access_top", access.top(access.keys(requests).collect()))
        staged = self._staged("access_hourly")
        found = access.by_hour(staged).collect()
        hours = [Web(dt.datetime.fromtimestamp(second, tz=dt.UTC), *others) for second, *others in found]
        return hours, WebSums(*access.sums(staged).collect()[0])

    def _no_web(self) -> tuple[list[Web], WebSums]:
        self._write("access_top", [])
        parquet.write(self._place("access_hourly"), schemas.ACCESS_HOURLY, [])
        return [], WebSums()

    def _accounts(self, groups: DataFrame, settled: Mapping[str, Settled]) -> None:
        self._write("auth_daily", [row.asDict() for row in auth.daily(groups).collect()])
        yesterday = (self.date - dt.timedelta(days=1)).isoformat()
        before = inventory.segments_of(self.archive, yesterday)
        self._write("audit", audit.rows(self.day, audit.judged(self.day, settled), before))

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

    def _staged(self, name: str) -> DataFrame:
        return io.staged(self.spark, self.tables, name, self.day.date)

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


def _writing(written: Mapping[sample.LogFile, Writing], segment: Segment) -> Writing:
    return written.get((segment.partition, segment.host, segment.file), _UNKNOWN)


def _counted(row: Sequence[object]) -> Counted:
    segment, lines, size, first, last = row
    return Counted(segment, lines, size, tuple(first), tuple(last))  # type: ignore[arg-type]
