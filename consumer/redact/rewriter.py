"""Redacts sealed segments: replaces them by new ones, so that after a kill the old or the new one is listed.

consumer/segments/rewrite_segment.py describes how a segment is replaced.

The first part, which is pure, finds the bytes of a text to black out, and returns the text without them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from consumer.segments import rewrite_segment
from consumer.segments.rewrite_segment import alone, current_segments, remove_replaced, replace_segment_text
from consumer.segments.sealer import now
from shipper.errors import Fatal
from shipper.layout import date_of
from shipper.manifest import Redaction, Segment

BLACK = ord("*")
NEWLINE = ord("\n")
_CHANGED = "archive_changed"


class Range(NamedTuple):
    """Bytes of a text, `end` excluded."""

    start: int
    end: int


class PlacesUnknownError(Exception):
    """The position of a source's bytes in the text of a segment is unknown."""


class Choice(Protocol):
    """The choice of bytes to black out."""

    def concerns(self, segment: Segment) -> bool:
        """Whether the segment may contain some of it, according to its manifest line."""

    def ranges(self, segment: Segment, text: bytes) -> list[Range]:
        """The ranges in the text, ascending and not adjacent. Raises PlacesUnknownError."""

    def records(self, segment: Segment, black: Sequence[Range], *, at: str, reason: str) -> list[Redaction]:
        """The records for the manifest."""


@dataclass(frozen=True, slots=True)
class RegexMatches:
    """The matches of a regular expression, line by line."""

    pattern: re.Pattern[bytes]
    whole_lines: bool = False

    def concerns(self, segment: Segment) -> bool:
        """True: any segment may contain a match."""
        return segment.bytes_raw > 0

    def ranges(self, segment: Segment, text: bytes) -> list[Range]:
        """The matches that are not empty."""
        del segment
        found = (Range(*each.span()) for each in self.pattern.finditer(text))
        return joined(_line_around(text, each) if self.whole_lines else each for each in found if each.end > each.start)

    def records(self, segment: Segment, black: Sequence[Range], *, at: str, reason: str) -> list[Redaction]:
        """One record for the segment, without the pattern: a manifest must not contain it."""
        del segment
        return [Redaction(at=at, reason=reason, bytes=sum(each.end - each.start for each in black))]


@dataclass(frozen=True, slots=True)
class OfSource:
    """Bytes `start` to `end` (excluded) of a source."""

    source: str
    start: int
    end: int

    def concerns(self, segment: Segment) -> bool:
        """Whether it has a span that overlaps."""
        return any(True for _ in self._parts(segment))

    def ranges(self, segment: Segment, text: bytes) -> list[Range]:
        """The ranges in the text, known only if the text consists of the spans of this source, in their order."""
        del text
        plain = not (segment.joins or segment.filtered or segment.edited)
        alone = {span.source for span in segment.spans} == {self.source}
        whole = sum(span.end - span.start for span in segment.spans) == segment.bytes_raw
        if not (plain and alone and whole) or any(gap.reason == _CHANGED for gap in segment.gaps):
            raise PlacesUnknownError
        found, before = [], 0
        for span in segment.spans:
            start, end = max(self.start, span.start), min(self.end, span.end)
            if start < end:
                found.append(Range(before + start - span.start, before + end - span.start))
            before += span.end - span.start
        return joined(found)

    def records(self, segment: Segment, black: Sequence[Range], *, at: str, reason: str) -> list[Redaction]:
        """One for each part of the source."""
        del black
        return [
            Redaction(
                at=at, reason=reason, bytes=part.end - part.start, source=self.source, start=part.start, end=part.end
            )
            for part in self._parts(segment)
        ]

    def _parts(self, segment: Segment) -> Iterator[Range]:
        for span in segment.spans:
            start, end = max(self.start, span.start), min(self.end, span.end)
            if span.source == self.source and start < end:
                yield Range(start, end)


def joined(ranges: Iterator[Range] | Sequence[Range]) -> list[Range]:
    """Ascending ranges that overlap or touch, as one."""
    found: list[Range] = []
    for each in ranges:
        if found and each.start <= found[-1].end:
            found[-1] = Range(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def blackened(text: bytes, ranges: Sequence[Range]) -> bytes:
    """`text` with every byte of `ranges` black, newlines excepted: offsets, lengths and line counts stay."""
    result = bytearray(text)
    for start, end in ranges:
        result[start:end] = bytes(NEWLINE if byte == NEWLINE else BLACK for byte in result[start:end])
    return bytes(result)


def is_black(text: bytes, ranges: Sequence[Range]) -> bool:
    """Whether everything in `ranges` is blacked out already."""
    return all(byte in {BLACK, NEWLINE} for start, end in ranges for byte in set(text[start:end]))


def _line_around(text: bytes, each: Range) -> Range:
    end = text.find(b"\n", each.end)
    return Range(text.rfind(b"\n", 0, each.start) + 1, len(text) if end < 0 else end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSegment:
    """The bytes that were, or would be, blacked out in one segment."""

    segment: Segment
    bytes: int
    places: int
    path: str = ""  #: of the new segment; empty: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMatches:
    """A segment with the ranges to black out in it."""

    segment: Segment
    text: bytes
    black: list[Range]


class Rewriter:
    """Blacks out a choice in the sealed segments of an archive."""

    def __init__(self, archive: Path, choice: Choice, *, reason: str) -> None:
        self._archive = archive
        self._choice = choice
        self._reason = reason

    def find(self, segment: Segment) -> SegmentMatches | None:
        """The bytes to black out in `segment`; None: there are none.

        The text is in memory: at most what the collector's `segment` setting lets one grow to.

        Raises:
            Fatal: the file differs from its manifest line, or places in it are not known.
        """
        if not self._choice.concerns(segment):
            return None
        text = rewrite_segment.text_of(self._archive, segment)
        try:
            black = self._choice.ranges(segment, text)
        except PlacesUnknownError:
            raise Fatal(
                f"{segment.path}: the places of single bytes are not known, because it holds several sources, or edited"
                " or joined lines",
                hint="use --match to choose the text",
            ) from None
        return None if is_black(text, black) else SegmentMatches(segment=segment, text=text, black=black)

    def rewrite(self, path: str) -> RedactedSegment | None:
        """Black out the choice in the current segment `path`; None: there is nothing, or it is removed.

        Raises:
            Unavailable: a collector merges segments of the partition for long. Fatal: see `find`.
        """
        partition = int(path.split("/")[1].removeprefix("partition="))
        with alone(self._archive, [partition]):
            return self._rewrite(path)

    def finish(self, segments: list[Segment]) -> list[str]:
        """Remove replaced segments that a kill left; returns their paths."""
        return remove_replaced(self._archive, segments)

    def _rewrite(self, path: str) -> RedactedSegment | None:
        segment = {each.path: each for each in current_segments(self._archive, date_of(path))}.get(path)
        found = self.find(segment) if segment is not None else None
        if segment is None or found is None:
            return None
        records = self._choice.records(segment, found.black, at=now(), reason=self._reason)
        made = replace_segment_text(
            self._archive,
            segment,
            blackened(found.text, found.black),
            redactions=(*segment.redactions, *records),
        )
        return RedactedSegment(segment=segment, bytes=_length(found.black), places=len(found.black), path=made.path)


def dry_run_of(found: SegmentMatches) -> RedactedSegment:
    """The dry-run result."""
    return RedactedSegment(segment=found.segment, bytes=_length(found.black), places=len(found.black))


def _length(ranges: list[Range]) -> int:
    return sum(each.end - each.start for each in ranges)
