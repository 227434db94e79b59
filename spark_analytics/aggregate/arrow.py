"""The Arrow adapter of the aggregation port: groups are columns in the driver, tables are sums of them.

It serves days whose groups fit into memory. A day of some gigabytes has some million groups; planning one Spark query
takes longer than adding them up here. Spark makes only the sketches of requests, whose format is Spark's own.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_analytics.aggregate import port
from spark_analytics.aggregate.arrow_assign import LEVELS, NULL_INT, AssignedGroups, assign, file_column, seconds_of
from spark_analytics.aggregate.port import Assignment, EmptySegment, LinePlace, WebAggregates
from spark_analytics.lines import timestamps
from spark_analytics.metrics import sign_ins, web_requests
from spark_analytics.metrics.pattern_tables import FILES_SHOWN, PatternLines
from spark_analytics.metrics.segment_audit import SegmentCount
from spark_analytics.metrics.volumes import LEVEL_BITS, LEVEL_MASK, LINES_BITS, SUMMED, FileSums, LogFile
from spark_analytics.patterns.cluster import MAX_DISTINCT, REST
from spark_analytics.runtime import tuning
from spark_analytics.storage import locations
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.day_tables import ROW_EXAMPLES, ROW_KINDS, AuthCount, Row, RowKey, WebSums
from spark_analytics.tables.store import SMALL, Tables

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

_MICRO = 10**6
_LEVELS = LEVELS.to_pylist()
_ERRORS = pa.array([LEVELS.index(level).as_py() for level in ("fatal", "error")], pa.int8())
_WARN = LEVELS.index("warn").as_py()
_NO_LEVEL = LEVELS.index("none").as_py()
_SEVERITY = pa.array([schemas.LEVELS.index(level) for level in _LEVELS], pa.int64())

_CELL = ("log", "hour", "level")
_HOURLY_KEY = ("cell", "fingerprint")
_HOURLY_SUMS = ("lines", "unfinished", "bytes", "late_lines", "no_ts_lines", "continuation_lines")
_TIMES = (("first_ts", "min"), ("last_ts", "max"))
_HOUR_BITS = 30
_STATUS_BITS = 10
_ACCESS_KEY = ["log", "hour", "status"]


def max_groups() -> int:
    """Maximum number of groups that may be held as columns with the memory that is available now."""
    return min(MAX_GROUPS, tuning.available_bytes() // (MEMORY_RESERVE * GROUP_BYTES))


def read_groups(directory: Location) -> pa.Table | None:
    """The groups that Spark wrote to `directory`; None if they are more than `max_groups` or `MAX_BYTES`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    if parquet.stored_bytes(directory) > MAX_BYTES:
        return None
    parts = parquet.files(directory, repeated=REPEATED)
    rows = sum(part.metadata.num_rows for part in parts)
    if rows > max_groups() or parquet.unpacked_bytes(parts) > MAX_BYTES:
        return None
    return parquet.concatenated(parts)


@dataclass(frozen=True, slots=True)
class ArrowSegmentGroups:
    """`port.SegmentGroups` as columns."""

    spark: SparkSession
    groups: pa.Table
    tables: Tables
    date: str

    def by_segment(self) -> list[SegmentCount]:
        """One for each segment that has a row."""
        sums = _summed(self.groups, ["segment"], ["lines", "bytes"])
        first = self._positions("min", "first_row")
        last = self._positions("max", "last_row")
        return [
            SegmentCount(row["segment"], row["lines"], row["bytes"], first[row["segment"]], last[row["segment"]])
            for row in sums.to_pylist()
        ]

    def _positions(self, function: str, row: str) -> dict[int, tuple[int, int]]:
        """The position of each segment's first or last row."""
        block = _summed(self.groups, ["segment"], [], [("block_start", function)])
        edge = pc.take(block["block_start"], pc.index_in(self.groups["segment"], block["segment"].combine_chunks()))
        in_block = self.groups.filter(pc.equal(self.groups["block_start"], edge))
        found = _summed(in_block, ["segment", "block_start"], [], [(row, function)])
        return {segment: (start, number) for segment, start, number in _tuples(found, found.column_names)}

    def assign(self, assignment: Assignment) -> "ArrowFileGroups":
        """The same groups by log file and hour, with bytes as `wc` counts them."""
        return ArrowFileGroups(self.spark, assign(self.groups, assignment), assignment, self.tables.staging(self.date))


@dataclass(frozen=True)
class ArrowFileGroups:
    """`port.FileGroups` as columns; `staging` is the directory in which the day's tables are made."""

    spark: SparkSession
    assigned: AssignedGroups
    assignment: Assignment
    staging: Location

    @cached_property
    def _hours(self) -> pa.Table:
        return hourly(self.assigned, self.assignment.empty, seconds_of(timestamps.midnight(self.assignment.day)))

    def write_hourly(self) -> None:
        """Stages table `hourly`."""
        table = _hourly_table(self._hours, self.assigned.logs)
        parquet.write_table(self.staging / "hourly" / SMALL, schemas.HOURLY, table)

    def by_file(self) -> list[FileSums]:
        """One for each log file of table `hourly`."""
        return _by_file(self._hours, self.assigned.logs)

    def texts(self) -> list[tuple[int, str, int]]:
        """(fingerprint, text, lines) of the masked lines with the most lines."""
        return _texts(self.assigned.groups)

    def by_pattern(self, fingerprints: Sequence[Row]) -> list[PatternLines]:
        """One for each pattern and level."""
        patterns = {row["fingerprint"]: row["pattern_id"] for row in fingerprints}
        return _by_pattern(self._hours, self.assigned.logs, patterns)

    def segments_of(self, fingerprints: Collection[int]) -> dict[int, int]:
        """For each of `fingerprints` the segment with most of its lines."""
        return _segments_of(self.assigned.groups, fingerprints)

    def first_rows(self, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
        """Places of lines of each of `wanted`."""
        return _first_rows(self.assigned, wanted)

    def auth_counts(self) -> list[AuthCount]:
        """Authentication events by hour, passwords by second."""
        groups, logs = self.assigned.groups, self.assigned.logs
        groups = groups.filter(pc.is_valid(groups["auth"]))
        columns = {
            "partition": file_column(groups["log"], logs, 0),
            "host": file_column(groups["log"], logs, 1),
            **{name: groups[name] for name in ("auth", "user", "remote", "hour", "login_second")},
            **{name: groups[name] for name in ("lines", "first_ts", "last_ts")},
            "attempts": pc.multiply(groups["lines"], pc.fill_null(groups["attempts"], 0)),
        }
        key = ["partition", "host", "auth", "user", "remote", "hour", "login_second"]
        sums = _summed(pa.table(columns), key, ["lines", "attempts"], _TIMES)
        names = ("partition", "host", "auth", "user", "remote", "lines", "attempts", "first_ts", "last_ts")
        return [AuthCount(*row) for row in _tuples(sums, names)]

    def write_access_hourly(self) -> WebAggregates:
        """Stages table `access_hourly`."""
        groups = self.assigned.groups.filter(pc.is_valid(self.assigned.groups["status"]))
        path = self.staging / "access_hourly" / SMALL
        if not groups.num_rows:
            parquet.write(path, schemas.ACCESS_HOURLY, [])
            return WebAggregates([], [], WebSums())
        sums, requests = _request_sums(groups)
        sketches, web_sums = _sketches(self.spark, requests, self.staging / "requests")
        logs = self.assigned.logs
        rows = [_access_row(logs[row["log"]], row, *sketches[number]) for number, row in enumerate(sums.to_pylist())]
        parquet.write(path, schemas.ACCESS_HOURLY, rows)
        return WebAggregates(_web_keys(groups), port.web_hours(_web_hours(sums)), web_sums)


def _summed(
    table: pa.Table, keys: Sequence[str], sums: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> pa.Table:
    """One row for each value of `keys`: the `sums` of its rows, and `others` by (column, function)."""
    functions = [*((name, "sum") for name in sums), *others]
    aggregated = table.group_by(list(keys), use_threads=False).aggregate(functions)
    return aggregated.rename_columns([*keys, *(name for name, _ in functions)])


def _tuples(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of `table` as tuples of the columns `names`."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


# -- table `hourly` and its sums -----------------------------------------------------------------------------------


def hourly(assigned: AssignedGroups, empty: Sequence[EmptySegment], midnight_second: int) -> pa.Table:
    """The rows of table `hourly`, by log file, hour (unknown first) and level; `log` is the index in `assigned.logs`.

    `midnight_second` is the day's first; times are in seconds since 1970.
    """
    counted = _with_time_counts(assigned.groups, midnight_second)
    number = {log: n for n, log in enumerate(assigned.logs)}
    without_lines = pa.Table.from_pylist([_without_lines(number[one[:3]], one) for one in empty], counted.schema)
    sums = _summed(_with_cell(pa.concat_tables([counted, without_lines])), _HOURLY_KEY, _HOURLY_SUMS, _TIMES)
    return _without_cell(sums.take(pc.sort_indices(sums["cell"])))


def _with_time_counts(groups: pa.Table, midnight_second: int) -> pa.Table:
    lines, is_dated, none = groups["lines"], groups["is_dated"], pa.scalar(0, pa.int64())
    is_late = pc.and_kleene(is_dated, pc.less(groups["hour"], midnight_second))
    return (
        groups.select([*_CELL, "fingerprint", "lines", "unfinished", "bytes", "first_ts", "last_ts"])
        .append_column("late_lines", pc.if_else(is_late, lines, none))
        .append_column("no_ts_lines", pc.if_else(is_dated, none, lines))
        .append_column("continuation_lines", pc.if_else(groups["is_continuation"], lines, none))
    )


def _without_lines(log: int, empty: EmptySegment) -> dict[str, Any]:
    keys = {"log": log, "hour": empty.stored_hour, "level": _NO_LEVEL, "fingerprint": 0}
    return keys | dict.fromkeys(_HOURLY_SUMS, 0) | {"bytes": empty.bytes}


def _with_cell(counted: pa.Table) -> pa.Table:
    """`_CELL` as one number, in the same order: it is grouped and sorted in a fraction of the time."""
    return counted.drop_columns(list(_CELL)).append_column("cell", _packed(counted, "level", LEVEL_BITS))


def _without_cell(sums: pa.Table) -> pa.Table:
    """The reverse of `_with_cell`."""
    above = pc.shift_right(sums["cell"], LEVEL_BITS)
    hour = pc.bit_wise_and(above, (1 << _HOUR_BITS) - 1)
    second = pc.multiply(pc.subtract(hour, 1), timestamps.HOUR_SECONDS)
    columns = {
        "log": pc.shift_right(above, _HOUR_BITS).cast(pa.int32()),
        "hour": pc.if_else(pc.equal(hour, 0), NULL_INT, second),
        "level": pc.bit_wise_and(sums["cell"], LEVEL_MASK).cast(pa.int8()),
    }
    for name, column in columns.items():
        sums = sums.append_column(name, column)
    return sums.drop_columns(["cell"])


def _packed(table: pa.Table, name: str, bits: int) -> pa.ChunkedArray:
    """Columns `log`, `hour` and `name`, which takes `bits`, as one number in their order, an unknown hour first."""
    hour = pc.fill_null(pc.add(pc.divide(table["hour"], timestamps.HOUR_SECONDS), 1), 0)
    above = pc.add(pc.shift_left(table["log"].cast(pa.int64()), _HOUR_BITS), hour)
    return pc.add(pc.shift_left(above, bits), table[name].cast(pa.int64()))


def _hourly_table(hours: pa.Table, logs: Sequence[LogFile]) -> pa.Table:
    """Table `hourly` with the columns and types of its schema."""
    columns = {name: file_column(hours["log"], logs, part) for part, name in enumerate(schemas.FILE)}
    columns |= {name: pc.multiply(hours[name], _MICRO) for name in ("hour", "first_ts", "last_ts")}
    columns["level"] = pc.take(LEVELS, hours["level"])
    return pa.table({name: columns[name] if name in columns else hours[name] for name in schemas.HOURLY.names})


def _by_file(hours: pa.Table, logs: Sequence[LogFile]) -> list[FileSums]:
    cells = _cells(hours)
    level, lines, none = hours["level"], hours["lines"], pa.scalar(0, pa.int64())
    terminated = pc.subtract(lines, hours["unfinished"])
    table = (
        hours.append_column("err", pc.if_else(pc.is_in(level, _ERRORS), lines, none))
        .append_column("warn", pc.if_else(pc.equal(level, _WARN), lines, none))
        .set_column(hours.column_names.index("lines"), "lines", terminated)
    )
    rows = _summed(table, ["log"], SUMMED, _TIMES).to_pylist()
    return [_file_sums(logs[row["log"]], row, cells.get(row["log"], [])) for row in rows]


def _file_sums(log: LogFile, row: dict[str, Any], cells: Sequence[int]) -> FileSums:
    first, last = (None if row[name] is None else row[name] * _MICRO for name in ("first_ts", "last_ts"))
    sums = {name: row[name] for name in SUMMED}
    return FileSums(*log, **sums, first_us=first, last_us=last, cells=cells)


def _cells(hours: pa.Table) -> dict[int, list[int]]:
    """The cells (`FileSums.cells`) of each log file, without those of an unknown hour."""
    known = hours.filter(pc.is_valid(hours["hour"]))
    sums = _summed(known, ["log", "hour", "level"], ["lines"])
    hour = pc.shift_left(pc.divide(sums["hour"], timestamps.HOUR_SECONDS), LEVEL_BITS)
    key = pc.shift_left(pc.add(hour, pc.take(_SEVERITY, sums["level"])), LINES_BITS)
    cells = pa.table({"log": sums["log"], "cell": pc.add(key, sums["lines"])})
    lists = cells.group_by("log", use_threads=False).aggregate([("cell", "list")])
    return dict(zip(lists["log"].to_pylist(), lists["cell_list"].to_pylist(), strict=True))


# -- patterns ------------------------------------------------------------------------------------------------------


def _texts(groups: pa.Table) -> list[tuple[int, str, int]]:
    sums = _summed(groups.filter(pc.is_valid(groups["text"])), ["fingerprint", "text"], ["lines"])
    sums = sums.set_column(1, "text", sums["text"].cast(pa.string()))
    ordered = sums.sort_by([("lines", "descending"), ("text", "ascending")]).slice(0, MAX_DISTINCT)
    return list(_tuples(ordered, ("fingerprint", "text", "lines")))


def _by_pattern(hours: pa.Table, logs: Sequence[LogFile], patterns: Mapping[int, str]) -> list[PatternLines]:
    """`patterns` has the pattern id of each fingerprint."""
    ids = list(dict.fromkeys([*patterns.values(), REST.id]))
    by_log = _summed(_pattern_lines(hours, ids, patterns), ["key", "log"], ["lines"])
    by_host = _sums_by_name(by_log, [host for _, host, _ in logs])
    by_path = _sums_by_name(by_log, [file for _, _, file in logs])
    hosts = Counter(key for key, _ in _tuples(by_host, ("key", "name")))
    files: dict[int, dict[str, int]] = defaultdict(dict)
    for key, file, lines in _tuples(by_path, ("key", "name", "lines")):
        files[key][file] = lines
    return [
        _pattern(ids[key >> LEVEL_BITS], _LEVELS[key & LEVEL_MASK], of_file, hosts[key])
        for key, of_file in files.items()
    ]


def _pattern_lines(hours: pa.Table, ids: Sequence[str], patterns: Mapping[int, str]) -> pa.Table:
    """(key, log, lines) of lines that have a pattern; `key` packs its index in `ids` and the index of its level."""
    known = hours.filter(pc.not_equal(hours["fingerprint"], 0))
    index = {pattern_id: n for n, pattern_id in enumerate(ids)}
    indices = pa.array([index[pattern_id] for pattern_id in patterns.values()], pa.int64())
    pattern = pc.take(indices, pc.index_in(known["fingerprint"], pa.array(patterns, pa.int64())))
    above = pc.shift_left(pc.fill_null(pattern, index[REST.id]), LEVEL_BITS)
    return known.select(["log", "lines"]).append_column("key", pc.add(above, known["level"].cast(pa.int64())))


def _sums_by_name(by_log: pa.Table, names: Sequence[str]) -> pa.Table:
    """(key, name, lines), where `names` has the name of each log file."""
    encoded = pa.array(names).dictionary_encode()
    sums = _summed(by_log.append_column("name", pc.take(encoded.indices, by_log["log"])), ["key", "name"], ["lines"])
    return sums.set_column(1, "name", pc.take(encoded.dictionary, sums["name"]))


def _pattern(pattern_id: str, level: str, files: Mapping[str, int], hosts: int) -> PatternLines:
    most = sorted(((lines, file) for file, lines in files.items()), reverse=True)[:FILES_SHOWN]
    return PatternLines(pattern_id, level, sum(files.values()), hosts, len(files), [file for _, file in most])


def _segments_of(groups: pa.Table, fingerprints: Collection[int]) -> dict[int, int]:
    wanted = pc.is_in(groups["fingerprint"], pa.array(sorted(fingerprints), pa.int64()))
    rows = groups.filter(pc.and_(wanted, pc.is_valid(groups["text"])))
    sums = _summed(rows, ["fingerprint", "segment"], ["lines"])
    ascending = sums.sort_by([("lines", "ascending"), ("segment", "descending")])  # a dict keeps the last of equal keys
    return dict(_tuples(ascending, ("fingerprint", "segment")))


# -- web requests --------------------------------------------------------------------------------------------------


def _request_sums(groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Sums by log file, hour and status, in this order; and each group with its row's number there (`key`).

    The groups are (key, client, latency, lines), for `_sketches`.
    """
    sent = groups.set_column(groups.column_names.index("sent"), "sent", pc.fill_null(groups["sent"], 0))
    sums = _summed(sent, _ACCESS_KEY, ["lines", "sent"])
    sums = sums.take(pc.sort_indices(_packed(sums, "status", _STATUS_BITS)))
    rows = _packed(sums, "status", _STATUS_BITS).combine_chunks()
    number = pc.index_in(_packed(groups, "status", _STATUS_BITS), rows).cast(pa.int32())
    columns = {"key": number, "client": groups["remote"], "latency": groups["latency"], "lines": groups["lines"]}
    return sums, pa.table(columns)


def _access_row(log: LogFile, row: dict[str, Any], clients: bytes, latency: bytes | None) -> tuple[Any, ...]:
    time = None if row["hour"] is None else row["hour"] * _MICRO
    status = row["status"]
    return (*log, time, status, _class_of(status), row["lines"], row["sent"], latency, clients)


def _class_of(status: int) -> str:
    return f"{str(status)[0]}xx"


def _web_hours(sums: pa.Table) -> list[tuple[int | None, str, int, int]]:
    """(hour, status class, requests, bytes); the hour in seconds since 1970, unknown first."""
    made: dict[tuple[int | None, str], tuple[int, int]] = {}
    for row in sums.to_pylist():
        key = (row["hour"], _class_of(row["status"]))
        requests, sent = made.get(key, (0, 0))
        made[key] = requests + row["lines"], sent + row["sent"]
    return [(*key, *made[key]) for key in sorted(made, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))]


def _web_keys(groups: pa.Table) -> list[tuple[str, str, int]]:
    """(kind, key, n), most first: for `web_requests.top_keys`."""
    status = groups["status"]
    kinds = [
        ("client", "remote", groups),
        ("status", "status", groups),
        ("path404", "path", groups.filter(pc.equal(status, web_requests.NOT_FOUND))),
        ("path5xx", "path", groups.filter(pc.greater_equal(status, web_requests.FIRST_SERVER_ERROR))),
        ("slowpath", "path", groups.filter(_is_slow(groups["latency"]))),
    ]
    sums = pa.concat_tables([_key_sums(*kind) for kind in kinds])
    order = [("lines", "descending"), ("kind", "ascending"), ("key", "ascending")]
    most = sums.sort_by(order).slice(0, web_requests.MAX_KEYS)
    return list(_tuples(most, ("kind", "key", "lines")))


def _key_sums(kind: str, column: str, groups: pa.Table) -> pa.Table:
    """(kind, key, lines) of the values of a column, without null."""
    sums = _summed(groups.filter(pc.is_valid(groups[column])), [column], ["lines"])
    kinds = pa.array([kind] * sums.num_rows, pa.string())
    return pa.table({"kind": kinds, "key": sums[column].cast(pa.string()), "lines": sums["lines"]})


_Sketches = tuple[bytes, bytes | None]
"""The sketches of clients and of latencies; None if no request has a latency."""

_REQUESTS = T.StructType(
    [
        T.StructField("key", T.IntegerType()),
        T.StructField("client", T.StringType()),
        T.StructField("latency", T.IntegerType()),
        T.StructField("lines", T.LongType()),
    ]
)


def _sketches(spark: SparkSession, requests: pa.Table, scratch: Location) -> tuple[dict[int, _Sketches], WebSums]:
    """The sketches of each key, made by Spark in one query, and the values of all of them merged.

    `requests` are groups: key, client, step of the latency, number of lines. `scratch` is a directory that both use.
    """
    file = scratch / SMALL
    parquet.write_table(file, _REQUESTS, requests)
    try:
        sketched = _sketched(spark.read.schema(_REQUESTS).parquet(locations.for_spark(file)))
        with tuning.query_of(spark, pc.sum(requests["lines"]).as_py()):  # each line is a row of the query
            rows = sketched.unionByName(web_requests.sketch_sums(sketched), allowMissingColumns=True).collect()
    finally:
        locations.remove(scratch)
    sums = next(row for row in rows if row["key"] is None)
    by_key = {row["key"]: _sketch_bytes(row) for row in rows if row["key"] is not None}
    return by_key, WebSums(sums["clients"], sums["p50"], sums["p95"], sums["p99"])


def _sketch_bytes(row: Any) -> _Sketches:
    latency = row["latency_kll"]
    return bytes(row["clients_hll"]), None if latency is None else bytes(latency)


def _sketched(requests: DataFrame) -> DataFrame:
    """Quantile sketches have no weights, so a group of equal latencies enters the sketch once for each of its lines."""
    took = F.array_repeat(web_requests.milliseconds(F.col("latency")), F.col("lines").cast("int"))
    once = F.array(F.lit(None).cast("double"))
    timed = F.col("latency").isNotNull()
    return (
        requests.select("key", "client", F.explode(F.when(timed, took).otherwise(once)).alias("took"))
        .groupBy("key")
        .agg(
            F.hll_sketch_agg("client", F.lit(web_requests.CLIENTS_LG_K)).alias("clients_hll"),
            F.kll_sketch_agg_double("took").alias("latency_kll"),
            F.count("took").alias("n"),
        )
        .withColumn("latency_kll", F.when(F.col("n") > 0, F.col("latency_kll")))
        .drop("n")
    )


# -- places of example lines -------------------------------------------------------------------------------------------

_BLOCK_BITS = 43
"""Bits of a byte in a stored file, below the number of its segment."""

_PASSWORD_KINDS = (sign_ins.FAILED, sign_ins.ODD_NAME, sign_ins.ACCEPTED)
_OF_LOG = {"host": 1, "file": 2}


def _first_rows(assigned: AssignedGroups, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
    """`port.FileGroups.first_rows`."""
    kinds: dict[str, list[tuple[str, ...]]] = {}
    for key in wanted:
        kinds.setdefault(key.kind, []).append(key.names)
    blocks = _blocks(assigned.groups)
    places = list(zip(blocks["segment"].to_pylist(), blocks["block_start"].to_pylist(), strict=True))
    found: dict[RowKey, list[LinePlace]] = {}
    for kind, names in kinds.items():
        rows = _rows(assigned, kind, names)
        columns = ROW_KINDS[kind][0]
        ordered = _most(_with_position(rows, blocks), columns)
        for *texts, position in zip(*(ordered[name].to_pylist() for name in (*columns, "position")), strict=True):
            key = RowKey(kind, tuple(texts))
            if key in wanted and len(found.setdefault(key, [])) < ROW_EXAMPLES:
                row, block = divmod(position, len(places))
                found[key].append(LinePlace(row, *places[block]))
    return found


def _blocks(groups: pa.Table) -> pa.Table:
    """The first row of each block, by segment and block."""
    keys = ["segment", "block_start"]
    first = groups.select([*keys, "first_row"]).group_by(keys, use_threads=False).aggregate([("first_row", "min")])
    return first.rename_columns([*keys, "block_row"]).sort_by([(name, "ascending") for name in keys])


def _rows(assigned: AssignedGroups, kind: str, names: Sequence[tuple[str, ...]]) -> pa.Table:
    """Groups of a kind of row that have one of the names in each column, with `other`, `lines` and their block."""
    columns, other = ROW_KINDS[kind]
    logs = assigned.logs
    groups = assigned.groups.filter(_condition(kind, assigned.groups))
    groups = groups.filter(pc.is_in(groups["log"], pa.array(_logs(logs, columns, names), pa.int32())))
    texts = {name: _texts_of(groups, name, logs) for name in columns}
    kept = {name: groups[name] for name in ("segment", "block_start", "first_row", "lines")}
    table = pa.table({**texts, **kept, "other": _texts_of(groups, other, logs)})
    for place, name in enumerate(columns):
        table = table.filter(pc.is_in(table[name], pa.array(sorted({one[place] for one in names}), pa.string())))
    return table


def _logs(logs: Sequence[LogFile], columns: Sequence[str], names: Sequence[tuple[str, ...]]) -> list[int]:
    """The log files that may have lines of `names`."""
    if columns[0] != "host":
        return list(range(len(logs)))
    hosts = {one[0] for one in names}
    return [number for number, log in enumerate(logs) if log[1] in hosts]


def _texts_of(groups: pa.Table, name: str, logs: Sequence[LogFile]) -> pa.ChunkedArray:
    if name in _OF_LOG:
        return file_column(groups["log"], logs, _OF_LOG[name])
    return groups[name].cast(pa.string())


def _condition(kind: str, groups: pa.Table) -> pa.ChunkedArray:
    """Whether a group has lines of that kind of row."""
    if kind == "host":
        return pc.greater(groups["lines"], 0)
    if kind == "errors":
        return pc.is_in(groups["level"], _ERRORS)
    if kind == "password" or kind.startswith("failed"):
        kinds = _PASSWORD_KINDS if kind == "password" else (sign_ins.FAILED,)
        known = [text for text in pc.unique(groups["auth"]).to_pylist() if text]
        texts = [text for text in known if text.partition(" ")[0] in kinds]
        return pc.is_in(groups["auth"].cast(pa.string()), pa.array(texts, pa.string()))
    if kind == "path404":
        return pc.equal(groups["status"], web_requests.NOT_FOUND)
    if kind == "path5xx":
        return pc.greater_equal(groups["status"], web_requests.FIRST_SERVER_ERROR)
    return _is_slow(groups["latency"]) if kind == "slowpath" else pc.is_valid(groups["status"])


def _is_slow(latency: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether a request of that step has a latency of at least `web_requests.SLOW_MS`."""
    steps = [step for step in pc.unique(latency).to_pylist() if step is not None and web_requests.is_slow(step)]
    return pc.is_in(latency, pa.array(steps, latency.type))


def _with_position(rows: pa.Table, blocks: pa.Table) -> pa.Table:
    """`rows` with the number of the row in its block and of the block in `blocks`, as one number in this order."""
    block = pc.index_in(_packed_block(rows), _packed_block(blocks).combine_chunks()).cast(pa.int64())
    row = pc.subtract(rows["first_row"], pc.take(blocks["block_row"], block))
    position = pc.add(pc.multiply(row, blocks.num_rows), block)
    return rows.drop_columns(["segment", "block_start", "first_row"]).append_column("position", position)


def _packed_block(table: pa.Table) -> pa.ChunkedArray:
    return pc.add(pc.shift_left(table["segment"].cast(pa.int64()), _BLOCK_BITS), table["block_start"])


def _most(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """One row for each value of `columns` and `other`, those with the most lines first."""
    keys = [*columns, "other"]
    sums = rows.group_by(keys, use_threads=False).aggregate([("lines", "sum"), ("position", "min")])
    named = sums.rename_columns([*keys, "lines", "position"])
    return named.sort_by([("lines", "descending"), ("position", "ascending")])
