"""A real line for some patterns: a second look into few segments, bounded, for texts that no aggregate can carry.

An example in the scan's grouping would make a group of every line, and one beside it two sorts of all of them. A
pattern for which none is found in time is shown by its masked text.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shipper.manifest import Segment
from spark_analytics.lines.log_formats import Writing
from spark_analytics.patterns import mask
from spark_analytics.scan import format_detection
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas
from spark_analytics.tables.schemas import Row

MOST_WANTED = 100
"""Patterns of a day for which an example is looked for."""

MOST_LINES = 20_000
"""Lines of one segment that are looked at."""

MOST_LINES_OF_ALL = 60_000
"""Lines that are looked at for all of them: less than a second."""


def wanted(daily: Iterable[Row], fingerprints: Iterable[Row], known: Iterable[Row]) -> dict[str, str]:
    """The texts to look for, with their pattern: of each pattern without an example its most frequent text.

    New and surging patterns come first, then those with the most lines.
    """
    has = {row["pattern_id"] for row in known if row["example"]}
    best: dict[str, Row] = {}
    for row in fingerprints:
        old = best.get(row["pattern_id"])
        if old is None or row["lines"] > old["lines"]:
            best[row["pattern_id"]] = row
    order = sorted(daily, key=lambda row: (not row["is_new"], -(row["surge"] or 0), -row["lines"]))
    ids = dict.fromkeys(
        row["pattern_id"] for row in order if row["pattern_id"] in best and row["pattern_id"] not in has
    )
    return {best[pattern_id]["text"]: pattern_id for pattern_id in itertools.islice(ids, MOST_WANTED)}


def found(archive: Location, places: Mapping[str, tuple[Segment, Writing]]) -> dict[str, str]:
    """A line for each text of `places` that is found in its segment, at most `schemas.MOST_TEXT` characters of it."""
    by_segment: dict[str, set[str]] = defaultdict(set)
    for text, (segment, _) in places.items():
        by_segment[segment.path].add(text)
    examples: dict[str, str] = {}
    left = MOST_LINES_OF_ALL
    for texts in sorted(by_segment.values(), key=len, reverse=True):
        segment, writing = places[next(iter(texts))]
        for line in itertools.islice(_lines(archive, segment), min(left, MOST_LINES)):
            left -= 1
            text = mask.told(line, writing)
            if text in texts:
                texts.discard(text)
                examples[text] = line[: schemas.MOST_TEXT]
                if not texts:
                    break
    return examples


def _lines(archive: Location, segment: Segment) -> Iterator[str]:
    rest = b""
    for block in format_detection.blocks(archive / segment.path, segment.codec):
        *whole, rest = (rest + block).split(b"\n")
        yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in whole)


def with_examples(rows: Sequence[Row], examples: Mapping[str, str]) -> list[Row]:
    """`rows` of table `fingerprints` with the examples of their texts."""
    return [row | {"example": examples[row["text"]]} if row["text"] in examples else row for row in rows]
