"""Masked lines, and the patterns that they became, of groups as columns: what `mining` asks Spark for."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.mining import FILES_SHOWN, Seen
from spark_analytics.patterns.model import MOST_DISTINCT, REST
from spark_analytics.placing import LEVELS
from spark_analytics.summing import summed, tuples_of
from spark_analytics.volumes import LEVEL_BITS, LEVEL_MASK, LogFile

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
