"""What the scan counted where that is not too much for this process: columns, and sums by what works on columns.

A day of gigabytes yields some million groups. To plan a query of Spark costs more than to add these up here; only
sketches of requests are Spark's own (`sketches`).

Table `hourly` and its sums by log file, of groups as columns.

Masked lines, and the patterns that they became, of groups as columns: what `mining` asks Spark for.

Requests to web servers, of groups as columns: what `access` asks Spark for, but sketches.

Columns are grouped and summed, and become values.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from shipper.errors import ShipperError
from spark_analytics.aggregate import port, request_sketches
from spark_analytics.aggregate.arrow_assign import LEVELS, NO_NUMBER, Placed, parts_of, placed, second_of
from spark_analytics.aggregate.port import Asked, Placing, Silent
from spark_analytics.aggregate.request_sketches import Sketched
from spark_analytics.archive.reconcile import Counted
from spark_analytics.lines import timestamps
from spark_analytics.metrics import web_requests
from spark_analytics.metrics.pattern_tables import FILES_SHOWN, Seen
from spark_analytics.metrics.volumes import LEVEL_BITS, LEVEL_MASK, LINES_BITS, SUMMED, FileSums, LogFile
from spark_analytics.patterns.model import MOST_DISTINCT, REST
from spark_analytics.runtime import tuning
from spark_analytics.storage.locations import Location
from spark_analytics.tables import parquet, schemas
from spark_analytics.tables.schemas import Row, WebSums
from spark_analytics.tables.store import SMALL, Tables


def summed(
    table: pa.Table, keys: Sequence[str], sums: Sequence[str], others: Sequence[tuple[str, str]] = ()
) -> pa.Table:
    """`table` with a row for each of `keys`, the `sums` of its rows, and `others` by (column, function)."""
    asked = [*((name, "sum") for name in sums), *others]
    made = table.group_by(list(keys), use_threads=False).aggregate(asked)
    return made.rename_columns([*keys, *(name for name, _ in asked)])


def tuples_of(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of `table` as values of the columns `names`."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


_MICRO = 10**6
_BAD = pa.array([LEVELS.index(level).as_py() for level in ("fatal", "error")], pa.int8())
_WARN = LEVELS.index("warn").as_py()
_NONE = LEVELS.index("none").as_py()
_WORST_FIRST = pa.array([schemas.LEVELS.index(level) for level in LEVELS.to_pylist()], pa.int64())

_PLACE = ("log", "hour", "level")
_KEY = ("place", "fingerprint")
_ADDED = ("lines", "unfinished", "bytes", "late_lines", "no_ts_lines", "continuation_lines")
_TIMES = (("first_ts", "min"), ("last_ts", "max"))
_HOUR_BITS = 30


def hours_of(placed: Placed, silent: Sequence[Silent], midnight_second: int) -> pa.Table:
    """The rows of table `hourly`, by log file, hour (none first) and level; in `log` is the place in `placed.logs`.

    `midnight_second` is the day's first; times are in seconds since 1970.
    """
    counted = _counted(placed.groups, midnight_second)
    number = {log: n for n, log in enumerate(placed.logs)}
    nothing = pa.Table.from_pylist([_of_none(number[one[:3]], one) for one in silent], counted.schema)
    sums = summed(_numbered(pa.concat_tables([counted, nothing])), _KEY, _ADDED, _TIMES)
    return _named(sums.take(pc.sort_indices(sums["place"])))


def _counted(groups: pa.Table, midnight_second: int) -> pa.Table:
    lines, is_dated, none = groups["lines"], groups["is_dated"], pa.scalar(0, pa.int64())
    is_late = pc.and_kleene(is_dated, pc.less(groups["hour"], midnight_second))
    return (
        groups.select([*_PLACE, "fingerprint", "lines", "unfinished", "bytes", "first_ts", "last_ts"])
        .append_column("late_lines", pc.if_else(is_late, lines, none))
        .append_column("no_ts_lines", pc.if_else(is_dated, none, lines))
        .append_column("continuation_lines", pc.if_else(groups["is_continuation"], lines, none))
    )


def _of_none(log: int, silent: Silent) -> dict[str, Any]:
    keys = {"log": log, "hour": silent.stored_hour, "level": _NONE, "fingerprint": 0}
    return keys | dict.fromkeys(_ADDED, 0) | {"bytes": silent.bytes}


def _numbered(counted: pa.Table) -> pa.Table:
    """With `_PLACE` as one number, in their order: it is grouped and sorted by in a fraction of the time."""
    return counted.drop_columns(list(_PLACE)).append_column("place", packed(counted, "level", LEVEL_BITS))


def _named(sums: pa.Table) -> pa.Table:
    """With that number as `_PLACE` again."""
    above = pc.shift_right(sums["place"], LEVEL_BITS)
    hour = pc.bit_wise_and(above, (1 << _HOUR_BITS) - 1)
    second = pc.multiply(pc.subtract(hour, 1), timestamps.HOUR_SECONDS)
    columns = {
        "log": pc.shift_right(above, _HOUR_BITS).cast(pa.int32()),
        "hour": pc.if_else(pc.equal(hour, 0), NO_NUMBER, second),
        "level": pc.bit_wise_and(sums["place"], LEVEL_MASK).cast(pa.int8()),
    }
    for name, column in columns.items():
        sums = sums.append_column(name, column)
    return sums.drop_columns(["place"])


def packed(table: pa.Table, name: str, bits: int) -> pa.ChunkedArray:
    """Columns `log`, `hour` and `name`, which takes `bits`, as one number in their order, no hour first."""
    hour = pc.fill_null(pc.add(pc.divide(table["hour"], timestamps.HOUR_SECONDS), 1), 0)
    above = pc.add(pc.shift_left(table["log"].cast(pa.int64()), _HOUR_BITS), hour)
    return pc.add(pc.shift_left(above, bits), table[name].cast(pa.int64()))


def rows_of(hours: pa.Table, logs: Sequence[LogFile]) -> pa.Table:
    """Table `hourly` as it is written."""
    named = {name: parts_of(hours["log"], logs, place) for place, name in enumerate(("partition", "host", "file"))}
    named |= {name: pc.multiply(hours[name], _MICRO) for name in ("hour", "first_ts", "last_ts")}
    named["level"] = pc.take(LEVELS, hours["level"])
    return pa.table({name: named[name] if name in named else hours[name] for name in schemas.HOURLY.names})


def sums_of_files(hours: pa.Table, logs: Sequence[LogFile]) -> list[FileSums]:
    """As `volumes.by_file`."""
    cells = _cells(hours)
    level, lines, none = hours["level"], hours["lines"], pa.scalar(0, pa.int64())
    ended = pc.subtract(lines, hours["unfinished"])
    table = (
        hours.append_column("err", pc.if_else(pc.is_in(level, _BAD), lines, none))
        .append_column("warn", pc.if_else(pc.equal(level, _WARN), lines, none))
        .set_column(hours.column_names.index("lines"), "lines", ended)
    )
    rows = summed(table, ["log"], SUMMED, _TIMES).to_pylist()
    return [_file_sums(logs[row["log"]], row, cells.get(row["log"], [])) for row in rows]


def _file_sums(log: LogFile, row: dict[str, Any], cells: Sequence[int]) -> FileSums:
    first, last = (None if row[name] is None else row[name] * _MICRO for name in ("first_ts", "last_ts"))
    sums = {name: row[name] for name in SUMMED}
    return FileSums(*log, **sums, first_us=first, last_us=last, cells=cells)


def _cells(hours: pa.Table) -> dict[int, list[int]]:
    """The cells of each log file that are of a known hour."""
    known = hours.filter(pc.is_valid(hours["hour"]))
    sums = summed(known, ["log", "hour", "level"], ["lines"])
    hour = pc.shift_left(pc.divide(sums["hour"], timestamps.HOUR_SECONDS), LEVEL_BITS)
    key = pc.shift_left(pc.add(hour, pc.take(_WORST_FIRST, sums["level"])), LINES_BITS)
    packed = pa.table({"log": sums["log"], "cell": pc.add(key, sums["lines"])})
    listed = packed.group_by("log", use_threads=False).aggregate([("cell", "list")])
    return dict(zip(listed["log"].to_pylist(), listed["cell_list"].to_pylist(), strict=True))


_LEVELS = LEVELS.to_pylist()


def most_frequent(groups: pa.Table) -> list[tuple[int, str, int]]:
    """As `mining.texts`."""
    found = summed(groups.filter(pc.is_valid(groups["text"])), ["fingerprint", "text"], ["lines"])
    named = found.set_column(1, "text", found["text"].cast(pa.string()))
    ordered = named.sort_by([("lines", "descending"), ("text", "ascending")]).slice(0, MOST_DISTINCT)
    return list(tuples_of(ordered, ("fingerprint", "text", "lines")))


def seen(hours: pa.Table, logs: Sequence[LogFile], patterns: Mapping[int, str]) -> list[Seen]:
    """As `mining.by_pattern`; `patterns` has the pattern id of a fingerprint."""
    ids = list(dict.fromkeys([*patterns.values(), REST.id]))
    by_log = summed(_of_patterns(hours, ids, patterns), ["key", "log"], ["lines"])
    hosts = Counter(key for key, _ in tuples_of(_by_name(by_log, [host for _, host, _ in logs]), ("key", "name")))
    files: dict[int, dict[str, int]] = defaultdict(dict)
    for key, file, lines in tuples_of(_by_name(by_log, [file for _, _, file in logs]), ("key", "name", "lines")):
        files[key][file] = lines
    return [
        _seen(ids[key >> LEVEL_BITS], _LEVELS[key & LEVEL_MASK], of_file, hosts[key]) for key, of_file in files.items()
    ]


def _of_patterns(hours: pa.Table, ids: Sequence[str], patterns: Mapping[int, str]) -> pa.Table:
    """(key, log, lines) of lines that have a pattern; `key` is its place in `ids` and the one of its level, as one."""
    known = hours.filter(pc.not_equal(hours["fingerprint"], 0))
    place = {pattern_id: n for n, pattern_id in enumerate(ids)}
    places = pa.array([place[pattern_id] for pattern_id in patterns.values()], pa.int64())
    pattern = pc.take(places, pc.index_in(known["fingerprint"], pa.array(patterns, pa.int64())))
    above = pc.shift_left(pc.fill_null(pattern, place[REST.id]), LEVEL_BITS)
    return known.select(["log", "lines"]).append_column("key", pc.add(above, known["level"].cast(pa.int64())))


def _by_name(by_log: pa.Table, names: Sequence[str]) -> pa.Table:
    """(key, name, lines), with the name of each log file among `names`."""
    encoded = pa.array(names).dictionary_encode()
    sums = summed(by_log.append_column("name", pc.take(encoded.indices, by_log["log"])), ["key", "name"], ["lines"])
    return sums.set_column(1, "name", pc.take(encoded.dictionary, sums["name"]))


def _seen(pattern_id: str, level: str, files: Mapping[str, int], hosts: int) -> Seen:
    most = sorted(((lines, file) for file, lines in files.items()), reverse=True)[:FILES_SHOWN]
    return Seen(pattern_id, level, sum(files.values()), hosts, len(files), [file for _, file in most])


def segments_of(groups: pa.Table, fingerprints: Collection[int]) -> dict[int, int]:
    """As `mining.places`."""
    wanted = pc.is_in(groups["fingerprint"], pa.array(sorted(fingerprints), pa.int64()))
    asked = groups.filter(pc.and_(wanted, pc.is_valid(groups["text"])))
    found = summed(asked, ["fingerprint", "segment"], ["lines"])
    ascending = found.sort_by([("lines", "ascending"), ("segment", "descending")])
    return dict(tuples_of(ascending, ("fingerprint", "segment")))


_NOT_FOUND, _FIRST_BROKEN = 404, 500
_ACCESS_KEY = ["log", "hour", "status"]
_STATUS = ("status", 10)  # and the bits that it takes


def numbered(groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Sums by log file, hour and status, in their order; and each group of requests with its row's number there.

    The latter are (key, client, latency, lines), for `sketches`.
    """
    sent = groups.set_column(groups.column_names.index("sent"), "sent", pc.fill_null(groups["sent"], 0))
    sums = summed(sent, _ACCESS_KEY, ["lines", "sent"])
    sums = sums.take(pc.sort_indices(packed(sums, *_STATUS)))
    number = pc.index_in(packed(groups, *_STATUS), packed(sums, *_STATUS).combine_chunks()).cast(pa.int32())
    columns = {"key": number, "client": groups["remote"], "latency": groups["latency"], "lines": groups["lines"]}
    return sums, pa.table(columns)


def access_rows(sums: pa.Table, sketched: Mapping[int, Sketched], logs: Sequence[LogFile]) -> list[tuple[Any, ...]]:
    """Table `access_hourly`."""
    return [_row(logs[row["log"]], row, *sketched[number]) for number, row in enumerate(sums.to_pylist())]


def _row(log: LogFile, row: dict[str, Any], clients: bytes, latency: bytes | None) -> tuple[Any, ...]:
    time = None if row["hour"] is None else row["hour"] * 10**6
    status = row["status"]
    return (*log, time, status, _class_of(status), row["lines"], row["sent"], latency, clients)


def _class_of(status: int) -> str:
    return f"{str(status)[0]}xx"


def by_hour(sums: pa.Table) -> list[tuple[int | None, str, int, int]]:
    """As `access.by_hour`."""
    made: dict[tuple[int | None, str], tuple[int, int]] = {}
    for row in sums.to_pylist():
        key = (row["hour"], _class_of(row["status"]))
        requests, sent = made.get(key, (0, 0))
        made[key] = requests + row["lines"], sent + row["sent"]
    return [(*key, *made[key]) for key in sorted(made, key=lambda key: (key[0] is not None, key[0] or 0, key[1]))]


def keys(groups: pa.Table) -> list[tuple[str, str, int]]:
    """As `access.keys`."""
    status = groups["status"]
    asked = [
        ("client", "remote", groups),
        ("status", "status", groups),
        ("path404", "path", groups.filter(pc.equal(status, _NOT_FOUND))),
        ("path5xx", "path", groups.filter(pc.greater_equal(status, _FIRST_BROKEN))),
        ("slowpath", "path", groups.filter(_slow(groups["latency"]))),
    ]
    found = pa.concat_tables([_most(*one) for one in asked])
    order = [("lines", "descending"), ("kind", "ascending"), ("key", "ascending")]
    most = found.sort_by(order).slice(0, web_requests.MOST_KEYS)
    return list(tuples_of(most, ("kind", "key", "lines")))


def _most(kind: str, column: str, groups: pa.Table) -> pa.Table:
    """(kind, key, lines) of the values of a column that are there."""
    sums = summed(groups.filter(pc.is_valid(groups[column])), [column], ["lines"])
    kinds = pa.array([kind] * sums.num_rows, pa.string())
    return pa.table({"kind": kinds, "key": sums[column].cast(pa.string()), "lines": sums["lines"]})


def _slow(latency: pa.ChunkedArray) -> pa.ChunkedArray:
    steps = [step for step in pc.unique(latency).to_pylist() if step is not None and web_requests.is_slow(step)]
    return pc.is_in(latency, pa.array(steps, latency.type))


_TEXTS = ("level", "text", "auth", "user", "remote", "path")
"""Columns in which the same texts come again and again."""


def most_few() -> int:
    """Groups that are held as columns now."""
    return min(port.MOST_FEW, tuning.available_bytes() // (port.LEFT * port.GROUP_BYTES))


def taken(directory: Location) -> pa.Table | None:
    """The groups that Spark wrote to `directory`, or None where they are more than `most_few` or `MOST_BYTES`.

    Raises:
        ShipperError: Spark wrote nothing there.
    """
    if parquet.stored_bytes(directory) > port.MOST_BYTES:
        return None
    parts = parquet.files(directory, repeated=_TEXTS)
    rows = sum(part.metadata.num_rows for part in parts)
    if rows > most_few() or parquet.unpacked_bytes(parts) > port.MOST_BYTES:
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
        return hours_of(self.known, self.placing.silent, second_of(timestamps.midnight(self.placing.day)))

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
        logs, requests = numbered(groups)
        sketched, web_sums = request_sketches.sketched(self.spark, requests, self.staging / "requests")
        rows = access_rows(logs, sketched, self.known.logs)
        parquet.write(place, schemas.ACCESS_HOURLY, rows)
        return Asked(keys(groups), port.hours_of(by_hour(logs)), web_sums)
