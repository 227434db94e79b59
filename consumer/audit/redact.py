"""What `fshipper redact` does: replaces text in sealed segments of the archive, with a record in the manifest.

A segment is replaced by a new one, so that after a kill the old or the new one is listed, as
consumer/segments/rewrite_segment.py describes.
"""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from consumer.archive import manifests
from consumer.archive.directory import existing_identity, found_journals, is_written, lock_path, try_lock
from consumer.archive.journal import REASON_CHANGED, Journal
from consumer.archive.journal_snapshot import journal_directory
from consumer.archive.manifests import RedactedSources, current_segments, erase_sums, removed_days
from consumer.audit.day_inventory import chosen_days
from consumer.audit.options import RedactOptions
from consumer.audit.redacted_copies import NOT_CHECKED, Copies, CopyScope, find_copies, remove_copies
from consumer.model import SourceKey
from consumer.segments import rewrite_segment
from consumer.segments.rewrite_segment import alone, remove_replaced, replace_segment_text, without_retention
from consumer.segments.sealer import now
from shipper import layout
from shipper.commands import settings_of
from shipper.durable_files import readable_by
from shipper.errors import EXIT_OK, Fatal, Unavailable, UsageError
from shipper.layout import OPEN_PREFIX, SEALING_PREFIX, date_of
from shipper.linear_regex import Linear, PatternError
from shipper.manifest import Redaction, Segment
from shipper.model import Span
from shipper.nearest import did_you_mean
from shipper.prompts import confirm
from shipper.units import counted

BLACK = ord("*")
NEWLINE = ord("\n")


class PlacesUnknownError(Exception):
    """The position of a source's bytes in the text of a segment is unknown."""


@dataclass(frozen=True, slots=True)
class RegexMatches:
    """The matches of a regular expression, line by line."""

    pattern: Linear
    whole_lines: bool = False

    def concerns(self, segment: Segment) -> bool:
        """True: any segment may contain a match."""
        return segment.bytes_raw > 0

    def is_in(self, file: str, source: str, start: int, end: int, text: bytes) -> bool:
        """Whether a text has a match that is not black already."""
        del file, source, start, end
        return any(set(text[begin:end]) - {BLACK, NEWLINE} for begin, end in self.pattern.matches(text))

    def ranges(self, segment: Segment, text: bytes) -> list[Span]:
        """The matches."""
        del segment
        found = (Span(*each) for each in self.pattern.matches(text))
        return joined(_line_around(text, each) if self.whole_lines else each for each in found)

    def records(self, segment: Segment, black: Sequence[Span], *, at: str, reason: str) -> list[Redaction]:
        """One record for the segment, without the pattern: a manifest must not contain it."""
        del segment
        return [Redaction(at=at, reason=reason, bytes=_length(black))]


@dataclass(frozen=True, slots=True)
class OfSource:
    """Bytes `start` to `end` (excluded) of a source."""

    source: str
    start: int
    end: int

    def concerns(self, segment: Segment) -> bool:
        """Whether it has a span that overlaps."""
        return any(True for _ in self._parts(segment))

    def is_in(self, file: str, source: str, start: int, end: int, text: bytes) -> bool:
        """Whether bytes `start` to `end` of a source overlap."""
        del file, text
        return source == self.source and max(start, self.start) < min(end, self.end)

    def ranges(self, segment: Segment, text: bytes) -> list[Span]:
        """The ranges in the text, known only if the text consists of the spans of this source, in their order."""
        del text
        plain = not (segment.joins or segment.filtered or segment.edited)
        alone = {span.source for span in segment.spans} == {self.source}
        whole = sum(span.end - span.start for span in segment.spans) == segment.bytes_raw
        if not (plain and alone and whole) or any(gap.reason == REASON_CHANGED for gap in segment.gaps):
            raise PlacesUnknownError
        return joined(Span(shift + part.start, shift + part.end) for shift, part in self._parts(segment))

    def records(self, segment: Segment, black: Sequence[Span], *, at: str, reason: str) -> list[Redaction]:
        """One for each part of the source."""
        del black
        return [
            Redaction(at=at, reason=reason, bytes=part.length, source=self.source, start=part.start, end=part.end)
            for _, part in self._parts(segment)
        ]

    def _parts(self, segment: Segment) -> Iterator[tuple[int, Span]]:
        """The parts of it that a segment holds, and what their offsets are less in its text if that is its spans."""
        before = 0
        for span in segment.spans:
            part = Span(max(self.start, span.start), min(self.end, span.end))
            if span.source == self.source and part.length > 0:
                yield before - span.start, part
            before += span.end - span.start


Choice = RegexMatches | OfSource
"""The bytes to black out: `concerns` a segment according to its manifest line; `ranges` of its text, ascending and not
adjacent; `records` for the manifest."""


def joined(ranges: Iterable[Span]) -> list[Span]:
    """Ascending ranges that overlap or touch, as one."""
    found: list[Span] = []
    for each in ranges:
        if found and each.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def blackened(text: bytes, ranges: Sequence[Span]) -> bytes:
    """`text` with every byte of `ranges` black, newlines excepted: offsets, lengths and line counts stay."""
    result = bytearray(text)
    for start, end in ranges:
        result[start:end] = bytes(NEWLINE if byte == NEWLINE else BLACK for byte in result[start:end])
    return bytes(result)


def _line_around(text: bytes, each: Span) -> Span:
    end = text.find(b"\n", each.end)
    return Span(text.rfind(b"\n", 0, each.start) + 1, len(text) if end < 0 else end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedSegment:
    """The bytes that were, or would be, blacked out in one segment."""

    segment: Segment
    bytes: int
    places: int
    path: str = ""  #: of the new segment; empty: nothing was written


class Rewriter:
    """Blacks out a choice in the sealed segments of an archive."""

    def __init__(self, archive: Path, choice: Choice, *, reason: str) -> None:
        self._archive = archive
        self._choice = choice
        self._reason = reason
        self._record = RedactedSources(archive)

    def find(self, segment: Segment) -> tuple[bytes, list[Span]] | None:
        """The text of `segment` and what to black out in it. None means that there is nothing.

        The text is in memory: at most what the collector's `segment` setting lets one grow to.

        Raises:
            Fatal: the file differs from its manifest line, or places in it are not known.
        """
        if not self._choice.concerns(segment):
            return None
        text = rewrite_segment.text_of(self._archive, segment)
        try:
            black = self._choice.ranges(segment, text)
        except PlacesUnknownError:
            raise Fatal(
                f"{segment.path}: the places of single bytes are not known, because it holds several sources, or edited"
                " or joined lines",
                hint="use --match to choose the text",
            ) from None
        is_black = all(byte in {BLACK, NEWLINE} for start, end in black for byte in set(text[start:end]))
        return None if is_black else (text, black)

    def rewrite(self, path: str) -> RedactedSegment | None:
        """Black out the choice in the current segment `path`. None means that there is nothing, or it is removed.

        Raises:
            Unavailable: a collector merges segments of the partition for long. Fatal: see `find`.
        """
        partition = int(path.split("/")[1].removeprefix("partition="))
        with alone(self._archive, [partition]):
            segment = next((each for each in current_segments(self._archive, date_of(path)) if each.path == path), None)
            found = self.find(segment) if segment is not None else None
            if segment is None or found is None:
                return None
            text, black = found
            self._record.record(SourceKey(segment.host, span.source) for span in segment.spans)
            records = self._choice.records(segment, black, at=now(), reason=self._reason)
            redactions = (*segment.redactions, *records)
            made = replace_segment_text(self._archive, segment, blackened(text, black), redactions=redactions)
        return RedactedSegment(segment=segment, bytes=_length(black), places=len(black), path=made.path)


def _length(ranges: Iterable[Span]) -> int:
    return sum(each.length for each in ranges)


EXIT_LEFT = 2
"""Exit code: some of the files are still open, and were not checked."""
_SPAN = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionScope:
    """The host, files and days to redact."""

    archive: Path
    host: str
    file: str
    since: str
    until: str

    def dates(self) -> list[str]:
        """The days to check."""
        days = manifests.days(self.archive) | manifests.directory_days(self.archive)
        days -= removed_days(self.archive)
        return sorted(day for day in days if self.since <= day and (not self.until or day <= self.until))

    def check(self) -> None:
        """Raises Unavailable: the archive has nothing of the host or the days, so nothing would be redacted."""
        whole, dates = self.archive.absolute(), self.dates()
        if not dates:
            days = " of these days" if self.since or self.until else ""
            raise Unavailable(
                f"the archive {whole} has nothing{days}, so nothing is redacted",
                hint="choose other days, or name the collector's directory; days are UTC",
            )
        if not (any(self.sealed()) or replace(self, file="").waiting()):
            known = {each.host for date in dates for each in current_segments(self.archive, date)}
            raise Unavailable(
                f"the archive {whole} has nothing of {self.host} on {counted(len(dates), 'day')}: nothing is redacted",
                hint=f"{did_you_mean(self.host, known)}ls date=*/partition=* in the archive shows the whole names",
            )
        files = {each.file for each in self.sealed()} if self.file else set()
        if self.file and not (self.file in files or self.waiting()):
            sys.stderr.write(
                f"note: the archive has no file {self.file} of {self.host} on {counted(len(dates), 'day')}; "
                f"{did_you_mean(self.file, files)}--file takes the whole path on the host\n"
            )

    def sealed(self) -> Iterator[Segment]:
        """Segments of the host."""
        for date in self.dates():
            yield from (each for each in current_segments(self.archive, date) if each.host == self.host)

    def waiting(self) -> list[str]:
        """Files of the host that are not sealed yet."""
        name = re.escape(layout.file_name(self.file)) if self.file else ".+"
        wanted = re.compile(rf"({OPEN_PREFIX}{name}(=\d+)?|{SEALING_PREFIX}{name}-\d{{20}})(\.zst|\.gz)?", re.DOTALL)
        return [
            f"{directory.relative_to(self.archive)}/{entry.name}"
            for date in self.dates()
            for directory in sorted(self.archive.glob(f"date={date}/partition=*"))
            for entry in sorted((directory / f"host={layout.escape(self.host)}").glob("*"))
            if wanted.fullmatch(entry.name) and entry.stat().st_size
        ]


def run(options: RedactOptions) -> int:
    """The exit code. Raises UsageError: of the options. ConfigError, Unavailable: no such archive, host or day."""
    choice = _choice(options)
    if not options.host:
        raise UsageError("whose lines?", hint="give --host")
    first, last = chosen_days(options.date, options.since, options.until)
    settings = settings_of(options)
    collector = settings.collector
    archive = collector.directory
    hint = "name the collector's directory: fshipper redact DIRECTORY, or SHIPPER_DIRECTORY"
    journals = journal_directory(archive, existing_identity(archive, hint=hint), collector.state)
    where = RedactionScope(archive=archive, host=options.host, file=options.file, since=first, until=last)
    where.check()
    rewriter = Rewriter(archive, choice, reason=options.reason)
    segments = _found(where, rewriter)
    scope = CopyScope(host=options.host, file=options.file, since=first, until=last, finds=choice.is_in)
    days = {date_of(each.segment.path) for each in segments}
    days |= {date_of(each.path) for each in where.sealed() if each.redactions}
    copies = _awaited(find_copies(settings, scope, days))
    if options.streams and copies.unchecked:
        raise Unavailable(f"the streams cannot be read: {copies.unchecked}", hint="nothing was changed")
    removes = options.streams and any(each.removable for each in copies.streams)
    if (segments or removes) and not options.dry_run:
        _ask([] if options.as_json else segments, copies if removes else Copies(), yes=options.yes)
    with readable_by(collector.readable_by):
        if segments and not options.dry_run:
            segments = _do(where, rewriter, segments)
        elif not options.dry_run:
            _finish(where)
        if not options.dry_run:
            _forget_sums(archive, journals, RedactedSources(archive).new())
        if removes and not options.dry_run:
            copies = _awaited(remove_copies(settings, copies))
    waiting = where.waiting()
    _tell(segments, waiting, copies, as_json=options.as_json, done=not options.dry_run)
    if copies.failure is not None:
        raise copies.failure
    return EXIT_LEFT if waiting else EXIT_OK


def _awaited(work: Coroutine[Any, Any, Copies]) -> Copies:
    """The result of `work`, also where the caller runs an event loop: then in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _choice(options: RedactOptions) -> Choice:
    """What is to be blacked out. Raises UsageError."""
    match, source, span = options.match, options.source, options.span
    if bool(match) == bool(source or span):
        raise UsageError("nothing to black out is given", hint="--match REGEX, or --source ID with --span START-END")
    if match:
        try:
            return RegexMatches(Linear(match.encode()), options.whole_lines)
        except UnicodeEncodeError:
            raise UsageError(f"--match: {match!r} is no UTF-8") from None
        except PatternError as error:
            raise UsageError(f"--match: {match!r} cannot be used: {error}") from None
    found = _SPAN.fullmatch(span)
    if not (source and found and int(found[1]) < int(found[2])):
        raise UsageError("a span is START-END of a source", hint="for example --source 00000000000000a1 --span 100-250")
    return OfSource(source, int(found[1]), int(found[2]))


def _found(where: RedactionScope, rewriter: Rewriter) -> list[RedactedSegment]:
    """What would be blacked out, in the order of the segments. Raises Fatal: one cannot be read."""
    return [
        RedactedSegment(segment=segment, bytes=_length(matches[1]), places=len(matches[1]))
        for segment in where.sealed()
        if where.file in {"", segment.file} and (matches := rewriter.find(segment))
    ]


def _do(where: RedactionScope, rewriter: Rewriter, segments: Sequence[RedactedSegment]) -> list[RedactedSegment]:
    """Black out the choice, while retention removes nothing. Work that a kill interrupted is finished."""
    with without_retention(where.archive):
        done = [rewriter.rewrite(each.segment.path) for each in segments]
        _finish(where)
    return [each for each in done if each is not None]


def _finish(where: RedactionScope) -> None:
    """Remove replaced segments that a kill left, and the sums of what was in them."""
    remove_replaced(where.archive, where.sealed())
    for date in where.dates():
        erase_sums(where.archive, date, where.host)


def _forget_sums(archive: Path, journals: Path, redacted: set[SourceKey]) -> None:
    """Keep no sum of redacted sources in the journals that no collector holds: short text can be guessed from its sum.

    A running collector reads the record of them. Raises Fatal: a journal cannot be read. OSError, sqlite3.Error: or not
    written.
    """
    for _, partition, epoch, path in found_journals(journals) if redacted and journals.is_dir() else ():
        if is_written(archive, partition):
            continue
        lock = try_lock(lock_path(archive, partition, epoch), f"partition {partition} of the archive {archive}")
        if lock is not None:
            with lock, contextlib.closing(Journal(path)) as journal:
                journal.forget_sums(redacted)


def _ask(segments: Sequence[RedactedSegment], copies: Copies, *, yes: bool) -> None:
    """Prompt. Raises UsageError: there is no terminal, or the answer is no."""
    if yes:
        return
    for each in segments:
        sys.stdout.write(f"would black out {_described(each)}\n")
    for copy in copies.streams:
        sys.stdout.write(f"would remove {counted(len(copy.removable), 'message')} of {copy.stream}\n")
    confirm(
        yes=yes,
        question="Do it? It cannot be undone.",
        what="this cannot be undone",
        hint="check the list, then use --yes",
    )


def _tell(
    segments: Sequence[RedactedSegment], waiting: Sequence[str], copies: Copies, *, as_json: bool, done: bool
) -> None:
    if as_json:
        rows = [
            {"path": each.segment.path, "bytes": each.bytes, "places": each.places, "new_path": each.path or None}
            for each in segments
        ]
        names = ("stream", "sequences", "removed", "left", "why_kept")
        streams = [{name: getattr(each, name) for name in names} for each in copies.streams]
        found = {"reports": copies.reports, "unchecked": copies.unchecked, "not_checked": NOT_CHECKED}
        fields = {"segments": rows, "open_files": list(waiting), "copies": {"streams": streams, **found}}
        sys.stdout.write(json.dumps({"v": 1, "done": done, **fields}) + "\n")
        return
    for each in segments:
        sys.stdout.write(f"{'blacked out' if done else 'would black out'} {_described(each)}\n")
    if not segments:
        sys.stdout.write("nothing to black out\n")
    _tell_copies(copies)
    for path in waiting:
        sys.stderr.write(f"not checked, because it is still open: {path}\n")
    if waiting:
        sys.stderr.write("hint: it is sealed after an hour of silence and at the end of the day; then run this again\n")


def _tell_copies(copies: Copies) -> None:
    """Write where the text can be read still."""
    left = [each.described() for each in copies.streams] + list(copies.reports)
    if left:
        sys.stdout.write("other copies of the text:\n")
    for line in left:
        sys.stdout.write(f"  {line}\n")
    if any(each.removable and not each.removed for each in copies.streams):
        sys.stdout.write("tail, replay and follow show the text of streams; --streams removes what is archived\n")
    if copies.unchecked:
        sys.stderr.write(f"note: streams and dead letters were not checked: {copies.unchecked}\n")
    sys.stdout.write(f"not checked: {NOT_CHECKED}\n")


def _described(each: RedactedSegment) -> str:
    places = f"{each.places} places" if each.places != 1 else "1 place"
    return f"{each.bytes} bytes in {places} of {each.segment.path}"
