"""Doubled bytes are removed from the segments that hold the later copy, with a record in their manifest lines.

The first copy (`shipper.duplicates.order_of`) stays. Before anything is removed, the bytes of both copies are compared;
where they differ, or where it is not known which bytes of a segment they are, both copies stay. A segment that holds
nothing else becomes an empty one that carries the record; of another one only the doubled bytes are removed.

A kill at any step leaves the old segment or the new one counted (consumer/segments/rewrite_segment.py). One repair runs
at a time; while it changes a pair of segments, no collector merges, no redaction runs and retention removes nothing.
"""

import getpass
import os
import socket
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from consumer.archive import manifests
from consumer.archive.directory import LOCKS
from consumer.archive.journal import REASON_CHANGED
from consumer.archive.manifests import current_segments, is_listed, removed_days
from consumer.archive.parts import Part
from consumer.audit.day_inventory import Scope
from consumer.segments.rewrite_segment import (
    KeptRange,
    alone,
    remove_replaced,
    replace_segment_text,
    stands,
    text_of,
    without_retention,
)
from consumer.segments.sealer import now
from shipper.duplicates import Index, cover, doubled, order_of
from shipper.durable_files import Lock, make_directory
from shipper.errors import Fatal, ShipperError
from shipper.layout import date_of
from shipper.manifest import Gap, Removal, Segment, SourceSpan

NEWLINE = b"\n"


class CopyRange(NamedTuple):
    """Bytes `start` to `end` (excluded) of a source, in the span number `at` of the segment `path`."""

    source: str
    start: int
    end: int
    path: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRepair:
    """A segment that holds a later copy, and what becomes of it."""

    segment: Segment
    bytes: int  #: of its sources that are doubled
    lines: int = 0  #: that are removed with them
    kept: tuple[str, ...] = ()  #: the segments that hold the first copy
    refused: str = ""  #: why nothing is removed; empty: it can be
    hint: str = ""
    path: str = ""  #: of the segment that replaces it; empty: nothing was written


@dataclass(slots=True, kw_only=True)
class RepairResult:
    """What a repair did, or would do."""

    found: list[SegmentRepair] = field(default_factory=list)
    open_files: list[tuple[str, int]] = field(default_factory=list)  #: that hold doubled bytes, and how many

    @property
    def repaired(self) -> list[SegmentRepair]:
        """What can be, or was, removed."""
        return [each for each in self.found if not each.refused]

    @property
    def refused(self) -> list[SegmentRepair]:
        """What cannot be removed."""
        return [each for each in self.found if each.refused]


class _SegmentText(NamedTuple):
    """The text of a segment, and where each of its spans begins. None means that it is not known."""

    text: bytes
    places: list[int] | None


class _Rest(NamedTuple):
    """What is left of a segment: its text, and the fields of its manifest line."""

    text: bytes
    fields: dict[str, Any]
    kept: tuple[KeptRange, ...] = ()  #: of the old text


class Repair:
    """Finds the later copies in an archive, and removes them."""

    def __init__(self, scope: Scope, *, reason: str) -> None:
        self._scope = scope
        self._archive = scope.archive
        self._reason = reason
        self._owned: dict[tuple[str, str], list[CopyRange]] = {}  # by host and source: who holds which bytes first
        self._doubled: dict[str, list[CopyRange]] = {}  # by path of the later copy
        self._segments: dict[str, Segment] = {}  # that hold a source of which bytes are doubled

    def find(self, waiting: Iterable[Part]) -> RepairResult:
        """What would be removed. `waiting`: the open files that the journals know. Changes nothing."""
        index = Index()
        sources = {
            (each.segment.host, span.source)
            for date in self._dates()
            for each in doubled(current_segments(self._archive, date), before=index)
            for span in each.spans
        }
        self._assign(sources)
        result = RepairResult(open_files=list(self._open_files(waiting, index)))
        for path in sorted(self._doubled):
            if self._scope.has_host(self._segments[path].host) and self._scope.has_day(date_of(path)):
                result.found.append(self._judged(self._segments[path]))
        return result

    def run(self, waiting: Sequence[Part]) -> RepairResult:
        """Remove what `find` finds, and finish what a kill left before.

        Raises:
            Fatal: another repair, or retention, is at it. Unavailable: a collector merges for long. OSError.
        """
        make_directory(self._archive / LOCKS)
        with (
            Lock(self._archive / LOCKS / "repair.lock", f"the repair of {self._archive}"),
            without_retention(self._archive),
        ):
            for date in self._dates():
                remove_replaced(self._archive, current_segments(self._archive, date))
            found = self.find(waiting)
            return replace(found, found=[each if each.refused else self._remove(each) for each in found.found])

    def _dates(self) -> list[str]:
        return sorted(manifests.days(self._archive) - removed_days(self._archive))

    def _assign(self, sources: set[tuple[str, str]]) -> None:
        """Find for each byte of `sources` the segment that holds it first, and those that hold it again."""
        held: dict[tuple[str, str], list[int]] = {key: [] for key in sources}
        for date in self._dates() if sources else ():
            for segment in sorted(current_segments(self._archive, date), key=order_of):
                for index, span in enumerate(segment.spans):
                    key = (segment.host, span.source)
                    if key not in held:
                        continue
                    self._segments[segment.path] = segment
                    at = span.start
                    for common in cover(held[key], span.start, span.end):
                        self._own(key, CopyRange(span.source, at, common.start, segment.path, index))
                        again = CopyRange(span.source, common.start, common.end, segment.path, index)
                        self._doubled.setdefault(segment.path, []).append(again)
                        at = common.end
                    self._own(key, CopyRange(span.source, at, span.end, segment.path, index))
        for pieces in self._owned.values():
            pieces.sort(key=lambda piece: piece.start)

    def _own(self, key: tuple[str, str], piece: CopyRange) -> None:
        if piece.start < piece.end:
            self._owned.setdefault(key, []).append(piece)

    def _open_files(self, waiting: Iterable[Part], index: Index) -> Iterator[tuple[str, int]]:
        for entry in sorted(waiting, key=lambda entry: (entry.key.date, entry.first_ns, entry.path)):
            if entry.becomes and is_listed(self._archive, entry.becomes):
                continue
            host = entry.key.host
            again = [index.add(host, span.source, span.start, span.end) for span in entry.spans]
            octets = sum(common.length for each in again for common in each)
            if octets and self._scope.has_host(host) and self._scope.has_day(entry.key.date):
                yield entry.path, octets

    # -- one segment ------------------------------------------------------------------------------------------------

    def _judged(self, segment: Segment) -> SegmentRepair:
        """Whether the later copy can be removed: compares the bytes."""
        pieces = self._doubled[segment.path]
        found = SegmentRepair(
            segment=segment,
            bytes=sum(piece.end - piece.start for piece in pieces),
            kept=tuple(dict.fromkeys(first.path for piece in pieces for first in self._firsts(segment.host, piece))),
        )
        try:
            rest = self._rest(found)
        except ShipperError as error:
            return replace(found, refused=str(error), hint=error.hint)
        return replace(found, lines=segment.lines - rest.text.count(NEWLINE))

    def _remove(self, found: SegmentRepair) -> SegmentRepair:
        segment = found.segment
        kept = [self._segments[path] for path in found.kept]
        with alone(self._archive, [segment.partition, *(each.partition for each in kept)]):
            if not all(stands(self._archive, each) for each in (segment, *kept)):
                return replace(found, refused="its segments were merged or rewritten meanwhile", hint="run it again")
            try:
                rest = self._rest(found)  # again: nothing changes them from here on
                made = replace_segment_text(self._archive, segment, rest.text, kept=rest.kept, **rest.fields)
            except ShipperError as error:
                return replace(found, refused=str(error), hint=error.hint)
        return replace(found, path=made.path)

    def _rest(self, found: SegmentRepair) -> _Rest:
        """What is left of a segment without its doubled bytes. Raises ShipperError: both copies stay."""
        segment, pieces = found.segment, self._doubled[found.segment.path]
        if any(gap.reason == REASON_CHANGED for gap in segment.gaps):
            raise Fatal("it was changed before it was sealed", hint="restore it from a copy: fshipper audit")
        texts = {path: self._text(path) for path in {segment.path, *found.kept}}
        is_whole = self._is_same_whole(found, texts)
        for piece in () if is_whole else pieces:
            again = self._bytes(piece, texts)
            first = b"".join(self._bytes(part, texts) for part in self._firsts(segment.host, piece))
            if again != first:
                where = f"bytes {piece.start}-{piece.end} of source {piece.source}"
                raise Fatal(
                    f"{where} are not the same in {', '.join(found.kept)}",
                    hint="if one copy was redacted, redact the other one, too (fshipper redact), and run this again;"
                    " else compare the files: one of them is not what the host wrote",
                )
        text, places = texts[segment.path]
        if is_whole or places is None:  # None: its one span is doubled as a whole, else its bytes were not found
            return _Rest(b"", self._fields(found, (), 0) | {"filtered": 0, "edited": 0, "redacted": {}})
        left, spans, joins, kept = _without(segment, text, places, pieces)
        return _Rest(left, self._fields(found, spans, joins), kept)

    def _is_same_whole(self, found: SegmentRepair, texts: dict[str, _SegmentText]) -> bool:
        """Whether one other segment holds the same spans in the same order, and the same text."""
        segment = found.segment
        if len(found.kept) != 1 or segment.path in found.kept or not segment.file.startswith("/"):
            return False
        whole = sum(span.end - span.start for span in segment.spans)
        (kept,) = found.kept
        same = self._segments[kept].spans == segment.spans and found.bytes == whole
        return same and texts[kept].text == texts[segment.path].text

    def _text(self, path: str) -> _SegmentText:
        segment = self._segments[path]
        text = text_of(self._archive, segment)
        return _SegmentText(text, _places(segment, text))

    def _bytes(self, piece: CopyRange, texts: dict[str, _SegmentText]) -> bytes:
        """The text of a piece. Raises Fatal: it is not known where it is."""
        segment, (text, places) = self._segments[piece.path], texts[piece.path]
        if places is not None:
            at = places[piece.at] - segment.spans[piece.at].start
            return text[at + piece.start : at + piece.end]
        if segment.file.startswith("/") and segment.spans == (
            SourceSpan(source=piece.source, start=piece.start, end=piece.end),
        ):
            return text
        raise Fatal(
            f"the places of single bytes in {piece.path} are not known: it holds edited lines or several sources",
            hint="keep both copies, or restore the archive from a backup that was made before",
        )

    def _firsts(self, host: str, piece: CopyRange) -> Iterator[CopyRange]:
        """The pieces that hold the bytes of `piece` first, in the order of these bytes."""
        pieces = self._owned[host, piece.source]
        for owned in pieces[max(0, bisect_right(pieces, piece.start, key=lambda each: each.start) - 1) :]:
            if owned.start >= piece.end:
                return
            start, end = max(owned.start, piece.start), min(owned.end, piece.end)
            if start < end:
                yield owned._replace(start=start, end=end)

    def _fields(self, found: SegmentRepair, spans: tuple[SourceSpan, ...], joins: int) -> dict[str, Any]:
        segment, at, by = found.segment, now(), _this_user()
        records = [
            Removal(
                at=at,
                by=by,
                reason=self._reason,
                bytes=piece.end - piece.start,
                source=piece.source,
                start=piece.start,
                end=piece.end,
                path=segment.path,
                kept=tuple(dict.fromkeys(first.path for first in self._firsts(segment.host, piece))),
            )
            for piece in self._doubled[segment.path]
        ]
        known = {
            gap for path in found.kept if path != segment.path for gap in map(_place_of, self._segments[path].gaps)
        }
        return {
            "spans": spans,
            "joins": joins,
            "gaps": tuple(gap for gap in segment.gaps if _place_of(gap) not in known),
            "removals": (*segment.removals, *records),
        }


def _place_of(gap: Gap) -> tuple[str, int, int]:
    return gap.source, gap.start, gap.end


def _places(segment: Segment, text: bytes) -> list[int] | None:
    """Where in the text each span begins. None means that it is not known.

    Spans are in the order in which they were written. Between two of them there may be a newline that the collector
    added. A guess that is wrong does no harm: both copies are compared byte by byte where it leads.
    """
    if segment.filtered or segment.edited or any(gap.reason == REASON_CHANGED for gap in segment.gaps):
        return None
    at, joins, places = 0, segment.joins, list[int]()
    for span in segment.spans:
        if joins and at and text[at - 1 : at] != NEWLINE and text[at : at + 1] == NEWLINE:
            at, joins = at + 1, joins - 1
        places.append(at)
        at += span.end - span.start
    if joins and text[at:] == NEWLINE:
        at, joins = at + 1, joins - 1
    return places if at == len(text) and not joins else None


def _without(
    segment: Segment, text: bytes, places: Sequence[int], pieces: Iterable[CopyRange]
) -> tuple[bytes, tuple[SourceSpan, ...], int, tuple[KeptRange, ...]]:
    """The text without `pieces`, the spans in it, the newlines in it that are of no source, and where it was."""
    left, spans, joins, end, kept = bytearray(), list[SourceSpan](), 0, 0, list[KeptRange]()
    removed_of: dict[int, list[CopyRange]] = {}
    for piece in pieces:
        removed_of.setdefault(piece.at, []).append(piece)
    for index, span in enumerate(segment.spans):
        at = span.start
        for removed in (*removed_of.get(index, ()), None):
            stop = removed.start if removed else span.end
            if at < stop:
                begin = places[index] + at - span.start
                if left and begin > end and not left.endswith(NEWLINE):  # else two lines would become one
                    left += NEWLINE
                    joins += 1
                end = begin + stop - at
                kept.append(KeptRange(begin, end, len(left)))
                left += text[begin:end]
                if spans and (spans[-1].source, spans[-1].end) == (span.source, at):
                    spans[-1] = replace(spans[-1], end=stop)
                else:
                    spans.append(SourceSpan(source=span.source, start=at, end=stop))
            at = removed.end if removed else at
    if (
        left and end + 1 == len(text) and text.endswith(NEWLINE) and not left.endswith(NEWLINE)
    ):  # the collector ended an unfinished last line
        left += NEWLINE
        joins += 1
    return bytes(left), tuple(spans), joins, tuple(kept)


def _this_user() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # the user has no entry in the password file
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
