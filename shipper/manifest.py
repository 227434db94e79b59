"""Manifests: one JSON line for each sealed segment. Written by the collector; read by Spark, the audit and others."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, NamedTuple

from shipper.json_codec import IF_SET, exact, items, object_in, table, typed, written

VERSION = 1
FORKED = "forked"
"""Reason of a gap that lost nothing: its source is a fork of another one, which holds the bytes before the fork."""
PROOF = "proof"
"""A field that is reserved for a signed proof of a later version, with any value. Readers of this version ignore it."""
INFO = "info_"
"""Names of fields that change nothing of what counts begin so. Readers ignore those of later versions."""


_Paths = Annotated[tuple[str, ...], items(typed(str))]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpan:
    """Bytes `start` to `end` (excluded) of `source` that the segment holds."""

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Bytes of `source` that are known to be lost, and why."""

    source: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """Bytes of the text that were blacked out after they were archived, when and why."""

    at: str  #: RFC 3339, UTC
    reason: str
    bytes: int
    source: str = ""  #: empty: a pattern chose them, and their positions are unknown
    start: int = 0  #: of the source
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Bytes of `source` that were taken out of a segment, because an earlier copy of them is in the archive."""

    at: str  #: RFC 3339, UTC
    by: str  #: user and machine
    reason: str
    bytes: int  #: of the text
    source: str
    start: int  #: of the source
    end: int
    path: str  #: the segment that held them twice
    kept: _Paths  #: the segments that hold the first copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A sealed segment of one host's log file on one day."""

    collector: str
    partition: int
    host: str
    file: str  #: absolute path on the host, or the output name of plain messages
    path: str  #: relative to the archive
    codec: str  #: zstd, gzip or none
    lines: int  #: newlines, as `wc -l` counts
    bytes_raw: int
    bytes_stored: int
    first_seq: int
    last_seq: int
    first_time: str  #: RFC 3339, UTC, when JetStream stored the first block
    last_time: str
    spans: Annotated[tuple[SourceSpan, ...], items(partial(exact, SourceSpan))] = ()
    gaps: Annotated[tuple[Gap, ...], items(partial(exact, Gap))] = ()
    duplicates: int = 0  #: blocks dropped because their bytes were there already
    joins: int = 0  #: newlines that the collector put between two sources, or for a left-out rest of a line
    crc32: str = "00000000"  #: of the raw bytes, 8 hex digits
    sealed_at: str = ""
    filtered: Annotated[int, IF_SET] = 0  #: bytes of lines that the producer's settings left out; they are in `spans`
    edited: Annotated[int, IF_SET] = (
        0  #: bytes of `spans` that were blacked out or converted, less what stands for them; may be negative
    )
    redacted: Annotated[dict[str, int], table(typed(int)), IF_SET] = field(
        default_factory=dict
    )  #: how often each rule of the host's redaction fired
    labels: Annotated[dict[str, str], table(typed(str)), IF_SET] = field(
        default_factory=dict
    )  #: labels that the host gives its logs, from its newest block
    zone: Annotated[str, IF_SET] = ""  #: IANA name of the zone of lines without one; empty: UTC
    late: Annotated[int, IF_SET] = (
        0  #: seconds by which lines were stored after the times in them, where that is long; sampled
    )
    ahead: Annotated[int, IF_SET] = 0  #: seconds by which they were stored before the times in them
    times: Annotated[str, IF_SET] = (
        ""  #: base64 of when its text was stored, of gzip and plain segments; zstd has that in the file
    )
    crc32_stored: Annotated[str, IF_SET] = (
        ""  #: of the file as stored on disk, 8 hex digits; empty: sealed by an older version
    )
    replaces: Annotated[
        _Paths, IF_SET
    ] = ()  #: paths of the segments that were merged into it: their lines count no more
    redactions: Annotated[tuple[Redaction, ...], items(partial(exact, Redaction)), IF_SET] = ()  #: what is black in it
    removals: Annotated[
        tuple[Removal, ...], items(partial(exact, Removal)), IF_SET
    ] = ()  #: doubled bytes that were taken out of it
    v: int = field(default=VERSION)

    @property
    def is_emptied(self) -> bool:
        """Whether everything in it was a second copy, and was removed: only the record is left."""
        return bool(self.removals) and not (self.bytes_raw or self.spans or self.gaps)


def to_line(segment: Segment) -> bytes:
    """`segment` as one JSON line; of newer fields only what there is.

    An older reader refuses a line with a field that it does not know, unless its name begins with `INFO`: it never
    counts a merged segment and also its parts.
    """
    return json.dumps(written(segment), separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Segment:
    """The segment that a manifest line describes.

    Raises ValueError: the line is no JSON, of another version, lacks a field, or has a wrong type or an unknown field
    whose name does not begin with `INFO`.
    """
    fields = object_in(line, version=VERSION)
    return exact(Segment, {name: fields[name] for name in fields if name != PROOF and not name.startswith(INFO)})


class Damage(NamedTuple):
    """Why there is no segment in a line of a manifest."""

    reason: str
    is_torn: bool  #: the line has no newline: a kill cut it off while it was written


def read_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, Segment | Damage]]:
    """Each line of a manifest that is not blank: its number, from 1, and its segment. `lines` end with newlines."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, from_line(line)
        except ValueError as error:
            yield number, Damage(str(error), is_torn=not line.endswith(b"\n"))


def segments_in(lines: Iterable[bytes]) -> Iterator[Segment]:
    """The segments in the lines of a manifest; damaged lines are skipped, because the audit reports them."""
    return (found for _, found in read_lines(lines) if isinstance(found, Segment))


def standing(segments: Iterable[Segment]) -> list[Segment]:
    """The segments that count: of each path its last line, and none that was merged into another.

    A path is listed twice where two collectors finished the same segment; both lines are equal.
    """
    by_path = {segment.path: segment for segment in segments}
    replaced = {path for segment in by_path.values() for path in segment.replaces}
    return [segment for path, segment in by_path.items() if path not in replaced]


def nanoseconds(text: str) -> int:
    """A time of a manifest line in nanoseconds since 1970; 0: it is none."""
    try:
        since = dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    except (ValueError, TypeError):  # TypeError: it has no zone
        return 0
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
