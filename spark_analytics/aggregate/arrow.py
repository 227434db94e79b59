"""The Arrow adapter of the aggregation port: groups are columns in the driver, tables are sums of them.

It serves days whose groups fit into memory. A day of some gigabytes has some million groups; planning one Spark query
takes longer than adding them up here. Spark makes only the sketches of requests, whose format is Spark's own.
"""

import datetime as dt
import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from shipper.line_formats import NONE
from shipper.line_times import PLACEHOLDER_END, PLACEHOLDER_START, in_year
from spark_analytics.aggregate import port
from spark_analytics.aggregate.port import (
    AUTH_KINDS,
    REQUEST_KINDS,
    Assignment,
    Correction,
    LinePlace,
    WebAggregates,
)
from spark_analytics.lines import timestamps
from spark_analytics.metrics import web_requests
from spark_analytics.metrics.pattern_tables import FILES_SHOWN, PatternLines, PatternPlace
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import LEVEL_BITS, LEVEL_MASK, LINES_BITS, SUMMED, FileSums, LogFile
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST
from spark_analytics.runtime import tuning
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.day_tables import ROW_EXAMPLES, ROW_KINDS, AuthCount, Row, RowKey, WebSums
from spark_analytics.tables.schemas import FILE
from spark_analytics.tables.store import SMALL

MAX_GROUPS = 8_000_000
"""Maximum number of groups that are held as columns if there is memory for them."""

GROUP_BYTES = 900
"""Memory of one group with everything that is made of it (measured)."""

MEMORY_RESERVE = 2
"""Factor: so many times the memory of the groups must be available, because other programs run at the same time."""

MAX_BYTES = 500_000_000
"""Maximum size of the groups as uncompressed Parquet: texts such as paths may be different in every group."""

REPEATED = ("level", "text", "auth", "user", "remote", "path")
"""Columns in which the same texts occur many times; they are read as dictionaries."""

LEVELS = pa.array(sorted(schemas.LEVELS))
"""The values of `level`, sorted by name."""

NULL_INT = pa.scalar(None, pa.int64())

_MICRO = 10**6
_LEVELS = LEVELS.to_pylist()
_ERRORS = pa.array([_LEVELS.index(level) for level in port.ERROR_LEVELS], pa.int8())
_SEVERITY = pa.array([schemas.LEVELS.index(level) for level in _LEVELS], pa.int64())
_ZERO = pa.scalar(0, pa.int64())

_CELL = ("log", "hour", "level")
_HOUR_BITS = 30
_STATUS_BITS = 10
_BLOCK_BITS = 43
"""Bits of a byte in a stored file, below the number of its segment."""

_REQUESTS = schemas.schema_of("key INT, remote STRING, latency INT, lines BIGINT")


def max_groups() -> int:
    """Maximum number of groups that may be held as columns with the memory that is available now."""
    return min(MAX_GROUPS, tuning.available_bytes() // (MEMORY_RESERVE * GROUP_BYTES))


def read_groups(directory: Location) -> pa.Table | None:
    """The groups that Spark wrote to `directory`; None if they are more than `max_groups` or `MAX_BYTES`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    if sum(size for _, size in locations.sizes(directory)) > MAX_BYTES:  # compressed
        return None
    parts = parquet.files(directory, repeated=REPEATED)
    row_groups = [part.metadata.row_group(number) for part in parts for number in range(part.num_row_groups)]
    rows, unpacked_bytes = (sum(getattr(one, of) for one in row_groups) for of in ("num_rows", "total_byte_size"))
    if rows > max_groups() or unpacked_bytes > MAX_BYTES:
        return None
    return pa.concat_tables([part.read() for part in parts]).unify_dictionaries().combine_chunks()


@dataclass(frozen=True, slots=True)
class ArrowSegmentGroups:
    """`port.SegmentGroups` as columns."""

    spark: SparkSession
    groups: pa.Table
    staging: Location  #: directory in which the day's tables are made

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""
        key, rows = ("segment", "block_start"), (("first_row", "min"), ("last_row", "max"))
        blocks = _summed(self.groups, key, ["lines", "bytes"], rows).sort_by([(name, "ascending") for name in key])
        counts = []
        for segment, several in itertools.groupby(_tuples(blocks), key=lambda block: block[0]):
            _, starts, lines, sizes, first_rows, last_rows = zip(*several, strict=True)
            first, last = (starts[0], first_rows[0]), (starts[-1], last_rows[-1])
            counts.append(SegmentCount(segment, sum(lines), sum(sizes), first, last))
        return counts

    def assign(self, assignment: Assignment) -> "ArrowFileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""
        logs, groups = _assigned(self.groups, assignment)
        return ArrowFileGroups(self.spark, logs, groups, assignment, self.staging)


@dataclass(frozen=True)
class ArrowFileGroups:
    """`port.FileGroups` as columns; times are in seconds since 1970."""

    spark: SparkSession
    logs: Sequence[LogFile]  #: sorted
    groups: pa.Table  #: see `_assigned`
    assignment: Assignment
    staging: Location

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        hours = self._hours
        columns = {name: hours[name] for name in hours.column_names}
        columns |= {name: file_column(hours["log"], self.logs, part) for part, name in enumerate(FILE)}
        columns |= {name: pc.multiply(hours[name], _MICRO) for name in ("hour", "first_ts", "last_ts")}
        columns["level"] = pc.take(LEVELS, hours["level"])
        parquet.write_table(self.staging / "hourly" / SMALL, schemas.HOURLY, pa.table(columns))

    @cached_property
    def _hours(self) -> pa.Table:
        """The rows of table `hourly`, by log file, hour (unknown first) and level; `log` is the index in `logs`."""
        counted = _with_time_counts(self.groups, _seconds_of(timestamps.midnight(self.assignment.day)))
        number = {log: n for n, log in enumerate(self.logs)}
        defaults = dict.fromkeys(port.HOURLY_SUMS, 0) | {"level": _LEVELS.index("none"), "fingerprint": 0}
        empty = [
            defaults | {"log": number[one[:3]], "hour": one.stored_hour, "bytes": one.bytes}
            for one in self.assignment.empty
        ]
        rows = pa.concat_tables([counted, pa.Table.from_pylist(empty, counted.schema)])
        # one number is grouped and sorted in a fraction of the time of three columns
        packed = rows.drop_columns(list(_CELL)).append_column("cell", _packed(rows, "level", LEVEL_BITS))
        sums = _summed(packed, ("cell", "fingerprint"), port.HOURLY_SUMS, port.TIMES)
        return _with_unpacked_cell(sums.take(pc.sort_indices(sums["cell"])))

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        hours, cells = self._hours, _cells(self._hours)
        level, lines = hours["level"], hours["lines"]
        table = (
            hours.append_column("err", pc.if_else(pc.is_in(level, _ERRORS), lines, _ZERO))
            .append_column("warn", pc.if_else(pc.equal(level, _LEVELS.index("warn")), lines, _ZERO))
            .set_column(hours.column_names.index("lines"), "lines", pc.subtract(lines, hours["unfinished"]))
        )
        sums = _summed(table, ["log"], SUMMED, port.TIMES)
        columns = {name: sums[name] for name in sums.column_names}
        columns |= {name: pc.multiply(sums[name], _MICRO) for name, _ in port.TIMES}
        files = _tuples(pa.table(columns))
        return [FileSums._make([*self.logs[log], *counted, cells.get(log, [])]) for log, *counted in files]

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        known = self.groups.filter(pc.is_valid(self.groups["text"]))
        sums = _summed(known, ["fingerprint", "text"], ["lines"])
        sums = sums.set_column(1, "text", sums["text"].cast(pa.string()))
        ordered = sums.sort_by([("lines", "descending"), ("text", "ascending")]).slice(0, MAX_DISTINCT)
        return list(_tuples(ordered, ("fingerprint", "text", "lines")))

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:
        """One for each pattern and level."""
        patterns = {row["fingerprint"]: row["pattern_id"] for row in fingerprints}
        ids = list(dict.fromkeys([*patterns.values(), REST.id]))
        by_log = _summed(_pattern_lines(self._hours, ids, patterns), ["key", "log"], ["lines"])
        hosts = Counter(key for key, *_ in _sums_by_name(by_log, [host for _, host, _ in self.logs]))
        files: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for key, file, lines in _sums_by_name(by_log, [file for _, _, file in self.logs]):
            files[key].append((lines, file))
        return [
            PatternLines(
                ids[key >> LEVEL_BITS],
                _LEVELS[key & LEVEL_MASK],
                sum(lines for lines, _ in of_file),
                hosts[key],
                len(of_file),
                [file for _, file in sorted(of_file, reverse=True)[:FILES_SHOWN]],
            )
            for key, of_file in files.items()
        ]

    def places_of(self, fingerprints: Collection[int]) -> list[PatternPlace]:
        """One for each of `fingerprints`, level and log file."""
        wanted = pc.is_in(self._hours["fingerprint"], pa.array(sorted(fingerprints), pa.int64()))
        key = ("fingerprint", "level", "log")
        sums = _summed(self._hours.filter(wanted), key, ["lines"], port.TIMES)
        return [
            PatternPlace(fingerprint, _LEVELS[level], *self.logs[log], *others)
            for fingerprint, level, log, *others in _tuples(sums)
        ]

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        wanted = pc.is_in(self.groups["fingerprint"], pa.array(sorted(fingerprints), pa.int64()))
        rows = self.groups.filter(pc.and_(wanted, pc.is_valid(self.groups["text"])))
        sums = _summed(rows, ["fingerprint", "segment"], ["lines"])
        ascending = sums.sort_by([("lines", "ascending"), ("segment", "descending")])  # a dict keeps the last of equals
        return dict(_tuples(ascending, ("fingerprint", "segment")))

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of lines of each of `wanted`."""
        block = pc.add(pc.shift_left(self.groups["segment"].cast(pa.int64()), _BLOCK_BITS), self.groups["block_start"])
        groups = self.groups.append_column("block", block)
        blocks = _summed(groups, ["block"], [], [("first_row", "min")]).sort_by("block")
        places = [divmod(number, 1 << _BLOCK_BITS) for number in blocks["block"].to_pylist()]
        found: dict[RowKey, list[LinePlace]] = {}
        for kind, values in port.values_by_kind(wanted).items():
            rows = _with_position(_rows(groups, self.logs, kind, values), blocks)
            sums = _summed(rows, [*values, "other"], ["lines"], [("position", "min")])
            ordered = sums.sort_by([("lines", "descending"), ("position", "ascending")])
            for *names, position in _tuples(ordered, (*values, "position")):
                key = RowKey(kind, tuple(names))
                if key in wanted and len(found.setdefault(key, [])) < ROW_EXAMPLES:
                    row, number = divmod(position, len(places))
                    found[key].append(LinePlace(row, *places[number]))
        return found

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, passwords by second."""
        groups = self.groups.filter(pc.is_valid(self.groups["auth"]))
        columns = {name: groups[name] for name in ("auth", "user", "remote", "hour", "login_second", "lines")}
        columns |= {name: groups[name] for name, _ in port.TIMES}
        columns |= {name: file_column(groups["log"], self.logs, part) for part, name in enumerate(FILE[:2])}
        columns["attempts"] = pc.multiply(groups["lines"], pc.fill_null(groups["attempts"], 0))
        sums = _summed(pa.table(columns), port.AUTH_KEY, ["lines", "attempts"], port.TIMES)
        return [AuthCount(*row) for row in _tuples(sums, AuthCount._fields)]

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""
        groups = self.groups.filter(pc.is_valid(self.groups["status"]))
        path = self.staging / "access_hourly" / SMALL
        if not groups.num_rows:
            parquet.write(path, schemas.ACCESS_HOURLY, [])
            return WebAggregates([], [], WebSums())
        sums, requests = _request_sums(groups)
        clients, latencies, distinct_clients = _sketches(self.spark, requests, self.staging / "requests")
        timed = requests.filter(pc.is_valid(requests["latency"]))
        steps = dict(_tuples(_summed(timed, ["latency"], ["lines"])))
        web_sums = WebSums(distinct_clients, *web_requests.latencies(steps))
        columns = {name: sums[name] for name in ("status", "status_class", "requests", "bytes")}
        columns |= {name: file_column(sums["log"], self.logs, part) for part, name in enumerate(FILE)}
        columns |= {"hour": pc.multiply(sums["hour"], _MICRO), "clients_hll": clients, "latency_kll": latencies}
        parquet.write_table(path, schemas.ACCESS_HOURLY, pa.table(columns))
        hours = _summed(sums, ["hour", "status_class"], ["requests", "bytes"])
        return WebAggregates(_web_keys(groups), port.web_hours(_tuples(hours)), web_sums)


def _summed(
    table: pa.Table, keys: Sequence[str], sums: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> pa.Table:
    """One row for each value of `keys`: the `sums` of its rows, and `others` by (column, function)."""
    functions = [*((name, "sum") for name in sums), *others]
    aggregated = table.group_by(list(keys), use_threads=False).aggregate(functions)
    return aggregated.rename_columns([*keys, *(name for name, _ in functions)])


def _tuples(table: pa.Table, names: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
    """The rows of `table` as tuples of the columns `names`, or of all."""
    return zip(*(table[name].to_pylist() for name in names or table.column_names), strict=True)


# -- groups of log files and hours -------------------------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_SECONDS = 24 * 3600
_SLACK_SECONDS = 47 * 3600
"""Seconds from the start of the day to the latest valid time of a line: a day of slack (`timestamps.resolve_year`)."""

_KEPT = (
    "segment", "block_start", "first_row", "fingerprint", "text", "lines", "auth", "user", "remote", "attempts",
    "login_second", "status", "path", "latency", "sent",
)  # fmt: skip
"""Columns of the scan that are kept unchanged."""

_CORRECTIONS = pa.schema([(name, pa.int64() if name != "segment" else pa.int32()) for name in Correction._fields])

_CHUNK_ROWS = 2**31 // 4096
"""Maximum rows of a column of names in one chunk: Arrow counts its bytes in 31 bits, and a path has up to 4,096."""


def _assigned(groups: pa.Table, assignment: Assignment) -> tuple[Sequence[LogFile], pa.Table]:
    """The log files, sorted, and `groups` of the scan (`line_scan.classify_groups`) with their log files and hours.

    The groups have `log`, the index of the log file; `level`, the index in `LEVELS`; `hour` with the year resolved;
    `bytes` as `wc` counts them; `is_dated`; `is_continuation`: without a time in a file whose other lines have one;
    `unfinished`; `first_ts` and `last_ts`.
    """
    origins, day = assignment.origins, assignment.day
    logs = sorted({origin[1:4] for origin in origins} | {empty[:3] for empty in assignment.empty})
    number = {log: n for n, log in enumerate(logs)}

    def of_segment(values: Sequence[Any], kind: pa.DataType) -> pa.ChunkedArray:
        """The value of each group's segment; `values` are those of the segments by their numbers."""
        return pc.take(pa.array(values, kind), groups["segment"])

    dated = resolve_year(pc.multiply(groups["hour"], timestamps.HOUR_SECONDS), day)
    is_dated = pc.is_valid(dated)
    has_times = of_segment([origin.family != NONE for origin in origins], pa.bool_())
    unterminated, bom_bytes = _corrections(groups, assignment.corrections)
    columns = {
        "log": of_segment([number[origin[1:4]] for origin in origins], pa.int32()),
        "hour": pc.coalesce(dated, of_segment([origin.stored_hour for origin in origins], pa.int64())),
        "is_dated": is_dated,
        "is_continuation": pc.and_not(has_times, is_dated),
        "level": pc.index_in(groups["level"], LEVELS).cast(pa.int8()),
        "bytes": pc.add(pc.subtract(groups["bytes"], unterminated), bom_bytes),
        "unfinished": unterminated,
        "first_ts": pc.if_else(is_dated, resolve_year(groups["first_second"], day), NULL_INT),
        "last_ts": pc.if_else(is_dated, resolve_year(groups["last_second"], day), NULL_INT),
    }
    return logs, pa.table({name: groups[name] for name in _KEPT} | columns)


def file_column(log: pa.ChunkedArray, logs: Sequence[LogFile], part: int) -> pa.ChunkedArray:
    """One part of each log file by the file's index: 0 is the partition, 1 the host, 2 the file."""
    parts = pa.array([one[part] for one in logs], pa.string() if part else pa.int32())
    chunks = [chunk.slice(start, _CHUNK_ROWS) for chunk in log.chunks for start in range(0, len(chunk), _CHUNK_ROWS)]
    return pc.take(parts, pa.chunked_array(chunks, log.type))


def _corrections(groups: pa.Table, corrections: Sequence[Correction]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Unterminated lines of each group (a line has a byte too many), and bytes of a byte order mark that it lacks."""
    known = pa.Table.from_pylist([one._asdict() for one in corrections], _CORRECTIONS)
    index = pc.index_in(groups["segment"], known["segment"].combine_chunks())

    def of_row(row: str, other_block: str, other_row: str, name: str) -> pa.ChunkedArray:
        """Column `name` of the correction of the group that has its row, 0 of other groups."""
        is_block = pc.equal(groups["block_start"], pc.take(known[other_block], index))
        has_row = pc.and_(is_block, pc.equal(groups[row], pc.take(known[other_row], index)))
        return pc.if_else(pc.fill_null(has_row, False), pc.take(known[name], index), _ZERO)

    return (
        of_row("last_row", "end_block", "end_row", "unterminated"),
        of_row("first_row", "head_block", "head_row", "bom_bytes"),
    )


def resolve_year(second: pa.ChunkedArray, day: dt.date) -> pa.ChunkedArray:
    """`timestamps.resolve_year` for columns: the second with its year; null where the time is not valid."""
    latest = _seconds_of(timestamps.midnight(day)) + _SLACK_SECONDS
    known = pc.if_else(pc.greater_equal(second, 0), second, NULL_INT)
    is_yearless = pc.and_(pc.greater_equal(known, PLACEHOLDER_START), pc.less(known, PLACEHOLDER_END))
    if pc.any(is_yearless).as_py():
        number = pc.divide(pc.subtract(pc.if_else(is_yearless, known, NULL_INT), PLACEHOLDER_START), _DAY_SECONDS)
        this_year = pc.add(known, pc.take(_shifts(day.year), number))
        last_year = pc.add(known, pc.take(_shifts(day.year - 1), number))
        dated = pc.if_else(pc.less_equal(this_year, latest), this_year, last_year)
        known = pc.if_else(is_yearless, dated, known)
    return pc.if_else(pc.less_equal(known, latest), known, NULL_INT)


def _seconds_of(time: dt.datetime) -> int:
    return (time - _EPOCH) // dt.timedelta(seconds=1)


def _shifts(year: int) -> pa.Array:
    """For each day of `PLACEHOLDER_YEAR` the seconds from there to the same day of `year`."""
    days = range(PLACEHOLDER_START, PLACEHOLDER_END, _DAY_SECONDS)
    return pa.array([in_year(second, year) - second for second in days], pa.int64())


# -- table `hourly` and its sums -----------------------------------------------------------------------------------


def _with_time_counts(groups: pa.Table, midnight_second: int) -> pa.Table:
    """The keys and sums of table `hourly`; `midnight_second` is the day's first, in seconds since 1970."""
    lines, is_dated = groups["lines"], groups["is_dated"]
    is_late = pc.and_kleene(is_dated, pc.less(groups["hour"], midnight_second))
    return (
        groups.select([*_CELL, "fingerprint", "lines", "unfinished", "bytes", "first_ts", "last_ts"])
        .append_column("late_lines", pc.if_else(is_late, lines, _ZERO))
        .append_column("no_ts_lines", pc.if_else(is_dated, _ZERO, lines))
        .append_column("continuation_lines", pc.if_else(groups["is_continuation"], lines, _ZERO))
    )


def _packed(table: pa.Table, name: str, bits: int) -> pa.ChunkedArray:
    """Columns `log`, `hour` and `name`, which takes `bits`, as one number in their order, an unknown hour first."""
    hour = pc.fill_null(pc.add(pc.divide(table["hour"], timestamps.HOUR_SECONDS), 1), 0)
    above = pc.add(pc.shift_left(table["log"].cast(pa.int64()), _HOUR_BITS), hour)
    return pc.add(pc.shift_left(above, bits), table[name].cast(pa.int64()))


def _with_unpacked_cell(sums: pa.Table) -> pa.Table:
    """`sums` with the columns `_CELL` of its `cell`."""
    above = pc.shift_right(sums["cell"], LEVEL_BITS)
    hour = pc.bit_wise_and(above, (1 << _HOUR_BITS) - 1)
    second = pc.multiply(pc.subtract(hour, 1), timestamps.HOUR_SECONDS)
    return (
        sums.append_column("log", pc.shift_right(above, _HOUR_BITS).cast(pa.int32()))
        .append_column("hour", pc.if_else(pc.equal(hour, 0), NULL_INT, second))
        .append_column("level", pc.bit_wise_and(sums["cell"], LEVEL_MASK).cast(pa.int8()))
    )


def _cells(hours: pa.Table) -> dict[int, list[int]]:
    """The cells (`FileSums.cells`) of each log file, without those of an unknown hour."""
    known = hours.filter(pc.is_valid(hours["hour"]))
    sums = _summed(known, _CELL, ["lines"])
    hour = pc.shift_left(pc.divide(sums["hour"], timestamps.HOUR_SECONDS), LEVEL_BITS)
    key = pc.shift_left(pc.add(hour, pc.take(_SEVERITY, sums["level"])), LINES_BITS)
    cells = pa.table({"log": sums["log"], "cell": pc.add(key, sums["lines"])})
    return dict(_tuples(_summed(cells, ["log"], [], [("cell", "list")]), ("log", "cell")))


# -- patterns ------------------------------------------------------------------------------------------------------


def _pattern_lines(hours: pa.Table, ids: Sequence[str], patterns: Mapping[int, str]) -> pa.Table:
    """(key, log, lines) of lines that have a pattern; `key` packs its index in `ids` and the index of its level."""
    known = hours.filter(pc.not_equal(hours["fingerprint"], 0))
    index = {pattern_id: n for n, pattern_id in enumerate(ids)}
    indices = pa.array([index[pattern_id] for pattern_id in patterns.values()], pa.int64())
    pattern = pc.take(indices, pc.index_in(known["fingerprint"], pa.array(patterns, pa.int64())))
    above = pc.shift_left(pc.fill_null(pattern, index[REST.id]), LEVEL_BITS)
    return known.select(["log", "lines"]).append_column("key", pc.add(above, known["level"].cast(pa.int64())))


def _sums_by_name(by_log: pa.Table, names: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """(key, name, lines), where `names` has the name of each log file."""
    encoded = pa.array(names).dictionary_encode()
    sums = _summed(by_log.append_column("name", pc.take(encoded.indices, by_log["log"])), ["key", "name"], ["lines"])
    distinct = encoded.dictionary.to_pylist()
    return ((key, distinct[name], lines) for key, name, lines in _tuples(sums))


# -- example lines -----------------------------------------------------------------------------------------------------


def _rows(groups: pa.Table, logs: Sequence[LogFile], kind: str, values: Mapping[str, Collection[str]]) -> pa.Table:
    """The groups that have lines of that kind of row, and one of `values` in each of its columns."""
    groups = groups.filter(_condition(kind, groups))
    if "host" in values:
        numbers = [number for number, (_, host, _) in enumerate(logs) if host in values["host"]]
        groups = groups.filter(pc.is_in(groups["log"], pa.array(numbers, pa.int32())))
    columns = {name: groups[name] for name in ("block", "first_row", "lines")}
    for name in values:
        of_log = name in FILE
        columns[name] = file_column(groups["log"], logs, FILE.index(name)) if of_log else groups[name].cast(pa.string())
    rows = pa.table(columns | {"other": groups[ROW_KINDS[kind][1]].cast(pa.string())})
    for name, known in values.items():
        rows = rows.filter(pc.is_in(rows[name], pa.array(sorted(known), pa.string())))
    return rows


def _condition(kind: str, groups: pa.Table) -> pa.ChunkedArray:
    """Whether a group has lines of that kind of row."""
    if one := REQUEST_KINDS.get(kind):
        number = groups[one.number]
        return pc.and_(pc.greater_equal(number, one.least), pc.less_equal(number, one.most))
    if kind in AUTH_KINDS:
        known = [text for text in pc.unique(groups["auth"]).to_pylist() if text]
        texts = [text for text in known if text.partition(" ")[0] in AUTH_KINDS[kind]]
        return pc.is_in(groups["auth"].cast(pa.string()), pa.array(texts, pa.string()))
    return pc.is_in(groups["level"], _ERRORS) if kind == "errors" else pc.greater(groups["lines"], 0)


def _with_position(rows: pa.Table, blocks: pa.Table) -> pa.Table:
    """`rows` with the number of the row in its block and of the block in `blocks`, as one number in this order."""
    block = pc.index_in(rows["block"], blocks["block"].combine_chunks()).cast(pa.int64())
    row = pc.subtract(rows["first_row"], pc.take(blocks["first_row"], block))
    return rows.append_column("position", pc.add(pc.multiply(row, blocks.num_rows), block))


# -- web requests ------------------------------------------------------------------------------------------------------


def _request_sums(groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Sums by log file, hour and status, in this order; and each group with its row's number there (`key`).

    The groups are (key, remote, latency, lines), for `_sketches`.
    """
    counted = groups.select(["log", "hour", "status"]).append_column("requests", groups["lines"])
    counted = counted.append_column("bytes", pc.fill_null(groups["sent"], 0))
    sums = _summed(counted, ["log", "hour", "status"], ["requests", "bytes"])
    sums = sums.take(pc.sort_indices(_packed(sums, "status", _STATUS_BITS)))
    first = pc.utf8_slice_codeunits(sums["status"].cast(pa.string()), 0, 1)
    rows = _packed(sums, "status", _STATUS_BITS).combine_chunks()
    number = pc.index_in(_packed(groups, "status", _STATUS_BITS), rows).cast(pa.int32())
    requests = groups.select(["remote", "latency", "lines"]).append_column("key", number)
    return sums.append_column("status_class", pc.binary_join_element_wise(first, "xx", "")), requests


def _sketches(spark: SparkSession, requests: pa.Table, scratch: Location) -> tuple[pa.Array, pa.Array, int | None]:
    """The sketches of clients and latencies by key, made by Spark in one query, and the distinct clients of all.

    `requests` are groups: key, client, step of the latency, number of lines. `scratch` is a directory that both use.
    """
    file = scratch / SMALL
    parquet.write_table(file, _REQUESTS, requests)
    try:
        sketched = web_requests.sketched(spark.read.schema(_REQUESTS).parquet(locations.for_spark(file)), "key")
        with tuning.query_of(spark, pc.sum(requests["lines"]).as_py()):  # each line is a row of the query
            rows = sketched.unionByName(web_requests.distinct_clients(sketched), allowMissingColumns=True).collect()
    finally:
        locations.remove(scratch)
    sums = next(row for row in rows if row["key"] is None)
    by_key = sorted((row for row in rows if row["key"] is not None), key=lambda row: row["key"])
    clients, latencies = (
        pa.array([row[name] for row in by_key], pa.binary()) for name in ("clients_hll", "latency_kll")
    )
    return clients, latencies, sums["clients"]


def _web_keys(groups: pa.Table) -> list[tuple[str, str, int]]:
    """(kind, key, lines), most first: for `web_requests.top_keys`."""
    parts = []
    for kind, one in REQUEST_KINDS.items():
        known = groups.filter(pc.and_(_condition(kind, groups), pc.is_valid(groups[one.key])))
        sums = _summed(known, [one.key], ["lines"])
        kinds = pa.array([kind] * sums.num_rows, pa.string())
        parts.append(pa.table({"kind": kinds, "key": sums[one.key].cast(pa.string()), "lines": sums["lines"]}))
    order = [("lines", "descending"), ("kind", "ascending"), ("key", "ascending")]
    most = pa.concat_tables(parts).sort_by(order).slice(0, web_requests.MAX_KEYS)
    return list(_tuples(most))
