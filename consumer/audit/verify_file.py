"""Verifies files against their records, as many at a time as there are processors.

The findings of a verified file are damage, gaps, and spans that do not add up.
"""

import contextlib
import os
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.journal import REASON_CHANGED
from consumer.archive.parts import FileState, Part
from consumer.archive.segment_io import BROKEN, CHUNK_BYTES, ByteCounter, CountingReader, texts
from consumer.audit.text_parts import Cuts, PartSums, SourceHead, TextPart, split_at
from shipper import layout
from shipper.manifest import FORKED, Gap
from shipper.model import End
from shipper.units import format_bytes

_TOLERANCE_BYTES = 64 * 1024 * 1024
_AHEAD = 4  # checks a thread that are waiting; the results come in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result for one file."""

    entry: Part
    raw: int = 0  #: bytes of text that were found
    lines: int = 0
    octets: int = 0  #: bytes that were read
    uncommitted: int = 0  #: bytes after the committed length of an open file
    appended: int = 0  #: bytes after those of a segment, which are as its manifest lists them
    wrong: tuple[str, ...] = ()  #: the differences from the record; empty: none
    parts: tuple[TextPart, ...] = ()  #: of its sources; none: they are unknown, or nothing is compared with them
    missing: bool = False
    unreadable: str = ""

    @property
    def sound(self) -> bool:
        """Whether the bytes are the ones that were committed."""
        return not (self.wrong or self.missing or self.unreadable)


def check_all(
    archive: Path,
    entries: Iterable[Part],
    advance: Callable[[int], None],
    cuts_of: Callable[[Part], Mapping[str, Cuts]],
) -> Iterator[Checked]:
    """Check each of `entries`, in order. `advance` is called with the bytes of each as it is done. Reading only.

    `cuts_of`: where the parts of a file end whose sums are wanted, by source; called in this thread.
    """
    threads = os.cpu_count() or 1
    calls = threading.Lock()

    def work(entry: Part, cuts: Mapping[str, Cuts]) -> Checked:
        checked = check(archive, entry, cuts)
        with calls:
            advance(entry.stored)
        return checked

    waiting: deque[Future[Checked]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="audit") as pool:
        try:
            for entry in entries:
                waiting.append(pool.submit(work, entry, cuts_of(entry)))
                if len(waiting) >= _AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Measured(NamedTuple):
    """The content of a file, as far as it could be read."""

    size: int  #: bytes on disk, all of them
    stored: CountingReader  #: the bytes that were read
    text: ByteCounter
    broken: str  #: why it could not be read further
    parts: tuple[TextPart, ...]


def check(archive: Path, entry: Part, cuts: Mapping[str, Cuts] = {}) -> Checked:
    """Read the file of `entry` once and compare. With `cuts`, sum its parts, too."""
    for place in _places(entry):
        try:
            found = _measure(archive / place.path, place, cuts)
        except FileNotFoundError:
            continue
        except OSError as error:
            return Checked(entry=entry, unreadable=error.strerror or str(error))
        if place.state is not entry.state:  # compressed again: its journal does not have the size
            place = replace(place, stored=found.size)  # noqa: PLW2901
        return Checked(
            entry=entry,
            raw=found.text.octets,
            lines=found.text.lines,
            octets=found.stored.octets,
            uncommitted=max(0, found.size - place.stored) if place.is_waiting else 0,
            appended=_appended(archive / place.path, place, found),
            wrong=tuple(_differences(place, found)),
            parts=found.parts,
        )
    return Checked(entry=entry, missing=entry.stored > 0)


def head_of(archive: Path, entry: Part, source: str, limit: int) -> bytes:
    """The first `limit` bytes of a source in the file of `entry`, as far as they can be read. Raises OSError."""
    found = SourceHead(split_at(entry.spans, {}), entry.joins, source, limit)
    for place in _places(entry):
        with contextlib.suppress(FileNotFoundError, *BROKEN), (archive / place.path).open("rb", buffering=0) as file:
            stored = CountingReader(file, entry.stored if place.is_waiting else sys.maxsize)
            for text in texts(stored, place.codec):
                found.add(text)
                if found.is_whole:
                    break
            break
    return bytes(found.head)


def _places(entry: Part) -> Iterator[Part]:
    """Where the file may be. The first one that exists counts.

    It is at the path of the segment if it was sealed since the journal was read, and at its path as an open file if a
    kill came between journal and rename. After sealing, that path is the next open file's.
    """
    yield entry
    if entry.becomes:
        yield replace(entry, path=entry.becomes, state=FileState.SEALED, codec=layout.codec_of(entry.becomes))
    if entry.also:
        yield replace(entry, path=entry.also)


def _measure(path: Path, entry: Part, cuts: Mapping[str, Cuts]) -> _Measured:
    """Read as much of a file as counts, and of its text not much more than there should be. Raises OSError."""
    text, broken = ByteCounter(), ""
    wanted = list(split_at(entry.spans, cuts)) if cuts else []
    sums = PartSums(wanted, entry.joins) if len(wanted) > 1 else None  # of one part: the sum of the text
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        stored = CountingReader(file, entry.stored if entry.is_waiting else sys.maxsize)
        try:
            for piece in texts(stored, entry.codec):
                text.add(piece)
                if sums is not None:
                    sums.add(piece)
                if text.octets > 2 * entry.raw + _TOLERANCE_BYTES:
                    broken = "there is far more text in it than there should be"
                    break
        except BROKEN as error:
            broken = str(error)
        while stored.read(CHUNK_BYTES):  # bytes that cannot be decompressed
            pass
    if sums is not None:
        return _Measured(size, stored, text, broken, sums.parts())
    is_one = len(wanted) == 1 and text.octets == entry.raw
    parts = tuple(TextPart(each.source, each.start, each.end, text.crc) for each in wanted if is_one)
    return _Measured(size, stored, text, broken, parts)


def _appended(path: Path, entry: Part, found: _Measured) -> int:
    """Bytes that another program appended to a segment. 0: none, or the bytes before them were changed, too."""
    if entry.state is not FileState.SEALED or entry.stored_crc is None or found.size <= entry.stored:
        return 0
    with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
        listed = CountingReader(file, entry.stored)
        while listed.read(CHUNK_BYTES):
            pass
        if listed.crc == entry.stored_crc:
            return found.size - entry.stored
    return 0


def _differences(entry: Part, found: _Measured) -> Iterator[str]:
    """The differences from the record, the most important first, as parts of a sentence."""
    if found.stored.octets != entry.stored:
        record = "its manifest lists" if entry.state is FileState.SEALED else "its journal has committed"
        yield f"{_more(found.stored.octets - entry.stored)} on disk than {record}"
    if found.broken:
        yield f"it cannot be unpacked ({found.broken})"
    if found.text.octets != entry.raw:
        yield f"{_more(found.text.octets - entry.raw)} of text"
    if entry.lines is not None and found.text.lines != entry.lines:
        yield f"{found.text.lines} lines instead of {entry.lines}"
    if entry.crc is not None and found.text.crc != entry.crc:
        yield f"CRC-32 of the text is {found.text.crc:08x}, not {entry.crc:08x}"
    if entry.stored_crc is not None and found.stored.crc != entry.stored_crc:
        yield f"CRC-32 of the file is {found.stored.crc:08x}, not {entry.stored_crc:08x}"


def _more(octets: int) -> str:
    count = f"{abs(octets):,} bytes" if abs(octets) < _TOLERANCE_BYTES else format_bytes(abs(octets))
    return f"{count} {'more' if octets > 0 else 'fewer'}"


ELSEWHERE = "elsewhere"
"""Reason of a gap that is none: another collector's archive holds the bytes."""
EXCLUDED = End.EXCLUDED.value
"""Reason of a gap that is none: the host was configured not to read the bytes."""
REWRITTEN = "rewritten"
"""Reason of an empty gap: the bytes before it differ from those of the host."""

_SEALED_HINT = "restore the file from a copy; what the stream still holds can be read into another SHIPPER_DIRECTORY"
_OPEN_HINT = "restore the file from a copy before the collector starts: else it records what is missing as a gap"
_CUT_HINT = "the next start of the collector cuts them off, and writes from the stream what belongs there"
_GAP_HINT = "nothing brings them back, unless the host still has a copy of its file"
_FORKED_HINT = (
    "nothing of either is lost; find the two machines, or who rewrote the file:"
    " docs/operations/troubleshooting.md, a host has two producers"
)
_NAMES = {
    FileState.SEALED: "segment that its manifest lists",
    FileState.SEALING: "file that its journal is about to seal",
    FileState.OPEN: "open file that its journal knows",
}
_GAP_HINTS = {
    REASON_CHANGED: (
        "another program changed the archive: restore the file from a copy; the stream may still have the bytes"
    ),
    "poison": "the message is among the dead letters: fshipper dlq ls",
}


def findings_of(checked: Checked) -> Iterator[Finding]:
    """What is wrong with one file, and what its record notes."""
    entry, restore = checked.entry, _restore_hint(checked.entry)
    if checked.missing:
        yield entry.finding(Kind.MISSING_FILE, f"the {_NAMES[entry.state]} is not there", entry.raw, hint=restore)
    elif checked.unreadable:
        hint = "run the audit as the collector's user or group; if the disk fails, restore the file from a copy"
        yield entry.finding(Kind.UNREADABLE_FILE, f"it cannot be read: {checked.unreadable}", entry.raw, hint=hint)
    elif checked.appended:
        text = (
            f"another program appended {checked.appended:,} bytes: the bytes before them are as its manifest lists them"
        )
        hint = (
            f"search and tail do not read them, the report does; cut them off: truncate -s {entry.stored} {entry.path}"
        )
        yield entry.finding(Kind.DAMAGED_FILE, text, checked.appended, hint=hint)
    elif checked.wrong:
        octets = abs(checked.raw - entry.raw) or entry.raw
        yield entry.finding(Kind.DAMAGED_FILE, "; ".join(checked.wrong), octets, hint=restore)
    yield from _gaps_of(entry)
    if account := account_of(entry):
        yield account
    for each in entry.redactions:
        where = f" (bytes {each.start}-{each.end} of source {each.source})" if each.source else ""
        text = f"{each.bytes:,} bytes{where} were blacked out at {each.at}: {each.reason}"
        yield entry.finding(Kind.REDACTED, text, each.bytes, weight=Weight.NOTE)
    for removal in entry.removals:
        where = f"bytes {removal.start}-{removal.end} of source {removal.source}"
        text = f"the second copy of {where} was removed at {removal.at} by {removal.by}: {removal.reason}; it is in "
        yield entry.finding(Kind.REMOVED_COPY, text + ", ".join(removal.kept), removal.bytes, weight=Weight.NOTE)
    if checked.uncommitted:  # and no collector runs that could commit them
        what = "bytes after the committed length: another program appended them, or a kill left them"
        text = f"{checked.uncommitted:,} {what}"
        yield entry.finding(Kind.UNCOMMITTED_BYTES, text, checked.uncommitted, hint=_CUT_HINT)


def _gaps_of(entry: Part) -> Iterator[Finding]:
    """The bytes that a file is known to lack, by reason."""
    by_reason: dict[str, list[Gap]] = defaultdict(list)
    for gap in entry.gaps:
        by_reason[gap.reason].append(gap)
    for reason, gaps in by_reason.items():
        octets = sum(gap.end - gap.start for gap in gaps)
        where = ", ".join(f"{gap.start}-{gap.end}" for gap in gaps[:3]) + (", ..." if len(gaps) > 3 else "")  # noqa: PLR2004
        if reason == ELSEWHERE:
            text = f"{octets:,} bytes ({where}) are in another collector's archive"
            yield entry.finding(Kind.ELSEWHERE, text, octets, hint="audit that archive, too", weight=Weight.NOTE)
        elif reason == EXCLUDED:
            text = f"{octets:,} bytes ({where}) were not read: the configuration of the host did not name the file then"
            hint = "name the file again to ship them"
            yield entry.finding(Kind.EXCLUDED, text, octets, hint=hint, weight=Weight.NOTE)
        elif reason == FORKED:
            forks = ", ".join(f"{gap.source} (at {gap.end:,})" for gap in gaps[:3]) + (", ..." if len(gaps) > 3 else "")  # noqa: PLR2004
            text = f"two producers continued one source: the second one's bytes are in a source of their own: {forks}"
            yield entry.finding(Kind.FORKED, text, hint=_FORKED_HINT, weight=Weight.GAP)
        elif reason == REWRITTEN:
            text = (
                f"before {where} the host's file has other bytes than the archive: it was rewritten, or continued twice"
            )
            yield entry.finding(Kind.FORKED, text, hint=_FORKED_HINT, weight=Weight.GAP)
        else:
            text = f"{octets:,} bytes ({where}) are lost, as recorded when it happened: {reason}"
            hint = _GAP_HINTS.get(reason, _GAP_HINT)
            yield entry.finding(Kind.GAP, text, octets, hint=hint, weight=Weight.GAP)


def account_of(entry: Part) -> Finding | None:
    """The finding about a file whose size differs from its recorded spans. None means that they agree.

    Bytes of all spans = bytes of the text - joins + filtered + edited (docs/reference/archive-format.md). Plain lines
    have no spans.
    """
    if not entry.spans or not entry.key.file.startswith("/"):
        return None
    if any(gap.reason == REASON_CHANGED for gap in entry.gaps):
        return None  # a part of these spans is lost, and a gap records it
    spans = sum(span.end - span.start for span in entry.spans)
    less = spans - (entry.raw - entry.joins + entry.filtered + entry.edited)
    if not less:
        return None
    what = "are not in it" if less > 0 else "more than that are in it"
    text = f"its record lists {spans:,} bytes of sources; {abs(less):,} bytes {what}"
    return entry.finding(Kind.BAD_ACCOUNT, text, abs(less), hint=_restore_hint(entry))


def _restore_hint(entry: Part) -> str:
    return _SEALED_HINT if entry.state is FileState.SEALED else _OPEN_HINT
