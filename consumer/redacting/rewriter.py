"""Sealed segments are replaced by ones that are black in places, so that a kill leaves the old or the new one counted.

How a segment is replaced: consumer/sealing/rewriting.py.
"""

from dataclasses import dataclass
from pathlib import Path

from consumer.redacting.choice import Choice, PlacesUnknownError, Range, blackened, is_black
from consumer.sealing import rewriting
from consumer.sealing.rewriting import alone, put_instead, remove_replaced, standing_on
from consumer.sealing.seal import now
from shipper.duplicates import date_of
from shipper.errors import Fatal
from shipper.manifest import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackened:
    """What was, or would be, blacked out in one segment."""

    segment: Segment
    bytes: int
    places: int
    path: str = ""  #: of the new segment; empty: nothing was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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

    def look(self, segment: Segment) -> Found | None:
        """What is to be blacked out in `segment`; None: nothing is left to be.

        The text is in memory: at most what the collector's `segment` setting lets one grow to.

        Raises:
            Fatal: the file is not what its manifest line says, or places in it are not known.
        """
        if not self._choice.concerns(segment):
            return None
        text = rewriting.text_of(self._archive, segment)
        try:
            black = self._choice.ranges(segment, text)
        except PlacesUnknownError:
            raise Fatal(
                f"{segment.path}: the places of single bytes are not known, because it holds several sources, or edited"
                " or joined lines",
                hint="say what to black out by --match",
            ) from None
        return None if is_black(text, black) else Found(segment=segment, text=text, black=black)

    def rewrite(self, path: str) -> Blackened | None:
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

    def _rewrite(self, path: str) -> Blackened | None:
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
        return Blackened(segment=segment, bytes=_length(found.black), places=len(found.black), path=made.path)


def as_told(found: Found) -> Blackened:
    """What would be blacked out."""
    return Blackened(segment=found.segment, bytes=_length(found.black), places=len(found.black))


def _length(ranges: list[Range]) -> int:
    return sum(each.end - each.start for each in ranges)
