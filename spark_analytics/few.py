"""What the scan counted where that is not too much for this process: columns, and sums by what works on columns.

A day of gigabytes yields some million groups. To plan a query of Spark costs more than to add these up here; only
sketches of requests are Spark's own (`sketches`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from shipper.errors import ShipperError
from spark_analytics import available, counts, few_requests, parquet, parse, schemas, sketches
from spark_analytics.counts import Asked, Placing
from spark_analytics.few_hours import hours_of, rows_of, sums_of_files
from spark_analytics.few_patterns import most_frequent, seen, segments_of
from spark_analytics.given import Row, WebSums
from spark_analytics.locations import Location
from spark_analytics.mining import Seen
from spark_analytics.placing import Placed, parts_of, placed, second_of
from spark_analytics.settle import Counted
from spark_analytics.summing import summed, tuples_of
from spark_analytics.tables import SMALL, Tables
from spark_analytics.volumes import FileSums

_TEXTS = ("level", "text", "auth", "user", "remote", "path")
"""Columns in which the same texts come again and again."""


def most_few() -> int:
    """Groups that are held as columns now."""
    return min(counts.MOST_FEW, available.available_bytes() // (counts.LEFT * counts.GROUP_BYTES))


def taken(directory: Location) -> pa.Table | None:
    """The groups that Spark wrote to `directory`, or None where they are more than `most_few` or `MOST_BYTES`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    if parquet.stored_bytes(directory) > counts.MOST_BYTES:
        return None
    parts = parquet.files(directory, repeated=_TEXTS)
    rows = sum(part.metadata.num_rows for part in parts)
    if rows > most_few() or parquet.unpacked_bytes(parts) > counts.MOST_BYTES:
        return None
    if not parts:
        raise ShipperError(
            f"there is nothing in {directory}, where Spark wrote what it counted",
            hint="on a cluster --out must be the same place on every machine",
        )
    return parquet.together(parts)


@dataclass(frozen=True, slots=True)
class Few:
    """`counts.Counts` as columns."""

    spark: SparkSession
    groups: pa.Table
    tables: Tables
    date: str

    def by_segment(self) -> list[Counted]:
        """One for each segment that has a row."""
        sums = summed(self.groups, ["segment"], ["lines", "bytes"])
        first = self._at_the_edge("min", "first_row")
        last = self._at_the_edge("max", "last_row")
        return [
            Counted(row["segment"], row["lines"], row["bytes"], first[row["segment"]], last[row["segment"]])
            for row in sums.to_pylist()
        ]

    def _at_the_edge(self, which: str, row: str) -> dict[int, tuple[int, int]]:
        """The place of each segment's first or last row."""
        block = summed(self.groups, ["segment"], [], [("block_start", which)])
        edge = pc.take(block["block_start"], pc.index_in(self.groups["segment"], block["segment"].combine_chunks()))
        there = self.groups.filter(pc.equal(self.groups["block_start"], edge))
        found = summed(there, ["segment", "block_start"], [], [(row, which)])
        return {segment: (start, number) for segment, start, number in tuples_of(found, found.column_names)}

    def placed(self, placing: Placing) -> "FewGroups":
        """The same by log file and hour, with bytes as `wc` counts them."""
        return FewGroups(self.spark, placed(self.groups, placing), placing, self.tables.staging(self.date))


@dataclass(frozen=True)
class FewGroups:
    """`counts.Groups` as columns; `staging` is where the day's tables are made."""

    spark: SparkSession
    known: Placed
    placing: Placing
    staging: Location

    @cached_property
    def _hours(self) -> pa.Table:
        return hours_of(self.known, self.placing.silent, second_of(parse.midnight(self.placing.day)))

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        rows = rows_of(self._hours, self.known.logs)
        parquet.write_table(self.staging / "hourly" / SMALL, schemas.HOURLY, rows)

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        return sums_of_files(self._hours, self.known.logs)

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return most_frequent(self.known.groups)

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[Seen]:
        """One for each pattern and level."""
        return seen(self._hours, self.known.logs, {row["fingerprint"]: row["pattern_id"] for row in fingerprints})

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        return segments_of(self.known.groups, fingerprints)

    def accounts(self) -> list[Row]:
        """Table `auth_daily`."""
        groups = self.known.groups.filter(pc.is_valid(self.known.groups["auth"]))
        attempts = pc.multiply(groups["lines"], pc.fill_null(groups["attempts"], 0))
        columns = {
            "partition": parts_of(groups["log"], self.known.logs, 0),
            "host": parts_of(groups["log"], self.known.logs, 1),
            **{name: groups[name] for name in ("auth", "user", "remote", "lines")},
            "attempts": attempts,
        }
        sums = summed(pa.table(columns), ["partition", "host", "auth", "user", "remote"], ["lines", "attempts"])
        return list(sums.rename_columns(schemas.AUTH_DAILY.names).to_pylist())

    def write_requests(self) -> Asked:
        """Stages table `access_hourly`."""
        groups = self.known.groups.filter(pc.is_valid(self.known.groups["status"]))
        place = self.staging / "access_hourly" / SMALL
        if not groups.num_rows:
            parquet.write(place, schemas.ACCESS_HOURLY, [])
            return Asked([], [], WebSums())
        logs, requests = few_requests.numbered(groups)
        sketched, web_sums = sketches.sketched(self.spark, requests, self.staging / "requests")
        rows = few_requests.rows(logs, sketched, self.known.logs)
        parquet.write(place, schemas.ACCESS_HOURLY, rows)
        return Asked(few_requests.keys(groups), counts.hours_of(few_requests.by_hour(logs)), web_sums)
