"""Forks: sources that two producers continue, for example after a machine was cloned. Finds the fork of a block.

Both have the id of the source and the same bytes before some offset, and other bytes after it. The CRC of the source
in every block distinguishes them, also where a running process was copied. The copy that the archive received first
stays the source itself. Each other copy becomes a separate source, so that none of its bytes is dropped or mixed.

A block is compared with what the archive has. Only files that contain the text as the hosts sent it can be compared:
none that was edited, filtered or redacted. In a file with several sources the position of a source's bytes is unknown:
there every line must occur, anywhere.
"""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

from consumer.archive.journal import Journal
from consumer.archive.manifests import listed_segments
from consumer.archive.parts import Part, of_open_file, of_segment
from consumer.archive.segment_io import BROKEN, CountingReader, texts
from consumer.commit.batch import Batch
from consumer.commit.store import PartitionStore
from consumer.model import ArchivedSource, OpenFile, SourceKey
from shipper import manifest
from shipper.bytes_ops import crc32, crc32_combine
from shipper.compression import Decompressor
from shipper.errors import Poison
from shipper.layout import day_of
from shipper.manifest import SourceSpan
from shipper.model import Block, Delivery, Span

MAX_FORKS = 16
"""Maximum forks of one source, so that a host that invents forks cannot fill the journal."""
MAX_SUMS = 4096
"""Maximum ends of blocks whose CRC is in memory (1 MiB per partition): a block that is sent again with the same end is
compared without reading the archive."""
_PERIOD = (1 << 32) - 1  # number of zero bytes that leave a CRC-32 unchanged


def crc_before(block: Block) -> int | None:
    """CRC-32 of the source from its origin to the start of `block`.

    None means that an edited block does not contain it.
    """
    if block.edited is not None:
        return None
    length = block.span.length % _PERIOD
    return crc32_combine(block.source_crc ^ block.block_crc, 0, _PERIOD - length)


def begin_fork(block: Block, known: ArchivedSource) -> ArchivedSource:
    """The fork of `known` that `block` begins. The same block begins the same one, however often it is delivered."""
    text = f"{known.host}\0{known.id}\0{block.span}\0{block.source_crc:08x}"
    return ArchivedSource(
        id=hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16],
        host=known.host,
        file=known.file,
        origin=block.origin,
        watermark=block.span.start,
        crc=crc_before(block),
    )


class ForkResolver:
    """The forks of a partition's sources. Owned by the partition's worker."""

    def __init__(self, store: PartitionStore, decompressor: Decompressor) -> None:
        self._store = store
        self._decompressor = decompressor
        self._archived = ArchivedBytes(store.sink.archive, store.journal)
        self._sums: dict[tuple[str, str, int], int] = {}  # by host, source and end

    def begin_batch(self) -> None:
        """A batch begins: as much of the archive may be read again as for any batch."""
        self._archived.begin()

    def written(self, known: ArchivedSource) -> None:
        """A block of the source `known` was written, which ends at its watermark."""
        if known.crc is not None:
            if len(self._sums) >= MAX_SUMS:
                self._sums.clear()
            self._sums[known.host, known.id, known.watermark] = known.crc

    def resolve(
        self, delivery: Delivery, block: Block, key: SourceKey, known: ArchivedSource, batch: Batch
    ) -> ArchivedSource | None:
        """The fork of `known` that a block belongs to, as far as it is archived.

        None means that it belongs to `known` itself.

        Raises Poison: the block begins another fork, and the source has too many.
        """
        forks, span = batch.forks_of(key), block.span
        is_old = delivery.time_ns <= batch.journal.position.plain_after_ns
        if not forks and (is_old or span.start >= known.watermark or not span.length):
            return None
        archived = [each for fork in forks if (each := batch.source(SourceKey(known.host, fork)))]
        try:
            content = functools.cache(functools.partial(self._decompressor.decode, block, delivery.payload))
            chosen = self._choose(block, content, known, archived, batch)
        except Poison:
            return None  # a damaged block does not show to which source it belongs
        if chosen is known:
            return None
        if chosen is None:
            chosen = begin_fork(block, known)
            if chosen.id in forks:
                return batch.source(chosen.key)
            if (there := len(forks)) >= MAX_FORKS:
                raise Poison(
                    f"source {known.id} of {known.file} has {there} forks: more than {MAX_FORKS} are not archived"
                )
            batch.forks[key] = (*batch.forks.get(key, ()), chosen.id)
            batch.forked.append((known, chosen))
        if delivery.run is not None:
            self._note_lines(chosen, block, content())
        return chosen

    def _note_lines(self, fork: ArchivedSource, run: Block, text: bytes) -> None:
        """Note where each line of a run of `fork` ends: read again, the lines may be in other runs, or single."""
        end, crc = run.span.start, crc_before(run)
        if crc is None:
            return
        if len(self._sums) >= MAX_SUMS:
            self._sums.clear()
        for line in text[:-1].split(b"\n"):
            end, crc = end + len(line) + 1, crc32(line + b"\n", crc)
            self._sums[fork.host, fork.id, end] = crc

    def _choose(
        self,
        block: Block,
        content: Callable[[], bytes],
        known: ArchivedSource,
        forks: Sequence[ArchivedSource],
        batch: Batch,
    ) -> ArchivedSource | None:
        """The source that `block` belongs to: `known`, or one of its `forks`. None means that it begins another fork.

        Raises Poison: the block is damaged.
        """
        is_main = self._is_of(block, content, known, batch)
        if is_main:
            return known
        for fork in forks:
            if self._is_of(block, content, fork, batch):
                return fork
        return None if is_main is False and block.span.start < known.watermark else known

    def _is_of(self, block: Block, content: Callable[[], bytes], known: ArchivedSource, batch: Batch) -> bool | None:
        """Whether `block` continues or repeats `known`. None means that it cannot be known."""
        start, end = block.span
        if start > known.watermark:
            return False
        if start == known.watermark:
            before = crc_before(block)
            return None if before is None or known.crc is None else before == known.crc
        if end >= known.watermark and known.crc is not None:
            if block.edited is None:
                return crc32(content()[known.watermark - start :], known.crc) == block.source_crc
            return block.source_crc == known.crc if end == known.watermark else None
        if (there := self._sums.get((known.host, known.id, end))) is not None:
            return there == block.source_crc
        can_compare = block.edited is None and end <= known.watermark
        return self._is_held(batch, known, block, content()) if can_compare else None

    def _is_held(self, batch: Batch, known: ArchivedSource, block: Block, content: bytes) -> bool | None:
        """Whether the archive, with what this batch wrote, has `content` for a block.

        None means that it cannot be compared.
        """
        files = [file for file in batch.growing.values() if (file.key.host, file.key.file) == (known.host, known.file)]
        for file in files:
            file.close()
        self._store.write(batch, files)
        self._store.sink.flush()
        opened = [
            (
                file.grown(),
                [
                    SourceSpan(source=id_, start=span.start, end=span.end)
                    for id_, spans in file.spans.items()
                    for span in spans
                ],
            )
            for file in files
            if file.is_changed
        ]
        return self._archived.hold(known, block.span, content, opened)


MAX_SCANNED_BYTES = 128 * 1024 * 1024
"""Maximum bytes of text that are read to compare, in one batch. Further bytes are not compared."""
MAX_DAYS = 2
"""Days whose sealed segments are searched: the day of the source's newest block, and the day before it."""


class ArchivedBytes:
    """Reads the archive of one partition. Owned by its worker: one call at a time, from any thread."""

    def __init__(self, archive: Path, journal: Journal) -> None:
        self._archive = archive
        self._journal = journal
        self._left = 0
        self._sealed: dict[tuple[str, str, str], list[Part]] = {}

    def begin(self) -> None:
        """A batch begins."""
        self._left = MAX_SCANNED_BYTES
        self._sealed.clear()

    def hold(
        self, known: ArchivedSource, span: Span, content: bytes, opened: Iterable[tuple[OpenFile, list[SourceSpan]]]
    ) -> bool | None:
        """Whether the archive has `content` as the bytes `span` of a source. None means that it cannot be compared.

        `opened`: files of this batch, as far as they are written, with what the batch added to each.
        """
        unseen, answer = span, True
        while unseen.length:
            runs = ((copy, held) for copy in self._copies(known, opened) for held in copy.spans)
            has_it = (run for run in runs if run[1].source == known.id and run[1].start <= unseen.start < run[1].end)
            if (found := next(has_it, None)) is None:
                return None
            copy, held = found
            part = Span(unseen.start, min(held.end, unseen.end))
            is_same = self._compare(copy, part, content[part.start - span.start : part.end - span.start])
            if is_same is None:
                return None
            answer = answer and is_same
            unseen = Span(part.end, unseen.end)
        return answer

    def _copies(self, known: ArchivedSource, opened: Iterable[tuple[OpenFile, list[SourceSpan]]]) -> Iterator[Part]:
        fresh = set[str]()
        for file, added in opened:
            fresh.add(file.path)
            yield of_open_file(file, (*self._journal.spans(file.path), *added), (), b"")
        for path, file in self._journal.files.items():
            if path not in fresh and file.key.host == known.host and file.key.file == known.file:
                yield of_open_file(file, self._journal.spans(path), (), b"")
        newest = day_of(known.seen_ns)
        days = sorted((path.name.removeprefix("date=") for path in self._archive.glob("date=*")), reverse=True)
        for date in islice((day for day in days if day <= newest), MAX_DAYS):
            yield from self._sealed_on(date, known)

    def _sealed_on(self, date: str, known: ArchivedSource) -> list[Part]:
        key = (date, known.host, known.file)
        if key not in self._sealed:
            listed = listed_segments(self._archive, date, about=known.host)
            standing = manifest.standing(each for each in listed if each.host == known.host)
            found = self._sealed[key] = list[Part]()
            for segment in [each for each in standing if each.file == known.file]:
                with contextlib.suppress(ValueError):  # its manifest line is damaged: it cannot be compared
                    found.append(of_segment(segment))
        return self._sealed[key]

    def _compare(self, copy: Part, span: Span, content: bytes) -> bool | None:
        place, is_altered = _place_of(span, copy), copy.filtered or copy.edited or copy.redactions or copy.removals
        is_direct = place is not None and copy.codec == "none"
        cost = len(content) if is_direct else copy.raw
        if is_altered or cost > self._left:
            return None
        self._left -= cost
        try:
            with (self._archive / copy.path).open("rb") as stored:
                if is_direct:
                    stored.seek(place or 0)
                    return stored.read(len(content)) == content
                text = texts(CountingReader(stored, copy.stored), copy.codec)
                return _has_lines(text, content) if place is None else _is_at(text, content, place)
        except (OSError, EOFError, *BROKEN):
            return None


def _place_of(span: Span, copy: Part) -> int | None:
    """Where in a text the bytes `span` of its only source begin. None means that other text may be before them."""
    if len({each.source for each in copy.spans}) > 1 or copy.raw != sum(each.end - each.start for each in copy.spans):
        return None
    before = accumulate((each.end - each.start for each in copy.spans), initial=0)
    places = zip(before, copy.spans, strict=False)
    return next((at + span.start - each.start for at, each in places if each.start <= span.start < each.end), None)


def _is_at(text: Iterable[bytes], content: bytes, place: int) -> bool:
    """Whether `text` has `content` at `place`."""
    at = 0
    for chunk in text:
        first, last = max(place, at), min(place + len(content), at + len(chunk))
        if first < last and chunk[first - at : last - at] != content[first - place : last - place]:
            return False
        at += len(chunk)
        if at >= place + len(content):
            return True
    return False


def _has_lines(text: Iterable[bytes], content: bytes) -> bool:
    """Whether every line of `content` is in `text`, wherever. The first and the last one may be parts of lines."""
    first, *inner = content.split(b"\n")
    is_part, last = not inner, inner.pop() if inner else b""
    wanted, rest, has_first, has_last = set(inner), b"", False, not last
    for chunk in text:
        *lines, rest = (rest + chunk).split(b"\n")
        wanted.difference_update(lines)
        has_first = has_first or any(first in line if is_part else line.endswith(first) for line in (*lines, rest))
        has_last = has_last or any(line.startswith(last) for line in (*lines, rest))
        if has_first and has_last and not wanted:
            return True
    return False
