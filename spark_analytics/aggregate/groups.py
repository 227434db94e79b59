"""The groups of the scan, aggregated into the tables of a day by the texts in `spark_analytics/sql/`.

Several groups may have equal keys: the texts add their sums.
"""

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shipper.line_times import PLACEHOLDER_END, PLACEHOLDER_START, in_year, latest_year
from spark_analytics.aggregate.engine import Engine, text
from spark_analytics.lines import timestamps
from spark_analytics.metrics import web_requests
from spark_analytics.metrics.pattern_tables import PatternLines, PatternPlace
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import FileSums
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST
from spark_analytics.tables.day_tables import (
    ROW_EXAMPLES,
    AuthCount,
    HourCell,
    Row,
    RowKey,
    WebHourCount,
    WebSums,
)
from spark_analytics.tables.schemas import FILE

_SEGMENTS = (
    "segment INT, log INT, is_timed BOOLEAN, stored_hour BIGINT, end_block BIGINT, end_row BIGINT, unterminated BIGINT,"
    " head_block BIGINT, head_row BIGINT, bom_bytes BIGINT"
)
_LOGS = "log INT, partition INT, host STRING, file STRING"
_EMPTY = "log INT, stored_hour BIGINT, bytes BIGINT"
_WANTED = "kind STRING, a STRING, b STRING, c STRING"

_NAMES = 3
"""Columns of names in `_WANTED`: no kind of row has more."""

_MAX_BLOCKS = 1_000_000_000
"""More blocks than a day has: a row of a block and the block are one number in this order."""

_LEAP_DAY = PLACEHOLDER_START + 59 * 86_400
_SLACK_SECONDS = 47 * 3600
"""Seconds from the start of the day to the latest valid time of a line: a day of slack for clocks that are ahead."""


class SegmentOrigin(NamedTuple):
    """A segment by its number in this run, and how its groups are corrected.

    A last row without a newline is one line and one byte too many; a byte order mark before the first row is missing.
    """

    segment: int
    log: int  #: index in `Assignment.logs`
    is_timed: bool  #: whether its lines have times
    stored_hour: int | None  #: when JetStream stored it, in seconds since 1970
    end_block: int | None = None
    end_row: int | None = None
    unterminated: int = 0
    head_block: int | None = None
    head_row: int | None = None
    bom_bytes: int = 0


class EmptySegment(NamedTuple):
    """A listed segment without a row. `bytes` are those of a byte order mark that is its whole content."""

    log: int
    stored_hour: int | None
    bytes: int


class LinePlace(NamedTuple):
    """Where a line is: the `row`-th line, from 0, of a block of a segment; later blocks begin after a newline."""

    row: int
    segment: int
    block_start: int  #: byte of the stored file


@dataclass(frozen=True, slots=True)
class Assignment:
    """How groups of segments become groups of log files and hours."""

    day: dt.date
    logs: Sequence[tuple[int, str, str]]  #: (partition, host, file)
    segments: Sequence[SegmentOrigin]
    empty: Sequence[EmptySegment]


class WebAggregates(NamedTuple):
    """Requests to web servers, aggregated."""

    keys: Sequence[tuple[str, str, int]]  #: (kind, key, n), most first, at most `MAX_KEYS`: for table `access_top`
    hours: Sequence[WebHourCount]
    sums: WebSums


@dataclass(frozen=True, slots=True)
class SegmentGroups:
    """The groups of the scan, by segment: table `scanned` of the engine."""

    engine: Engine

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""
        return [
            SegmentCount(segment, lines, size, tuple(places[:2]), tuple(places[2:]))
            for segment, lines, size, *places in self.engine.rows(text("segments"))
        ]

    def assign(self, assignment: Assignment) -> "FileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""
        engine = self.engine
        engine.give("logs", _LOGS, [(number, *log) for number, log in enumerate(assignment.logs)])
        engine.give("segments", _SEGMENTS, assignment.segments)
        engine.give("empty_segments", _EMPTY, assignment.empty)
        engine.resolve(resolution(assignment.day))
        engine.define("groups", text("groups"))
        return FileGroups(engine, int(timestamps.midnight(assignment.day).timestamp()))


def resolution(day: dt.date) -> str:
    """The expression that gives a time of the scan its year, for lines that arrived on `day`."""
    latest, year = int(timestamps.midnight(day).timestamp()) + _SLACK_SECONDS, latest_year(day)
    starts = {"january": PLACEHOLDER_START, "leap_day": _LEAP_DAY, "march": _LEAP_DAY + 86_400}
    shifts = {f"{name}_shift": in_year(start, year) - start for name, start in starts.items()}
    before = {f"{name}_shift_before": in_year(start, year - 1) - start for name, start in starts.items()}
    return text("resolved", **starts, **shifts, **before, placeholder_end=PLACEHOLDER_END, latest=latest)


@dataclass(frozen=True, slots=True)
class FileGroups:
    """The groups of the scan, by log file and hour: table `groups` of the engine."""

    engine: Engine
    midnight: int  #: of the day, in seconds since 1970

    def write_hourly(self) -> None:
        """Stages table `hourly`. Must be called first: other tables are made of it."""
        self.engine.stage("hourly", text("hourly", midnight=self.midnight), (*FILE, "hour", "level", "fingerprint"))

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`, in any order."""
        return [FileSums(*row) for row in self.engine.rows(text("files"))]

    def host_hours(self) -> list[HourCell]:
        """Lines by host, hour and level, in any order."""
        rows = self.engine.rows(text("host_hours"))
        return [HourCell(partition, host, _instant(second), *level) for partition, host, second, *level in rows]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines, most lines first, at most `MAX_DISTINCT`."""
        return self.engine.rows(text("texts", max_distinct=MAX_DISTINCT))

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:
        """One for each pattern and level, in any order; continuation lines have no pattern."""
        ids = [(row["fingerprint"], row["pattern_id"]) for row in fingerprints]
        self.engine.give("patterns", "fingerprint BIGINT, pattern_id STRING", ids)
        return [
            PatternLines(pattern_id, level, lines, hosts, files, [file for file in most if file is not None])
            for pattern_id, level, lines, hosts, files, *most in self.engine.rows(text("patterns", rest=REST.id))
        ]

    def places_of(self, fingerprints: Collection[int]) -> list[PatternPlace]:
        """One for each of `fingerprints`, level and log file, in any order."""
        self.engine.give("watched", "fingerprint BIGINT", [(one,) for one in fingerprints])
        return [PatternPlace(*row) for row in self.engine.rows(text("places"))]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines, the first of several."""
        self.engine.give("unseen", "fingerprint BIGINT", [(one,) for one in fingerprints])
        return dict(self.engine.rows(text("examples")))

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of at most `ROW_EXAMPLES` lines of each of `wanted`, of the most frequent kinds of lines.

        Each is the line with the lowest number in its block: it is found without reading much.
        """
        if not wanted:
            return {}
        keys = {(one.kind, *one.names, *[""] * (_NAMES - len(one.names))): one for one in wanted}
        self.engine.give("wanted", _WANTED, list(keys))
        kinds = sorted({one.kind for one in wanted})
        values = {"most": ROW_EXAMPLES, "slow_step": web_requests.SLOW_STEP, "blocks": _MAX_BLOCKS}
        found: dict[RowKey, list[LinePlace]] = {}
        for *key, row, segment, block_start in self.engine.rows(text("rows", kinds=kinds, **values)):
            found.setdefault(keys[tuple(key)], []).append(LinePlace(row, segment, block_start))
        return {one: found[one] for one in wanted if one in found}

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, accepted and failed passwords by second, in any order."""
        return [AuthCount(*row) for row in self.engine.rows(text("sign_ins"))]

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""
        engine = self.engine
        engine.define("requests", text("requests"))
        sketches = text("sketches", steps=web_requests.STEPS, clients_lg_k=web_requests.CLIENTS_LG_K)
        engine.sketch("sketches", sketches, of="requests")
        engine.stage("access_hourly", text("access_hourly"), (*FILE, "hour", "status"))
        ((clients,),) = engine.rows("SELECT coalesce(max(clients), 0) FROM sketches WHERE log IS NULL")
        hours = sorted((_instant(second), *others) for second, *others in engine.rows(text("request_hours")))
        latencies = web_requests.latencies(dict(engine.rows(text("request_latencies"))))
        keys = text("request_keys", slow_step=web_requests.SLOW_STEP, max_keys=web_requests.MAX_KEYS)
        return WebAggregates(engine.rows(keys), [WebHourCount(*row) for row in hours], WebSums(clients, *latencies))


def _instant(second: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, tz=dt.UTC)
