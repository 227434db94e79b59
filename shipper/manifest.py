"""Manifests: one JSON line for each sealed segment. Written by the collector; read by Spark, the audit and others."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

VERSION = 1
FORKED = "forked"
"""Reason of a gap that lost nothing: its source is a fork of another one, which holds the bytes before the fork."""
PROOF = "proof"
"""A field that is reserved for a signed proof of a later version, with any value. Readers of this version ignore it."""
_NEWER = frozenset(
    (
        *("filtered", "edited", "labels", "zone", "late", "ahead", "times"),
        *("crc32_stored", "replaces", "redacted", "redactions", "removals"),
    )
)


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
    kept: tuple[str, ...]  #: the segments that hold the first copy


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
    spans: tuple[SourceSpan, ...] = ()
    gaps: tuple[Gap, ...] = ()
    duplicates: int = 0  #: blocks dropped because their bytes were there already
    joins: int = 0  #: newlines that the collector put between two sources, or for a left-out rest of a line
    crc32: str = "00000000"  #: of the raw bytes, 8 hex digits
    sealed_at: str = ""
    filtered: int = 0  #: bytes of lines that the producer's settings left out; they are in `spans`
    edited: int = 0  #: bytes of `spans` that were blacked out or converted, less what stands for them; may be negative
    redacted: dict[str, int] = field(default_factory=dict)  #: how often each rule of the host's redaction fired
    labels: dict[str, str] = field(default_factory=dict)  #: labels that the host gives its logs, from its newest block
    zone: str = ""  #: IANA name of the zone of lines without one; empty: UTC
    late: int = 0  #: seconds by which lines were stored after the times in them, where that is long; sampled
    ahead: int = 0  #: seconds by which they were stored before the times in them
    times: str = ""  #: base64 of when its text was stored, of gzip and plain segments; zstd has that in the file
    crc32_stored: str = ""  #: of the file as stored on disk, 8 hex digits; empty: sealed by an older version
    replaces: tuple[str, ...] = ()  #: paths of the segments that were merged into it: their lines count no more
    redactions: tuple[Redaction, ...] = ()  #: what is black in it
    removals: tuple[Removal, ...] = ()  #: doubled bytes that were taken out of it
    v: int = field(default=VERSION)

    @property
    def is_emptied(self) -> bool:
        """Whether everything in it was a second copy, and was removed: only the record is left."""
        return bool(self.removals) and not (self.bytes_raw or self.spans or self.gaps)


_NAMES = tuple(one.name for one in fields(Segment))
_TEXTS = attrgetter(
    *("collector", "host", "file", "path", "codec", "first_time", "last_time", "crc32", "crc32_stored", "zone", "times")
)
_NUMBERS = attrgetter(
    *("partition", "lines", "bytes_raw", "bytes_stored", "first_seq", "last_seq", "duplicates", "joins"),
    *("filtered", "edited", "late", "ahead"),
)
_SOURCE, _START, _END = attrgetter("source"), attrgetter("start"), attrgetter("end")


def to_line(segment: Segment) -> bytes:
    """`segment` as one JSON line; of newer fields only what there is.

    An older reader refuses a line with a field that it does not know, with an error: it never counts a merged segment
    and also its parts.
    """
    values = ((name, getattr(segment, name)) for name in _NAMES)
    shown = {name: value for name, value in values if value or name not in _NEWER}
    return json.dumps(shown, separators=(",", ":"), default=asdict).encode() + b"\n"


def from_line(line: bytes) -> Segment:
    """The segment that a manifest line describes.

    Raises ValueError: the line is no JSON, of another version, lacks a field, or has an unknown field or a wrong type.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(fields, dict) or fields.get("v") != VERSION:
        raise ValueError("not a manifest line of version 1")
    fields.pop(PROOF, None)
    try:
        fields["spans"] = tuple(SourceSpan(**span) for span in fields.get("spans", ()))
        fields["labels"] = dict(fields.get("labels", {}))
        fields["redacted"] = dict(fields.get("redacted", {}))
        fields["gaps"] = tuple(Gap(**gap) for gap in fields.get("gaps", ()))
        fields["redactions"] = tuple(Redaction(**each) for each in fields.get("redactions", ()))
        fields["removals"] = tuple(map(_removal, fields.get("removals", ())))
        fields["replaces"] = tuple(map(_text, fields.get("replaces", ())))
        segment = Segment(**fields)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(str(error)) from None
    if not _is_typed(segment):
        raise ValueError("a field is of the wrong type")
    return segment


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


def _is_typed(segment: Segment) -> bool:
    """Whether the fields that readers compare and add are texts and whole numbers."""
    parts = (*segment.spans, *segment.gaps)
    texts = (*_TEXTS(segment), *segment.redacted, *map(_SOURCE, parts))
    numbers = (*_NUMBERS(segment), *segment.redacted.values(), *map(_START, parts), *map(_END, parts))
    return set(map(type, texts)) == {str} and set(map(type, numbers)) == {int}


def _removal(fields: dict[str, Any]) -> Removal:
    return Removal(**fields | {"kept": tuple(map(_text, fields.get("kept", ())))})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a list of paths holds something else")
    return value


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
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        return 0
    since = when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
