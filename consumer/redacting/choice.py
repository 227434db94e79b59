"""Which bytes of a segment's text are to be blacked out, and the text without them. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
class Matching:
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
