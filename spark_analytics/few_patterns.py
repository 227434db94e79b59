"""Masked lines, and the patterns that they became, of groups as columns: what `mining` asks Spark for."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_analytics.mining import FILES_SHOWN, Seen
from spark_analytics.patterns.model import MOST_DISTINCT, REST
from spark_analytics.placing import LEVELS
from spark_analytics.summing import summed, tuples_of
from spark_analytics.volumes import LogFile

_LEVELS = LEVELS.to_pylist()
_Key = tuple[str, str]
"""(pattern id, level)."""


def most_frequent(groups: pa.Table) -> list[tuple[int, str, int]]:
    """As `mining.texts`."""
    found = summed(groups.filter(pc.is_valid(groups["text"])), ["fingerprint", "text"], ["lines"])
    named = found.set_column(1, "text", found["text"].cast(pa.string()))
    ordered = named.sort_by([("lines", "descending"), ("text", "ascending")]).slice(0, MOST_DISTINCT)
    return list(tuples_of(ordered, ("fingerprint", "text", "lines")))


def seen(hours: pa.Table, logs: Sequence[LogFile], patterns: Mapping[int, str]) -> list[Seen]:
    """As `mining.by_pattern`; `patterns` has the pattern id of a fingerprint."""
    ids = pa.array([*patterns.values(), REST.id])
    place = pc.fill_null(pc.index_in(hours["fingerprint"], pa.array(patterns, pa.int64())), len(patterns))
    named = hours.append_column("pattern", pc.dictionary_encode(pc.take(ids, place)))
    counted = summed(named.filter(pc.not_equal(hours["fingerprint"], 0)), ["pattern", "level", "log"], ["lines"])
    files: dict[_Key, Counter[str]] = defaultdict(Counter)
    hosts: dict[_Key, set[str]] = defaultdict(set)
    for pattern, level, log, lines in tuples_of(counted, ("pattern", "level", "log", "lines")):
        key, (_, host, file) = (pattern, _LEVELS[level]), logs[log]
        files[key][file] += lines
        hosts[key].add(host)
    return [_seen(*key, of_file, len(hosts[key])) for key, of_file in files.items()]


def _seen(pattern_id: str, level: str, files: Counter[str], hosts: int) -> Seen:
    most = sorted(((lines, file) for file, lines in files.items()), reverse=True)[:FILES_SHOWN]
    return Seen(pattern_id, level, files.total(), hosts, len(files), [file for _, file in most])


def segments_of(groups: pa.Table, fingerprints: Collection[int]) -> dict[int, int]:
    """As `mining.places`."""
    wanted = pc.is_in(groups["fingerprint"], pa.array(sorted(fingerprints), pa.int64()))
    asked = groups.filter(pc.and_(wanted, pc.is_valid(groups["text"])))
    found = summed(asked, ["fingerprint", "segment"], ["lines"])
    ascending = found.sort_by([("lines", "ascending"), ("segment", "descending")])
    return dict(tuples_of(ascending, ("fingerprint", "segment")))
