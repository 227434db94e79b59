"""Masked lines, and the patterns that they became, of groups as values: what `mining` asks Spark for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from spark_analytics.few_hours import Hour
from spark_analytics.mining import FILES_SHOWN, Seen
from spark_analytics.patterns.model import MOST_DISTINCT, REST
from spark_analytics.placing import Group


def most_frequent(groups: Iterable[Group]) -> list[tuple[int, str, int]]:
    """As `mining.texts`."""
    lines, texts = Counter[int](), dict[int, str]()
    for group in groups:
        if group.text is not None:
            lines[group.fingerprint] += group.lines
            texts[group.fingerprint] = group.text
    found = [(fingerprint, text, lines[fingerprint]) for fingerprint, text in texts.items()]
    return sorted(found, key=lambda entry: (-entry[2], entry[1]))[:MOST_DISTINCT]


def seen(hours: Iterable[Hour], patterns: Mapping[int, str]) -> list[Seen]:
    """As `mining.by_pattern`; `patterns` has the pattern id of a fingerprint."""
    files: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    hosts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in hours:
        if one.fingerprint:
            key = (patterns.get(one.fingerprint, REST.id), one.level)
            _, host, file = one.file
            files[key][file] += one.lines
            hosts[key].add(host)
    return [_seen(*key, of_file, len(hosts[key])) for key, of_file in files.items()]


def _seen(pattern_id: str, level: str, files: Counter[str], hosts: int) -> Seen:
    most = sorted(((lines, file) for file, lines in files.items()), reverse=True)[:FILES_SHOWN]
    return Seen(pattern_id, level, files.total(), hosts, len(files), [file for _, file in most])
