"""The sums of the parts of a file's text: which bytes are of which source, and their CRC-32. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from consumer.archive.parts import Part
from shipper.bytes_ops import crc32
from shipper.manifest import SourceSpan

NEWLINE = ord("\n")
Cuts = Sequence[int]
"""Offsets of a source, ascending, at which a sum is known: parts end there."""


class TextPart(NamedTuple):
    """Bytes `start` to `end` (excluded) of a source in a file, and their CRC-32."""

    source: str
    start: int
    end: int
    crc: int


def is_as_sent(entry: Part) -> bool:
    """Whether the text of a file is just the bytes of its spans, with the newlines that were put between sources."""
    changed = entry.filtered or entry.edited or entry.redactions or any(not gap.source for gap in entry.gaps)
    length = sum(span.end - span.start for span in entry.spans)
    return bool(length) and not changed and length + entry.joins == entry.raw


def split_at(spans: Iterable[SourceSpan], cuts: Mapping[str, Cuts]) -> Iterator[SourceSpan]:
    """`spans` in their order, divided at the cuts of their sources."""
    for span in spans:
        start = span.start
        for cut in cuts.get(span.source, ()):
            if start < cut < span.end:
                yield SourceSpan(source=span.source, start=start, end=cut)
                start = cut
        if start < span.end:
            yield SourceSpan(source=span.source, start=start, end=span.end)


class PartSums:
    """The sums of the parts of a text that passes by, in the order of its spans.

    Where a source follows another one that ended without a newline, one newline of the collector is between them.
    """

    def __init__(self, parts: Iterable[SourceSpan], joins: int) -> None:
        self._waiting = iter(parts)
        self._joins = joins  # that were not met so far
        self._parts: list[TextPart] = []
        self._at = next(self._waiting, None)
        self._left = self._at.end - self._at.start if self._at else 0
        self._crc = 0
        self._last = b""  # byte of the part before
        self._joins_here = False  # a newline of the collector comes next
        self._is_exact = True

    def add(self, text: bytes) -> None:
        """The next bytes."""
        view = memoryview(text)
        while view and self._is_exact:
            if self._joins_here:
                self._is_exact, self._joins_here = view[0] == NEWLINE, False
                view = view[1:]
                continue
            if self._at is None:
                self._is_exact = False
                return
            taken, view = view[: self._left], view[self._left :]
            self._take(taken)
            self._left -= len(taken)
            if not self._left:
                self._end_part(self._at, bytes(taken[-1:]))

    def parts(self) -> tuple[TextPart, ...]:
        """All of them. It is empty where the text is not that of the spans, so that nothing is known of its parts."""
        is_whole = self._is_exact and self._at is None and not self._joins
        return tuple(self._parts) if is_whole else ()

    def _take(self, taken: memoryview) -> None:
        """The next bytes of the part that is begun."""
        self._crc = crc32(taken, self._crc)

    def _end_part(self, part: SourceSpan, last: bytes) -> None:
        self._parts.append(TextPart(part.source, part.start, part.end, self._crc))
        self._at, self._crc = next(self._waiting, None), 0
        self._left = self._at.end - self._at.start if self._at else 0
        if self._at is not None and self._at.source != part.source and last != b"\n" and self._joins:
            self._joins, self._joins_here = self._joins - 1, True


class SourceHead(PartSums):
    """The first bytes of one source in a text that passes by, instead of sums."""

    def __init__(self, spans: Iterable[SourceSpan], joins: int, source: str, limit: int) -> None:
        super().__init__(spans, joins)
        self._source = source
        self._limit = limit
        self.head = bytearray()

    @property
    def is_whole(self) -> bool:
        """Whether no more is needed."""
        return len(self.head) >= self._limit

    def _take(self, taken: memoryview) -> None:
        if self._at is not None and self._at.source == self._source:
            self.head += taken[: self._limit - len(self.head)]
