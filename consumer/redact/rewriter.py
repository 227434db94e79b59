"""Sealed segments are replaced by ones that are black in places, so that a kill leaves the old or the new one counted.

How a segment is replaced: consumer/segments/rewrite_segment.py.

Which bytes of a segment's text are to be blacked out, and the text without them. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from consumer.segments import rewrite_segment
from consumer.segments.rewrite_segment import alone, put_instead, remove_replaced, standing_on
from consumer.segments.sealer import now
from shipper.duplicates import date_of
from shipper.errors import Fatal
from shipper.manifest import Redaction, Segment

BLACK = ord("*")
NEWLINE = ord("\n")
_CHANGED = "archive_changed"


class Range(NamedTuple):
    """Bytes of a text, `end` excluded."""

    start: int
    end: int


class PlacesUnknownError(Exception):
    """Nobody can say where in the text of a segment the bytes of a source lie."""


class Choice(Protocol):
    """What is to be blacked out."""

    def concerns(self, segment: Segment) -> bool:
        """Whether the segment may hold some of it, as its manifest line says."""

    def ranges(self, segment: Segment, text: bytes) -> list[Range]:
        """Where it is in the text, ascending, none touching another. Raises PlacesUnknownError."""

    def records(self, segment: Segment, black: Sequence[Range], *, at: str, reason: str) -> list[Redaction]:
        """What the manifest says of it."""


@dataclass(frozen=True, slots=True)
class RegexMatches:
    """What a regular expression finds, line by line."""

    pattern: re.Pattern[bytes]
    whole_lines: bool = False

    def concerns(self, segment: Segment) -> bool:
        """Any may."""
        return segment.bytes_raw > 0

    def ranges(self, segment: Segment, text: bytes) -> list[Range]:
        """What it finds; a match that is not empty."""
        del segment
        found = (Range(*each.span()) for each in self.pattern.finditer(text))
        return joined(_line_around(text, each) if self.whole_lines else each for each in found if each.end > each.start)

    def records(self, segment: Segment, black: Sequence[Range], *, at: str, reason: str) -> list[Redaction]:
        """One for the segment: what was looked for is not to be read in a manifest."""
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
        """Where they lie: known where the text is nothing but the spans of this one source, in their order."""
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
    """Whether nothing in `ranges` is left to black out."""
    return all(byte in {BLACK, NEWLINE} for start, end in ranges for byte in set(text[start:end]))


def _line_around(text: bytes, each: Range) -> Range:
    end = text.find(b"\n", each.end)
    return Range(text.rfind(b"\n", 0, each.start) + 1, len(text) if end < 0 else end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSegment:
    """What was, or would be, blacked out in one segment."""

    segment: Segment
    bytes: int
    places: int
    path: str = ""  #: of the new segment; empty: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMatches:
    """What a segment holds of what is looked for."""

    segment: Segment
    text: bytes
    black: list[Range]


class Rewriter:
    """Blacks out a choice in the sealed segments of an archive."""

    def __init__(self, archive: Path, choice: Choice, *, reason: str) -> None:
        self._archive = archive
        self._choice = choice
        self._reason = reason

    def look(self, segment: Segment) -> SegmentMatches | None:
        """What is to be blacked out in `segment`; None: nothing is left to be.

        The text is in memory: at most what the collector's `segment` setting lets one grow to.

        Raises:
            Fatal: the file is not what its manifest line says, or places in it are not known.
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
                hint="say what to black out by --match",
            ) from None
        return None if is_black(text, black) else SegmentMatches(segment=segment, text=text, black=black)

    def rewrite(self, path: str) -> RedactedSegment | None:
        """Black out what is to be in the segment `path` as it is now; None: nothing is, or it is gone.

        Raises:
            Unavailable: a collector merges segments of the partition for long. Fatal: see `look`.
        """
        partition = int(path.split("/")[1].removeprefix("partition="))
        with alone(self._archive, [partition]):
            return self._rewrite(path)

    def finish(self, segments: list[Segment]) -> list[str]:
        """Remove what a kill left of segments that were replaced; the paths of those."""
        return remove_replaced(self._archive, segments)

    def _rewrite(self, path: str) -> RedactedSegment | None:
        segment = {each.path: each for each in standing_on(self._archive, date_of(path))}.get(path)
        found = self.look(segment) if segment is not None else None
        if segment is None or found is None:
            return None
        records = self._choice.records(segment, found.black, at=now(), reason=self._reason)
        made = put_instead(
            self._archive,
            segment,
            blackened(found.text, found.black),
            redactions=(*segment.redactions, *records),
        )
        return RedactedSegment(segment=segment, bytes=_length(found.black), places=len(found.black), path=made.path)


def as_told(found: SegmentMatches) -> RedactedSegment:
    """What would be blacked out."""
    return RedactedSegment(segment=found.segment, bytes=_length(found.black), places=len(found.black))


def _length(ranges: list[Range]) -> int:
    return sum(each.end - each.start for each in ranges)
