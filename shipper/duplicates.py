"""Which bytes of a source an archive holds twice, from the spans in its manifests. Pure.

The order of the copies is that of `order_of`: by day, then by the time at which JetStream stored the first block. The
first copy is kept. Bytes that an earlier segment, or an earlier span of the same segment, holds already are doubled.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shipper.layout import date_of
from shipper.manifest import Segment, SourceSpan
from shipper.model import Span

Bounds = list[int]
"""Runs of bytes as start, end, start, end, ...: ascending, with at least one byte between two runs."""

Order = tuple[str, str, int, int, str]


def cover(held: Bounds, start: int, end: int) -> tuple[Span, ...]:
    """Add the bytes `start` to `end` (excluded) to `held`; the ones of them that it had already."""
    if start >= end:
        return ()
    if not held or held[-1] < start:
        held += (start, end)
        return ()
    if held[-1] == start:
        held[-1] = end
        return ()
    doubled = common(held, start, end)
    first, last = _touched(held, start, end)
    if first < last:
        start, end = min(start, held[first]), max(end, held[last - 1])
    held[first:last] = (start, end)
    return doubled


def common(held: Bounds, start: int, end: int) -> tuple[Span, ...]:
    """The ones of the bytes `start` to `end` (excluded) that `held` has."""
    first, last = _touched(held, start, end)
    runs = zip(held[first:last:2], held[first + 1 : last : 2], strict=True)
    found = (Span(max(begin, start), min(stop, end)) for begin, stop in runs)
    return tuple(span for span in found if span.start < span.end)


def begins(held: Bounds, start: int) -> bool:
    """Whether a run of `held` begins at `start`."""
    at = bisect_left(held, start)
    return at < len(held) and held[at] == start and at % 2 == 0


def _touched(held: Bounds, start: int, end: int) -> tuple[int, int]:
    """Indexes in `held` of the runs that overlap or touch `start` to `end`."""
    return bisect_left(held, start) // 2 * 2, (bisect_right(held, end) + 1) // 2 * 2


class Index:
    """Which bytes of each source are held: one run for a source that arrived without gaps, whatever its segments.

    A source is remembered by the 64-bit hash of its name, so that a million sources need some 200 MB. `before`: an
    index that counts too and stays as it is.
    """

    def __init__(self, before: "Index | None" = None) -> None:
        self._held: dict[int, Bounds] = {}
        self._before = before

    def __len__(self) -> int:
        return len(self._held)

    def add(self, host: str, source: str, start: int, end: int) -> tuple[Span, ...]:
        """Note that these bytes are held; the ones that were held already."""
        held = self._held.get(key := hash((host, source)))
        earlier = self._before.common(host, source, start, end) if self._before is not None else ()
        if held is None:
            self._held[key] = [start, end] if start < end else []
            return earlier
        return _union(earlier, cover(held, start, end))

    def common(self, host: str, source: str, start: int, end: int) -> tuple[Span, ...]:
        """The ones of these bytes that are held; notes nothing."""
        held = self._held.get(hash((host, source)))
        found = common(held, start, end) if held and start < end else ()
        return found if self._before is None else _union(self._before.common(host, source, start, end), found)


def _union(some: tuple[Span, ...], others: tuple[Span, ...]) -> tuple[Span, ...]:
    if not (some and others):
        return some or others
    whole: Bounds = []
    for span in (*some, *others):
        cover(whole, span.start, span.end)
    return tuple(Span(start, end) for start, end in zip(whole[::2], whole[1::2], strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubled:
    """A segment of which an earlier copy holds bytes."""

    segment: Segment
    spans: tuple[SourceSpan, ...]  #: that are doubled

    @property
    def bytes(self) -> int:
        """Bytes of the sources that are doubled."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def is_whole(self) -> bool:
        """Whether an earlier copy holds everything that the segment holds."""
        return self.bytes == sum(span.end - span.start for span in self.segment.spans)

    @property
    def lines(self) -> int:
        """Lines that are stored twice; if only a part is, its share of the bytes: a manifest has no more detail."""
        whole = sum(span.end - span.start for span in self.segment.spans)
        return self.segment.lines if self.is_whole else round(self.segment.lines * self.bytes / whole)


def order_of(segment: Segment) -> Order:
    """Which of two copies is the first one: the key to sort segments by. No two segments have the same."""
    return (date_of(segment.path), segment.first_time, segment.partition, segment.first_seq, segment.path)


def doubled(segments: Iterable[Segment], before: Index | None = None) -> Iterator[Doubled]:
    """The segments of which an earlier one, or `before`, holds bytes. `before` notes what they hold."""
    index = Index() if before is None else before
    for segment in sorted(segments, key=order_of):
        spans = tuple(
            SourceSpan(source=span.source, start=common.start, end=common.end)
            for span in segment.spans
            for common in index.add(segment.host, span.source, span.start, span.end)
        )
        if spans:
            yield Doubled(segment=segment, spans=spans)
