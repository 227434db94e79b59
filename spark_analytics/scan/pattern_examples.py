"""Finds an example line for patterns: reads a limited number of lines of a few segments again.

The scan cannot keep examples: as a grouping key an example would make every line a group of its own, and aggregating
texts would add two sorts of all lines. A pattern without an example is shown by its masked text.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shipper.manifest import Segment
from spark_analytics.lines.log_formats import LogFormat
from spark_analytics.patterns import mask
from spark_analytics.scan import format_detection
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas
from spark_analytics.tables.day_tables import Row

MAX_EXAMPLES = 100
"""Maximum number of patterns of a day for which an example is searched."""

MAX_LINES = 20_000
"""Maximum number of lines that are read of one segment."""

MAX_EXAMPLE_LINES = 60_000
"""Maximum number of lines that are read in total: less than a second."""


def texts_without_example(daily: Iterable[Row], fingerprints: Iterable[Row], known: Iterable[Row]) -> dict[str, str]:
    """The most frequent text of each pattern without an example, with the pattern's id.

    New and surging patterns come first, then those with the most lines.
    """
    has_example = {row["pattern_id"] for row in known if row["example"]}
    best: dict[str, Row] = {}
    for row in fingerprints:
        old = best.get(row["pattern_id"])
        if old is None or row["lines"] > old["lines"]:
            best[row["pattern_id"]] = row
    order = sorted(daily, key=lambda row: (not row["is_new"], -(row["surge"] or 0), -row["lines"]))
    ids = dict.fromkeys(
        row["pattern_id"] for row in order if row["pattern_id"] in best and row["pattern_id"] not in has_example
    )
    return {best[pattern_id]["text"]: pattern_id for pattern_id in itertools.islice(ids, MAX_EXAMPLES)}


def find_examples(archive: Location, texts: Mapping[str, tuple[Segment, LogFormat]]) -> dict[str, str]:
    """A line for each of `texts` that is found in its segment, at most `schemas.MAX_TEXT_CHARACTERS` of it."""
    by_segment: dict[str, set[str]] = defaultdict(set)
    for text, (segment, _) in texts.items():
        by_segment[segment.path].add(text)
    examples: dict[str, str] = {}
    left = MAX_EXAMPLE_LINES
    for missing in sorted(by_segment.values(), key=len, reverse=True):
        segment, log_format = texts[next(iter(missing))]
        for line in itertools.islice(_lines(archive, segment), min(left, MAX_LINES)):
            left -= 1
            text = mask.pattern_text(line, log_format)
            if text in missing:
                missing.discard(text)
                examples[text] = line[: schemas.MAX_TEXT_CHARACTERS]
                if not missing:
                    break
    return examples


def _lines(archive: Location, segment: Segment) -> Iterator[str]:
    rest = b""
    for block in format_detection.blocks(archive / segment.path, segment.codec):
        *complete, rest = (rest + block).split(b"\n")
        yield from (line.rstrip(b"\r").decode("utf-8", "replace") for line in complete)


def with_examples(rows: Sequence[Row], examples: Mapping[str, str]) -> list[Row]:
    """`rows` of table `fingerprints` with the examples of their texts."""
    return [row | {"example": examples[row["text"]]} if row["text"] in examples else row for row in rows]
