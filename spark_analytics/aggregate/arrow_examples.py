"""Places of example lines for rows of the report, from groups as columns. Part of the Arrow adapter."""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.aggregate.arrow_assign import LEVELS, AssignedGroups, file_column
from spark_analytics.aggregate.port import LinePlace
from spark_analytics.metrics import sign_ins, web_requests
from spark_analytics.metrics.volumes import LogFile
from spark_analytics.tables.day_tables import ROW_EXAMPLES, ROW_KINDS, RowKey

_BLOCK_BITS = 43
"""Bits of a byte in a stored file, below the number of its segment."""

_ERRORS = pa.array([LEVELS.index(level).as_py() for level in ("fatal", "error")], pa.int8())
_PASSWORD_KINDS = (sign_ins.FAILED, sign_ins.ODD_NAME, sign_ins.ACCEPTED)
_OF_LOG = {"host": 1, "file": 2}


def first_rows(assigned: AssignedGroups, wanted: Collection[RowKey]) -> Mapping[RowKey, Sequence[LinePlace]]:
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
    texts = {name: _texts(groups, name, logs) for name in columns}
    kept = {name: groups[name] for name in ("segment", "block_start", "first_row", "lines")}
    table = pa.table({**texts, **kept, "other": _texts(groups, other, logs)})
    for place, name in enumerate(columns):
        table = table.filter(pc.is_in(table[name], pa.array(sorted({one[place] for one in names}), pa.string())))
    return table


def _logs(logs: Sequence[LogFile], columns: Sequence[str], names: Sequence[tuple[str, ...]]) -> list[int]:
    """The log files that may have lines of `names`."""
    if columns[0] != "host":
        return list(range(len(logs)))
    hosts = {one[0] for one in names}
    return [number for number, log in enumerate(logs) if log[1] in hosts]


def _texts(groups: pa.Table, name: str, logs: Sequence[LogFile]) -> pa.ChunkedArray:
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
        return _one_of(groups["auth"], [text for text in known if text.partition(" ")[0] in kinds])
    if kind == "path404":
        return pc.equal(groups["status"], web_requests.NOT_FOUND)
    if kind == "path5xx":
        return pc.greater_equal(groups["status"], web_requests.FIRST_SERVER_ERROR)
    return is_slow(groups["latency"]) if kind == "slowpath" else pc.is_valid(groups["status"])


def _one_of(column: pa.ChunkedArray, texts: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(column.cast(pa.string()), pa.array(texts, pa.string()))


def is_slow(latency: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether a request of that step has a latency of at least `web_requests.SLOW_MS`."""
    steps = [step for step in pc.unique(latency).to_pylist() if step is not None and web_requests.is_slow(step)]
    return pc.is_in(latency, pa.array(steps, latency.type))


def _with_position(rows: pa.Table, blocks: pa.Table) -> pa.Table:
    """`rows` with the number of the row in its block and of the block in `blocks`, as one number in this order."""
    block = pc.index_in(_packed(rows), _packed(blocks).combine_chunks()).cast(pa.int64())
    row = pc.subtract(rows["first_row"], pc.take(blocks["block_row"], block))
    position = pc.add(pc.multiply(row, blocks.num_rows), block)
    return rows.drop_columns(["segment", "block_start", "first_row"]).append_column("position", position)


def _packed(table: pa.Table) -> pa.ChunkedArray:
    return pc.add(pc.shift_left(table["segment"].cast(pa.int64()), _BLOCK_BITS), table["block_start"])


def _most(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """One row for each value of `columns` and `other`, those with the most lines first."""
    keys = [*columns, "other"]
    sums = rows.group_by(keys, use_threads=False).aggregate([("lines", "sum"), ("position", "min")])
    named = sums.rename_columns([*keys, "lines", "position"])
    return named.sort_by([("lines", "descending"), ("position", "ascending")])
