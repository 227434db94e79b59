"""Example lines, of patterns and of rows of the report: reads a limited part of some segments again.

The scan cannot keep lines: as a grouping key a line would make a group of its own, and aggregating texts would add two
sorts of all lines.
"""

import codecs
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shipper.manifest import Segment
from spark_analytics.aggregate.groups import LinePlace
from spark_analytics.lines.log_formats import LogFormat
from spark_analytics.patterns import mask
from spark_analytics.scan import format_detection
from spark_analytics.storage.locations import Location
from spark_analytics.tables import schemas
from spark_analytics.tables.day_tables import Row, RowKey

# -- of patterns; one without an example is shown by its masked text ---------------------------------------------------

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


# -- of rows; the scan noted where they are (`groups.FileGroups.first_rows`) -------------------------------------------

MAX_BYTES = 64 * 1024 * 1024
"""Maximum bytes of text that are read for all rows of a day: some tenths of a second."""

_KEPT_BYTES = 4 * schemas.MAX_TEXT_CHARACTERS + 4
"""Bytes of a line that are kept: a character has at most four."""


def find_lines(
    archive: Location, segments: Sequence[Segment], places: Mapping[RowKey, Sequence[LinePlace]]
) -> dict[RowKey, list[str]]:
    """The lines at `places`, cut to `schemas.MAX_TEXT_CHARACTERS`; without those beyond `MAX_BYTES`.

    Bytes that are no UTF-8 are written as escapes: a backslash, x and two hexadecimal digits.
    """
    rows: dict[tuple[int, int], set[int]] = {}
    for place in (place for several in places.values() for place in several):
        rows.setdefault((place.segment, place.block_start), set()).add(place.row)
    found: dict[LinePlace, str] = {}
    left = MAX_BYTES
    for (number, start), wanted in sorted(rows.items(), key=lambda entry: (max(entry[1]), entry[0])):
        segment = segments[number]
        reader = _Budget(format_detection.blocks(archive / segment.path, segment.codec), left)
        for row, line in _lines_at(_after(reader, start), sorted(wanted)):
            found[LinePlace(row, number, start)] = _shown(line)
        left = reader.left
    made = {key: [found[place] for place in several if place in found] for key, several in places.items()}
    return {key: lines for key, lines in made.items() if lines}


class _Budget:
    """Blocks of text, as long as bytes are left."""

    def __init__(self, blocks: Iterable[bytes], left: int) -> None:
        self.left = left
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        for block in self._blocks:
            self.left -= len(block)
            if self.left < 0:
                return
            yield block


def _after(blocks: Iterable[bytes], start: int) -> Iterator[bytes]:
    """The text of a block of a file that is read in several: from the first newline after byte `start` on."""
    skipping = start > 0
    for block in blocks:
        if start >= len(block):
            start -= len(block)
            continue
        text, start = block[start:], 0
        if skipping:
            _, newline, text = text.partition(b"\n")
            skipping = not newline
        yield text


def _lines_at(blocks: Iterable[bytes], wanted: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """The lines with the numbers `wanted`, which are sorted; of a long line its beginning."""
    left, number, rest = list(wanted), 0, b""
    for block in blocks:
        text = rest + block
        ends = text.count(b"\n")
        if left[0] < number + ends:
            lines = text.split(b"\n")
            while left and left[0] < number + ends:
                yield left[0], lines[left[0] - number]
                del left[0]
            if not left:
                return
        number += ends
        rest = text[text.rfind(b"\n") + 1 :][:_KEPT_BYTES]
    if rest and left[0] == number:
        yield number, rest


def _shown(line: bytes) -> str:
    text = line[:_KEPT_BYTES].removeprefix(codecs.BOM_UTF8).removesuffix(b"\r").decode("utf-8", "backslashreplace")
    limit = schemas.MAX_TEXT_CHARACTERS
    return text if len(text) <= limit else text[: limit - 1] + "…"
