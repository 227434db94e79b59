"""Requests to web servers, of groups as columns: what `access` asks Spark for, but sketches."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics import access
from spark_analytics.few_hours import packed
from spark_analytics.sketches import Sketched
from spark_analytics.summing import summed, tuples_of
from spark_analytics.volumes import LogFile

_NOT_FOUND, _FIRST_BROKEN = 404, 500
_KEY = ["log", "hour", "status"]
_STATUS = ("status", 10)  # and the bits that it takes


def numbered(groups: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Sums by log file, hour and status, in their order; and each group of requests with its row's number there.

    The latter are (key, client, latency, lines), for `sketches`.
    """
    sent = groups.set_column(groups.column_names.index("sent"), "sent", pc.fill_null(groups["sent"], 0))
    sums = summed(sent, _KEY, ["lines", "sent"])
    sums = sums.take(pc.sort_indices(packed(sums, *_STATUS)))
    number = pc.index_in(packed(groups, *_STATUS), packed(sums, *_STATUS).combine_chunks()).cast(pa.int32())
    columns = {"key": number, "client": groups["remote"], "latency": groups["latency"], "lines": groups["lines"]}
    return sums, pa.table(columns)


def rows(sums: pa.Table, sketched: Mapping[int, Sketched], logs: Sequence[LogFile]) -> list[tuple[Any, ...]]:
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
    most = found.sort_by(order).slice(0, access.MOST_KEYS)
    return list(tuples_of(most, ("kind", "key", "lines")))


def _most(kind: str, column: str, groups: pa.Table) -> pa.Table:
    """(kind, key, lines) of the values of a column that are there."""
    sums = summed(groups.filter(pc.is_valid(groups[column])), [column], ["lines"])
    kinds = pa.array([kind] * sums.num_rows, pa.string())
    return pa.table({"kind": kinds, "key": sums[column].cast(pa.string()), "lines": sums["lines"]})


def _slow(latency: pa.ChunkedArray) -> pa.ChunkedArray:
    steps = [step for step in pc.unique(latency).to_pylist() if step is not None and access.is_slow(step)]
    return pc.is_in(latency, pa.array(steps, latency.type))
