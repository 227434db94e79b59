"""A segment is replaced by one that is black in places. A kill at any line leaves the old one or the new one counted.

make    unpack, compare with the manifest line, black out, pack under a temporary name, fsync
place   link, fsync the directory
        manifest line that says what it replaces, fsync         (from here on readers count it, and not the old one)
        remove the old one, fsync the directory

Killed before the line: running it again takes the name over. Killed behind it: running it again removes the old one.
"""

import contextlib
import io
import itertools
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from consumer.audit.look import is_written
from consumer.redacting.choice import Choice, PlacesUnknownError, Range, blackened, is_black
from consumer.sealing import manifests
from consumer.sealing.joining import number_of
from consumer.sealing.packing import BROKEN, Passing, Tally, Written, pack, texts
from consumer.sealing.placing import beside, sweep
from consumer.sealing.rewriting import rewriting
from consumer.sealing.seal import Sealer, now
from shipper import layout, manifest
from shipper.errors import Fatal, Unavailable
from shipper.files import sync_directory
from shipper.layout import FileKey
from shipper.manifest import Segment

WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.1


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
        text = self._text(segment)
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
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with rewriting(self._archive, partition) as alone:
                if alone:
                    return self._rewrite(path)
            time.sleep(LOOK_SECONDS)
        raise Unavailable(f"a collector merges segments of partition {partition}", hint="try again in some minutes")

    def finish(self, segments: list[Segment]) -> list[str]:
        """Remove what kills left of segments that were redacted before; the paths of those as they were."""
        for segment in segments:
            if segment.redactions:
                _sweep(self._archive / segment.path)
        left = [path for segment in segments if segment.redactions for path in segment.replaces]
        removed = [path for path in left if (self._archive / path).exists()]
        for path in removed:
            (self._archive / path).unlink(missing_ok=True)
            sync_directory((self._archive / path).parent)
        return removed

    def _rewrite(self, path: str) -> Blackened | None:
        segment = {each.path: each for each in standing_on(self._archive, _date_of(path))}.get(path)
        found = self.look(segment) if segment is not None else None
        if segment is None or found is None:
            return None
        made = self._make(found)
        (self._archive / path).unlink(missing_ok=True)
        sync_directory((self._archive / path).parent)
        return Blackened(segment=segment, bytes=_length(found.black), places=len(found.black), path=made.path)

    def _make(self, found: Found) -> Segment:
        """The black segment, durable and listed."""
        old = found.segment
        sealer = Sealer(self._archive, collector=old.collector, codec=old.codec)
        path = self._free_path(old)
        _sweep(self._archive / path)
        before = sealer.listed_bytes(path)
        with beside(self._archive / path) as fresh:
            packed = Written(fresh.stream)
            text = pack(io.BytesIO(blackened(found.text, found.black)), packed, old.codec)
            if not fresh.publish():  # of a run that was killed before its manifest line
                fresh.replace()
            made = self._segment(found, path, text, packed)
            sealer.record(made, since=before)
        return made

    def _segment(self, found: Found, path: str, text: Tally, packed: Written) -> Segment:
        old, at = found.segment, now()
        records = self._choice.records(old, found.black, at=at, reason=self._reason)
        return replace(
            old,
            path=path,
            bytes_stored=packed.octets,
            crc32=f"{text.crc:08x}",
            crc32_stored=f"{packed.crc:08x}",
            sealed_at=at,
            replaces=(old.path,),
            redactions=(*old.redactions, *records),
        )

    def _free_path(self, old: Segment) -> str:
        """A number beside the old one's, so that names go on telling the order of bytes.

        Not above the highest while a collector may be about to give that one to its next segment.
        """
        date = _date_of(old.path)
        number, listed = number_of(old), listed_on(self._archive, date)
        of_file = [
            each for each in listed if (each.partition, each.host, each.file) == (old.partition, old.host, old.file)
        ]
        used = {number_of(each) for each in of_file}
        standing = sorted(number_of(each) for each in manifest.standing(listed) if each in of_file)
        before = max((each for each in standing if each < number), default=-1)
        behind = min((each for each in standing if each > number), default=0)
        if not behind and not self._may_be_sealed(date, old.partition):
            behind = max(used) + 2
        candidates = itertools.chain(range(number - 1, before, -1), range(number + 1, behind))
        free = next((each for each in candidates if each not in used), None)
        if free is None:
            raise Unavailable(
                f"there is no free number beside {old.path}",
                hint="black out all at once (--match), or later: the day merged, or the collector stopped for a moment",
            )
        return layout.segment_path(FileKey(date, old.partition, old.host, old.file), free, old.codec)

    def _may_be_sealed(self, date: str, partition: int) -> bool:
        """Whether a collector may list another segment of a day's partition now."""
        closed = all(path.with_suffix(".done").exists() for path in manifests.of_day(self._archive, date))
        return not closed and is_written(self._archive, partition)

    def _text(self, segment: Segment) -> bytes:
        """The text of a segment. Raises Fatal: it is not what its manifest line says."""
        tally, pieces = Tally(), []
        try:
            with (self._archive / segment.path).open("rb") as stream:
                for piece in texts(Passing(stream, sys.maxsize), segment.codec):
                    tally.add(piece)
                    pieces.append(piece)
        except (OSError, *BROKEN) as error:
            raise Fatal(f"{segment.path} cannot be read: {error}", hint="fshipper audit tells more") from None
        if (tally.octets, f"{tally.crc:08x}") != (segment.bytes_raw, segment.crc32):
            raise Fatal(f"{segment.path} is not what its manifest lists", hint="fshipper audit tells more")
        return b"".join(pieces)


def _sweep(path: Path) -> None:
    """Remove what killed runs left beside a segment."""
    if path.parent.is_dir():
        sweep(path.parent, path.name)


def standing_on(archive: Path, date: str) -> list[Segment]:
    """The segments of a day that count, in the order of their paths."""
    return sorted(manifest.standing(listed_on(archive, date)), key=lambda segment: segment.path)


def listed_on(archive: Path, date: str) -> list[Segment]:
    """Every segment that a manifest of a day lists, those that were replaced, too."""
    found: list[Segment] = []
    for path in manifests.of_day(archive, date):
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError, TypeError, AttributeError):  # the audit tells of what is damaged
                found.append(manifest.from_line(line))
    return found


def as_told(found: Found) -> Blackened:
    """What would be blacked out."""
    return Blackened(segment=found.segment, bytes=_length(found.black), places=len(found.black))


def _length(ranges: list[Range]) -> int:
    return sum(each.end - each.start for each in ranges)


def _date_of(path: str) -> str:
    return path.partition("/")[0].removeprefix("date=")
