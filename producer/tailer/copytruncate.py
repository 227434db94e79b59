"""Recognises copies of known files, made by copytruncate or a compressing rotation. Copies are not shipped.

Compressed files that a glob finds: read as rotations of a file that is followed, or left out. Never their raw bytes.

A path that is named without a glob is shipped as it is.
"""

import enum
import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from producer.discovery import scanner
from producer.discovery.safe_open import Links, close_on_exit
from producer.discovery.scanner import TICK_NS, Key, Seen, Watched
from producer.fingerprint import CHUNK_BYTES, ENOUGH_BYTES, HEAD_BYTES, Mark, crc_of, digest, read_ends
from producer.model import KnownCopy, Point, Source
from producer.tailer import decompress
from producer.tailer.decompress import CorruptFile
from producer.tailer.file_reader import FileReader
from producer.tailer.file_table import FileState, FileTable, TrackedFile
from producer.tailer.lost_file import (
    SECOND_NS,
    ContentFinder,
    is_rotation_of,
    is_rotation_of_another,
    originals,
)
from shipper import events

CERTAIN_BYTES = 64 * 1024
"""In common with a source that is gone: a copy even if it was written after that, as a copy of the copy is."""
COMPARED_PER_SCAN = 256 * 1024 * 1024
"""Bytes. A larger copy is compared in several scans, and waits meanwhile."""

HEADS_PER_SCAN = 4096
"""Files whose first bytes are compared with those of new files that are shorter than what is known of them."""


class CopyVerdict(enum.Enum):
    """What the first bytes of a file mean. `docs/reference/producer.md` has the table."""

    OWN = "own"  #: a file with lines of its own
    HELD = "held"  #: begins as a file that is still there: a copy, if that is truncated soon
    COPY = "copy"  #: every byte of it is read from its original, or was


class Judged(NamedTuple):
    """A file that is not read, or not from its first byte, because of a source."""

    seen: Seen
    source: str
    known: int  #: so many of its first bytes are the source's
    verdict: CopyVerdict
    since: float = 0.0  #: monotonic; HELD: of its last change
    mark: Mark = Mark()  #: COPY: of the `known` bytes


class Copies:
    """The copies that were recognised, and of which source. Owned by `Rotation`."""

    def __init__(self, table: FileTable, finder: ContentFinder) -> None:
        self._table = table
        self._finder = finder
        self._judged: dict[Key, Judged] = {
            (copy.device, copy.inode): _remembered(copy) for copy in table.acks.load_copies()
        }
        self._saved = dict(self._judged)
        self._by_head: dict[tuple[int, str], list[str]] | None = None
        self._left_bytes, self._left_heads = COMPARED_PER_SCAN, HEADS_PER_SCAN
        self.begins_at: dict[Key, int] = {}  #: where files begin whose first bytes are a source's

    @property
    def sources(self) -> set[str]:
        """The sources whose copies the last scans found."""
        return {each.source for each in self._judged.values()}

    @property
    def waits(self) -> bool:
        """Whether the next scan must come soon: a file is held, or not compared to its end."""
        return any(each.verdict is CopyVerdict.HELD for each in self._judged.values())

    def scan_begins(self) -> None:
        """What changed since the last scan is known now."""
        self._by_head, self._left_bytes, self._left_heads = None, COMPARED_PER_SCAN, HEADS_PER_SCAN

    def forget(self, keys: Collection[Key]) -> None:
        """Only the files `keys` are still there: an inode number may come back with another file."""
        self._by_head = None
        self._judged = {key: found for key, found in self._judged.items() if key in keys}
        self.begins_at = {key: at for key, at in self.begins_at.items() if key in keys}
        copies = {key: each for key, each in self._judged.items() if each.verdict is CopyVerdict.COPY}
        changed = [
            KnownCopy(*key, each.seen.size, each.seen.mtime_ns, each.source, each.mark)
            for key, each in copies.items()
            if self._saved.get(key) != each
        ]
        gone = [key for key in self._saved if key not in copies]
        if (changed or gone) and self._table.acks.save_copies(changed, gone):
            self._saved = copies

    def is_copy(self, seen: Seen) -> bool:
        """Whether `seen` is not to be read as a file of its own now. Raises OSError, IncompleteFile: unknown.

        One that changed since is judged again: what is shorter than its original may turn out to be something else.
        """
        before = None if self._table.is_spooled(seen.path) else self._judged.get(seen.key)
        if before is not None and self._stands(before, seen):
            self._judged[seen.key] = before._replace(seen=seen)
            return True
        self._judged.pop(seen.key, None)
        self.begins_at.pop(seen.key, None)
        if self._table.is_spooled(seen.path):
            return False
        if decompress.is_compressed_file(seen.path, seen, self._finder.links):
            found = self._compressed_from(seen)
            judged = None if found is None else Judged(seen, found, seen.size, CopyVerdict.COPY)
        else:
            judged = self._judge(seen, before)
        if judged is None:
            return False
        if judged.verdict is CopyVerdict.OWN:  # it goes on after what is known
            self.begins_at[seen.key] = judged.known
            return False
        self._judged[seen.key] = judged
        return True

    def _stands(self, before: Judged, seen: Seen) -> bool:
        """Whether what was found of a file that did not change since is still all that can be found."""
        if before.verdict is not CopyVerdict.COPY or (before.seen.size, before.seen.mtime_ns) != (
            seen.size,
            seen.mtime_ns,
        ):
            return False
        source = self._table.acks.known.get(before.source)
        return before.known >= seen.size or (source is not None and not source.ended_at)  # it may read the rest here

    # -- a plain file -------------------------------------------------------------------------------------------

    def _judge(self, seen: Seen, before: Judged | None) -> Judged | None:
        """The verdict over a plain file. None: no source begins like it. OWN: from a later byte."""
        descriptor = self._finder.opened(seen.path, seen)
        with close_on_exit(descriptor):
            seen = seen._replace(size=os.fstat(descriptor).st_size)
            if not seen.size:
                return None
            head = os.pread(descriptor, HEAD_BYTES, 0)
            found = [judged for id_ in self._likely(head) if (judged := self._compare(seen, descriptor, id_, before))]
            if before is not None and before.verdict is CopyVerdict.COPY and before.mark.agrees(descriptor):
                found += self._longer_than(before)
            best = max(found, key=lambda each: (each.verdict is not CopyVerdict.OWN, each.known), default=None)
            if best is None or best.verdict is not CopyVerdict.COPY:
                return best
            return best._replace(mark=Mark.of(best.known, *read_ends(descriptor, best.known)))

    def _longer_than(self, before: Judged) -> list[Judged]:
        """A copy that has more bytes now goes on after what is read of its source: a kill may take that back."""
        source = self._table.acks.known.get(before.source)
        read = before.known if source is None else self._as_read(source, self._table.get(source.id)).offset
        known = min(before.known, read)
        return [before._replace(verdict=CopyVerdict.OWN, known=known)] if known else []

    def _likely(self, head: bytes) -> list[str]:
        """The sources that begin like a file with these first bytes."""
        if self._by_head is None:
            self._by_head = {}
            for source in list(self._table.acks.known.values()):
                if self._table.is_spooled(source.file):
                    continue
                reader = self._table.reader(source.id)
                for mark in {source.mark, source.mark if reader is None else reader.mark}:
                    if mark.head_length:
                        self._by_head.setdefault((mark.head_length, mark.head_hash), []).append(source.id)
        lengths = {length for length, _ in self._by_head}
        keys = [(length, digest(head[:length])) for length in lengths if length <= len(head)]
        short = [key for key in self._by_head if key[0] > len(head)]
        found = [id_ for key in keys for id_ in self._by_head.get(key, ())]
        # of a copy that is being made, or was made when its original had few bytes, only these can be compared
        longer = [id_ for key in short for id_ in self._by_head[key]][: self._left_heads]
        self._left_heads -= len(longer)
        return list(dict.fromkeys([*found, *(id_ for id_ in longer if self._begins_like(id_, head))]))

    def _begins_like(self, id_: str, head: bytes) -> bool:
        reader = self._table.reader(id_)
        return reader is not None and reader.ends_as is None and _same_bytes(reader, head)

    def _compare(self, seen: Seen, descriptor: int, id_: str, before: Judged | None) -> Judged | None:
        """What one source means for a file that begins like it."""
        source, file = self._table.acks.known[id_], self._table.get(id_)
        if seen.path in source.names or seen.key == source.key:
            return None
        if before is not None and before.source != id_:
            before = None
        is_former = bool(source.ended_at) and not source.excluded and self._is_rotation_of(seen, source)
        if is_former or self._is_gone(source, file):
            return self._compare_with_gone(seen, descriptor, self._as_read(source, file), before)
        reader = None if file is None or not file.is_reading else file.reader
        if reader is None or reader.ends_as is not None:
            return None
        if not any(scanner.size_at(name, reader.key) for name in source.names):  # it has none of its names any more
            return None
        if is_rotation_of_another(seen, source, self._table.acks.changed_before):
            return None
        return self._compare_with_living(seen, descriptor, source, reader, before)

    def _is_rotation_of(self, seen: Seen, source: Source) -> bool:
        return is_rotation_of(seen, source, self._table.acks.changed_before)

    @staticmethod
    def _is_gone(source: Source, file: TrackedFile | None) -> bool:
        """Whether the file of a source was truncated or deleted since."""
        if source.ended_at:
            return not source.inode and not source.excluded
        return file is not None and (
            file.state is FileState.LOST
            or (file.state is FileState.ENDING and file.key is None)
            or (file.reader is not None and (file.reader.ends_as is not None or not file.reader.has_name()))
        )

    @staticmethod
    def _as_read(source: Source, file: TrackedFile | None) -> Source:
        if file is not None and file.reader is not None:
            return file.reader.as_read(source)
        return source if file is None or file.source is None or source.ended_at else file.source

    def _compare_with_living(
        self, seen: Seen, descriptor: int, source: Source, reader: FileReader, before: Judged | None
    ) -> Judged | None:
        """Of a file that is still there a copy is never longer than it, and has no byte of its own."""
        now = self._table.clock()
        if not reader.mark.agrees(reader.descriptor):  # it was truncated just now: the next check notices that
            return Judged(seen, source.id, 0, CopyVerdict.HELD, now)
        at = 0 if before is None or before.known > seen.size else before.known
        known = self._common(descriptor, reader.descriptor, at, seen.size)
        if known is None:
            return None
        if known < seen.size:
            return Judged(seen, source.id, known, CopyVerdict.HELD, now)
        if self._is_rotation_of(seen, source):
            return Judged(seen, source.id, known, CopyVerdict.COPY)
        is_same = before is not None and (before.seen.size, before.seen.mtime_ns) == (seen.size, seen.mtime_ns)
        since = before.since if before is not None and is_same else now
        following = self._table.following
        if following.once or now - since > following.rotate_wait:
            return None
        return Judged(seen, source.id, known, CopyVerdict.HELD, since)

    def _common(self, descriptor: int, other: int, at: int, end: int) -> int | None:
        """How far two open files are the same, which are the same before `at`. Less than `end`: not compared so far.

        None: they are not the same up to `end`.
        """
        while at < end and self._left_bytes > 0:
            data = os.pread(descriptor, min(CHUNK_BYTES, end - at), at)
            if not data or os.pread(other, len(data), at) != data:
                return None
            at += len(data)
            self._left_bytes -= len(data)
        return at

    def _compare_with_gone(self, seen: Seen, descriptor: int, source: Source, before: Judged | None) -> Judged | None:
        """Of a file that is gone only sums are left: at what was read of it, and at some offsets before that."""
        if before is not None and before.verdict is CopyVerdict.HELD and before.known == seen.size:
            return Judged(seen, source.id, seen.size, CopyVerdict.COPY)  # compared while both were there
        known, is_whole = min(seen.size, source.offset), seen.size >= source.offset
        points = [*source.ring, Point(0, source.offset, source.crc)]
        proofs = [each for each in points if source.origin < each.offset <= known]
        proof = max(proofs, default=None, key=lambda each: each.offset)
        if is_whole and not source.mark.agrees(descriptor):
            return None
        if proof and crc_of(descriptor, source.origin, proof.offset) != proof.crc:
            return None
        common = max(proof.offset - source.origin if proof else 0, source.mark.head_length if is_whole else 0)
        if not self._is_enough(seen, source, common):
            return None
        if known < seen.size and source.ended_at:
            return Judged(seen, source.id, known, CopyVerdict.OWN) if known else None
        return Judged(seen, source.id, known, CopyVerdict.COPY)

    def _is_enough(self, seen: Seen, source: Source, common: int) -> bool:
        """Whether `common` bytes prove that a file is a copy of a source that is gone, and no other with its lines."""
        if common >= CERTAIN_BYTES or self._is_rotation_of(seen, source):
            return True
        gone_ns = int((source.ended_at or self._table.wall()) * 1e9)
        if not common or seen.mtime_ns > gone_ns + TICK_NS:
            return False
        is_same_time = seen.mtime_ns == source.mtime_ns and bool(seen.mtime_ns % SECOND_NS)
        is_witnessed = source.id in self._table.witnessed and seen.mtime_ns >= source.mtime_ns // SECOND_NS * SECOND_NS
        return common >= ENOUGH_BYTES or is_same_time or is_witnessed

    # -- a compressed one ---------------------------------------------------------------------------------------

    def _compressed_from(self, seen: Seen) -> str | None:
        """The source whose content `seen` holds compressed. Each file is taken for one source's, the oldest first."""
        if seen.version in self._finder.claims:
            return self._finder.claims[seen.version]
        names = originals(seen.path)
        siblings = {each.key: each for name in names for each in scanner.Listing().rotations(name)}
        versions = {each.version for each in siblings.values()}
        claimed = {source for version, source in self._finder.claims.items() if version in versions}
        likely = [
            source
            for source in list(self._table.acks.known.values())
            if not names.isdisjoint(source.names) and source.mark.head_length and source.id not in claimed
        ]
        head = self._finder.head_of(seen.path, seen) if likely else None
        likely = [
            source
            for source in likely
            if head is not None and source.mark.is_head_of(head)
            if source.key == seen.key
            or source.mtime_ns // SECOND_NS == seen.mtime_ns // SECOND_NS
            or not self._is_still_in(siblings.get(source.key), source)
        ]
        # compressing keeps the time of the last change, some tools to the nanosecond
        same_time = (each for each in likely if each.mtime_ns == seen.mtime_ns and each.mtime_ns % SECOND_NS)
        found = next(same_time, None) or self._holder(seen, likely)
        if found is not None:
            self._finder.claims[seen.version] = found.id
        return found.id if found is not None else None

    def _is_still_in(self, sibling: Seen | None, source: Source) -> bool:
        """Whether the file at the inode of `source` has its content. A newer rotation may have got the inode number."""
        if sibling is None:
            return False
        if decompress.suffix_of(sibling.path):
            head = self._finder.head_of(sibling.path, sibling)
            return head is None or source.mark.is_head_of(head)
        descriptor = self._finder.opened(sibling.path, sibling)
        with close_on_exit(descriptor):
            return source.mark.agrees(descriptor)

    def _holder(self, seen: Seen, sources: list[Source]) -> Source | None:
        """The first of `sources` whose content a compressed file holds, up to the source's offset."""
        if not sources:
            return None
        with open(self._finder.opened(seen.path, seen), "rb") as file:
            try:
                content = decompress.content(file, decompress.suffix_of(seen.path))
                found = set(decompress.agreeing(content, {source.mark for source in sources}))
            except CorruptFile:
                return None
        return next((source for source in sources if source.mark in found), None)


def _remembered(copy: KnownCopy) -> Judged:
    seen = Seen("", copy.device, copy.inode, copy.size, copy.mtime_ns)
    return Judged(seen, copy.source, copy.mark.offset or copy.size, CopyVerdict.COPY, mark=copy.mark)


def _same_bytes(reader: FileReader, head: bytes) -> bool:
    try:
        return os.pread(reader.descriptor, len(head), 0) == head
    except OSError:
        return False


class CompressedFiles:
    """The compressed files that the scans found. Owned by `Rotation`."""

    def __init__(self, watched: Watched, links: Links) -> None:
        self._links = links
        self._named = set(watched.patterns)
        self._found: dict[Key, str] = {}
        self._logged: set[str] = set()

    def is_named(self, seen: Seen) -> bool:
        """Whether a file with the suffix of compressed files is named without a glob."""
        return seen.path in self._named and bool(decompress.suffix_of(seen.path))

    def excludes(self, seen: Seen) -> bool:
        """Whether `seen` is compressed and only a glob names it."""
        if seen.key in self._found or self.is_named(seen):
            return seen.key in self._found
        try:
            is_compressed = decompress.is_compressed_file(seen.path, seen, self._links)
        except OSError:
            return False  # opening it meets the same error and logs it
        if is_compressed and seen.size:
            self._found[seen.key] = seen.path
        return is_compressed

    def scan_ends(self, keys: Collection[Key], *, known: Mapping[str, object]) -> None:
        """Log once for each path what was left out that is no rotation of a file whose name is in `known`."""
        self._found = {key: path for key, path in self._found.items() if key in keys}
        for path in self._found.values():
            if path not in self._logged and known.keys().isdisjoint(originals(path)):
                events.compressed_left_out(path=path)
            self._logged.add(path)
