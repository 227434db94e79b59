"""A delivery as the text that is new in it: every byte of a source once, whatever was sent again."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from consumer.archive.parts import ROUNDED_NS, Part
from consumer.archive.selection import Wanted
from consumer.commit.watermark import BlockOutcome, judge, missing_before
from consumer.model import ArchivedSource, SourceKey
from consumer.read.piece import Piece
from shipper import codec
from shipper.compression import Decompressor
from shipper.errors import Poison
from shipper.manifest import SourceSpan
from shipper.model import Block, Delivery, Span
from shipper.subjects import parse_log_subject

MAX_SOURCES = 100_000
"""How many are remembered: a source that was silent for longest is forgotten first."""
MAX_HOLES = 16
"""Of one source."""


class ArchivedSpans(NamedTuple):
    """What the archive has of what the streams still hold, so that it is not printed twice."""

    sources: Mapping[SourceKey, ArchivedSource] = {}
    plain: Mapping[tuple[int, str], tuple[int, int]] = {}
    """Of partition and host: sequence and time (ns) of the last plain message that the archive has."""


def archived_spans(parts: Iterable[Part], borders: Mapping[int, int], plain_file: str) -> ArchivedSpans:
    """What of the streams' messages these files hold already."""
    sources: dict[SourceKey, ArchivedSource] = {}
    plain: dict[tuple[int, str], tuple[int, int]] = {}
    for part in parts:
        if part.last_ns + ROUNDED_NS < borders.get(part.partition, 1 << 63):
            continue
        for span in part.spans:
            key = SourceKey(part.host, span.source)
            sources[key] = _extended(sources.get(key), part, span)
        if part.file == plain_file:
            where = (part.partition, part.host)
            last = (part.last_seq, part.last_ns + ROUNDED_NS)
            plain[where] = max(plain.get(where, last), last)
    return ArchivedSpans(sources, plain)


def _extended(known: ArchivedSource | None, part: Part, span: SourceSpan) -> ArchivedSource:
    start = min(span.start, known.origin) if known else span.start
    end = max(span.end, known.watermark) if known else span.end
    return ArchivedSource(id=span.source, host=part.host, file=part.file, origin=start, watermark=end, crc=None)


class _SourceProgress(NamedTuple):
    known: ArchivedSource
    holes: tuple[Span, ...] = ()  #: before its watermark, of which no byte came


class Deduplicator:
    """Remembers of each source how far it was printed. Owned by one reader."""

    def __init__(self, wanted: Wanted, *, plain_file: str, shown: ArchivedSpans = ArchivedSpans()) -> None:  # noqa: B008 - frozen
        self.unreadable = 0  #: messages that fail for their own sake, so that no collector applies them either
        self._wanted = wanted
        self._plain_file = plain_file
        self._shown = shown
        self._seen: OrderedDict[SourceKey, _SourceProgress] = OrderedDict()
        self._decompressor = Decompressor()

    def cut(self, delivery: Delivery) -> list[Piece]:
        """The wanted text of a message that was not printed before."""
        try:
            address = parse_log_subject(delivery.subject)
            if not self._wanted.hosts.takes(address.host):
                return []
            if codec.is_plain(delivery.headers):
                return self._plain(delivery, *address)
            block = codec.from_headers(delivery.headers)
            return self._block(delivery, address.host, block) if self._wanted.has_file(block.file) else []
        except Poison:
            self.unreadable += 1
            return []

    def _plain(self, delivery: Delivery, partition: int, host: str) -> list[Piece]:
        sequence, time_ns = self._shown.plain.get((partition, host), (0, 0))
        if delivery.sequence <= sequence and delivery.time_ns <= time_ns:
            return []
        if not self._wanted.has_file(self._plain_file):
            return []
        return [Piece(delivery.time_ns, host, self._plain_file, "", None, delivery.payload + b"\n")]

    def _block(self, delivery: Delivery, host: str, block: Block) -> list[Piece]:
        key = SourceKey(host, block.source)
        known, holes = self._seen.get(key) or _SourceProgress(self._shown.sources.get(key) or _from_here(block, host))
        verdict, (start, end) = judge(block, known), block.span
        parts = [Span(max(hole.start, start), min(hole.end, end)) for hole in holes]
        holes = tuple(rest for hole in holes for rest in _without(hole, block.span))
        if verdict is BlockOutcome.HOLE:
            holes = (*holes, missing_before(block, known))[-MAX_HOLES:]
        if verdict is not BlockOutcome.DUPLICATE:
            parts.append(Span(max(known.watermark, start), end))
            known = replace(known, watermark=max(known.watermark, end), ended=block.end is not None)
        self._seen[key] = _SourceProgress(known, holes)
        self._seen.move_to_end(key)
        if len(self._seen) > MAX_SOURCES:
            self._seen.popitem(last=False)
        return [self._piece(delivery, host, block, part) for part in parts if part.length > 0]

    def _piece(self, delivery: Delivery, host: str, block: Block, part: Span) -> Piece:
        """The text of a part of a block. Where it was edited, its bytes are no bytes of the source."""
        text = self._decompressor.rest(block, delivery.payload, at=part.start).content
        if part.end < block.span.end:
            rest = self._decompressor.rest(block, delivery.payload, at=part.end).content
            text = text[: len(text) - len(rest)]
        offset = part.start if block.edited is None else None
        return Piece(delivery.time_ns, host, block.file, block.source, offset, text)


def _from_here(block: Block, host: str) -> ArchivedSource:
    """A source that is met in its middle: what is before counts as printed."""
    start = block.span.start
    return ArchivedSource(id=block.source, host=host, file=block.file, origin=start, watermark=start, crc=None)


def _without(hole: Span, span: Span) -> list[Span]:
    """What of a hole is left when `span` came."""
    parts = Span(hole.start, min(hole.end, span.start)), Span(max(hole.start, span.end), hole.end)
    return [part for part in parts if part.length > 0]
