"""One line of a manifest: what a sealed segment holds. Written by the collector, read by Spark and the audit."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

VERSION = 1
FORKED = "forked"
"""Reason of a gap that lost nothing: its source is a fork of another one, which holds the bytes before the fork."""
_NEWER = frozenset({"filtered", "edited", "labels", "crc32_stored", "replaces", "redactions", "removals"})


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
    source: str = ""  #: empty: a pattern chose them, and nobody says where they were
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
    filtered: int = 0  #: bytes of lines that the producer was told to leave out; they are in `spans`
    edited: int = 0  #: bytes of `spans` that were blacked out or converted, less what stands for them; may be negative
    labels: dict[str, str] = field(default_factory=dict)  #: what the host says of its logs, as its newest block had it
    crc32_stored: str = ""  #: of the file as it lies on disk, 8 hex digits; empty: sealed by an older version
    replaces: tuple[str, ...] = ()  #: paths of the segments that were merged into it: their lines count no more
    redactions: tuple[Redaction, ...] = ()  #: what is black in it
    removals: tuple[Removal, ...] = ()  #: doubled bytes that were taken out of it
    v: int = field(default=VERSION)

    @property
    def is_emptied(self) -> bool:
        """Whether everything in it was a second copy, and was removed: only the record is left."""
        return bool(self.removals) and not (self.bytes_raw or self.spans or self.gaps)


_NAMES = tuple(one.name for one in fields(Segment))


def to_line(segment: Segment) -> bytes:
    """`segment` as one JSON line; of newer fields only what there is.

    An older reader refuses a line with a field that it does not know, and says so: it never counts a merged segment
    beside its parts.
    """
    values = ((name, getattr(segment, name)) for name in _NAMES)
    shown = {name: value for name, value in values if value or name not in _NEWER}
    return json.dumps(shown, separators=(",", ":"), default=asdict).encode() + b"\n"


def from_line(line: bytes) -> Segment:
    """The segment that a manifest line describes.

    Raises:
        ValueError: the line is no JSON, of another version, or lacks a field.
    """
    fields = json.loads(line)
    if not isinstance(fields, dict) or fields.get("v") != VERSION:
        raise ValueError("not a manifest line of version 1")
    try:
        fields["spans"] = tuple(SourceSpan(**span) for span in fields.get("spans", ()))
        fields["labels"] = dict(fields.get("labels", {}))
        fields["gaps"] = tuple(Gap(**gap) for gap in fields.get("gaps", ()))
        fields["redactions"] = tuple(Redaction(**each) for each in fields.get("redactions", ()))
        fields["removals"] = tuple(map(_removal, fields.get("removals", ())))
        fields["replaces"] = tuple(map(_text, fields.get("replaces", ())))
        return Segment(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _removal(fields: dict[str, Any]) -> Removal:
    return Removal(**fields | {"kept": tuple(map(_text, fields.get("kept", ())))})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a list of paths holds something else")
    return value


def standing(segments: Iterable[Segment]) -> list[Segment]:
    """The segments that count: of each path its last line, and none that was merged into another.

    A path is listed twice where two collectors finished the same segment; both lines say the same.
    """
    by_path = {segment.path: segment for segment in segments}
    replaced = {path for segment in by_path.values() for path in segment.replaces}
    return [segment for path, segment in by_path.items() if path not in replaced]
